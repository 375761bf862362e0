//! Writing answers, with either kind of header.

use std::io::Write as _;

use super::request::Request;

/// The version that answers claim: 5.3.3.
const VERSION: i16 = 479;

/// Appends the answer to `request` with these fields and this body.
pub(super) fn write(out: &mut Vec<u8>, request: &Request<'_>, code: i32, fields: &[(&str, &str)], body: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    if request.binary {
        binary_header(out, request.opaque, code, fields);
    } else {
        json_header(out, request.opaque, code, fields);
    }
    let header_length = (out.len() - start - 8) as u32;
    out.extend_from_slice(body);
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    let kind = u32::from(request.binary) << 24;
    out[start + 4..start + 8].copy_from_slice(&(kind | header_length).to_be_bytes());
}

fn binary_header(out: &mut Vec<u8>, opaque: i32, code: i32, fields: &[(&str, &str)]) {
    out.extend_from_slice(&(code as i16).to_be_bytes());
    out.push(0);
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&opaque.to_be_bytes());
    out.extend_from_slice(&1i32.to_be_bytes());
    out.extend_from_slice(&0i32.to_be_bytes());
    let length: usize = fields.iter().map(|(key, value)| 6 + key.len() + value.len()).sum();
    out.extend_from_slice(&(length as u32).to_be_bytes());
    for (key, value) in fields {
        out.extend_from_slice(&(key.len() as u16).to_be_bytes());
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(&(value.len() as u32).to_be_bytes());
        out.extend_from_slice(value.as_bytes());
    }
}

/// The order of the members is fastjson's. No field here needs escapes.
fn json_header(out: &mut Vec<u8>, opaque: i32, code: i32, fields: &[(&str, &str)]) {
    let mut digits = Digits::default();
    out.extend_from_slice(b"{\"code\":");
    out.extend_from_slice(digits.format(code.into()).as_bytes());
    if !fields.is_empty() {
        out.extend_from_slice(b",\"extFields\":{");
        for (index, (key, value)) in fields.iter().enumerate() {
            out.extend_from_slice(if index == 0 { b"\"" } else { b",\"" });
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(b"\":\"");
            out.extend_from_slice(value.as_bytes());
            out.push(b'"');
        }
        out.push(b'}');
    }
    out.extend_from_slice(b",\"flag\":1,\"language\":\"JAVA\",\"opaque\":");
    out.extend_from_slice(digits.format(opaque.into()).as_bytes());
    out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}");
}

/// Room for a number written in decimal.
#[derive(Debug, Default)]
pub(super) struct Digits([u8; 20]);

impl Digits {
    /// The number in decimal.
    pub(super) fn format(&mut self, number: i64) -> &str {
        let mut rest: &mut [u8] = &mut self.0;
        let room = rest.len();
        // 20 bytes hold every i64.
        let _ = write!(rest, "{number}");
        let length = room - rest.len();
        std::str::from_utf8(&self.0[..length]).unwrap_or_default()
    }
}
