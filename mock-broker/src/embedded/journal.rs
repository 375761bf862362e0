//! Looking at what came in and went out from the test that holds the broker.

use std::time::Duration;

use super::MockBroker;
use crate::journal::{JournalEntry, JournalFilter, Unmet};
use crate::server::after;

/// How long [`MockBroker::wait_for`] waits.
const PATIENCE: Duration = Duration::from_secs(30);

impl MockBroker {
    /// The latest requests and answers, the oldest first; see [`MockBrokerBuilder::journal`](super::MockBrokerBuilder::journal)
    /// for how many are kept.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    #[must_use]
    pub fn journal(&self) -> Vec<JournalEntry> {
        self.call_blocking(|state| state.journal().entries(0).collect())
    }

    /// The entries of the journal that a filter accepts: a [`RequestPattern`](crate::RequestPattern) accepts requests, a
    /// closure what it likes.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    #[must_use]
    pub fn requests(&self, filter: impl JournalFilter) -> Vec<JournalEntry> {
        let mut entries = self.journal();
        entries.retain(|entry| filter.accepts(entry));
        entries
    }

    /// Forgets what the journal has; numbers go on.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub fn clear_journal(&self) {
        self.call_blocking(|state| state.journal_mut().clear());
    }

    /// Checks that the journal has exactly `count` entries that a filter accepts, and returns them.
    ///
    /// # Errors
    ///
    /// [`Unmet`], which shows what is there instead.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub fn expect(&self, filter: impl JournalFilter, count: usize) -> Result<Vec<JournalEntry>, Unmet> {
        let all = self.journal();
        let found: Vec<JournalEntry> = all.iter().filter(|entry| filter.accepts(entry)).cloned().collect();
        if found.len() == count { Ok(found) } else { Err(Unmet::new(&filter, count, &found, &all)) }
    }

    /// Waits until the journal has at least `count` entries that a filter accepts, and returns them. Those that are there
    /// already count. Gives up after 30 s of real time. Can be dropped at any time.
    ///
    /// ```no_run
    /// # async fn example(broker: rocketmq_mock_broker::MockBroker) -> Result<(), rocketmq_mock_broker::Unmet> {
    /// use rocketmq_mock_broker::{Family, RequestPattern};
    ///
    /// let commits = broker.wait_for(RequestPattern::of(Family::Offset).group("billing"), 1).await?;
    /// println!("{}", commits[0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Unmet`] when the time is over.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub async fn wait_for(&self, filter: impl JournalFilter, count: usize) -> Result<Vec<JournalEntry>, Unmet> {
        let mut grown = self.call(|state| state.journal().grown()).await;
        let search = async {
            let (mut found, mut seen) = (Vec::new(), 0);
            loop {
                grown.mark_unchanged();
                let new = self.call(move |state| state.journal().entries(seen).collect::<Vec<_>>()).await;
                seen = new.last().map_or(seen, |entry| entry.sequence);
                found.extend(new.into_iter().filter(|entry| filter.accepts(entry)));
                if found.len() >= count || grown.changed().await.is_err() {
                    return found;
                }
            }
        };
        let found = self.limited(PATIENCE, search).await;
        match found {
            Some(found) if found.len() >= count => Ok(found),
            _ => {
                let all = self.call(|state| state.journal().entries(0).collect::<Vec<_>>()).await;
                let found: Vec<JournalEntry> = all.iter().filter(|entry| filter.accepts(entry)).cloned().collect();
                Err(Unmet::new(&filter, count, &found, &all))
            }
        }
    }

    /// As [`wait_for`](Self::wait_for), for code that is not asynchronous.
    ///
    /// # Errors
    ///
    /// As [`wait_for`](Self::wait_for).
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub fn wait_for_blocking(&self, filter: impl JournalFilter, count: usize) -> Result<Vec<JournalEntry>, Unmet> {
        super::block_on(self.wait_for(filter, count))
    }

    /// Waits for something, but not longer than a time that the broker's thread measures.
    pub(super) async fn limited<T>(&self, limit: Duration, wanted: impl Future<Output = T>) -> Option<T> {
        let over = self.call(move |_| after(limit)).await;
        tokio::select! {
            value = wanted => Some(value),
            _ = over => None,
        }
    }
}
