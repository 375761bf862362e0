//! Addresses that need no signature, as Apache writes them. Pure.

use std::net::IpAddr;

/// A white list: addresses with commas between them, each of them with `*` or a range such as `1-20` in place of parts, or
/// with a list such as `{1,2}` in place of its last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WhiteList(Vec<String>);

impl WhiteList {
    /// Reads a list; an empty one has nobody in it.
    pub(crate) fn parse(text: &str) -> Self {
        let mut entries = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            // Commas inside braces belong to the entry.
            let mut depth = 0;
            let end = rest.find(|c| {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                c == ',' && depth == 0
            });
            let (entry, after) = rest.split_at(end.unwrap_or(rest.len()));
            entries.extend(expand(entry.trim()));
            rest = after.trim_start_matches(',').trim_start();
        }
        Self(entries)
    }

    /// Whether an address is on the list.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let text = address.to_string();
        self.0.iter().any(|entry| match address {
            _ if entry == "*" || *entry == text => true,
            IpAddr::V4(_) => matches(entry, &text, '.', 10),
            IpAddr::V6(address) => {
                let whole = address.segments().map(|segment| format!("{segment:x}")).join(":");
                entry.parse() == Ok(address) || matches(entry, &whole, ':', 16)
            }
        })
    }
}

fn expand(entry: &str) -> Vec<String> {
    match entry.split_once('{') {
        Some((front, list)) => {
            list.trim_end_matches('}').split(',').map(|last| format!("{front}{}", last.trim())).collect()
        }
        None => vec![entry.to_owned()],
    }
}

fn matches(pattern: &str, address: &str, separator: char, radix: u32) -> bool {
    let (patterns, parts) = (pattern.split(separator), address.split(separator));
    if patterns.clone().count() != parts.clone().count() {
        return false;
    }
    let number = |text: &str| u32::from_str_radix(text, radix).ok();
    patterns.zip(parts).all(|(pattern, part)| match (pattern, pattern.split_once('-')) {
        ("*", _) => true,
        (_, Some((from, to))) => match (number(from), number(to), number(part)) {
            (Some(from), Some(to), Some(part)) => (from..=to).contains(&part),
            _ => false,
        },
        (one, None) => number(one).is_some() && number(one) == number(part),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (list, address, is_in) in [
            ("", "10.0.0.1", false),
            ("*", "10.0.0.1", true),
            ("*.*.*.*", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.2, 10.0.0.1", "10.0.0.1", true),
            ("10.0.*.*", "10.0.7.1", true),
            ("10.0.*.*", "10.1.7.1", false),
            ("10.0.0.1-9", "10.0.0.5", true),
            ("10.0.0.1-9", "10.0.0.10", false),
            ("10.0.0.{1,3},10.1.0.1", "10.0.0.3", true),
            ("10.0.0.{1,3},10.1.0.1", "10.1.0.1", true),
            ("10.0.0.{1,3},10.1.0.1", "10.0.0.2", false),
            ("fe80:*:*:*:*:*:*:1-5", "fe80::3", true),
            ("fe80::3", "fe80::3", true),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
        ] {
            assert_eq!(WhiteList::parse(list).contains(address.parse().unwrap()), is_in, "{list} {address}");
        }
    }
}
