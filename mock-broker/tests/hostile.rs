//! What a broken or hostile peer sends: it costs its own connection at most.

mod support;

use std::io::Write;
use std::net::TcpStream;

use rocketmq_mock_broker::MockBroker;
use rocketmq_wire::{RemotingCommand, RequestCode, ResponseCode};
use support::{Peer, pull_fields, send_fields};

/// Bytes after which a connection cannot go on.
const GARBAGE: [&[u8]; 7] = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    &[0xFF; 64],
    // Longer than 16 MiB.
    &[0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0],
    // Shorter than its own prefix.
    &[0, 0, 0, 1, 0],
    // A header longer than its frame.
    &[0, 0, 0, 8, 0, 0, 0xFF, 0xFF, b'{', b'}', b' ', b' '],
    // No such serialize type.
    &[0, 0, 0, 8, 7, 0, 0, 4, b'{', b'}', b' ', b' '],
    // A header that is not JSON.
    &[0, 0, 0, 8, 0, 0, 0, 4, b'n', b'o', b'p', b'e'],
];

#[test]
fn garbage_closes_one_connection_and_no_other() {
    let broker = MockBroker::builder().topic("orders", 1).start_blocking().unwrap();
    for address in [broker.name_server(), broker.broker_address()] {
        let mut bystander = Peer::connect(address);
        for garbage in GARBAGE {
            let mut peer = Peer::connect(address);
            peer.send_raw(garbage);
            assert!(peer.try_receive().is_none(), "{garbage:?}");
        }
        let answer = bystander.request(RequestCode(9999), &[], "");
        assert_eq!(answer.code, ResponseCode::REQUEST_CODE_NOT_SUPPORTED.0);
    }
    // What was asked before the garbage is answered.
    let mut peer = Peer::connect(broker.broker_address());
    let mut bytes =
        peer.command(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "x").to_bytes().unwrap().to_vec();
    bytes.extend_from_slice(GARBAGE[2]);
    peer.send_raw(&bytes);
    peer.try_receive();
    let mut later = Peer::connect(broker.broker_address());
    later.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "y");
    assert_eq!(broker.messages("orders").len(), 2);
}

#[test]
fn requests_may_come_in_any_pieces() {
    let broker = MockBroker::builder().topic("orders", 1).start_blocking().unwrap();
    let mut peer = Peer::connect(broker.broker_address());
    let request = peer.command(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "in pieces");
    for byte in request.to_bytes().unwrap() {
        peer.send_raw(&[byte]);
    }
    assert_eq!(peer.answer_to(request.opaque).code, 0);
    let many: Vec<RemotingCommand> = (0..200)
        .map(|_| peer.command(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "at once"))
        .collect();
    let together: Vec<u8> = many.iter().flat_map(|request| request.to_bytes().unwrap()).collect();
    peer.send_raw(&together);
    for request in &many {
        assert_eq!(peer.answer_to(request.opaque).code, 0);
    }
    assert_eq!(broker.messages("orders").len(), 201);
}

#[test]
fn a_large_message_goes_in_and_out_and_a_larger_one_is_refused() {
    let broker = MockBroker::builder().topic("orders", 1).start_blocking().unwrap();
    let mut peer = Peer::connect(broker.broker_address());
    let fields = send_fields("orders", "0", "");
    let body: Vec<u8> = (0..4 << 20).map(|index: u32| (index % 251) as u8).collect();
    assert_eq!(peer.request(RequestCode::SEND_MESSAGE_V2, &fields, body.clone()).code, 0);
    let over = peer.request(RequestCode::SEND_MESSAGE_V2, &fields, vec![0; (4 << 20) + 1]);
    assert_eq!(over.code, ResponseCode::MESSAGE_ILLEGAL.0);
    let pulled = peer.request(RequestCode::PULL_MESSAGE, &pull_fields("g", "orders", "0", "0", "*", "0"), "");
    let message = rocketmq_wire::message::StoredMessage::records(pulled.body).next().unwrap().unwrap();
    assert!(message.body() == body, "the body came out changed");
}

#[test]
fn clients_that_do_not_read_or_vanish_disturb_nobody() {
    let broker = MockBroker::builder().topic("orders", 1).start_blocking().unwrap();
    let mut peer = Peer::connect(broker.broker_address());
    for _ in 0..8 {
        peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), vec![7; 200_000]);
    }
    // Asks for far more than socket buffers hold, and never reads.
    let mut deaf = Peer::connect(broker.broker_address());
    for _ in 0..400 {
        let pull = deaf.command(RequestCode::PULL_MESSAGE, &pull_fields("g", "orders", "0", "0", "*", "0"), "");
        deaf.send(&pull);
    }
    for _ in 0..50 {
        let mut vanishing = TcpStream::connect(broker.broker_address()).unwrap();
        vanishing.write_all(&[0, 0, 1]).unwrap();
    }
    assert_eq!(peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "x").code, 0);
    drop(deaf);
    assert_eq!(peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "y").code, 0);
}
