//! What the broker makes of the properties that a client sends.

use std::borrow::Cow;

use rocketmq_wire::message::properties::{self, DELAY, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR};

use crate::compatibility::Compatibility;

/// What the handler of a send has to know of a property string, found in one walk.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Glance<'a> {
    pub(super) unique_id: Option<&'a str>,
    pub(super) is_transaction: bool,
    pub(super) has_delay_level: bool,
    pub(super) wait: Option<&'a str>,
    /// Whether a property is there that is not stored as it came.
    pub(super) needs_rewriting: bool,
}

impl<'a> Glance<'a> {
    pub(super) fn over(text: &'a str, compatibility: Compatibility) -> Self {
        let mut seen = Glance::default();
        for_each(text, |name, value| match name {
            properties::UNIQUE_ID if !value.is_empty() => seen.unique_id = Some(value),
            properties::WAIT => {
                seen.wait = Some(value);
                seen.needs_rewriting |= compatibility.drops_wait();
            }
            properties::TRANSACTION_PREPARED => seen.is_transaction = value.eq_ignore_ascii_case("true"),
            DELAY => seen.has_delay_level = value.parse::<i32>().is_ok_and(|level| level > 0),
            properties::POP_CHECK_POINT | properties::MSG_REGION | properties::CLUSTER | properties::TRACE_ON => {
                seen.needs_rewriting = true;
            }
            _ => {}
        });
        seen
    }
}

/// Calls `visit` with the names and values of a property string as they stand, in one walk over its bytes.
fn for_each<'a>(text: &'a str, mut visit: impl FnMut(&'a str, &'a str)) {
    let (mut start, mut name_end) = (0, None);
    let mut part = |start, name_end: Option<usize>, end| {
        // Separators are ASCII, so these are the boundaries of characters.
        if let Some(name_end) = name_end {
            visit(&text[start..name_end], &text[name_end + 1..end]);
        }
    };
    for (at, byte) in text.bytes().enumerate() {
        if byte > PROPERTY_SEPARATOR as u8 {
            continue;
        }
        if byte == PROPERTY_SEPARATOR as u8 {
            part(start, name_end, at);
            (start, name_end) = (at + 1, None);
        } else if byte == NAME_VALUE_SEPARATOR as u8 && name_end.is_none() {
            name_end = Some(at);
        }
    }
    part(start, name_end, text.len());
}

/// Values of the properties that a broker adds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Added<'a> {
    pub(super) region: &'a str,
    pub(super) cluster: &'a str,
    pub(super) trace_on: bool,
    /// Used if the client gave none; none adds nothing.
    pub(super) unique_id: Option<&'a str>,
}

impl Added<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        match name {
            properties::MSG_REGION => Some(self.region),
            properties::CLUSTER => Some(self.cluster),
            properties::TRACE_ON => Some(if self.trace_on { "true" } else { "false" }),
            properties::UNIQUE_ID => self.unique_id,
            _ => None,
        }
    }
}

