//! What is written is read again, for any values.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use rocketmq_wire::message::id::UniqueIdParts;
use rocketmq_wire::message::record::MAX_PROPERTIES;
use rocketmq_wire::message::{
    BatchElement, Compression, MagicVersion, OffsetMessageId, Properties, PropertiesWriter, Record, RecordView,
    StoredMessage, UniqueIdFactory, batch, properties,
};

use crate::stores::record_of;

fn host() -> impl Strategy<Value = SocketAddr> {
    any::<(IpAddr, u16)>().prop_map(|(address, port)| SocketAddr::new(address, port))
}

/// Text without the two separators.
fn property_text() -> impl Strategy<Value = String> {
    any::<String>().prop_map(|text| text.replace(['\u{1}', '\u{2}'], ""))
}

proptest! {
    #[test]
    fn records(
        v2: bool,
        numbers: (i32, i32, i64, i64, i32, i64, i64, i32, i64),
        hosts in (host(), host()),
        body in vec(any::<u8>(), 0..300),
        topic in "\\PC{0,40}",
        properties in vec((property_text(), property_text()), 0..6),
    ) {
        let properties = properties::encode(properties.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let properties = properties.unwrap();
        prop_assume!(properties.len() <= MAX_PROPERTIES);
        let version = if v2 { MagicVersion::V2 } else { MagicVersion::for_topic_length(topic.len()) };
        let record = Record {
            version,
            queue_id: numbers.0,
            flag: numbers.1,
            queue_offset: numbers.2,
            physical_offset: numbers.3,
            sys_flag: numbers.4,
            born_timestamp: numbers.5,
            born_host: hosts.0,
            store_timestamp: numbers.6,
            store_host: hosts.1,
            reconsume_times: numbers.7,
            prepared_transaction_offset: numbers.8,
            body: &body,
            topic: &topic,
            properties: properties.as_bytes(),
        };
        let size = record.encoded_len().unwrap();
        let mut bytes = vec![0; size];
        prop_assert_eq!(record.encode(&mut bytes), Ok(size));
        prop_assert!(record.encode(&mut bytes[1..]).is_err());

        let view = RecordView::parse(&bytes).unwrap();
        prop_assert_eq!(view.version(), version);
        prop_assert_eq!(view.sys_flag(), record.encoded_sys_flag());
        prop_assert_eq!((view.queue_id(), view.flag()), (numbers.0, numbers.1));
        prop_assert_eq!((view.queue_offset(), view.physical_offset()), (numbers.2, numbers.3));
        prop_assert_eq!((view.born_timestamp(), view.store_timestamp()), (numbers.5, numbers.6));
        prop_assert_eq!((view.reconsume_times(), view.prepared_transaction_offset()), (numbers.7, numbers.8));
        let canonical = |host: SocketAddr| SocketAddr::new(host.ip().to_canonical(), host.port());
        prop_assert_eq!((view.born_host(), view.store_host()), (canonical(hosts.0), canonical(hosts.1)));
        prop_assert_eq!((view.body(), view.topic()), (body.as_slice(), topic.as_str()));
        prop_assert_eq!(view.properties().as_bytes(), properties.as_bytes());
        prop_assert!(view.verify_crc().is_ok());

        let mut again = vec![0; size];
        record_of(&view).encode(&mut again).unwrap();
        prop_assert_eq!(&again, &bytes);

        bytes.extend_from_slice(&again);
        let messages: Vec<_> = StoredMessage::records(Bytes::from(bytes)).map(Result::unwrap).collect();
        prop_assert_eq!(messages.len(), 2);
        prop_assert_eq!(messages[1].as_bytes(), &again);
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..400), magic: bool) {
        let mut bytes = bytes;
        if magic && bytes.len() >= 8 {
            let size = bytes.len() as i32;
            bytes[..4].copy_from_slice(&size.to_be_bytes());
            bytes[4..8].copy_from_slice(&MagicVersion::V1.magic().to_be_bytes());
        }
        for message in StoredMessage::records(Bytes::from(bytes.clone())).flatten() {
            let mut again = vec![0; message.size()];
            record_of(&message.view()).encode(&mut again).unwrap();
        }
        batch::elements(&bytes).for_each(drop);
        let _ = Properties::new(&bytes).to_map();
    }

    #[test]
    fn property_strings(pairs in vec((property_text(), property_text()), 0..8)) {
        let mut writer = PropertiesWriter::new();
        for (name, value) in &pairs {
            writer.push(name, value).unwrap();
        }
        let visible: Vec<(&str, &str)> = pairs
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .filter(|(name, value)| !name.is_empty() && !value.is_empty())
            .collect();
        for text in [writer.clone().finish(), writer.finish_without_last_separator()] {
            let properties = Properties::from(text.as_str());
            prop_assert_eq!(properties.iter().collect::<Vec<_>>(), visible.clone());
            for (name, value) in properties.to_map() {
                prop_assert_eq!(properties.value(&name), Some(value.as_str()));
            }
        }
    }

    #[test]
    fn batches(elements in vec((any::<i32>(), vec(any::<u8>(), 0..50), property_text()), 0..6)) {
        let mut body = Vec::new();
        for (flag, content, properties) in &elements {
            let element = BatchElement { flag: *flag, body: content, properties: properties.as_bytes() };
            let before = body.len();
            element.encode(&mut body).unwrap();
            prop_assert_eq!(Ok(body.len() - before), element.encoded_len());
        }
        let read: Vec<BatchElement<'_>> = batch::elements(&body).map(Result::unwrap).collect();
        prop_assert_eq!(read.len(), elements.len());
        for (element, (flag, content, properties)) in read.iter().zip(&elements) {
            prop_assert_eq!(element.flag, *flag);
            prop_assert_eq!(element.body, content.as_slice());
            prop_assert_eq!(element.properties, properties.as_bytes());
        }
    }

    #[test]
    fn compressed_bodies(body in vec(any::<u8>(), 0..500), repeat in 1usize..8, level in -1i32..10) {
        let body = body.repeat(repeat);
        for algorithm in [Compression::Zlib, Compression::Lz4, Compression::Zstd] {
            let compressed = algorithm.compress(&body, level).unwrap();
            let plain = algorithm.decompress(&compressed, body.len());
            prop_assert_eq!(plain.as_ref(), Ok(&body));
        }
    }

    #[test]
    fn ids(host in host(), physical_offset: i64, process_id: u32, hash: i32, now in 0i64..4_000_000_000_000, counter: u16) {
        let canonical = SocketAddr::new(host.ip().to_canonical(), host.port());
        let id = OffsetMessageId { store_host: canonical, physical_offset };
        prop_assert_eq!(id.to_string().parse(), Ok(id));

        let unique = UniqueIdFactory::new(host.ip(), process_id, hash, 0).id(now, counter);
        let parts = UniqueIdParts::parse(unique.as_str()).unwrap();
        prop_assert_eq!(parts.address, canonical.ip());
        prop_assert_eq!((parts.process_id, parts.class_loader_hash), (process_id as u16, hash));
        prop_assert_eq!((parts.created_at(now + 1, 0), parts.counter), (now, counter));
    }
}
