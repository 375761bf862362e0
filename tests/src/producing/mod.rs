//! What our producer must do on any broker, beside plain sends.

mod forms;
mod requests;
mod transactions;
mod watching;

pub use forms::*;
pub use requests::*;
pub use transactions::*;
pub use watching::*;

use std::time::Duration;

use rocketmq_native::{Client, ConsumeFrom, MessageView, PushConsumer};
use tokio::{sync::mpsc, time};

use crate::server::Server;

/// How long anything may take that a test waits for.
const LIMIT: Duration = Duration::from_secs(150);

/// Makes a test of each scenario of a producer, on one server.
#[macro_export]
macro_rules! producing {
    ($module:ident: $server:expr; $($scenario:ident),+ $(,)?) => {
        mod $module {
            #[allow(unused_imports, reason = "what the expressions need")]
            use super::*;
            $(
                #[test]
                fn $scenario() {
                    let (sender, receiver) = ($crate::party::ours(), $crate::party::ours());
                    let cast = $crate::scenario::Cast { server: &$server, sender, receiver };
                    $crate::scenario::run(cast, |cast| $crate::producing::$scenario(cast.server));
                }
            )+
        }
    };
}

async fn connect(server: &Server) -> Client {
    Client::builder(server.name_server()).connect().await.expect("the client connects")
}

fn topic(server: &Server, name: &str, queues: u32) -> String {
    let topic = server.name(name);
    server.create_topic(&topic, queues);
    topic
}

/// Awaits what a test needs, within [`LIMIT`].
async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match time::timeout(LIMIT, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what}: not within {LIMIT:?}"),
    }
}

/// A consumer of all that is sent to a topic.
struct Reader {
    consumer: PushConsumer,
    messages: mpsc::UnboundedReceiver<MessageView>,
}

impl Reader {
    async fn start(client: &Client, server: &Server, topic: &str) -> Self {
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

    async fn next(&mut self) -> MessageView {
        within("a message", self.messages.recv()).await.expect("the consumer runs")
    }

    /// The text of the next `count` bodies, sorted.
    async fn bodies(&mut self, count: usize) -> Vec<String> {
        let mut bodies = Vec::new();
        while bodies.len() < count {
            bodies.push(text(&self.next().await));
        }
        bodies.sort();
        bodies
    }

    /// Stops and returns the bodies that nobody waited for.
    async fn stop(mut self) -> Vec<String> {
        self.consumer.shutdown().await.expect("the consumer shuts down");
        let mut rest = Vec::new();
        while let Ok(message) = self.messages.try_recv() {
            rest.push(text(&message));
        }
        rest
    }
}

fn text(message: &MessageView) -> String {
    String::from_utf8(message.body().to_vec()).expect("the body is text")
}
