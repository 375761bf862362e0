//! Against what Apache's own classes compute, releases 4.9.7 and 5.3.3.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

const GOLDEN: &str = include_str!("../../../tests/golden/allocate.jsonl");

fn queue(text: &str) -> MessageQueue {
    let (broker, id) = text.rsplit_once(':').expect("broker:queue");
    MessageQueue::new("TopicTest", broker, id.parse().expect("a number"))
}

fn strings(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.map(|item| item.as_str().expect("text").to_owned()).collect()
}

fn queues(list: &Value) -> Vec<MessageQueue> {
    strings(list).iter().map(|text| queue(text)).collect()
}

/// The room is what comes before the first minus sign.
struct Prefix;

impl MachineRoomResolver for Prefix {
    fn of_broker(&self, queue: &MessageQueue) -> String {
        self.of_client(queue.broker())
    }

    fn of_client(&self, client_id: &str) -> String {
        client_id.split('-').next().unwrap_or_default().to_owned()
    }
}

fn strategy(row: &Value) -> Box<dyn AllocateStrategy> {
    match row["strategy"].as_str().expect("a name") {
        "AVG" => Box::new(Average),
        "AVG_BY_CIRCLE" => Box::new(AverageByCircle),
        "CONFIG" => Box::new(Configured::new(queues(&row["config"]))),
        "CONSISTENT_HASH" => Box::new(ConsistentHash::new(row["vnodes"].as_u64().expect("a number") as usize)),
        "MACHINE_ROOM" => Box::new(MachineRoom::new(strings(&row["rooms"]))),
        "MACHINE_ROOM_NEARBY-AVG" => Box::new(MachineRoomNearby::new(Prefix)),
        "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE" => Box::new(MachineRoomNearby::new(Prefix).within_rooms(AverageByCircle)),
        other => panic!("a strategy of another release: {other}"),
    }
}

#[test]
fn allocates_as_java_does() {
    let (mut rows, mut refused) = (0, 0);
    for line in GOLDEN.lines() {
        let row: Value = serde_json::from_str(line).expect("a row of JSON");
        let strategy = strategy(&row);
        assert_eq!(Value::from(strategy.name()), row["strategy"]);
        let (ids, all) = (strings(&row["cids"]), queues(&row["queues"]));
        let own_id = row["cid"].as_str().unwrap_or_default();
        let ours = strategy.allocate("CG_Test", own_id, &ids, &all);
        match row["result"].as_str() {
            // A consumer never shares out without members, queues or an id of its own, which Java checks here.
            Some(_) if own_id.is_empty() || ids.is_empty() || all.is_empty() => {
                assert_eq!(ours.unwrap_or_default(), [], "{line}");
            }
            Some(_) => {
                ours.expect_err(line);
                refused += 1;
            }
            None => assert_eq!(ours.expect(line), queues(&row["result"]), "{line}"),
        }
        rows += 1;
    }
    assert_eq!((rows, refused), (748, 4));
}

#[test]
fn sorts_ids_and_names_as_java_does() {
    assert_eq!(java_order("\u{1F600}", "\u{FF5E}"), Ordering::Less);
    assert_eq!(java_order("Z", "a"), Ordering::Less);
    let mut ids = ["10.0.0.1@2".to_owned(), "10.0.0.1@10".to_owned(), "10.0.0.1@1".to_owned()];
    sort_client_ids(&mut ids);
    assert_eq!(ids, ["10.0.0.1@1", "10.0.0.1@10", "10.0.0.1@2"]);
    let mut queues = ["b:10", "b:2", "B:3", "a:11"].map(queue);
    sort_queues(&mut queues);
    assert_eq!(queues, ["B:3", "a:11", "b:2", "b:10"].map(queue));
}

fn all_strategies() -> Vec<Box<dyn AllocateStrategy>> {
    vec![
        Box::new(Average),
        Box::new(AverageByCircle),
        Box::new(ConsistentHash::default()),
        Box::new(MachineRoomNearby::new(Prefix)),
        Box::new(MachineRoom::new(["b"])),
    ]
}

proptest! {
    #[test]
    fn every_queue_has_exactly_one_reader(queues in 0usize..40, members in 1usize..12) {
        let all: Vec<_> = (0..queues as i32).map(|id| queue(&format!("b@x:{id}"))).collect();
        let ids: Vec<_> = (0..members).map(|id| format!("client-{id}")).collect();
        for strategy in all_strategies() {
            let mut read: Vec<_> =
                ids.iter().flat_map(|id| strategy.allocate("g", id, &ids, &all).expect("shared")).collect();
            read.sort_by_key(MessageQueue::id);
            prop_assert_eq!(&read, &all, "{:?}", strategy);
        }
    }

    #[test]
    fn a_stranger_reads_nothing(queues in 0i32..40) {
        let all: Vec<_> = (0..queues).map(|id| queue(&format!("b@x:{id}"))).collect();
        for strategy in all_strategies() {
            for members in [&["member".to_owned()][..], &[]] {
                prop_assert!(strategy.allocate("g", "stranger", members, &all).expect("shared").is_empty());
            }
        }
    }
}
