//! Any bytes as a property string.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rocketmq_wire::message::{Properties, PropertiesWriter};

fuzz_target!(|bytes: &[u8]| {
    let properties = Properties::new(bytes);
    let map = properties.to_map();
    for (name, value) in &map {
        assert_eq!(properties.value(name), Some(value.as_str()));
    }
    // A value may hold 0x01 when it was read, but not when it is written.
    let mut writer = PropertiesWriter::new();
    let mut writable = map.clone();
    writable.retain(|name, value| writer.push(name, value).is_ok());
    let text = writer.finish();
    assert_eq!(Properties::from(text.as_str()).to_map(), writable);
});
