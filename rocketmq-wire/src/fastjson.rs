//! fastjson's dialect of JSON: maps whose keys are numbers or objects, written without quotes.
//!
//! Apache's servers write `{"brokerAddrs":{0:"ip:port"}}` and `{"offsetTable":{{"queueId":0,"topic":"T"}:7}}`.
//! [`from_slice`] reads both that and standard JSON: a bare key becomes a string of its text, so an object key becomes
//! a string that is JSON itself. [`to_vec`] writes the dialect, which clients before 4.9.4 and the Go client expect.

mod write;

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use crate::error::DecodeError;

pub use write::{ObjectKey, to_vec};

/// Nesting beyond this is refused.
const MAX_DEPTH: usize = 64;

/// Reads a value from text in fastjson's dialect or in standard JSON. `what` names the document in errors.
///
/// # Errors
///
/// Text that is not UTF-8, not JSON in either dialect, nested deeper than 64 levels, or not of the type `T`.
pub fn from_slice<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, DecodeError> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| DecodeError::NotUtf8 { what, offset: error.valid_up_to() })?;
    let standard = to_standard_json(what, text)?;
    serde_json::from_str(&standard).map_err(|error| DecodeError::Json { what, detail: error.to_string() })
}

/// Rewrites text of the dialect as standard JSON; standard JSON comes back as it is, unchecked.
///
/// # Errors
///
/// Brackets that do not match or nest deeper than 64 levels, strings without an end.
pub fn to_standard_json<'a>(what: &'static str, text: &'a str) -> Result<Cow<'a, str>, DecodeError> {
    let mut rewriter = Rewriter { what, text, at: 0, copied: 0, out: String::new() };
    rewriter.value(0)?;
    if rewriter.out.is_empty() {
        return Ok(Cow::Borrowed(text));
    }
    rewriter.out.push_str(&text[rewriter.copied..]);
    Ok(Cow::Owned(rewriter.out))
}

struct Rewriter<'a> {
    what: &'static str,
    text: &'a str,
    at: usize,
    /// Up to here the text is in `out`.
    copied: usize,
    out: String,
}

impl Rewriter<'_> {
    fn fail<T>(&self, detail: &str) -> Result<T, DecodeError> {
        Err(DecodeError::Json { what: self.what, detail: format!("{detail} at offset {}", self.at) })
    }

    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let blank = rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len());
        self.at += blank;
        rest.get(blank).copied()
    }

    fn value(&mut self, depth: usize) -> Result<(), DecodeError> {
        if depth == MAX_DEPTH {
            return self.fail("nested too deeply");
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string(),
            Some(_) => self.bare(),
            None => self.fail("a value is missing"),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), DecodeError> {
        self.at += 1;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.key(depth)?;
            if self.peek() != Some(b':') {
                return self.fail("a colon is missing");
            }
            self.at += 1;
            self.value(depth + 1)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return self.fail("an object has no end"),
            }
        }
    }

    fn key(&mut self, depth: usize) -> Result<(), DecodeError> {
        if self.peek() == Some(b'"') {
            return self.string();
        }
        let start = self.at;
        self.out.push_str(&self.text[self.copied..start]);
        // The key's own text may be in the dialect as well: rewrite it first, apart from what is around it.
        let outer = std::mem::take(&mut self.out);
        self.copied = start;
        self.value(depth + 1)?;
        let mut key = std::mem::replace(&mut self.out, outer);
        key.push_str(&self.text[self.copied..self.at]);
        self.copied = self.at;
        self.out.push_str(&serde_json::Value::String(key).to_string());
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<(), DecodeError> {
        self.at += 1;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return self.fail("an array has no end"),
            }
        }
    }

    fn string(&mut self) -> Result<(), DecodeError> {
        let bytes = self.text.as_bytes();
        let mut at = self.at + 1;
        loop {
            match bytes.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    return Ok(());
                }
                Some(b'\\') => at += 2,
                Some(_) => at += 1,
                None => return self.fail("a string has no end"),
            }
        }
    }

    /// A number, a boolean or null; serde checks which.
    fn bare(&mut self) -> Result<(), DecodeError> {
        let rest = &self.text.as_bytes()[self.at..];
        let length = rest
            .iter()
            .position(|&byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')))
            .unwrap_or(rest.len());
        if length == 0 {
            return self.fail("a value is missing");
        }
        self.at += length;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn bare_and_object_keys_become_strings() {
        let standard = |text| to_standard_json("test", text).unwrap().into_owned();
        assert_eq!(standard(r#"{"a":{0:"x",1 : "y"}}"#), r#"{"a":{"0":"x","1" : "y"}}"#);
        assert_eq!(standard(r#"{{"q":0,"t":"T"}:7}"#), r#"{"{\"q\":0,\"t\":\"T\"}":7}"#);
        assert_eq!(standard(r#"{{{1:2}:3}:[{4:5}]}"#), r#"{"{\"{\\\"1\\\":2}\":3}":[{"4":5}]}"#);
        assert!(matches!(to_standard_json("test", r#"{"a":[1,{}]}"#), Ok(Cow::Borrowed(_))));
        let map: BTreeMap<i64, String> = from_slice("test", br#"{0:"x",-1:"y"}"#).unwrap();
        assert_eq!(map[&-1], "y");
    }

    #[test]
    fn broken_text_is_an_error() {
        let text = r#"{"a":{0:"x\""},{"k":[1]}:null}"#;
        assert!(to_standard_json("test", text).is_ok());
        for end in 0..text.len() {
            assert!(from_slice::<serde_json::Value>("test", &text.as_bytes()[..end]).is_err(), "{end}");
        }
        assert!(to_standard_json("test", &"[".repeat(1000)).is_err());
        assert!(to_standard_json("test", &"{".repeat(1000)).is_err());
        assert!(from_slice::<serde_json::Value>("test", b"\"\\").is_err());
    }
}
