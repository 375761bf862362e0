//! How many descriptors a store holds; a process of its own, because others would be counted too.

use rocketmq_mock_broker::store::{PutMessage, Store, StoreConfig};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc, which Linux has").count()
}

#[test]
#[cfg(target_os = "linux")]
fn thousands_of_queues_hold_no_descriptor() {
    let directory = tempfile::tempdir().unwrap();
    let before = descriptors();
    let mut config = StoreConfig::disk();
    config.commit_log_file_size = 64 << 10;
    config.consume_queue_file_entries = 100;
    let mut store = Store::open(directory.path(), config.clone()).unwrap();
    let host = "127.0.0.1:10911".parse().unwrap();
    for index in 0..2000 {
        let topic = format!("Topic{index}");
        let message = PutMessage {
            topic: &topic,
            queue_id: 0,
            flag: 0,
            sys_flag: 0,
            born_timestamp: 0,
            born_host: host,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: &[0; 100],
            properties: b"",
        };
        store.put(0, &message).unwrap();
    }
    store.dispatch(&mut |_| {}).unwrap();
    // The lock file; the second thread may have one file open for a moment.
    assert!(descriptors() <= before + 2, "{} instead of {before}", descriptors());
    drop(store);

    let store = Store::open(directory.path(), config).unwrap();
    assert_eq!(store.topics().len(), 2000);
    assert!(descriptors() <= before + 2, "{} instead of {before}", descriptors());
}
