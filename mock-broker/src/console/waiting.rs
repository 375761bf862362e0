//! Requests that are answered when something has happened.

use std::time::Duration;

use hyper::StatusCode;
use serde::Deserialize;

use super::{Answer, Console, Problem};
use crate::journal::{JournalFilter, Unmet};
use crate::pattern::RequestPattern;
use crate::server::{State, rest};

/// Waits last no longer.
const LONGEST: u64 = 600_000;

fn thirty_seconds() -> u64 {
    30_000
}

fn one() -> u64 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitForRequests {
    #[serde(default)]
    on: RequestPattern,
    #[serde(default = "one")]
    count: u64,
    #[serde(default)]
    after: u64,
    #[serde(default = "thirty_seconds")]
    timeout_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitForMessages {
    topic: String,
    #[serde(default = "one")]
    count: u64,
    #[serde(default = "thirty_seconds")]
    timeout_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitForConsumed {
    group: String,
    topic: String,
    #[serde(default = "one")]
    count: u64,
    #[serde(default = "thirty_seconds")]
    timeout_ms: u64,
}

impl Console {
    /// Waits until the journal has so many requests of a pattern.
    pub(super) async fn wait_for_requests(&self, wait: WaitForRequests) -> Result<Answer, Problem> {
        let WaitForRequests { on, count, after, timeout_ms } = wait;
        if !self.remote.call(|state| state.journal().is_on()).await? {
            return Err(Problem::new(StatusCode::CONFLICT, "the journal is switched off"));
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let pattern = on.clone();
        let entries = move |state: &mut State| {
            let entries = state.journal().entries(after).filter(|entry| pattern.accepts(entry));
            entries.collect::<Vec<_>>()
        };
        let found = self.wait(timeout_ms, entries, move |found| found.len() >= count).await?;
        match found {
            Ok(found) => Ok(Answer::json(&found)),
            Err(found) => {
                let all = self.remote.call(|state| state.journal().entries(0).collect::<Vec<_>>()).await?;
                let unmet = Unmet::new(&on, count, &found, &all).to_string();
                Err(Problem::new(StatusCode::REQUEST_TIMEOUT, unmet))
            }
        }
    }

    /// Waits until a topic has so many messages.
    pub(super) async fn wait_for_messages(&self, wait: WaitForMessages) -> Result<Answer, Problem> {
        let WaitForMessages { topic, count, timeout_ms } = wait;
        let name = topic.clone();
        let stored = move |state: &mut State| state.broker().count(&name);
        self.wait_for_count(timeout_ms, count, stored, &format!("messages in `{topic}`")).await
    }

    /// Waits until a group has committed so many messages of a topic.
    pub(super) async fn wait_for_consumed(&self, wait: WaitForConsumed) -> Result<Answer, Problem> {
        let WaitForConsumed { group, topic, count, timeout_ms } = wait;
        let what = format!("messages of `{topic}` committed by `{group}`");
        let consumed = move |state: &mut State| state.broker().consumed(&group, &topic);
        self.wait_for_count(timeout_ms, count, consumed, &what).await
    }

    async fn wait_for_count(
        &self,
        timeout_ms: u64,
        count: u64,
        of: impl Fn(&mut State) -> u64 + Clone + Send + 'static,
        what: &str,
    ) -> Result<Answer, Problem> {
        match self.wait(timeout_ms, of, move |found| *found >= count).await? {
            Ok(found) => Ok(Answer::json(&serde_json::json!({ "count": found }))),
            Err(found) => {
                let text = format!("expected {count} {what}, saw {found}");
                Err(Problem::new(StatusCode::REQUEST_TIMEOUT, text))
            }
        }
    }

    /// Looks at something again and again, whenever something happened, until it is enough; the last that was seen if the
    /// time is over before.
    async fn wait<T: Send + 'static>(
        &self,
        timeout_ms: u64,
        look: impl Fn(&mut State) -> T + Clone + Send + 'static,
        is_enough: impl Fn(&T) -> bool,
    ) -> Result<Result<T, T>, Problem> {
        let limit = Duration::from_millis(timeout_ms.min(LONGEST));
        let over = rest(limit);
        tokio::pin!(over);
        loop {
            let look = look.clone();
            let (seen, changed) = self.remote.call(move |state| (look(state), state.changed())).await?;
            if is_enough(&seen) {
                return Ok(Ok(seen));
            }
            tokio::select! {
                // Also when the broker was stopped: the next look says so.
                _ = changed => {}
                () = &mut over => return Ok(Err(seen)),
            }
        }
    }
}
