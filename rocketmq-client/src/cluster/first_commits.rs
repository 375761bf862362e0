//! The first offset of a group in a topic, one at a time.
//!
//! Brokers before 5.0 keep a table for each group and topic, made by the first commit. Two first commits at the same time
//! make two, and all that is in one of them is lost although both were answered with success.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Group, topic, and the broker's address.
type Table = (Box<str>, Box<str>, Arc<str>);

/// The tables that are known to be there.
#[derive(Debug, Default)]
pub(super) struct FirstCommits {
    made: Mutex<BTreeSet<Table>>,
    turn: tokio::sync::Mutex<()>,
}

/// Leave to commit where no table is known to be there; others wait until this is dropped.
pub(super) struct First<'a> {
    commits: &'a FirstCommits,
    table: Table,
    _turn: tokio::sync::MutexGuard<'a, ()>,
}

impl FirstCommits {
    /// Waits for its turn when this may be the first commit; `None` when it is not.
    pub(super) async fn turn(&self, group: &str, topic: &str, broker: &Arc<str>) -> Option<First<'_>> {
        let table = (group.into(), topic.into(), Arc::clone(broker));
        if self.made().contains(&table) {
            return None;
        }
        let turn = self.turn.lock().await;
        let is_made = self.made().contains(&table);
        (!is_made).then_some(First { commits: self, table, _turn: turn })
    }

    fn made(&self) -> MutexGuard<'_, BTreeSet<Table>> {
        // Nothing panics while it holds the lock.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl First<'_> {
    /// The commit was answered: there is a table now.
    pub(super) fn done(self) {
        self.commits.made().insert(self.table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn first_commits_take_turns_and_later_ones_do_not() {
        let commits = FirstCommits::default();
        let broker: Arc<str> = "a:1".into();
        let first = commits.turn("g", "t", &broker).await.expect("nothing is there");
        assert!(commits.turn("g", "t", &broker).now_or_never().is_none(), "waits");
        // One that came to nothing leaves it to the next.
        drop(first);
        commits.turn("g", "t", &broker).await.expect("nothing is there").done();
        assert!(commits.turn("g", "t", &broker).await.is_none());
        assert!(commits.turn("g", "other", &broker).await.is_some());
    }
}
