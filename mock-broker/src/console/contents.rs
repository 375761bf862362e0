//! What the broker holds, over HTTP.

use hyper::StatusCode;
use rocketmq_wire::message::{RecordView, StoredMessage, names, properties};
use serde::{Deserialize, Serialize};

use super::query::Query;
use super::{Answer, Console, Problem};
use crate::broker::Broker;
use crate::content::{MessageView, Outgoing};
use crate::journal::EntryKind;
use crate::pattern::Family;
use crate::server::State;

/// Which dead letters are to be sent again: all of a group, or those with these ids.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Replay {
    group: String,
    #[serde(default)]
    message_ids: Vec<String>,
}

/// A step on the way of a message.
#[derive(Debug, Serialize)]
struct Step {
    /// `sent`, `stored`, `delivered`, `handed_back`, `retried`, `dead` or `consumed`.
    step: &'static str,
    /// Message time in milliseconds since 1970, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ms: Option<i64>,
    /// What happened, in words.
    what: String,
}

impl Console {
    pub(super) async fn messages(&self, query: &Query) -> Result<Answer, Problem> {
        query.only(&["topic", "limit", "key", "tag", "id", "text", "queue", "offset"])?;
        let topic = query.needed("topic")?.to_owned();
        let limit = query.limit()?;
        if let (Some(queue), Some(offset)) = (query.number("queue")?, query.number("offset")?) {
            let found = self.remote.call(move |state| state.broker().messages_from(&topic, queue, offset, limit));
            return Ok(Answer::json(&found.await?));
        }
        let owned = |name| query.text(name).map(str::to_owned);
        let (key, tag, id, text) = (owned("key"), owned("tag"), owned("id"), owned("text"));
        let found = self.remote.call(move |state| {
            let accepts = |record: &RecordView<'_>| {
                let is = |name, wanted: &Option<String>| {
                    wanted.as_ref().is_none_or(|wanted| record.property(name) == Some(wanted))
                };
                let has_key = key.as_ref().is_none_or(|key| {
                    record.property(properties::KEYS).is_some_and(|keys| keys.split_whitespace().any(|one| one == key))
                });
                let has_id = id.as_ref().is_none_or(|id| {
                    record.property(properties::UNIQUE_ID) == Some(id) || record.offset_message_id().to_string() == *id
                });
                let has_text = text.as_ref().is_none_or(|text| MessageView::new(record).text().contains(text.as_str()));
                is(properties::TAGS, &tag) && has_key && has_id && has_text
            };
            state.broker().latest_messages(&topic, limit, &accepts)
        });
        Ok(Answer::json(&found.await?))
    }

    pub(super) async fn put_message(&self, message: Outgoing) -> Result<Answer, Problem> {
        let put = self.remote.call(move |state| state.put(&message)).await?;
        put.map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error))?;
        Ok(Answer::done().with(StatusCode::CREATED))
    }

    pub(super) async fn groups(&self, query: &Query) -> Result<Answer, Problem> {
        query.only(&["group"])?;
        let wanted = query.text("group").map(str::to_owned);
        let groups = self.remote.call(move |state| {
            let now = state.now();
            let broker = state.broker();
            let names = broker.group_names().into_iter();
            let names = names.filter(|name| wanted.as_ref().is_none_or(|wanted| wanted == name));
            names.map(|name| broker.group_view(now, &name)).collect::<Vec<_>>()
        });
        Ok(Answer::json(&groups.await?))
    }

    pub(super) async fn delayed(&self, query: &Query) -> Result<Answer, Problem> {
        query.only(&["limit"])?;
        let limit = query.limit()?;
        let delayed = self.remote.call(move |state| {
            let now = state.now();
            let mut delayed = state.broker().delayed_messages(now);
            delayed.truncate(limit);
            delayed
        });
        Ok(Answer::json(&delayed.await?))
    }

    pub(super) async fn dead_letters(&self, query: &Query) -> Result<Answer, Problem> {
        query.only(&["group", "limit"])?;
        let group = query.text("group").map(str::to_owned);
        let limit = query.limit()?;
        let letters = self.remote.call(move |state| {
            let broker = state.broker();
            let topics = broker.topic_views().into_iter().map(|view| view.topic);
            let topics = topics.filter(|topic| match &group {
                Some(group) => *topic == names::dead_letter_topic(group),
                None => names::is_dead_letter_topic(topic),
            });
            let mut letters = Vec::new();
            for topic in topics {
                letters.extend(broker.latest_messages(&topic, limit - letters.len(), &|_| true));
            }
            letters
        });
        Ok(Answer::json(&letters.await?))
    }

    /// Sends dead letters again to the retry topic of their group, so that only that group gets them.
    pub(super) async fn replay(&self, replay: Replay) -> Result<Answer, Problem> {
        let replayed = self.remote.call(move |state| {
            let letters = state.broker().messages(&names::dead_letter_topic(&replay.group));
            let letters: Vec<MessageView> = letters.iter().map(|letter| MessageView::new(&letter.view())).collect();
            let meant = |letter: &&MessageView| {
                replay.message_ids.is_empty()
                    || replay
                        .message_ids
                        .iter()
                        .any(|id| *id == letter.message_id || Some(id) == letter.unique_id.as_ref())
            };
            let mut count = 0;
            for letter in letters.iter().filter(meant) {
                state.put(&again(letter, &replay.group))?;
                count += 1;
            }
            Ok::<_, String>(count)
        });
        let count = replayed.await?.map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error))?;
        Ok(Answer::json(&serde_json::json!({ "replayed": count })))
    }

    /// What became of a message, as far as the store and the journal tell.
    pub(super) async fn way(&self, query: &Query) -> Result<Answer, Problem> {
        query.only(&["topic", "id"])?;
        let (topic, id) = (query.needed("topic")?.to_owned(), query.needed("id")?.to_owned());
        let way = self.remote.call(move |state| way(state, &topic, &id)).await?;
        way.map(|way| Answer::json(&way)).ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "there is no such message"))
    }
}

