//! Any bytes as the body of a batch.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rocketmq_wire::message::{BatchElement, batch};

fuzz_target!(|bytes: &[u8]| {
    let elements: Vec<BatchElement<'_>> = batch::elements(bytes).flatten().collect();
    let mut out = Vec::new();
    for element in &elements {
        let _ = element.properties().to_map();
        // Longer property strings than a record can hold are read, but not written.
        if element.encode(&mut out).is_err() {
            return;
        }
    }
    let again: Vec<BatchElement<'_>> =
        batch::elements(&out).map(|element| element.expect("an element that was just written")).collect();
    assert_eq!(again, elements);
});
