//! What writing and reading messages costs.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rocketmq_wire::message::{MagicVersion, Record, StoredMessage, properties};

const MESSAGES: usize = 32;

fn property_string() -> String {
    let pairs = [
        ("KEYS", "order-42"),
        ("UNIQ_KEY", "7F00000100012A139A5A18B4AAC20001"),
        ("CLUSTER", "DefaultCluster"),
        ("WAIT", "true"),
        ("TAGS", "created"),
    ];
    properties::encode(pairs).expect("no separators")
}

fn record<'a>(body: &'a [u8], properties: &'a str) -> Record<'a> {
    let host = ([127, 0, 0, 1], 10911).into();
    Record {
        version: MagicVersion::V1,
        queue_id: 3,
        flag: 0,
        queue_offset: 42,
        physical_offset: 4096,
        sys_flag: 0,
        born_timestamp: 1_700_000_000_000,
        born_host: host,
        store_timestamp: 1_700_000_000_123,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        topic: "BenchmarkTest",
        properties: properties.as_bytes(),
    }
}

fn encode_records(c: &mut Criterion) {
    let properties = property_string();
    let mut group = c.benchmark_group("encode record");
    for size in [128, 1024, 16 * 1024] {
        let body = vec![b'x'; size];
        let record = record(&body, &properties);
        let mut out = vec![0; record.encoded_len().expect("a length")];
        group.throughput(Throughput::Bytes(out.len() as u64));
        group.bench_function(format!("{size} byte body"), |b| b.iter(|| black_box(&record).encode(&mut out)));
    }
}

fn walk_pull_body(c: &mut Criterion) {
    let properties = property_string();
    let body = vec![b'x'; 128];
    let record = record(&body, &properties);
    let mut one = vec![0; record.encoded_len().expect("a length")];
    record.encode(&mut one).expect("a record");
    let pull_body = Bytes::from(one.repeat(MESSAGES));

    let mut group = c.benchmark_group("pull body of 32");
    group.throughput(Throughput::Elements(MESSAGES as u64));
    group.bench_function("decode", |b| {
        b.iter(|| StoredMessage::records(black_box(&pull_body).clone()).filter(Result::is_ok).count());
    });
    group.bench_function("decode, tag and offset", |b| {
        b.iter(|| {
            let messages = StoredMessage::records(black_box(&pull_body).clone()).flatten();
            messages.map(|message| message.queue_offset() + message.tags().map_or(0, str::len) as i64).sum::<i64>()
        });
    });
    group.bench_function("decode, body and keys", |b| {
        b.iter(|| {
            let messages = StoredMessage::records(black_box(&pull_body).clone()).flatten();
            messages.map(|message| message.body().len() + message.keys().count()).sum::<usize>()
        });
    });
    group.finish();

    let (message, _) = StoredMessage::parse(pull_body).expect("a record");
    let mut group = c.benchmark_group("property");
    for name in ["TAGS", "UNIQ_KEY", "KEYS", "absent"] {
        group.bench_function(name, |b| b.iter(|| message.property(black_box(name))));
    }
}

criterion_group!(benches, encode_records, walk_pull_body);
criterion_main!(benches);
