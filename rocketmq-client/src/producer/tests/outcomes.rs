//! What a send comes to, for everything that a broker may do: always one outcome, and the right one.

use rocketmq_wire::RemotingCommand;

use super::*;

async fn with_retries(scripted: &Scripted, retries: u32) -> Producer {
    let client = scripted.client().await;
    let builder = client.producer("g").topic("t").retries(retries).attempt_timeout(Duration::from_secs(1));
    builder.start().await.expect("a good group")
}

/// The good answer to a send.
fn good(request: &RemotingCommand) -> RemotingCommand {
    match stored(request, ResponseCode::SUCCESS) {
        Reaction::Answer(answer) => answer,
        _ => unreachable!("a stored message is answered"),
    }
}

#[tokio::test]
async fn every_response_code_has_its_outcome() {
    use ErrorKind::{Busy, InvalidArgument, NoRoute, NotFound, NotPermitted, Rejected, Unauthenticated, Unsupported};
    let scripted = Scripted::start(2);
    let producer = with_retries(&scripted, 2).await;
    // Code, kind, attempts out of three.
    for (code, kind, attempts) in [
        (1, Rejected, 3),
        (2, Busy, 3),
        (3, Unsupported, 1),
        (4, Rejected, 1),
        (13, InvalidArgument, 1),
        (14, Busy, 3),
        (15, Unsupported, 1),
        (16, NotPermitted, 3),
        (17, NoRoute, 3),
        (18, Rejected, 1),
        (22, NotFound, 1),
        (23, InvalidArgument, 1),
        (26, NotFound, 1),
        (29, InvalidArgument, 1),
        (200, Rejected, 1),
        (204, Rejected, 3),
        (205, Rejected, 3),
        (206, NotFound, 1),
        (208, NotFound, 1),
        (209, Busy, 1),
        (211, NotFound, 1),
        (215, Busy, 3),
        (501, Rejected, 1),
        (604, NotPermitted, 1),
        (3001, Unauthenticated, 1),
        (-1000, Rejected, 1),
        (77_777, Rejected, 1),
    ] {
        let before: usize = scripted.sends().iter().sum();
        refuse_first(&scripted, usize::MAX, ResponseCode(code));
        let error = producer.send(message()).await.expect_err("refused");
        assert_eq!((error.kind(), error.response_code()), (kind, Some(code)), "{error}");
        assert_eq!((error.outcome(), Attempts::of(&error).len()), (Outcome::Refused, attempts), "{error}");
        assert_eq!(scripted.sends().iter().sum::<usize>() - before, attempts, "{code}");
        assert!(error.to_string().contains(&code.to_string()), "{error}");
    }
    for code in [10, 11, 12] {
        scripted.on_send(0, move |request| stored(request, ResponseCode(code)));
        scripted.on_send(1, move |request| stored(request, ResponseCode(code)));
        let receipt = producer.send(message()).await.expect("a receipt");
        assert_ne!(receipt.status(), SendStatus::Ok, "{code}");
    }
    nothing_is_left(&scripted, &producer).await;
}

#[tokio::test]
async fn an_answer_cut_at_any_byte_is_no_outcome_of_its_own() {
    let whole = {
        let scripted = Scripted::start(1);
        let producer = with_retries(&scripted, 0).await;
        producer.send(message()).await.expect("stored");
        let send = &scripted.brokers[0].requests(RequestCode::SEND_MESSAGE_V2)[0];
        good(send).to_bytes().expect("fits a frame").len()
    };
    for length in 0..=whole + 4 {
        let scripted = Scripted::start(1);
        scripted.on_send(0, move |request| Reaction::Cut(good(request), length));
        let result = with_retries(&scripted, 0).await.send(message()).await;
        // Digits of the number of the request may make an answer longer than the first was.
        match result {
            Ok(receipt) => assert!(length >= whole - 4 && receipt.queue_offset() == 7, "{length} of {whole}"),
            Err(error) => {
                assert!(length < whole + 4, "{length} of {whole}: {error}");
                assert_eq!((error.kind(), error.outcome()), (ErrorKind::Connection, Outcome::Unknown), "{error}");
                assert_eq!(Attempts::of(&error).len(), 1);
            }
        }
        assert_eq!(scripted.sends(), [1]);
    }
}

#[tokio::test]
async fn a_cut_answer_is_followed_by_another_broker() {
    let scripted = Scripted::start(2);
    let producer = with_retries(&scripted, 2).await;
    scripted.on_send(0, |request| Reaction::Cut(good(request), 9));
    for _ in 0..2 {
        let receipt = producer.send(message()).await.expect("stored at the other");
        assert_eq!(receipt.queue().broker(), "b");
    }
}

#[tokio::test]
async fn answers_that_make_no_sense_are_protocol_errors_or_followed_by_another_attempt() {
    let scripted = Scripted::start(2);
    // The length of the frame is fine, what is in it is not.
    scripted.on_send(0, |request| {
        let answer = RemotingCommand { remark: Some("x".repeat(100)), ..good(request) };
        Reaction::Cut(answer, 30)
    });
    let producer = with_retries(&scripted, 2).await;
    for _ in 0..2 {
        producer.send(message()).await.expect("stored at the other");
    }
    let once = with_retries(&scripted, 0).await;
    let mut kinds = BTreeSet::new();
    for _ in 0..2 {
        kinds.insert(format!("{:?}", once.send(message()).await.map(drop).map_err(|error| error.kind())));
    }
    assert!(kinds.contains("Ok(())"), "{kinds:?}");
}

