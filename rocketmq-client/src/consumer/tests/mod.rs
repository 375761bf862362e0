//! Whole consumers against a broker in memory, on time that the tests turn.

mod balance;
mod changes;
mod delivery;
mod drops;
mod fake_broker;
mod offsets;
mod order;
mod requests;
mod slaves;
mod timing;
mod trouble;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake_broker::FakeBroker;

use super::{MessageView, PushConsumer, PushConsumerBuilder};
use crate::client::Client;
use crate::env::{Env, ManualClock};
use crate::transport::MemoryNetwork;

const GROUP: &str = "billing";
const TOPIC: &str = "orders";

/// A broker, the clock, and what handlers saw.
struct Fixture {
    env: Env,
    clock: ManualClock,
    broker: FakeBroker,
    handled: Handled,
}

impl Fixture {
    /// With the topic on so many queues.
    fn new(queues: i32) -> Self {
        let network = MemoryNetwork::default();
        let (env, clock) = Env::manual(7, Arc::new(network.clone())).expect("inside a runtime");
        let broker = FakeBroker::start(&env, &network);
        broker.create_topic(TOPIC, queues);
        Self { env, clock, broker, handled: Handled::default() }
    }

    async fn client(&self) -> Client {
        let connecting = Client::builder(fake_broker::NAME_SERVER).env(self.env.clone()).connect();
        connecting.await.expect("the name server answers")
    }

    /// A consumer of everything in the topic, from its first message on.
    async fn builder(&self) -> PushConsumerBuilder {
        let builder = self.client().await.push_consumer(GROUP);
        builder.subscribe(TOPIC, "*").consume_from(super::ConsumeFrom::First)
    }

    /// Such a consumer, whose handler notes each message and succeeds.
    async fn consumer(&self) -> PushConsumer {
        let handled = self.handled.clone();
        let handler = move |message: MessageView| {
            let handled = handled.clone();
            async move { handled.note(&message) }
        };
        self.builder().await.start(handler).await.expect("the broker answers")
    }

    /// Turns time on in small steps until something is so; it must be within so much time.
    async fn until(&self, limit: Duration, what: &str, is_so: impl Fn() -> bool) {
        const STEP: Duration = Duration::from_millis(20);
        let deadline = self.env.now() + limit;
        while !is_so() {
            assert!(self.env.now() < deadline, "after {limit:?} it is not so that {what}");
            self.clock.advance(STEP).await;
        }
    }

    /// Lets a future run while time goes on.
    async fn drive<F: Future>(&self, future: F) -> F::Output {
        tokio::pin!(future);
        loop {
            tokio::select! {
                biased;
                output = &mut future => return output,
                () = self.clock.advance(Duration::from_millis(20)) => {}
            }
        }
    }
}

/// Which messages handlers saw: by key, how often each was delivered before.
#[derive(Clone, Default)]
struct Handled(Arc<Mutex<BTreeMap<String, Vec<u32>>>>);

impl Handled {
    fn note(&self, message: &MessageView) {
        let key = message.keys().next().expect("the tests give keys").to_owned();
        self.lock().entry(key).or_default().push(message.reconsume_times());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Vec<u32>>> {
        self.0.lock().expect("no handler panics in here")
    }

    /// Different messages seen.
    fn count(&self) -> usize {
        self.lock().len()
    }

    /// How often a message had been delivered before, each time it was.
    fn deliveries(&self, key: &str) -> Vec<u32> {
        self.lock().get(key).cloned().unwrap_or_default()
    }

    fn assert_each_once(&self, count: usize) {
        let seen = self.lock();
        assert_eq!(seen.len(), count);
        assert!(seen.values().all(|deliveries| deliveries.len() == 1), "some came twice: {seen:?}");
    }
}
