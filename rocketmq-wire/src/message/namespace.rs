//! Namespaces: a prefix in the names of topics and groups that keeps tenants apart.
//!
//! A name `x` becomes `ns%x`, with the prefixes of retry and dead-letter topics left in front. System topics and
//! groups belong to no namespace.

use crate::message::names::{DEAD_LETTER_PREFIX, RETRY_PREFIX, is_system_group, is_system_topic};

/// Stands between the namespace and the name.
pub const SEPARATOR: char = '%';

/// Returns `name` inside `namespace`, unless it is there already, belongs to the system, or one of both is empty.
pub fn wrap(namespace: &str, name: &str) -> String {
    if namespace.is_empty() || name.is_empty() || is_system(name) || is_wrapped(namespace, name) {
        return name.to_owned();
    }
    let (prefix, rest) = split_prefix(name);
    format!("{prefix}{namespace}{SEPARATOR}{rest}")
}

/// Returns the retry topic of `group` inside `namespace`, `None` for an empty group.
pub fn wrap_retry_topic(namespace: &str, group: &str) -> Option<String> {
    (!group.is_empty()).then(|| [RETRY_PREFIX, &wrap(namespace, group)].concat())
}

/// Returns `name` without `namespace`, and unchanged if it is in no or another namespace.
pub fn unwrap(namespace: &str, name: &str) -> String {
    if !namespace.is_empty() && starts_with_namespace(namespace, split_prefix(name).1) {
        unwrap_any(name)
    } else {
        name.to_owned()
    }
}

/// Returns `name` without its namespace, whichever that is.
pub fn unwrap_any(name: &str) -> String {
    let (prefix, rest) = split_prefix(name);
    match rest.split_once(SEPARATOR) {
        Some((namespace, rest)) if !namespace.is_empty() && !is_system(name) => [prefix, rest].concat(),
        _ => name.to_owned(),
    }
}

/// Returns whether `name` is inside `namespace`.
pub fn is_wrapped(namespace: &str, name: &str) -> bool {
    !namespace.is_empty() && !is_system(name) && starts_with_namespace(namespace, split_prefix(name).1)
}

/// Returns the namespace that `name` is in.
pub fn namespace_of(name: &str) -> Option<&str> {
    if is_system(name) {
        return None;
    }
    let (namespace, _) = split_prefix(name).1.split_once(SEPARATOR)?;
    (!namespace.is_empty()).then_some(namespace)
}

fn is_system(name: &str) -> bool {
    is_system_topic(name) || is_system_group(name)
}

fn starts_with_namespace(namespace: &str, rest: &str) -> bool {
    rest.strip_prefix(namespace).is_some_and(|rest| rest.starts_with(SEPARATOR))
}

/// Splits off the prefix of a retry or dead-letter topic; only the first of several counts.
fn split_prefix(name: &str) -> (&str, &str) {
    let length =
        [RETRY_PREFIX, DEAD_LETTER_PREFIX].into_iter().find(|prefix| name.starts_with(prefix)).map_or(0, str::len);
    name.split_at(length)
}
