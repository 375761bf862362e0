//! What a test expected of the journal and did not find.

use std::fmt;

use super::{EntryKind, JournalEntry};
use crate::pattern::RequestPattern;

/// Most entries that are shown of each kind.
const SHOWN: usize = 20;

/// What chooses entries of the journal: a [`RequestPattern`] chooses requests, a closure chooses what it likes.
pub trait JournalFilter {
    /// Whether an entry is meant.
    fn accepts(&self, entry: &JournalEntry) -> bool;

    /// What is meant, in words.
    fn describe(&self) -> String;

    /// Why an entry is not meant, in words.
    fn why_not(&self, entry: &JournalEntry) -> Option<String>;
}

impl JournalFilter for RequestPattern {
    fn accepts(&self, entry: &JournalEntry) -> bool {
        entry.kind == EntryKind::Request && entry.matches(self)
    }

    fn describe(&self) -> String {
        format!("requests with {self}")
    }

    fn why_not(&self, entry: &JournalEntry) -> Option<String> {
        if entry.kind != EntryKind::Request {
            return None;
        }
        let facts = entry.facts();
        let differences = self.differences(&facts).map(|(what, wanted, found)| {
            let found = if found.is_empty() { "none".to_owned() } else { format!("`{found}`") };
            format!("{what} is {found}, not `{wanted}`")
        });
        let differences: Vec<String> = differences.collect();
        (!differences.is_empty()).then(|| differences.join("; "))
    }
}

impl<F: Fn(&JournalEntry) -> bool> JournalFilter for F {
    fn accepts(&self, entry: &JournalEntry) -> bool {
        self(entry)
    }

    fn describe(&self) -> String {
        "entries that the closure accepts".to_owned()
    }

    fn why_not(&self, _: &JournalEntry) -> Option<String> {
        None
    }
}

/// An expectation that was not met. Shows, in `{}` and `{:?}` alike, what was expected, what was there, and what of the rest
/// comes nearest and how it differs.
#[derive(Clone, PartialEq, Eq)]
pub struct Unmet {
    text: String,
}

impl Unmet {
    pub(crate) fn new(
        filter: &(impl JournalFilter + ?Sized),
        expected: usize,
        found: &[JournalEntry],
        all: &[JournalEntry],
    ) -> Self {
        let mut text = format!("expected {expected} {}, saw {}", filter.describe(), found.len());
        for entry in found.iter().take(SHOWN) {
            text.push_str(&format!("\n  saw   {entry}"));
        }
        if found.len() > SHOWN {
            text.push_str(&format!("\n  and {} more", found.len() - SHOWN));
        }
        // Those that differ in fewer things come first, and of those the latest.
        let mut others: Vec<(usize, &JournalEntry, Option<String>)> = all
            .iter()
            .filter(|entry| !filter.accepts(entry))
            .map(|entry| (entry, filter.why_not(entry)))
            .filter(|(entry, why)| why.is_some() || entry.kind == EntryKind::Request)
            .map(|(entry, why)| (why.as_ref().map_or(0, |why| why.split(';').count()), entry, why))
            .collect();
        others.sort_by_key(|(count, entry, _)| (*count, std::cmp::Reverse(entry.sequence)));
        for (_, entry, why) in others.iter().take(SHOWN) {
            text.push_str(&format!("\n  other {entry}"));
            if let Some(why) = why {
                text.push_str(&format!(": {why}"));
            }
        }
        if others.is_empty() && found.is_empty() {
            text.push_str("\n  the journal has no requests");
        }
        Unmet { text }
    }

    pub(crate) fn other(text: String) -> Self {
        Unmet { text }
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Unmet {}
