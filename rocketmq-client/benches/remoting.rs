//! What a request costs from the call to its answer: admission, encoding, gathering, matching, decoding. The server is
//! a task at the other end of a pipe in memory that answers with frames made ready.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rocketmq_native::env::Env;
use rocketmq_native::remoting::{Connection, ConnectionOptions, HeaderType};
use rocketmq_native::transport::{MemoryNetwork, Stream};
use rocketmq_wire::frame::{DEFAULT_MAX_FRAME_LENGTH, Frame};
use rocketmq_wire::header::{Head, RESPONSE_FLAG, encode};
use rocketmq_wire::request::send::{SendMessageRequestV2, SendMessageResponse};
use rocketmq_wire::{LanguageCode, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// Answers every send, all that came together with one write.
async fn answer(mut stream: DuplexStream) {
    let fields = SendMessageResponse {
        message_id: "7F00000100002A9F0000000000000000".into(),
        queue_id: 1,
        queue_offset: 12_345,
        ..Default::default()
    };
    let (mut received, mut out) = (BytesMut::new(), BytesMut::new());
    while stream.read_buf(&mut received).await.is_ok_and(|count| count > 0) {
        while let Some(frame) = Frame::next(&mut received, DEFAULT_MAX_FRAME_LENGTH).expect("a frame") {
            let opaque = frame.decode_header().expect("a header").head.opaque;
            let (language, version) = (LanguageCode::JAVA, Version::V5_3_3);
            let head = Head { code: 0, language, version, opaque, flag: RESPONSE_FLAG, remark: None };
            encode(&mut out, frame.serialize_type, &head, &fields, 0).expect("fits a frame");
        }
        if stream.write_all(&out).await.is_err() {
            return;
        }
        out.clear();
    }
}

fn request(queue_id: i32) -> SendMessageRequestV2<'static> {
    SendMessageRequestV2 {
        producer_group: "bench-group".into(),
        topic: "bench-topic".into(),
        default_topic: "TBW102".into(),
        default_topic_queue_nums: 4,
        queue_id,
        born_timestamp: 1_700_000_000_000,
        properties: Some("UNIQ_KEY\u{1}7F000001000018B4AAC2000000000000\u{2}WAIT\u{1}true\u{2}".into()),
        ..Default::default()
    }
}

async fn send(connection: &Connection, env: &Env, body: &Bytes, count: u64) {
    for at in 0..count {
        let deadline = env.now() + Duration::from_secs(3);
        let response = connection.call(&request((at % 8) as i32), body, deadline).await.expect("answered");
        let stored = response.decode::<SendMessageRequestV2<'_>>().expect("well-formed");
        assert_eq!(stored.queue_offset, 12_345);
    }
}

fn calls(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let _inside = runtime.enter();
    let (env, _clock) = Env::manual(1, Arc::new(MemoryNetwork::default())).expect("inside a runtime");
    let body = Bytes::from(vec![7; 128]);
    let mut group = criterion.benchmark_group("call");
    for (name, header_type) in [("binary", HeaderType::Binary), ("json", HeaderType::Json)] {
        let options = ConnectionOptions { header_type, ..ConnectionOptions::default() };
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (connection, driver) = Connection::open("bench:1", Stream::Memory(ours), &env, &options, None);
        let (_driver, _server) = (env.spawn(driver), env.spawn(answer(theirs)));
        for in_flight in [1, 32] {
            const EACH: u64 = 32;
            group.throughput(Throughput::Elements(EACH * in_flight));
            group.bench_function(BenchmarkId::new(name, in_flight), |bencher| {
                bencher.iter(|| {
                    runtime.block_on(futures_util::future::join_all(
                        (0..in_flight).map(|_| send(&connection, &env, &body, EACH)),
                    ))
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
