//! The writing half of the dialect.

use std::io;

use bytes::BytesMut;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::ser::{CharEscape, Formatter};

use super::from_slice;
use crate::error::EncodeError;
use crate::header::json::put_string;

/// Marks a key that is JSON, to be written as it is.
const OBJECT_KEY: char = '\0';

/// Writes `value` in fastjson's dialect: integer keys and [`ObjectKey`]s bare, text escaped as fastjson does.
///
/// `what` names the document in errors.
///
/// # Errors
///
/// [`EncodeError::Invalid`] for a value that JSON cannot hold, such as a map whose keys are lists.
pub fn to_vec<T: Serialize + ?Sized>(what: &'static str, value: &T) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, DialectFormatter::default());
    match value.serialize(&mut serializer) {
        Ok(()) => Ok(out),
        Err(_) => Err(EncodeError::Invalid { what, why: "it holds a value that JSON has no form for" }),
    }
}

/// A key that is an object, such as the message queue in a table of offsets.
///
/// [`to_vec`] writes it bare, [`from_slice`](super::from_slice) reads it. Only of use in maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ObjectKey<T>(pub T);

impl<T: Serialize> Serialize for ObjectKey<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = to_vec("an object key", &self.0).map_err(serde::ser::Error::custom)?;
        let json = std::str::from_utf8(&json).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&[OBJECT_KEY.encode_utf8(&mut [0; 4]), json].concat())
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for ObjectKey<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = String::deserialize(deserializer)?;
        serde_json::from_str(&json).map(ObjectKey).map_err(D::Error::custom)
    }
}

/// Writes values as JSON does, and keys when their whole text is known: only then it shows whether they are bare.
#[derive(Default)]
struct DialectFormatter {
    key: Option<Key>,
}

#[derive(Default)]
struct Key {
    text: String,
    is_integer: bool,
}

impl Key {
    fn write<W: ?Sized + io::Write>(&self, writer: &mut W) -> io::Result<()> {
        if self.is_integer {
            return writer.write_all(self.text.as_bytes());
        }
        // Text of a user may begin with the mark as well, and must not break the document.
        match self.text.strip_prefix(OBJECT_KEY) {
            Some(json) if from_slice::<IgnoredAny>("an object key", json.as_bytes()).is_ok() => {
                writer.write_all(json.as_bytes())
            }
            _ => {
                writer.write_all(b"\"")?;
                write_escaped(writer, &self.text)?;
                writer.write_all(b"\"")
            }
        }
    }
}

/// Writes integers; as keys they are bare.
macro_rules! integers {
    ($($name:ident: $type:ty,)*) => {
        $(fn $name<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: $type) -> io::Result<()> {
            match &mut self.key {
                Some(key) => {
                    key.is_integer = true;
                    key.text = value.to_string();
                    Ok(())
                }
                None => write!(writer, "{value}"),
            }
        })*
    };
}

impl Formatter for DialectFormatter {
    integers! {
        write_i8: i8, write_i16: i16, write_i32: i32, write_i64: i64,
        write_u8: u8, write_u16: u16, write_u32: u32, write_u64: u64,
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.key = Some(Key::default());
        if first { Ok(()) } else { writer.write_all(b",") }
    }

    fn end_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.key.take().map_or(Ok(()), |key| key.write(writer))
    }

    fn begin_string<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.key.is_some() { Ok(()) } else { writer.write_all(b"\"") }
    }

    fn end_string<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.key.is_some() { Ok(()) } else { writer.write_all(b"\"") }
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        match &mut self.key {
            Some(key) => {
                key.text.push_str(fragment);
                Ok(())
            }
            None => write_escaped(writer, fragment),
        }
    }

    fn write_char_escape<W: ?Sized + io::Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        let character = match escape {
            CharEscape::Quote => '"',
            CharEscape::ReverseSolidus => '\\',
            CharEscape::Solidus => '/',
            CharEscape::Backspace => '\u{8}',
            CharEscape::FormFeed => '\u{C}',
            CharEscape::LineFeed => '\n',
            CharEscape::CarriageReturn => '\r',
            CharEscape::Tab => '\t',
            CharEscape::AsciiControl(byte) => char::from(byte),
        };
        match &mut self.key {
            Some(key) => {
                key.text.push(character);
                Ok(())
            }
            None => write_escaped(writer, character.encode_utf8(&mut [0; 4])),
        }
    }
}

/// Writes the inside of a string as [`put_string`](crate::header::json::put_string) does.
fn write_escaped<W: ?Sized + io::Write>(writer: &mut W, text: &str) -> io::Result<()> {
    let mut quoted = BytesMut::new();
    put_string(&mut quoted, text);
    writer.write_all(&quoted[1..quoted.len() - 1])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::fastjson::from_slice;
    use crate::model::MessageQueue;

    fn written<T: Serialize>(value: &T) -> String {
        String::from_utf8(to_vec("test", value).unwrap()).unwrap()
    }

    #[test]
    fn integer_keys_are_bare_and_text_keys_are_not() {
        assert_eq!(written(&BTreeMap::from([(0, "a"), (-1, "b")])), r#"{-1:"b",0:"a"}"#);
        assert_eq!(written(&BTreeMap::from([("0", 1u8), ("", 2), ("\"\u{1}", 3)])), r#"{"":2,"\"\u0001":3,"0":1}"#);
        assert_eq!(written(&BTreeMap::from([("x", BTreeMap::from([(7u64, [1, 2])]))])), r#"{"x":{7:[1,2]}}"#);
        assert_eq!(written(&["a\u{7F}\u{2028}ü/\n"]), r#"["a\u007F\u2028ü/\n"]"#);
    }

    #[test]
    fn object_keys_are_written_and_read_bare() {
        let queue = |topic: &str| ObjectKey(MessageQueue { topic: topic.into(), broker_name: "b".into(), queue_id: 3 });
        let offsets = BTreeMap::from([(queue("a\"\\\n"), 5i64), (queue("ü"), -1)]);
        let text = written(&offsets);
        assert!(text.starts_with(r#"{{""#) && text.contains(r#""a\"\\\n""#), "{text}");
        assert_eq!(from_slice::<BTreeMap<ObjectKey<MessageQueue>, i64>>("test", text.as_bytes()), Ok(offsets));

        let text_with_the_mark = BTreeMap::from([("\0", 1), ("\0}", 2)]);
        assert_eq!(written(&text_with_the_mark), r#"{"\u0000":1,"\u0000}":2}"#);

        let nested = BTreeMap::from([(ObjectKey(BTreeMap::from([(1, "x")])), 2)]);
        assert_eq!(written(&nested), r#"{{1:"x"}:2}"#);
    }

    #[test]
    fn what_json_cannot_hold_is_an_error() {
        assert!(to_vec("test", &BTreeMap::from([(vec![1], 1)])).is_err());
        assert!(from_slice::<BTreeMap<ObjectKey<MessageQueue>, i64>>("test", br#"{{"queueId":"x"}:1}"#).is_err());
    }
}
