//! Cuts a text into words, the longest possible each time.

use super::{Dialect, SqlError};

/// What a word is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    End,
    Not,
    And,
    Or,
    Between,
    In,
    True,
    False,
    Null,
    Is,
    Contains,
    StartsWith,
    EndsWith,
    Name(&'a str),
    /// As written, with the suffix.
    Whole(&'a str),
    Fraction(&'a str),
    /// As written, without the quotes around it.
    String(&'a str),
    Symbol(&'static str),
}

/// Longer ones first.
const SYMBOLS: [&str; 11] = ["<>", "<=", ">=", "<", ">", "=", "(", ")", ",", "+", "-"];

#[derive(Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    position: usize,
    /// Where the last line that has an end ends. Looked for once, or a long row of minus signs would take for ever.
    last_line_end: Option<usize>,
    dialect: Dialect,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str, dialect: Dialect) -> Self {
        Self { text, position: 0, last_line_end: text.rfind(['\n', '\r']), dialect }
    }

    /// The next word, and the byte position where it begins.
    pub(super) fn next(&mut self) -> Result<(usize, Token<'a>), SqlError> {
        self.skip_blanks_and_comments();
        let start = self.position;
        let rest = &self.text[start..];
        let Some(&first) = rest.as_bytes().first() else { return Ok((start, Token::End)) };
        let (length, token) = match first {
            b'\'' => {
                let length = string_length(rest).ok_or_else(|| self.error(start, "a text in quotes has no end"))?;
                (length, Token::String(&rest[1..length - 1]))
            }
            b'0'..=b'9' | b'.' => number(rest).ok_or_else(|| self.error(start, "`.` is no number"))?,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => {
                let length = count(rest, |byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$');
                (length, word(&rest[..length], self.dialect))
            }
            _ => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                Some(symbol) => (symbol.len(), Token::Symbol(symbol)),
                None => {
                    let character = rest.chars().next().unwrap_or_default();
                    return Err(self.error(start, &format!("{character:?} has no meaning here{}", advice(rest))));
                }
            },
        };
        self.position = start + length;
        Ok((start, token))
    }

    pub(super) fn error(&self, position: usize, problem: &str) -> SqlError {
        let column = self.text[..position].chars().count() + 1;
        SqlError { column, problem: problem.to_owned() }
    }

    fn skip_blanks_and_comments(&mut self) {
        loop {
            let rest = &self.text[self.position..];
            let skipped = if rest.starts_with("--") {
                // Only with the end of its line is it a comment.
                let ends = self.last_line_end.is_some_and(|end| end > self.position);
                if ends { rest.find(['\n', '\r']).map(|end| end + 1) } else { None }
            } else if let Some(comment) = rest.strip_prefix("/*") {
                comment.find("*/").map(|end| end + 4)
            } else {
                Some(count(rest, |byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c')))
            };
            match skipped {
                None | Some(0) => return,
                Some(skipped) => self.position += skipped,
            }
        }
    }
}

fn count(text: &str, belongs: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| belongs(*byte)).count()
}

/// The length of the text in quotes that begins here. Two quotes inside stand for one; where the text has no end, the
/// longest part that has one counts.
fn string_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut position, mut longest) = (1, None);
    while let Some(quote) = memchr::memchr(b'\'', &bytes[position..]) {
        let after = position + quote + 1;
        longest = Some(after);
        if bytes.get(after) != Some(&b'\'') {
            break;
        }
        position = after + 1;
    }
    longest
}

fn number(text: &str) -> Option<(usize, Token<'_>)> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from.min(bytes.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let exponent = |from: usize| {
        if !matches!(bytes.get(from), Some(b'e' | b'E')) {
            return 0;
        }
        let sign = usize::from(matches!(bytes.get(from + 1), Some(b'+' | b'-')));
        match digits(from + 1 + sign) {
            0 => 0,
            count => 1 + sign + count,
        }
    };
    let before = digits(0);
    if bytes.get(before) == Some(&b'.') {
        let after = digits(before + 1);
        if before + after == 0 {
            return None;
        }
        let mantissa = before + 1 + after;
        let length = mantissa + exponent(mantissa);
        return Some((length, Token::Fraction(&text[..length])));
    }
    if let power @ 1.. = exponent(before) {
        return Some((before + power, Token::Fraction(&text[..before + power])));
    }
    // A zero stands alone: no digits and no suffix follow it.
    if bytes[0] == b'0' {
        return Some((1, Token::Whole("0")));
    }
    let length = before + usize::from(matches!(bytes.get(before), Some(b'l' | b'L')));
    Some((length, Token::Whole(&text[..length])))
}

fn word(text: &str, dialect: Dialect) -> Token<'_> {
    let keywords = [
        ("NOT", Token::Not),
        ("AND", Token::And),
        ("OR", Token::Or),
        ("BETWEEN", Token::Between),
        ("IN", Token::In),
        ("TRUE", Token::True),
        ("FALSE", Token::False),
        ("NULL", Token::Null),
        ("IS", Token::Is),
        ("CONTAINS", Token::Contains),
        ("STARTSWITH", Token::StartsWith),
        ("ENDSWITH", Token::EndsWith),
    ];
    let known = match dialect {
        Dialect::WithStringTests => &keywords[..],
        Dialect::WithoutStringTests => &keywords[..9],
    };
    let keyword = known.iter().find(|(keyword, _)| keyword.eq_ignore_ascii_case(text));
    keyword.map_or(Token::Name(text), |(_, token)| token.clone())
}

/// What was probably meant.
fn advice(rest: &str) -> &'static str {
    match rest.as_bytes() {
        [b'!', b'=', ..] => ": write `<>`",
        [b'"', ..] => ": texts stand in single quotes",
        [b'|', b'|', ..] => ": write `OR`",
        [b'&', b'&', ..] => ": write `AND`",
        _ => "",
    }
}
