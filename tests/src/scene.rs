//! What the scenarios of our client share: a client, a topic, a limit, a reader.

use std::time::Duration;

use rocketmq_native::{Client, ConsumeFrom, MessageView, PushConsumer};
use tokio::{sync::mpsc, time};

use crate::server::Server;

/// How long anything may take that a test waits for: far longer than it does.
pub(crate) const LIMIT: Duration = Duration::from_secs(150);

/// Makes a test of each scenario of a module of this crate, on one server.
#[macro_export]
macro_rules! on_server {
    ($family:ident, $module:ident: $server:expr; $($scenario:ident),+ $(,)?) => {
        mod $module {
            #[allow(unused_imports, reason = "what the expressions need")]
            use super::*;
            $(
                #[test]
                fn $scenario() {
                    let (sender, receiver) = ($crate::party::ours(), $crate::party::ours());
                    let cast = $crate::scenario::Cast { server: &$server, sender, receiver };
                    $crate::scenario::run(cast, |cast| $crate::$family::$scenario(cast.server));
                }
            )+
        }
    };
}

pub(crate) async fn connect(server: &Server) -> Client {
    let builder = Client::builder(server.name_server()).namespace(server.namespace());
    builder.connect().await.expect("the client connects")
}

/// Creates a topic with a name of its own.
pub(crate) fn topic(server: &Server, name: &str, queues: u32) -> String {
    let topic = server.name(name);
    server.create_topic(&topic, queues);
    topic
}

/// Awaits what a test needs, within [`LIMIT`].
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match time::timeout(LIMIT, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what}: not within {LIMIT:?}"),
    }
}

/// Asks again and again until there is an answer, within [`LIMIT`].
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            time::sleep(Duration::from_millis(100)).await;
        }
    };
    within(what, asking).await
}

pub(crate) fn text(message: &MessageView) -> String {
    String::from_utf8(message.body().to_vec()).expect("the body is text")
}

pub(crate) async fn shut_down(consumer: PushConsumer) {
    consumer.shutdown().await.expect("the consumer shuts down");
}

/// A consumer of all that is sent to a topic.
pub(crate) struct Reader {
    consumer: PushConsumer,
    messages: mpsc::UnboundedReceiver<MessageView>,
}

impl Reader {
    pub(crate) async fn start(client: &Client, server: &Server, topic: &str) -> Self {
        let (arrived, messages) = mpsc::unbounded_channel();
        let starting =
            client.push_consumer(server.name("reader")).subscribe(topic, "*").consume_from(ConsumeFrom::First).start(
                move |message: MessageView| {
                    // The test may have seen enough.
                    let _ = arrived.send(message);
                    async {}
                },
            );
        Self { consumer: starting.await.expect("the consumer starts"), messages }
    }

    pub(crate) async fn next(&mut self) -> MessageView {
        within("a message", self.messages.recv()).await.expect("the consumer runs")
    }

    /// The text of the next `count` bodies, sorted.
    pub(crate) async fn bodies(&mut self, count: usize) -> Vec<String> {
        let mut bodies = Vec::new();
        while bodies.len() < count {
            bodies.push(text(&self.next().await));
        }
        bodies.sort();
        bodies
    }

    /// Stops and returns the bodies that nobody waited for.
    pub(crate) async fn stop(mut self) -> Vec<String> {
        self.consumer.shutdown().await.expect("the consumer shuts down");
        let mut rest = Vec::new();
        while let Ok(message) = self.messages.try_recv() {
            rest.push(text(&message));
        }
        rest
    }
}
