//! Any bytes as a binary header.

#![no_main]

mod headers;

use libfuzzer_sys::fuzz_target;
use rocketmq_wire::header::SerializeType;

fuzz_target!(|bytes: &[u8]| headers::read(SerializeType::Binary, bytes));
