//! Reads the golden data.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::Read;
use std::path::PathBuf;

use serde_json::Value;

/// The versions whose answers the vectors keep apart.
pub(crate) const VERSIONS: [&str; 2] = ["4.9.7", "5.3.3"];

/// Returns the content of a golden file, unpacked if its name ends in `.gz`.
pub(crate) fn golden(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if !name.ends_with(".gz") {
        return packed;
    }
    let mut content = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut content).expect("gzip");
    content
}

/// Returns the lines of a golden JSONL file.
pub(crate) fn json_lines(name: &str) -> Vec<Value> {
    let content = String::from_utf8(golden(name)).expect("UTF-8");
    let rows: Vec<Value> = content.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(!rows.is_empty(), "{name} is empty");
    rows
}

/// Returns the files of a golden tar archive, with their paths.
pub(crate) fn tar_files(name: &str) -> Vec<(String, Vec<u8>)> {
    let archive = golden(name);
    let text = |field: &[u8]| {
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
        String::from_utf8(field[..end].to_vec()).expect("UTF-8")
    };
    let mut files = Vec::new();
    let mut rest = archive.as_slice();
    while rest.len() >= 512 && rest[0] != 0 {
        let (header, content) = rest.split_at(512);
        let size = usize::from_str_radix(text(&header[124..136]).trim(), 8).expect("octal size");
        if matches!(header[156], b'0' | 0) {
            files.push((text(&header[..100]), content[..size].to_vec()));
        }
        rest = &content[size.next_multiple_of(512)..];
    }
    files
}

/// Returns a field of a vector as it holds for `version`, `None` if it does not exist there.
pub(crate) fn field<'a>(row: &'a Value, version: &str, name: &str) -> Option<&'a Value> {
    row.get(version).and_then(|row| row.get(name)).or_else(|| row.get(name))
}

/// Decodes hex.
pub(crate) fn hex(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap_or_default().as_bytes();
    let digit = |digit: u8| (digit as char).to_digit(16).expect("hex digit") as u8;
    text.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Returns the text of a JSON value that must be text.
pub(crate) fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or_else(|| panic!("{name} of {row}"))
}

/// Returns the number of a JSON value that must be an integer.
pub(crate) fn integer(row: &Value, name: &str) -> i64 {
    row[name].as_i64().unwrap_or_else(|| panic!("{name} of {row}"))
}