#[tokio::test]
async fn a_slow_answer_comes_too_late_and_changes_nothing() {
    let scripted = Scripted::start(2);
    scripted.on_send(0, |request| Reaction::Held(good(request)));
    let producer = with_retries(&scripted, 2).await;
    let sending: Vec<_> = (0..20)
        .map(|_| {
            let producer = producer.clone();
            scripted.env.spawn(async move { producer.send(message()).await })
        })
        .collect();
    scripted.clock.advance(Duration::from_millis(1200)).await;
    scripted.brokers[0].release().await;
    scripted.clock.advance(Duration::from_millis(10)).await;
    let mut outcomes = 0;
    for send in sending {
        let receipt = send.await.expect("not cancelled").expect("stored at the other");
        assert_eq!(receipt.queue().broker(), "b");
        outcomes += 1;
    }
    assert_eq!(outcomes, 20);
    // An answer within the time of its attempt is the outcome.
    let sending = scripted.env.spawn({
        let producer = producer.clone();
        async move { producer.send_with(message(), SendOptions::new().queue(MessageQueue::new("t", "a", 0))).await }
    });
    scripted.clock.advance(Duration::from_millis(900)).await;
    scripted.brokers[0].release().await;
    let receipt = sending.await.expect("not cancelled").expect("in time");
    assert_eq!(receipt.queue().broker(), "a");
    nothing_is_left(&scripted, &producer).await;
}

#[tokio::test]
async fn silence_everywhere_is_a_timeout_of_unknown_outcome() {
    let scripted = Scripted::start(2);
    for index in 0..2 {
        scripted.on_send(index, |_| Reaction::Silence);
    }
    let producer = with_retries(&scripted, 2).await;
    let sending = scripted.env.spawn({
        let producer = producer.clone();
        async move { producer.send(message()).await }
    });
    scripted.clock.advance(Duration::from_secs(4)).await;
    let error = sending.await.expect("not cancelled").expect_err("no answer");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::Unknown));
    let brokers: Vec<_> = Attempts::of(&error).iter().map(|attempt| attempt.queue().broker().to_owned()).collect();
    assert_eq!(brokers.len(), 3);
    assert!(brokers[0] != brokers[1] && brokers[1] != brokers[2], "{brokers:?}");
    nothing_is_left(&scripted, &producer).await;
}

#[tokio::test]
async fn a_broker_that_vanishes_mid_retry_is_one_more_failed_attempt() {
    let mut scripted = Scripted::start(2);
    let producer = with_retries(&scripted, 3).await;
    producer.send(message()).await.expect("stored");
    // The one is slow to say that it is busy, and gone by then for good.
    scripted.on_send(0, |_| Reaction::HangUp);
    scripted.on_send(1, |_| Reaction::HangUp);
    let gone = scripted.brokers.remove(0);
    drop(gone);
    let error = producer.send(message()).await.expect_err("nobody is left");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Connection, Outcome::Unknown), "{error}");
    assert!((2..=4).contains(&Attempts::of(&error).len()), "{error}");
    scripted.on_send(0, |request| stored(request, ResponseCode::SUCCESS));
    scripted.clock.advance(Duration::from_secs(2)).await;
    producer.send(message()).await.expect("stored at the one that came back");
}

/// Answers of every kind, to many sends at the same time: each has one outcome, and what is a receipt was stored.
#[tokio::test]
async fn no_send_has_two_outcomes_or_none() {
    let scripted = Scripted::start(2);
    let stored_ids = Arc::new(Mutex::new(BTreeSet::new()));
    let number = Arc::new(AtomicUsize::new(0));
    for index in 0..2 {
        let (stored_ids, number) = (Arc::clone(&stored_ids), Arc::clone(&number));
        scripted.on_send(index, move |request| {
            let id = Properties::from(request.field("i").expect("properties")).value("UNIQ_KEY").map(str::to_owned);
            let reaction = match number.fetch_add(1, Ordering::Relaxed) % 7 {
                0 => return answer(request, ResponseCode::SYSTEM_ERROR),
                1 => return answer(request, ResponseCode::MESSAGE_ILLEGAL),
                2 => return Reaction::Silence,
                3 => Reaction::Cut(good(request), 20),
                4 => Reaction::Held(good(request)),
                _ => stored(request, ResponseCode::SUCCESS),
            };
            stored_ids.lock().expect("not poisoned").extend(id);
            reaction
        });
    }
    let producer = with_retries(&scripted, 1).await;
    let sending: Vec<_> = (0..300)
        .map(|_| {
            let producer = producer.clone();
            scripted.env.spawn(async move { producer.send(message()).await })
        })
        .collect();
    for _ in 0..60 {
        scripted.clock.advance(Duration::from_millis(100)).await;
    }
    let (mut receipts, mut failures) = (0, 0);
    for send in sending {
        assert!(send.is_finished(), "every send ends within its time");
        match send.await.expect("not cancelled") {
            Ok(receipt) => {
                let was_stored = stored_ids.lock().expect("not poisoned").contains(receipt.message_id());
                assert!(was_stored, "{receipt:?}");
                receipts += 1;
            }
            Err(error) => {
                assert!(!Attempts::of(&error).is_empty(), "{error}");
                failures += 1;
            }
        }
    }
    assert_eq!(receipts + failures, 300);
    assert!(receipts > 0 && failures > 0, "{receipts} and {failures}");
    for broker in &scripted.brokers {
        broker.react(scripted::broker);
    }
    scripted.clock.advance(Duration::from_secs(2)).await;
    nothing_is_left(&scripted, &producer).await;
}
