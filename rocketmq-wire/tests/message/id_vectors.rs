//! Message ids against `message_id.jsonl`, and the vectors of the protocol notes.

use std::net::{IpAddr, SocketAddr};

use rocketmq_wire::message::id::UniqueIdParts;
use rocketmq_wire::message::{OffsetMessageId, UniqueIdFactory};
use serde_json::Value;

use crate::common::{hex, integer, json_lines, text};

/// 2026-11-29T14:24Z, when the vectors were made.
const NOW: i64 = 1_795_962_240_000;

fn rows(op: &str) -> Vec<Value> {
    let rows: Vec<Value> = json_lines("vectors/message_id.jsonl").into_iter().filter(|row| row["op"] == op).collect();
    assert!(!rows.is_empty(), "no rows of {op}");
    rows
}

fn address(row: &Value, name: &str) -> IpAddr {
    text(row, name).parse().expect("an address")
}

#[test]
fn offset_ids_are_written_and_read() {
    for row in rows("create") {
        let store_host = SocketAddr::new(address(&row, "ip"), integer(&row, "port") as u16);
        let id = OffsetMessageId { store_host, physical_offset: integer(&row, "offset") };
        assert_eq!(id.to_string(), text(&row, "id"));
        assert_decoded(&row);
    }
}

fn assert_decoded(row: &Value) {
    let id: OffsetMessageId = text(row, "id").parse().expect("an id");
    assert_eq!(id.store_host.ip(), address(row, "decoded_ip"));
    assert_eq!(i64::from(id.store_host.port()), integer(row, "decoded_port"));
    assert_eq!(id.physical_offset, integer(row, "decoded_offset"));
}

#[test]
fn what_java_cannot_read_is_refused() {
    let (mut good, mut bad) = (0, 0);
    for row in rows("decode") {
        if row.get("error").is_some() {
            assert!(text(&row, "id").parse::<OffsetMessageId>().is_err(), "{row}");
            bad += 1;
        } else {
            assert_decoded(&row);
            good += 1;
        }
    }
    assert_eq!((good, bad), (6, 12));
}

#[test]
fn unique_ids_are_taken_apart_and_made_again() {
    let mut whole = 0;
    for row in rows("uniq") {
        let id = text(&row, "id");
        let created_at = row["nearly_time"].as_i64();
        let parts = UniqueIdParts::parse(id);
        let Some(created_at) = created_at else {
            assert!(parts.is_err(), "{id}");
            continue;
        };
        let parts = parts.expect("an id");
        assert_eq!(parts.address, address(&row, "ip"), "{id}");
        assert_eq!(address_bytes(parts.address), hex(&row["ip_bytes"]));
        assert_eq!(i64::from(parts.process_id), integer(&row, "pid"), "{id}");
        // The rows were made within the minutes after `now`, and Java looked at the clock again for each.
        let now = if text(&row, "source") == "fixed" { NOW } else { created_at.max(NOW) };
        if created_at >= NOW - 86_400_000 || text(&row, "source") == "fixed" {
            assert_eq!(parts.created_at(now + 1, 0), created_at, "{id}");
        }
        whole += 1;

        let factory = UniqueIdFactory::new(parts.address, u32::from(parts.process_id), parts.class_loader_hash, 0);
        if i64::from(parts.since_month_start_millis) < 28 * 86_400_000 {
            let november = 1_793_491_200_000;
            let made = factory.id(november + i64::from(parts.since_month_start_millis), parts.counter);
            assert_eq!(made.as_str(), id.to_uppercase());
        }
    }
    assert_eq!(whole, 19);
}

fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[test]
fn the_time_in_a_unique_id_starts_with_the_month() {
    let factory = UniqueIdFactory::new("10.0.0.2".parse().unwrap(), 0x0001_1B3C, 0x18B4_AAC2, 0);
    for (now, hex) in [
        (1_793_491_200_000, "00000000"), // 2026-11-01T00:00:00Z
        (1_793_491_199_999, "9FA523FF"), // 2026-10-31T23:59:59.999Z, 31 days
        (1_772_323_199_999, "90320FFF"), // 2026-02-28T23:59:59.999Z, 28 days
        (1_709_251_199_999, "95586BFF"), // 2024-02-29T23:59:59.999Z, a leap year
        (951_782_400_000, "90321000"),   // 2000-02-29T00:00:00Z, a leap year of 400
        (0, "00000000"),                 // 1970-01-01
        (-1, "9FA523FF"),                // 1969-12-31T23:59:59.999Z
    ] {
        assert_eq!(factory.id(now, 0xFFFF).as_str(), format!("0A0000021B3C18B4AAC2{hex}FFFF"), "{now}");
    }
    let ahead = UniqueIdFactory::new("10.0.0.2".parse().unwrap(), 0x1B3C, 0x18B4_AAC2, 8 * 3_600_000);
    // Half past midnight of 1 November, eight hours ahead of UTC.
    assert_eq!(ahead.id(1_793_491_200_000 - 7 * 3_600_000 - 1_800_000, 0).as_str(), "0A0000021B3C18B4AAC2001B77400000");
}

#[test]
fn vectors_of_the_protocol_notes() {
    for (host, physical_offset, id) in [
        ("10.0.0.1:10911", 4242, "0A00000100002A9F0000000000001092"),
        ("127.0.0.1:10911", 4096, "7F00000100002A9F0000000000001000"),
    ] {
        let message_id = OffsetMessageId { store_host: host.parse().unwrap(), physical_offset };
        assert_eq!(message_id.to_string(), id);
        assert_eq!(id.parse(), Ok(message_id));
    }
}
