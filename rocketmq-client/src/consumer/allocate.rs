//! Which queues of a topic a member of a group reads: the average strategy.
//!
//! Every member computes the whole allocation for itself, whatever its language, so the result has to be the one of
//! Java's `AllocateMessageQueueAveragely` to the last queue: a member that rounds or sorts in another way leaves queues
//! unread or reads them twice.

use std::cmp::Ordering;
use std::ops::Range;

use crate::message::MessageQueue;

/// The queues that `own_id` reads when the members `client_ids` share `queues`, both sorted by the functions below.
///
/// A client that is not among the members, as one whose heartbeat has not arrived, reads nothing: the others have
/// shared the queues among themselves.
pub(crate) fn average(own_id: &str, client_ids: &[String], mut queues: Vec<MessageQueue>) -> Vec<MessageQueue> {
    let Some(own_index) = client_ids.iter().position(|id| id == own_id) else { return Vec::new() };
    let share = share(queues.len(), client_ids.len(), own_index);
    queues.drain(share).collect()
}

/// Sorts members as every member does before it allocates.
pub(crate) fn sort_client_ids(client_ids: &mut [String]) {
    client_ids.sort_by(|a, b| java_order(a, b));
}

/// Sorts queues as every member does before it allocates.
pub(crate) fn sort_queues(queues: &mut [MessageQueue]) {
    queues.sort_by(|a, b| {
        java_order(a.topic(), b.topic())
            .then_with(|| java_order(a.broker(), b.broker()))
            .then_with(|| a.id().cmp(&b.id()))
    });
}

/// The part of `queues` sorted queues that belongs to the member at `index`: the first ones get one more when the
/// queues cannot be shared evenly.
fn share(queues: usize, members: usize, index: usize) -> Range<usize> {
    let (each, left_over) = (queues / members, queues % members);
    let start = index * each + index.min(left_over);
    start..start + each + usize::from(index < left_over)
}

/// Compares as Java's `String.compareTo` does: by UTF-16 units, which puts characters beyond the basic plane before
/// those at its end.
fn java_order(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Computed by Apache's own class, releases 4.9.7 and 5.3.3.
    const GOLDEN: &str = include_str!("../../tests/golden/allocate_average.jsonl");

    fn queue(text: &str) -> MessageQueue {
        let (broker, id) = text.split_once(':').expect("broker:queue");
        MessageQueue::new("TopicTest", broker, id.parse().expect("a number"))
    }

    fn strings(list: &Value) -> Vec<String> {
        let items = list.as_array().into_iter().flatten();
        items.map(|item| item.as_str().expect("text").to_owned()).collect()
    }

    fn queues(list: &Value) -> Vec<MessageQueue> {
        strings(list).iter().map(|text| queue(text)).collect()
    }

    #[test]
    fn allocates_as_java_does() {
        let mut rows = 0;
        for line in GOLDEN.lines() {
            let row: Value = serde_json::from_str(line).expect("a row of JSON");
            let (client_ids, queues) = (strings(&row["cids"]), queues(&row["queues"]));
            // Where Java throws because of an empty list or id, there is nothing to read.
            let expected = if row["result"].is_array() { self::queues(&row["result"]) } else { Vec::new() };
            assert_eq!(average(row["cid"].as_str().unwrap_or_default(), &client_ids, queues), expected, "{line}");
            rows += 1;
        }
        assert_eq!(rows, 158);
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

    proptest! {
        #[test]
        fn every_queue_has_exactly_one_reader(queues in 0usize..40, members in 1usize..12) {
            let all: Vec<_> = (0..queues as i32).map(|id| queue(&format!("b:{id}"))).collect();
            let ids: Vec<_> = (0..members).map(|id| format!("client-{id}")).collect();
            let mut read: Vec<_> = ids.iter().flat_map(|id| average(id, &ids, all.clone())).collect();
            read.sort_by_key(MessageQueue::id);
            prop_assert_eq!(read, all);
        }

        #[test]
        fn a_stranger_reads_nothing(queues in 0i32..40) {
            let all: Vec<_> = (0..queues).map(|id| queue(&format!("b:{id}"))).collect();
            prop_assert!(average("stranger", &["member".to_owned()], all.clone()).is_empty());
            prop_assert!(average("stranger", &[], all).is_empty());
        }
    }
}
