//! A one-pass JSON reader that borrows strings and keeps nested values as spans of the text.

use std::borrow::Cow;

use crate::error::DecodeError;
use crate::header::find::quote_or_backslash;

/// Nesting beyond this is refused; a header has two levels.
const MAX_DEPTH: usize = 32;

pub(super) enum Value<'a> {
    Text(Cow<'a, str>),
    /// A number or a boolean, as written.
    Bare(&'a str),
    Null,
    Object(&'a str),
    Array(&'a str),
}

pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn invalid<T>(&self, what: &'static str) -> Result<T, DecodeError> {
        Err(DecodeError::Invalid { what, offset: self.at })
    }

    #[inline]
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            if byte > b' ' || !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    #[inline]
    fn eat(&mut self, byte: u8, what: &'static str) -> Result<(), DecodeError> {
        if self.peek() != Some(byte) {
            return self.invalid(what);
        }
        self.at += 1;
        Ok(())
    }

    /// Reads an object; `entry` must consume the value of the key it is given.
    pub(super) fn object(
        &mut self,
        mut entry: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.eat(b'{', "JSON object")?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.invalid("JSON key");
            }
            let key = self.string()?;
            self.eat(b':', "JSON key separator")?;
            entry(self, key)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return self.invalid("JSON object"),
            }
        }
    }

    /// Refuses anything but white space after the document.
    pub(super) fn end(&mut self) -> Result<(), DecodeError> {
        if self.peek().is_some() { self.invalid("byte after the JSON header") } else { Ok(()) }
    }

    /// Reads a 32-bit integer, written bare or as a string; `None` for null.
    pub(super) fn integer(&mut self, field: &'static str) -> Result<Option<i32>, DecodeError> {
        let refusal = DecodeError::InvalidField { field, expected: "a 32-bit integer" };
        match self.value()? {
            Value::Bare(text) => text.parse().map(Some).map_err(|_| refusal),
            Value::Text(text) => text.parse().map(Some).map_err(|_| refusal),
            Value::Null => Ok(None),
            Value::Object(_) | Value::Array(_) => Err(refusal),
        }
    }

    pub(super) fn value(&mut self) -> Result<Value<'a>, DecodeError> {
        match self.peek() {
            Some(b'"') => self.string().map(Value::Text),
            Some(b'{') => self.span().map(Value::Object),
            Some(b'[') => self.span().map(Value::Array),
            Some(_) => {
                let bare = self.bare();
                match bare {
                    "null" => Ok(Value::Null),
                    "true" | "false" => Ok(Value::Bare(bare)),
                    _ if bare.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => Ok(Value::Bare(bare)),
                    _ => self.invalid("JSON value"),
                }
            }
            None => self.invalid("JSON value"),
        }
    }

    fn bare(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let length = rest
            .bytes()
            .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')))
            .unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Reads a string that begins at the current position.
    #[inline]
    fn string(&mut self) -> Result<Cow<'a, str>, DecodeError> {
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        let end = quote_or_backslash(bytes, start);
        match bytes.get(end) {
            Some(b'"') => {
                self.at = end + 1;
                Ok(Cow::Borrowed(&self.text[start..end]))
            }
            Some(_) => self.escaped_string(start, end),
            None => self.invalid("JSON string"),
        }
    }

    /// Reads a string that begins at `start` and whose first escape is at `end`.
    fn escaped_string(&mut self, start: usize, mut end: usize) -> Result<Cow<'a, str>, DecodeError> {
        let bytes = self.text.as_bytes();
        let mut owned = String::with_capacity(end - start + 16);
        owned.push_str(&self.text[start..end]);
        loop {
            let from = end;
            end = quote_or_backslash(bytes, from);
            owned.push_str(&self.text[from..end]);
            self.at = end;
            match bytes.get(end) {
                Some(b'"') => {
                    self.at = end + 1;
                    return Ok(Cow::Owned(owned));
                }
                Some(_) => {
                    end += 2;
                    match bytes.get(end - 1) {
                        Some(b'n') => owned.push('\n'),
                        Some(b't') => owned.push('\t'),
                        Some(b'r') => owned.push('\r'),
                        Some(b'b') => owned.push('\u{8}'),
                        Some(b'f') => owned.push('\u{c}'),
                        Some(&byte @ (b'"' | b'\\' | b'/' | b'\'')) => owned.push(char::from(byte)),
                        Some(b'u') => {
                            let (character, next) = self.unicode(end)?;
                            owned.push(character);
                            end = next;
                        }
                        _ => return self.invalid("JSON escape"),
                    }
                }
                None => return self.invalid("JSON string"),
            }
        }
    }

    /// Reads the four digits at `at`, and a second escape when they are half of a pair; an unpaired half reads as
    /// U+FFFD, as Java's encoder would write it.
    fn unicode(&self, at: usize) -> Result<(char, usize), DecodeError> {
        let bytes = self.text.as_bytes();
        let unit = |at: usize| {
            let digits = bytes.get(at..at + 4)?;
            digits.iter().try_fold(0, |unit, &digit| Some(unit * 16 + char::from(digit).to_digit(16)?))
        };
        let Some(first) = unit(at) else { return self.invalid("JSON escape") };
        if let Some(character) = char::from_u32(first) {
            return Ok((character, at + 4));
        }
        if first < 0xDC00
            && bytes.get(at + 4..at + 6) == Some(b"\\u")
            && let Some(second @ 0xDC00..0xE000) = unit(at + 6)
        {
            let point = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
            return Ok((char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER), at + 10));
        }
        Ok((char::REPLACEMENT_CHARACTER, at + 4))
    }

    /// Skips an object or array and returns its text, brackets included. Only strings and brackets are looked at: what
    /// stands between is checked by whoever reads the span.
    fn span(&mut self) -> Result<&'a str, DecodeError> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut closers = [0; MAX_DEPTH];
        let mut depth = 0;
        loop {
            match bytes.get(self.at) {
                Some(&open @ (b'{' | b'[')) => {
                    if depth == MAX_DEPTH {
                        return self.invalid("JSON nesting");
                    }
                    closers[depth] = if open == b'{' { b'}' } else { b']' };
                    depth += 1;
                    self.at += 1;
                }
                Some(&close @ (b'}' | b']')) => {
                    depth -= 1;
                    if closers[depth] != close {
                        return self.invalid("JSON nesting");
                    }
                    self.at += 1;
                    if depth == 0 {
                        return Ok(&self.text[start..self.at]);
                    }
                }
                Some(b'"') => self.skip_string()?,
                Some(_) => self.at += 1,
                None => return self.invalid("JSON value"),
            }
        }
    }

    fn skip_string(&mut self) -> Result<(), DecodeError> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        loop {
            self.at = quote_or_backslash(bytes, self.at);
            match bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(_) => self.at += 2,
                None => {
                    self.at = bytes.len();
                    return self.invalid("JSON string");
                }
            }
        }
    }
}
