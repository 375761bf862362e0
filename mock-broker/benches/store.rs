//! What the store costs by itself: appends, dispatch and reads, in memory and on disk.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rocketmq_mock_broker::store::{PutMessage, Store, StoreConfig};

const PROPERTIES: &[u8] =
    b"KEYS\x01order-42\x02UNIQ_KEY\x01FD0000000000000000000000000000020AB04E0E2F2A930C37F90000\x02\
    WAIT\x01true\x02TAGS\x01TagA\x02";
const TOPIC: &str = "BenchmarkTest";

fn message(body: &[u8]) -> PutMessage<'_> {
    let host = "127.0.0.1:10911".parse().expect("an address");
    PutMessage {
        topic: TOPIC,
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp: 1_700_000_000_000,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: PROPERTIES,
    }
}

/// A store that is replaced once it holds 256 MiB, so that a long run does not fill memory or disk.
struct Bounded<F: Fn() -> Store> {
    make: F,
    store: Store,
}

impl<F: Fn() -> Store> Bounded<F> {
    fn new(make: F) -> Self {
        Bounded { store: make(), make }
    }

    fn put(&mut self, message: &PutMessage<'_>) {
        let outcome = self.store.put(1_700_000_000_000, message).expect("there is space");
        if black_box(outcome).physical_offset > 256 << 20 {
            self.store = (self.make)();
        }
    }
}

fn append(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("append");
    group.throughput(Throughput::Elements(1));
    for size in [128, 1024] {
        let body = vec![b'x'; size];
        let message = message(&body);
        let mut memory = Bounded::new(|| Store::memory(StoreConfig::memory()));
        group.bench_function(format!("memory/{size}"), |bench| bench.iter(|| memory.put(&message)));
        group.bench_function(format!("memory+dispatch/{size}"), |bench| {
            bench.iter(|| {
                memory.put(&message);
                memory.store.dispatch(&mut |arrival| _ = black_box(arrival)).expect("there is space");
            });
        });
        let mut directory = tempfile::tempdir().expect("a directory");
        let make = std::cell::RefCell::new(|| {
            directory = tempfile::tempdir().expect("a directory");
            Store::open(directory.path(), StoreConfig::disk()).expect("a store")
        });
        let mut disk = Bounded::new(|| make.borrow_mut()());
        group.bench_function(format!("disk+dispatch/{size}"), |bench| {
            bench.iter(|| {
                disk.put(&message);
                disk.store.dispatch(&mut |arrival| _ = black_box(arrival)).expect("there is space");
            });
        });
    }
    group.finish();
}

fn get(criterion: &mut Criterion) {
    let mut store = Store::memory(StoreConfig::memory());
    let body = [b'x'; 128];
    for _ in 0..10_000 {
        store.put(1_700_000_000_000, &message(&body)).expect("there is space");
    }
    store.dispatch(&mut |_| {}).expect("there is space");
    let mut group = criterion.benchmark_group("get");
    group.throughput(Throughput::Elements(32));
    group.bench_function("32 of 128", |bench| {
        let mut offset = 0;
        bench.iter(|| {
            let found = store.get(TOPIC, 0, offset, 32, usize::MAX, &|_| true);
            offset = if found.next_begin_offset + 32 > 10_000 { 0 } else { found.next_begin_offset };
            found
        });
    });
    group.finish();
}

criterion_group!(benches, append, get);
criterion_main!(benches);