/// A dead letter as it goes back to its group.
fn again(letter: &MessageView, group: &str) -> Outgoing {
    let mut properties = letter.properties.clone();
    for of_the_past in [
        properties::DELAY,
        properties::REAL_TOPIC,
        properties::REAL_QUEUE_ID,
        properties::RECONSUME_TIME,
        properties::MAX_RECONSUME_TIMES,
        properties::TAGS,
        properties::KEYS,
    ] {
        properties.remove(of_the_past);
    }
    Outgoing {
        topic: names::retry_topic(group),
        queue: Some(0),
        body: letter.body.clone(),
        tag: letter.tag.clone(),
        keys: letter.keys.clone(),
        properties,
        flag: letter.flag,
        ..Outgoing::default()
    }
}

fn way(state: &State, topic: &str, id: &str) -> Option<Vec<Step>> {
    let broker: &Broker = state.broker();
    let is_meant = |record: &RecordView<'_>| {
        record.property(properties::UNIQUE_ID) == Some(id) || record.offset_message_id().to_string() == id
    };
    let message = broker.latest_messages(topic, 1, &is_meant).pop()?;
    let unique_id = message.unique_id.clone().unwrap_or_else(|| id.to_owned());
    let mut steps = Vec::new();
    let mut step = |step, time_ms, what: String| steps.push(Step { step, time_ms, what });
    step("sent", Some(message.born_ms), format!("by {}", message.born_host));
    let place = format!("in queue {} at offset {}", message.queue, message.offset);
    step("stored", Some(message.stored_ms), place);
    for entry in state.journal().entries(0) {
        let client = entry.client.clone().unwrap_or_else(|| entry.peer.to_string());
        let family = Family::of(rocketmq_wire::RequestCode(entry.request));
        match (entry.kind, family) {
            (EntryKind::Answer, Family::Pull) if entry.body_length == entry.body.len() => {
                let mut records = StoredMessage::records(entry.body.clone()).flatten();
                let times = records.find(|record| record.unique_id() == Some(&unique_id)).map(|r| r.reconsume_times());
                if let Some(times) = times {
                    let again = if times > 0 { format!(", attempt {}", times + 1) } else { String::new() };
                    step("delivered", Some(entry.time_ms), format!("to {client}{again}"));
                }
            }
            (EntryKind::Request, Family::SendBack)
                if entry.fields.get("originMsgId") == Some(&unique_id)
                    || entry.fields.get("offset") == Some(&message.physical_offset.to_string()) =>
            {
                step("handed_back", Some(entry.time_ms), format!("by {client} of {}", entry.groups.join(",")));
            }
            _ => {}
        }
    }
    let same = |record: &RecordView<'_>| {
        record.property(properties::UNIQUE_ID) == Some(&unique_id)
            || record.property(properties::ORIGIN_MESSAGE_ID) == Some(&unique_id)
    };
    for name in broker.group_names() {
        for copy in broker.latest_messages(&names::retry_topic(&name), 100, &same) {
            step("retried", Some(copy.stored_ms), format!("for {name}, time {}", copy.reconsume_times));
        }
        for copy in broker.latest_messages(&names::dead_letter_topic(&name), 1, &same) {
            step("dead", Some(copy.stored_ms), format!("for {name}"));
        }
        if broker.committed(&name, topic, message.queue).is_some_and(|committed| committed > message.offset) {
            step("consumed", None, format!("by {name}: its offset is behind the message"));
        }
    }
    steps.sort_by_key(|step| step.time_ms.unwrap_or(i64::MAX));
    Some(steps)
}
