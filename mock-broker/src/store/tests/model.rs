//! Any sequence of operations leaves what a simple model says: for each queue a list of bodies.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use rocketmq_wire::message::batch::BatchElement;

use crate::store::test_support::*;
use crate::store::{PutMessage, Store};

#[derive(Debug, Clone)]
enum Operation {
    Put {
        topic: usize,
        queue_id: i32,
        length: usize,
    },
    Batch {
        topic: usize,
        queue_id: i32,
        lengths: Vec<usize>,
    },
    Dispatch,
    /// Closed and opened; a store in memory goes on.
    Close,
    /// Dropped as by a kill, and opened; a store in memory goes on.
    Kill,
}

const TOPICS: [&str; 2] = ["A", "%RETRY%B"];

fn operation() -> impl Strategy<Value = Operation> {
    let place = (0..TOPICS.len(), 0..3);
    prop_oneof![
        8 => (place.clone(), 0..900_usize).prop_map(|((topic, queue_id), length)| {
            Operation::Put { topic, queue_id, length }
        }),
        2 => (place, prop::collection::vec(0..150_usize, 1..5)).prop_map(|((topic, queue_id), lengths)| {
            Operation::Batch { topic, queue_id, lengths }
        }),
        3 => Just(Operation::Dispatch),
        1 => Just(Operation::Close),
        1 => Just(Operation::Kill),
    ]
}

/// Bodies that were put, by topic and queue.
type Model = BTreeMap<(usize, i32), Vec<Vec<u8>>>;

fn run(operations: &[Operation], directory: Option<&Path>) -> Result<Store, TestCaseError> {
    let open = || directory.map_or_else(|| Store::memory(small()), |path| Store::open(path, small()).unwrap());
    let mut store = open();
    let mut model = Model::new();
    let mut counter = 0_u8;
    let mut body = |length| {
        counter = counter.wrapping_add(1);
        vec![counter; length]
    };
    for operation in operations {
        match operation {
            Operation::Put { topic, queue_id, length } => {
                let body = body(*length);
                let bodies = model.entry((*topic, *queue_id)).or_default();
                let message = PutMessage { queue_id: *queue_id, ..message(TOPICS[*topic], &body) };
                prop_assert_eq!(store.put(NOW, &message).unwrap().queue_offset, bodies.len() as u64);
                bodies.push(body);
            }
            Operation::Batch { topic, queue_id, lengths } => {
                let new: Vec<_> = lengths.iter().map(|length| body(*length)).collect();
                let bodies = model.entry((*topic, *queue_id)).or_default();
                let elements = new.iter().map(|body| BatchElement { flag: 1, body, properties: b"" });
                let message = PutMessage { queue_id: *queue_id, ..message(TOPICS[*topic], b"") };
                let outcome = store.put_batch(NOW, &message, elements).unwrap();
                prop_assert_eq!(outcome.queue_offset, bodies.len() as u64);
                prop_assert_eq!(outcome.physical_offsets.len(), new.len());
                bodies.extend(new);
            }
            Operation::Dispatch => dispatch(&mut store),
            Operation::Close if directory.is_some() => {
                store.close(NOW).unwrap();
                store = open();
            }
            Operation::Kill if directory.is_some() => {
                drop(store);
                store = open();
            }
            Operation::Close | Operation::Kill => {}
        }
    }
    dispatch(&mut store);
    for ((topic, queue_id), expected) in model {
        let found = read_all(&store, TOPICS[topic], queue_id);
        let found: Vec<_> = found.iter().map(|message| message.body().to_vec()).collect();
        prop_assert!(found == expected, "{} {queue_id} differs", TOPICS[topic]);
    }
    Ok(store)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_operations_agrees_with_the_model(operations in prop::collection::vec(operation(), 1..60)) {
        let directory = tempfile::tempdir().unwrap();
        let memory = run(&operations, None)?;
        let disk = run(&operations, Some(directory.path()))?;
        let end = memory.max_physical_offset();
        prop_assert_eq!(disk.max_physical_offset(), end);
        // The same log, byte for byte.
        for base in (0..end).step_by(1024) {
            prop_assert!(disk.read_raw(base, 1024) == memory.read_raw(base, 1024), "the file at {base} differs");
        }
    }
}
