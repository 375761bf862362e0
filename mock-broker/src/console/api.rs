//! Which request does what.

use std::time::Duration;

use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::query::Query;
use super::{Answer, Console, Problem};
use crate::fault::Fault;
use crate::journal::JournalEntry;
use crate::server::{Control, State};

/// A span of time.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Span {
    ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Moment {
    message_ms: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Frozen {
    frozen: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Skip {
    skip: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTopic {
    topic: String,
    #[serde(default = "eight")]
    queues: i32,
}

fn eight() -> i32 {
    8
}

/// Reads a body.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| Problem::bad(format!("the body is not what is wanted here: {error}")))
}

impl Console {
    pub(super) async fn route(
        &self,
        method: &Method,
        path: &str,
        query: &Query,
        body: &[u8],
    ) -> Result<Answer, Problem> {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (method, Some(("v1", rest))) = (method.as_str(), split(&segments)) else { return Err(unknown(path)) };
        match (method, rest) {
            ("GET", ["status"]) => self.status().await,
            ("POST", ["broker", "stop"]) => self.remote.control(Control::Stop).await.map(|()| Answer::done()),
            ("POST", ["broker", "start"]) => self.remote.control(Control::Restart).await.map(|()| Answer::done()),
            ("POST", ["reset"]) => self.reset().await,

            ("GET", ["clock"]) => self.clock(|_| {}).await,
            ("POST", ["clock", "advance"]) => {
                let Span { ms } = read(body)?;
                self.clock(move |state| state.advance(Duration::from_millis(ms))).await
            }
            ("POST", ["clock", "advance_sessions"]) => {
                let Span { ms } = read(body)?;
                self.clock(move |state| state.advance_sessions(Duration::from_millis(ms))).await
            }
            ("POST", ["clock", "set"]) => {
                let Moment { message_ms } = read(body)?;
                self.clock(move |state| state.turn(|clock| clock.set(message_ms))).await
            }
            ("POST", ["clock", "freeze"]) => {
                let Frozen { frozen } = read(body)?;
                self.clock(move |state| state.turn(|clock| if frozen { clock.freeze() } else { clock.unfreeze() }))
                    .await
            }
            ("POST", ["clock", "skip"]) => {
                let Skip { skip } = read(body)?;
                self.clock(move |state| state.set_skipping(skip)).await
            }

            ("GET", ["faults"]) => Ok(Answer::json(&self.remote.call(|state| state.faults()).await?)),
            ("POST", ["faults"]) => self.put_fault(read(body)?).await,
            ("DELETE", ["faults"]) => self.remote.call(State::clear_faults).await.map(|()| Answer::done()),
            ("DELETE", ["faults", id]) => {
                let id: u64 = id.parse().map_err(|_| Problem::bad(format!("`{id}` is no number of a fault")))?;
                match self.remote.call(move |state| state.remove_fault(id)).await? {
                    true => Ok(Answer::done()),
                    false => Err(Problem::new(StatusCode::NOT_FOUND, format!("there is no fault {id}"))),
                }
            }

            ("GET", ["journal"]) => self.journal(query).await,
            ("DELETE", ["journal"]) => {
                self.remote.call(|state| state.journal_mut().clear()).await.map(|()| Answer::done())
            }
            ("POST", ["journal", "wait"]) => self.wait_for_requests(read(body)?).await,

            ("GET", ["topics"]) => Ok(Answer::json(&self.remote.call(|state| state.broker().topic_views()).await?)),
            ("POST", ["topics"]) => {
                let NewTopic { topic, queues } = read(body)?;
                self.new_topic(topic, queues).await
            }
            ("GET", ["groups"]) => self.groups(query).await,
            ("POST", ["groups", "wait"]) => self.wait_for_consumed(read(body)?).await,
            ("GET", ["messages"]) => self.messages(query).await,
            ("POST", ["messages"]) => self.put_message(read(body)?).await,
            ("POST", ["messages", "wait"]) => self.wait_for_messages(read(body)?).await,
            ("GET", ["messages", "way"]) => self.way(query).await,
            ("GET", ["delayed"]) => self.delayed(query).await,
            ("GET", ["half"]) => Ok(Answer::json(&self.remote.call(|state| state.broker().half_messages()).await?)),
            ("GET", ["dead_letters"]) => self.dead_letters(query).await,
            ("POST", ["dead_letters", "replay"]) => self.replay(read(body)?).await,
            _ => Err(unknown(path)),
        }
    }

    async fn reset(&self) -> Result<Answer, Problem> {
        if !self.remote.call(|state| state.broker().is_in_memory()).await? {
            let text = "a store on disk is not emptied: start the broker in another directory";
            return Err(Problem::new(StatusCode::CONFLICT, text));
        }
        self.remote.control(Control::Reset).await.map(|()| Answer::done())
    }

    async fn status(&self) -> Result<Answer, Problem> {
        let status = self.remote.call(|state| {
            let clock = state.clock_view();
            let identity = state.identity();
            json!({
                "broker": identity.address,
                "broker_name": identity.name,
                "cluster": identity.cluster,
                "name_server": state.name_server_address(),
                "compatibility": state.compatibility().to_string(),
                "version": env!("CARGO_PKG_VERSION"),
                "connections": state.connection_count(),
                "faults": state.faults().iter().filter(|fault| fault.left != Some(0)).count(),
                "journal": state.journal().is_on(),
                "clock": clock,
            })
        });
        Ok(Answer::json(&status.await?))
    }

    /// Changes the clock and says what it shows.
    async fn clock(&self, change: impl FnOnce(&mut State) + Send + 'static) -> Result<Answer, Problem> {
        let shown = self.remote.call(move |state| {
            change(state);
            state.clock_view()
        });
        Ok(Answer::json(&shown.await?))
    }

    async fn put_fault(&self, fault: Fault) -> Result<Answer, Problem> {
        let put = self.remote.call(move |state| {
            let id = state.put_fault(fault);
            state.faults().into_iter().find(|status| status.id == id)
        });
        Ok(Answer::json(&put.await?).with(StatusCode::CREATED))
    }

    async fn journal(&self, query: &Query) -> Result<Answer, Problem> {
        query.only(&[&Query::PATTERN[..], &["after", "limit", "kind"]].concat())?;
        let (pattern, kind) = (query.pattern()?, query.kind()?);
        let (after, limit) = (query.number("after")?, query.limit()?);
        let entries = self.remote.call(move |state| {
            let meant = |entry: &JournalEntry| kind.is_none_or(|kind| entry.kind == kind) && entry.matches(&pattern);
            // From a number on the oldest, else the latest.
            match after {
                Some(after) => state.journal().entries(after).filter(meant).take(limit).collect::<Vec<_>>(),
                None => {
                    let mut latest: Vec<_> = state.journal().entries(0).rev().filter(meant).take(limit).collect();
                    latest.reverse();
                    latest
                }
            }
        });
        Ok(Answer::json(&entries.await?))
    }

    async fn new_topic(&self, topic: String, queues: i32) -> Result<Answer, Problem> {
        if let Err(error) =
            rocketmq_wire::message::names::check(&topic, rocketmq_wire::message::names::MAX_TOPIC_LENGTH)
        {
            return Err(Problem::bad(error.to_string()));
        }
        if !(1..=1024).contains(&queues) {
            return Err(Problem::bad("say from 1 to 1024 queues"));
        }
        let made = self.remote.call(move |state| state.set_topic(&topic, queues));
        made.await.map(|()| Answer::done().with(StatusCode::CREATED))
    }
}

fn split<'a, 'p>(segments: &'p [&'a str]) -> Option<(&'a str, &'p [&'a str])> {
    segments.split_first().map(|(first, rest)| (*first, rest))
}

fn unknown(path: &str) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        format!("there is no `{path}` of this method; /openapi.json lists what there is"),
    )
}
