//! Looking at what the broker holds, and waiting for it, from the test that holds the broker.

use std::time::Duration;

use rocketmq_wire::message::names;

use super::MockBroker;
use crate::content::{ClockView, GroupView, MessageView, Outgoing, TopicView};
use crate::journal::Unmet;
use crate::server::State;

/// How long the waits of this file last.
const PATIENCE: Duration = Duration::from_secs(30);

/// Most messages that a description of what is there shows.
const SHOWN: usize = 20;

impl MockBroker {
    /// Stores a message as if a client had sent it: the topic is created if the broker does that, delays are kept.
    ///
    /// # Errors
    ///
    /// What the broker would have answered to a client.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub fn put(&self, message: Outgoing) -> Result<(), Unmet> {
        self.call_blocking(move |state| state.put(&message)).map_err(Unmet::other)
    }

    /// All topics with their queues, by name, those of the system included.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    #[must_use]
    pub fn topics(&self) -> Vec<TopicView> {
        self.call_blocking(|state| state.broker().topic_views())
    }

    /// A consumer group: its members, its progress queue by queue, its lag. One that nobody has heard of is empty.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    #[must_use]
    pub fn group(&self, group: &str) -> GroupView {
        let group = group.to_owned();
        self.call_blocking(move |state| {
            let now = state.now();
            state.broker().group_view(now, &group)
        })
    }

    /// The names of the consumer groups that are online, have committed offsets or are configured.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    #[must_use]
    pub fn groups(&self) -> Vec<String> {
        self.call_blocking(|state| state.broker().group_names().into_iter().collect())
    }

    /// Messages that wait for a delay level or a timer, the next one first, each with the topic that it is for and when it
    /// is due.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    #[must_use]
    pub fn delayed(&self) -> Vec<MessageView> {
        self.call_blocking(|state| {
            let now = state.now();
            state.broker().delayed_messages(now)
        })
    }

    /// Half messages whose transaction nobody has decided, each with the topic that it is for.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    #[must_use]
    pub fn half_messages(&self) -> Vec<MessageView> {
        self.call_blocking(|state| state.broker().half_messages())
    }

    /// The dead letters of a group, the oldest first.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    #[must_use]
    pub fn dead_letters(&self, group: &str) -> Vec<MessageView> {
        self.views(&names::dead_letter_topic(group))
    }

    fn views(&self, topic: &str) -> Vec<MessageView> {
        let views = self.messages(topic);
        let mut views: Vec<_> = views.iter().map(|message| MessageView::new(&message.view())).collect();
        views.sort_by_key(|view| view.physical_offset);
        views
    }

    /// What the broker's clock shows.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    #[must_use]
    pub fn clock(&self) -> ClockView {
        self.call_blocking(State::clock_view)
    }

    /// Turns message time forward to a moment, in milliseconds since 1970, and returns when everything that is due by then
    /// has been stored and the clients that wait for it have been answered. Time never goes back: a moment that is past
    /// changes nothing.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub async fn set_time(&self, message_ms: i64) {
        self.call(move |state| state.turn(|clock| clock.set(message_ms))).await;
    }

    /// Lets message time stand still from now on (`true`), or go on with real time from where it is (`false`).
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub async fn freeze_time(&self, frozen: bool) {
        self.call(move |state| state.turn(|clock| if frozen { clock.freeze() } else { clock.unfreeze() })).await;
    }

    /// Skips message time to what is due next whenever nobody has asked for anything for 50 ms, or stops that.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub async fn skip_time(&self, skip: bool) {
        self.call(move |state| state.set_skipping(skip)).await;
    }

    /// Waits until a topic has at least `count` messages that can be consumed. Gives up after 30 s of real time.
    ///
    /// # Errors
    ///
    /// [`Unmet`] when the time is over.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub async fn wait_for_messages(&self, topic: &str, count: usize) -> Result<Vec<MessageView>, Unmet> {
        let wanted = topic.to_owned();
        let enough = move |state: &mut State| {
            let stored: u64 = state.broker().count(&wanted);
            usize::try_from(stored).unwrap_or(usize::MAX) >= count
        };
        if self.wait_until(enough).await {
            return Ok(self.views(topic));
        }
        let there = self.views(topic);
        Err(Unmet::other(format!("expected {count} messages in `{topic}`, saw {}{}", there.len(), listed(&there))))
    }

    /// Waits until a group has committed at least `count` messages of a topic, in all queues together. Gives up after
    /// 30 s of real time.
    ///
    /// # Errors
    ///
    /// [`Unmet`] when the time is over.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub async fn wait_for_consumed(&self, group: &str, topic: &str, count: u64) -> Result<(), Unmet> {
        let (group, topic) = (group.to_owned(), topic.to_owned());
        let (wanted_group, wanted_topic) = (group.clone(), topic.clone());
        if self.wait_until(move |state| state.broker().consumed(&wanted_group, &wanted_topic) >= count).await {
            return Ok(());
        }
        let view = self.group(&group);
        let queues = view.queues.iter().filter(|queue| queue.topic == topic);
        let lines: Vec<String> = queues
            .map(|queue| {
                let owner = queue.owner.as_deref().unwrap_or("nobody that is known");
                format!("\n  queue {}: committed {} of {}, read by {owner}", queue.queue, queue.committed, queue.max)
            })
            .collect();
        let members = view.members.len();
        let text = format!("expected `{group}` to have consumed {count} of `{topic}`; it has {members} members online");
        Err(Unmet::other(text + &lines.concat()))
    }

    /// Waits until a topic has a message that a closure accepts, and returns the first. Gives up after 30 s of real time.
    ///
    /// # Errors
    ///
    /// [`Unmet`], which lists the messages that are there, when the time is over.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub async fn expect_sent(&self, topic: &str, accepts: impl Fn(&MessageView) -> bool) -> Result<MessageView, Unmet> {
        let mut seen = 0;
        let search = async {
            loop {
                let changed = self.call(State::changed).await;
                let there = self.views(topic);
                if let Some(found) = there.iter().skip(seen).find(|message| accepts(message)) {
                    return found.clone();
                }
                seen = there.len();
                // The next look is due when something happens.
                let _ = changed.await;
            }
        };
        if let Some(found) = self.limited(PATIENCE, search).await {
            return Ok(found);
        }
        let there = self.views(topic);
        let text = format!("expected a message in `{topic}` that the closure accepts, saw {} others", there.len());
        Err(Unmet::other(text + &listed(&there)))
    }

    /// Waits until something is so on the broker's thread; whether it was in time.
    async fn wait_until(&self, is_so: impl Fn(&mut State) -> bool + Send + Clone + 'static) -> bool {
        let waiting = async {
            loop {
                let is_so = is_so.clone();
                let changed = self.call(move |state| if is_so(state) { None } else { Some(state.changed()) }).await;
                match changed {
                    None => return,
                    // The next look is due when something happens.
                    Some(changed) => drop(changed.await),
                }
            }
        };
        self.limited(PATIENCE, waiting).await.is_some()
    }
}

/// Messages in lines of their own.
fn listed(messages: &[MessageView]) -> String {
    let line = |message: &MessageView| {
        let tag = message.tag.as_ref().map_or(String::new(), |tag| format!(" tag={tag}"));
        let keys = if message.keys.is_empty() { String::new() } else { format!(" keys={}", message.keys.join(",")) };
        let body: String = message.text().chars().take(80).map(|c| if c.is_control() { '.' } else { c }).collect();
        format!("\n  {}/{}{tag}{keys}: {body}", message.queue, message.offset)
    };
    let mut text: String = messages.iter().take(SHOWN).map(line).collect();
    if messages.len() > SHOWN {
        text.push_str(&format!("\n  and {} more", messages.len() - SHOWN));
    }
    text
}
