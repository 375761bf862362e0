//! Sends that wait for slaves, and what a slave answers.

use super::*;
use crate::settings::Role;

fn master(compatibility: Compatibility, in_sync: usize) -> Bench {
    Bench::with(|settings| {
        (settings.compatibility, settings.role, settings.in_sync_replicas) = (compatibility, Role::SyncMaster, in_sync);
    })
}

fn try_send(bench: &mut Bench, properties: &str) -> Option<i32> {
    let fields = send_fields("orders", properties);
    bench.try_ask(A, RequestCode::SEND_MESSAGE_V2, &fields, b"body").map(|answer| answer.code)
}

fn codes(bench: &mut Bench) -> Vec<i32> {
    bench.effects().0.into_iter().map(|(_, answer)| answer.code).collect()
}

#[test]
fn without_a_slave_each_version_has_its_code() {
    for (compatibility, in_sync, at_once) in [
        (Compatibility::V4_4, 1, Some(11)),
        (Compatibility::V4_9, 1, Some(11)),
        (Compatibility::V5_3, 1, Some(0)),
        (Compatibility::V5_3, 2, None),
    ] {
        let mut bench = master(compatibility, in_sync);
        assert_eq!(try_send(&mut bench, ""), at_once, "{compatibility:?} {in_sync}");
        assert_eq!(try_send(&mut bench, "WAIT\u{1}false\u{2}"), Some(0));
        assert_eq!(bench.broker.messages("orders").len(), 2, "both are stored");
        bench.pass(Duration::from_secs(3));
        assert_eq!(codes(&mut bench), if at_once.is_none() { vec![12] } else { vec![] });
    }
}

#[test]
fn a_send_waits_until_a_slave_has_it() {
    for (compatibility, limit) in [(Compatibility::V4_4, 5), (Compatibility::V4_9, 3), (Compatibility::V5_3, 3)] {
        let mut bench = master(compatibility, 2);
        let (slave, start) = bench.broker.slave_connected(0).unwrap();
        assert_eq!(start, 0);
        assert_eq!(try_send(&mut bench, ""), None);
        let end = bench.broker.log_end() as i64;
        bench.broker.slave_has(bench.now, slave, end - 1).unwrap();
        assert!(codes(&mut bench).is_empty());
        bench.broker.slave_has(bench.now, slave, end).unwrap();
        assert_eq!(codes(&mut bench), [0]);

        assert_eq!(try_send(&mut bench, ""), None);
        bench.pass(Duration::from_secs(limit) - Duration::from_millis(1));
        assert!(codes(&mut bench).is_empty(), "{compatibility:?}");
        bench.pass(Duration::from_millis(1));
        assert_eq!(codes(&mut bench), [12], "{compatibility:?}");

        // What a slave had counts no more when it is gone.
        bench.broker.slave_disconnected(slave);
        assert_eq!(try_send(&mut bench, ""), if compatibility == Compatibility::V5_3 { None } else { Some(11) });
    }
}

#[test]
fn slaves_whose_log_does_not_fit_are_refused() {
    let mut bench = master(Compatibility::V4_9, 1);
    try_send(&mut bench, "");
    let end = bench.broker.log_end() as i64;
    assert!(bench.broker.slave_connected(-7).is_err());
    assert!(bench.broker.slave_connected(end + 1).is_err());
    let (slave, start) = bench.broker.slave_connected(end).unwrap();
    assert_eq!(start as i64, end);
    assert!(bench.broker.slave_has(bench.now, slave, end + 1).is_err());
    assert!(bench.broker.log_bytes(start).is_none());
    assert_eq!(bench.broker.log_bytes(0).unwrap().len() as i64, end);
}

#[test]
fn a_slave_serves_what_it_copied_and_refuses_the_rest() {
    for (compatibility, reads) in [(Compatibility::V4_9, false), (Compatibility::V5_3, true)] {
        let mut source = Bench::new(compatibility);
        source.send("orders", "", b"copied");
        source.send("orders", "DELAY\u{1}1\u{2}", b"delayed");
        let log = source.broker.log_bytes(0).unwrap();
        let mut slave = Bench::with(|settings| {
            (settings.compatibility, settings.role, settings.slave_read) = (compatibility, Role::Slave, reads);
        });
        let mut end = 0;
        // In parts that end within records.
        for part in log.chunks(100) {
            end = slave.broker.append_replicated(slave.now, end, part).unwrap();
        }
        assert_eq!(end, source.broker.log_end());
        assert_eq!(slave.broker.messages("orders").len(), 1);
        assert!(slave.broker.append_replicated(slave.now, end + 1, b"gap").is_err());
        slave.pass(Duration::from_secs(60));
        assert_eq!(slave.broker.messages("orders").len(), 1, "delayed messages come with the master's log");
        assert_eq!(slave.broker.log_end(), end);
        let refused = if compatibility == Compatibility::V5_3 { 2 } else { 14 };
        assert_eq!(try_send(&mut slave, ""), Some(refused));
    }
}

#[test]
fn settings_of_the_master_are_taken_over() {
    let mut master = Bench::new(Compatibility::V5_3);
    master.send("created", "", b"body");
    let offset = [("consumerGroup", "group"), ("topic", "orders"), ("queueId", "1"), ("commitOffset", "7")];
    master.broker.groups.get_or_create("group", 1);
    master.ask(A, RequestCode::UPDATE_CONSUMER_OFFSET, &offset, b"");
    let mut slave = Bench::with(|settings| settings.role = Role::Slave);
    for code in [
        RequestCode::GET_ALL_TOPIC_CONFIG,
        RequestCode::GET_ALL_CONSUMER_OFFSET,
        RequestCode::GET_ALL_DELAY_OFFSET,
        RequestCode::GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    ] {
        let answer = master.ask(A, code, &[], b"");
        assert_eq!(answer.code, 0, "{code}");
        slave.broker.take_over(slave.now, code, &answer.body).unwrap();
    }
    assert_eq!(slave.broker.topics.get("created"), master.broker.topics.get("created"));
    assert!(slave.broker.topics.get("created").is_some() && slave.broker.groups.get("group").is_some());
    assert_eq!(slave.broker.offsets.get("group", "orders", 1), Some(7));
    assert!(slave.broker.take_over(slave.now, RequestCode::GET_ALL_TOPIC_CONFIG, b"no JSON").is_err());
}
