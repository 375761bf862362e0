//! `key=value` words, as the Java and Go programs take them.

use std::{collections::HashMap, str::FromStr};

/// The arguments of one part.
#[derive(Debug, Clone, Default)]
pub struct Arguments(HashMap<String, String>);

impl Arguments {
    /// Reads the words of a command line.
    ///
    /// # Panics
    ///
    /// On a word that is not `key=value`: these programs are run by `bench` and by hand only.
    #[must_use]
    pub fn parse(words: &[String]) -> Self {
        let parse = |word: &String| match word.split_once('=') {
            Some((key, value)) => (key.to_owned(), value.to_owned()),
            None => panic!("`{word}` is not key=value"),
        };
        Self(words.iter().map(parse).collect())
    }

    /// A value that must be there.
    ///
    /// # Panics
    ///
    /// Without it.
    #[must_use]
    pub fn required(&self, key: &str) -> &str {
        self.0.get(key).unwrap_or_else(|| panic!("`{key}=` is missing"))
    }

    /// A value that may be missing.
    #[must_use]
    pub fn optional(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// A text, or what stands in for it.
    #[must_use]
    pub fn text<'a>(&'a self, key: &str, otherwise: &'a str) -> &'a str {
        self.0.get(key).map_or(otherwise, String::as_str)
    }

    /// A number, or what stands in for it.
    ///
    /// # Panics
    ///
    /// When the value is no such number.
    #[must_use]
    pub fn number<T: FromStr>(&self, key: &str, otherwise: T) -> T {
        match self.0.get(key) {
            Some(text) => text.parse().unwrap_or_else(|_| panic!("`{key}={text}` is not a number")),
            None => otherwise,
        }
    }
}