/// Appends to `out` the properties as a single message is stored with them. `delay` replaces the delay level;
/// `as_it_is` says that nothing else in `text` has to be replaced.
pub(super) fn write_single(
    out: &mut Vec<u8>,
    compatibility: Compatibility,
    text: &str,
    added: &Added<'_>,
    delay: Option<&str>,
    as_it_is: bool,
) {
    let names = compatibility.added_properties();
    if names.is_empty() && delay.is_none() {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let start = out.len();
    if as_it_is && delay.is_none() {
        out.extend_from_slice(text.as_bytes());
        if !text.is_empty() && !text.ends_with(PROPERTY_SEPARATOR) {
            out.push(PROPERTY_SEPARATOR as u8);
        }
    } else {
        rewrite(out, compatibility, text, added, delay);
    }
    for name in names {
        if let Some(value) = added.value(name) {
            push(out, name, value);
        }
    }
    if let Some(level) = delay {
        push(out, DELAY, level);
    }
    if !compatibility.ends_properties_with_separator() && out.len() > start {
        out.pop();
    }
}

/// Appends the properties that are stored as they came.
fn rewrite(out: &mut Vec<u8>, compatibility: Compatibility, text: &str, added: &Added<'_>, delay: Option<&str>) {
    let names = compatibility.added_properties();
    for part in text.split(PROPERTY_SEPARATOR).filter(|part| !part.is_empty()) {
        let name = part.split_once(NAME_VALUE_SEPARATOR).map_or(part, |(name, _)| name);
        let replaced = match name {
            properties::POP_CHECK_POINT => true,
            properties::WAIT => compatibility.drops_wait(),
            DELAY => delay.is_some(),
            // The client's own unique id is kept: `added` has one only if there was none.
            _ => names.contains(&name) && added.value(name).is_some(),
        };
        if !replaced {
            out.extend_from_slice(part.as_bytes());
            out.push(PROPERTY_SEPARATOR as u8);
        }
    }
}

/// Appends to `out` the properties as one message of a batch is stored with them: its own, then those of the batch.
/// Names occur twice then, and readers take the last. `wait` is the batch's.
pub(super) fn write_batch_element(
    out: &mut Vec<u8>,
    compatibility: Compatibility,
    own: &[u8],
    added: &Added<'_>,
    wait: Option<&str>,
) {
    out.extend_from_slice(own);
    let names = compatibility.added_properties();
    if names.is_empty() {
        return;
    }
    if !own.is_empty() && own.last() != Some(&(PROPERTY_SEPARATOR as u8)) {
        out.push(PROPERTY_SEPARATOR as u8);
    }
    for name in names {
        if let Some(value) = added.value(name) {
            push(out, name, value);
        }
    }
    if let Some(wait) = wait {
        push(out, properties::WAIT, wait);
    }
    if !compatibility.ends_properties_with_separator() {
        out.pop();
    }
}

/// Appends a property; the broker's own names and values hold no separator, and a client's were cut at them.
pub(super) fn push(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.push(NAME_VALUE_SEPARATOR as u8);
    out.extend_from_slice(value.as_bytes());
    out.push(PROPERTY_SEPARATOR as u8);
}

/// Sets properties in a string, each taking the place of an earlier value.
pub(super) fn replace(text: &[u8], changes: &[(&str, Cow<'_, str>)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 64 * changes.len());
    for part in text.split(|byte| *byte == PROPERTY_SEPARATOR as u8).filter(|part| !part.is_empty()) {
        let name = part.split(|byte| *byte == NAME_VALUE_SEPARATOR as u8).next().unwrap_or_default();
        if !changes.iter().any(|(changed, _)| changed.as_bytes() == name) {
            out.extend_from_slice(part);
            out.push(PROPERTY_SEPARATOR as u8);
        }
    }
    for (name, value) in changes {
        push(&mut out, name, value);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: &str = "KEYS\u{1}k\u{2}UNIQ_KEY\u{1}U\u{2}WAIT\u{1}true\u{2}POP_CK\u{1}x\u{2}CLUSTER\u{1}old\u{2}";
    const ADDED: Added<'_> = Added { region: "R", cluster: "C", trace_on: true, unique_id: None };

    fn single(compatibility: Compatibility, text: &str, added: &Added<'_>, delay: Option<&str>) -> String {
        let mut out = Vec::new();
        let as_it_is = !Glance::over(text, compatibility).needs_rewriting;
        write_single(&mut out, compatibility, text, added, delay, as_it_is);
        String::from_utf8(out).unwrap().replace('\u{1}', "=").replace('\u{2}', ";")
    }

    #[test]
    fn each_version_stores_other_properties() {
        use Compatibility::{V4_4, V4_9, V5_3};
        let of = |compatibility| single(compatibility, SENT, &ADDED, None);
        assert_eq!(of(V4_4), "KEYS=k;UNIQ_KEY=U;WAIT=true;POP_CK=x;CLUSTER=old;");
        assert_eq!(of(V4_9), "KEYS=k;UNIQ_KEY=U;CLUSTER=C");
        assert_eq!(of(V5_3), "KEYS=k;UNIQ_KEY=U;WAIT=true;MSG_REGION=R;CLUSTER=C;TRACE_ON=true;");
        let with_id = Added { unique_id: Some("N"), ..ADDED };
        assert_eq!(single(V5_3, "", &with_id, None), "MSG_REGION=R;UNIQ_KEY=N;CLUSTER=C;TRACE_ON=true;");
        assert_eq!(single(V5_3, "A\u{1}1", &ADDED, None), "A=1;MSG_REGION=R;CLUSTER=C;TRACE_ON=true;");
        assert_eq!(single(V4_9, "A\u{1}1", &ADDED, None), "A=1;CLUSTER=C");
        assert_eq!(single(V4_4, "DELAY\u{1}3", &ADDED, Some("-1")), "DELAY=-1;");
    }

    #[test]
    fn batch_elements_get_the_batch_s_properties_behind_their_own() {
        let of = |compatibility| {
            let mut out = Vec::new();
            let added = Added { unique_id: Some("B"), ..ADDED };
            write_batch_element(&mut out, compatibility, b"UNIQ_KEY\x01E", &added, Some("true"));
            String::from_utf8(out).unwrap().replace('\u{1}', "=").replace('\u{2}', ";")
        };
        assert_eq!(of(Compatibility::V4_4), "UNIQ_KEY=E");
        assert_eq!(of(Compatibility::V4_9), "UNIQ_KEY=E;CLUSTER=C;WAIT=true");
        assert_eq!(of(Compatibility::V5_3), "UNIQ_KEY=E;MSG_REGION=R;UNIQ_KEY=B;CLUSTER=C;TRACE_ON=true;WAIT=true;");
    }

    #[test]
    fn a_glance_finds_what_matters() {
        let text = "UNIQ_KEY\u{1}U\u{2}WAIT\u{1}false\u{2}DELAY\u{1}3\u{2}TRAN_MSG\u{1}true";
        let seen = Glance::over(text, Compatibility::V5_3);
        assert_eq!((seen.unique_id, seen.wait), (Some("U"), Some("false")));
        assert!(seen.has_delay_level && seen.is_transaction);
        assert_eq!(Glance::over("\u{2}\u{1}\u{2}x", Compatibility::V5_3), Glance::default());
    }

    #[test]
    fn replacing_keeps_the_rest() {
        let text = b"A\x011\x02DELAY\x013\x02B\x012";
        let out = replace(text, &[("DELAY", "0".into()), ("WAIT", "false".into())]);
        assert_eq!(out, b"A\x011\x02B\x012\x02DELAY\x010\x02WAIT\x01false\x02");
    }
}
