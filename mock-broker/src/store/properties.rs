//! Property strings with some properties changed.

use rocketmq_wire::message::properties::{NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR};

/// Returns `given` without the properties named in `removed` and with those of `set` at its end, in place of earlier
/// values. Names and values hold no separator.
pub(super) fn replaced(given: &[u8], removed: &[&str], set: &[(&str, String)]) -> Vec<u8> {
    const NAME_VALUE: u8 = NAME_VALUE_SEPARATOR as u8;
    const PROPERTY: u8 = PROPERTY_SEPARATOR as u8;
    let added: usize = set.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    let mut written = Vec::with_capacity(given.len() + 1 + added);
    for part in given.split(|&byte| byte == PROPERTY).filter(|part| !part.is_empty()) {
        let name = part.split(|&byte| byte == NAME_VALUE).next().unwrap_or_default();
        let is = |known: &str| known.as_bytes() == name;
        if !removed.iter().any(|known| is(known)) && !set.iter().any(|(known, _)| is(known)) {
            written.extend_from_slice(part);
            written.push(PROPERTY);
        }
    }
    for (name, value) in set {
        written.extend_from_slice(name.as_bytes());
        written.push(NAME_VALUE);
        written.extend_from_slice(value.as_bytes());
        written.push(PROPERTY);
    }
    written
}
