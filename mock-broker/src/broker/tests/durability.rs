//! Answers that wait until messages are on disk.

use std::sync::mpsc;

use super::*;

fn on_disk(directory: &tempfile::TempDir) -> Bench {
    Bench::with(|settings| {
        settings.store = Some(directory.path().join("store"));
        settings.commit_log_file_size = Some(1 << 20);
        settings.flush_sync = true;
    })
}

fn code(answers: &[Answer]) -> Vec<i32> {
    answers.iter().map(|(_, answer)| answer.code).collect()
}

#[test]
fn sends_are_answered_when_the_disk_has_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = on_disk(&directory);
    let (wake, woken) = mpsc::channel();
    bench.broker.wake_with(move || wake.send(()).unwrap());
    for from in [A, B] {
        let answer = bench.handle(from, RequestCode::SEND_MESSAGE_V2, &send_fields("orders", ""), b"body");
        assert!(answer.is_none());
    }
    let fields = send_fields("orders", "WAIT\u{1}false\u{2}");
    let at_once = bench.handle(B, RequestCode::SEND_MESSAGE_V2, &fields, b"body").expect("this one does not wait");
    assert_eq!(at_once.code, 0);
    bench.broker.answer_safe(bench.now);
    assert!(bench.effects().0.is_empty(), "nothing is flushed yet");

    bench.broker.settle(bench.now);
    woken.recv().unwrap();
    bench.broker.answer_safe(bench.now);
    let (answers, _) = bench.effects();
    assert_eq!(code(&answers), [0, 0]);
    assert_eq!(answers.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [A, B]);
    let offset = |(_, answer): &Answer| answer.field("queueOffset").map(str::to_owned);
    assert_eq!(answers.iter().map(offset).collect::<Vec<_>>(), [Some("0".to_owned()), Some("1".to_owned())]);
    assert_eq!(bench.broker.messages("orders").len(), 3);
    assert!(woken.try_recv().is_err(), "one flush for both");
}

#[test]
fn a_slow_disk_is_not_waited_for_longer_than_the_limit() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = on_disk(&directory);
    // Not settled, so that nobody asks the disk.
    assert!(bench.handle(A, RequestCode::SEND_MESSAGE_V2, &send_fields("orders", ""), b"body").is_none());
    bench.now.session += Duration::from_millis(4999);
    bench.broker.answer_safe(bench.now);
    assert!(bench.effects().0.is_empty());
    assert_eq!(bench.broker.next_session_event().min(Duration::from_secs(6)), Duration::from_secs(5));
    bench.now.session += Duration::from_millis(1);
    bench.broker.answer_safe(bench.now);
    let (answers, _) = bench.effects();
    assert_eq!(code(&answers), [10], "FLUSH_DISK_TIMEOUT");
    assert_eq!(answers[0].1.field("queueOffset"), Some("0"), "it is stored");
    bench.broker.settle(bench.now);
    assert_eq!(bench.broker.messages("orders").len(), 1);
}

#[test]
fn in_memory_there_is_nothing_to_wait_for() {
    let mut bench = Bench::with(|settings| settings.flush_sync = true);
    assert_eq!(bench.send("orders", "", b"body").code, 0);
}
