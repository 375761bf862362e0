//! Code of the application around each send.

use super::batches::store_batches;
use super::*;
use crate::producer::{SendInterceptor, Sent};

/// Writes down what it sees, marks messages with its name, and refuses bodies that say so.
struct Scribe {
    name: &'static str,
    log: Arc<Mutex<Vec<String>>>,
}

impl Scribe {
    fn write(&self, what: String) {
        self.log.lock().expect("not poisoned").push(format!("{} {what}", self.name));
    }
}

impl SendInterceptor for Scribe {
    fn before(&self, message: Message) -> Result<Message> {
        let seen = message.value("mark").unwrap_or("none").to_owned();
        self.write(format!("before {seen}"));
        if &message.body()[..] == b"refuse" {
            return Err(Error::new(ErrorKind::NotPermitted, "not this one"));
        }
        Ok(message.property("mark", self.name))
    }

    fn after(&self, sent: &Sent<'_>) {
        let mark = sent.message().value("mark").unwrap_or("none").to_owned();
        let outcome = match (sent.receipt(), sent.error()) {
            (Some(receipt), None) => format!("offset {}", receipt.queue_offset()),
            (None, Some(error)) => format!("{:?}", error.kind()),
            _ => "nothing".to_owned(),
        };
        self.write(format!("after {mark} {outcome}"));
    }
}

async fn start(scripted: &Scripted) -> (Producer, Arc<Mutex<Vec<String>>>) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let scribe = |name| Scribe { name, log: Arc::clone(&log) };
    let builder = scripted.client().await.producer("g").retries(0);
    let producer = builder.interceptor(scribe("one")).interceptor(scribe("two")).start().await.expect("a good group");
    (producer, log)
}

fn taken(log: &Mutex<Vec<String>>) -> Vec<String> {
    std::mem::take(&mut *log.lock().expect("not poisoned"))
}

#[tokio::test]
async fn interceptors_see_every_send_in_their_order() {
    let scripted = Scripted::start(1);
    let (producer, log) = start(&scripted).await;
    producer.send(message()).await.expect("stored");
    assert_eq!(taken(&log), ["one before none", "two before one", "one after two offset 7", "two after two offset 7"]);
    let sends = scripted.brokers[0].requests(RequestCode::SEND_MESSAGE_V2);
    let properties = Properties::from(sends[0].field("i").expect("properties"));
    assert_eq!((properties.value("mark"), properties.value("TAGS")), (Some("two"), Some("x")));

    producer.send_one_way(message()).await.expect("handed over");
    assert_eq!(taken(&log)[2..], ["one after two nothing", "two after two nothing"]);
    producer.flush().await;
    refuse_first(&scripted, 1, ResponseCode::SYSTEM_BUSY);
    producer.send_with(message(), SendOptions::new().key("k")).await.expect_err("refused");
    assert_eq!(taken(&log)[2..], ["one after two Busy", "two after two Busy"]);
    // What is compressed is seen plain.
    producer.send(Message::new("t", vec![b'x'; 10_000])).await.expect("stored");
    assert_eq!(taken(&log).len(), 4);
}

#[tokio::test]
async fn a_refusal_ends_the_send_and_later_ones_do_not_see_it() {
    let scripted = Scripted::start(1);
    let (producer, log) = start(&scripted).await;
    let error = producer.send(Message::new("t", "refuse")).await.expect_err("refused");
    assert_eq!(
        (error.kind(), error.outcome(), error.operation()),
        (ErrorKind::NotPermitted, Outcome::NotSent, Some("send"))
    );
    assert_eq!(taken(&log), ["one before none", "one after none NotPermitted"]);
    let error = producer.send_one_way(Message::new("t", "refuse")).await.expect_err("refused");
    assert_eq!(error.operation(), Some("send one-way"));
    taken(&log);
    let error = producer.send_batch([message(), Message::new("t", "refuse"), message()]).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NotPermitted);
    let after = ["one after two NotPermitted", "two after two NotPermitted", "one after none NotPermitted"];
    assert_eq!(taken(&log)[3..], after);
    assert_eq!(scripted.sends(), [0]);
}

#[tokio::test]
async fn each_message_of_a_batch_is_seen() {
    let scripted = Scripted::start(1);
    store_batches(&scripted);
    let (producer, log) = start(&scripted).await;
    producer.send_batch([message(), message()]).await.expect("stored");
    let log = taken(&log);
    assert_eq!(log.len(), 8);
    assert_eq!(
        log[4..],
        ["one after two offset 7", "two after two offset 7", "one after two offset 8", "two after two offset 8"]
    );
}
