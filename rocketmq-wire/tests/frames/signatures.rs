//! Signatures: those that Apache's classes computed, and those of recorded requests.

use rocketmq_wire::Version;
use rocketmq_wire::acl::{ACCESS_KEY, SIGNATURE, SigningKey, UNIQUE_KEY_QUERY};
use rocketmq_wire::header::{FieldWriter, OwnedFields};

use crate::common::{hex, json_lines, text};
use crate::golden_frames::all;

#[test]
fn every_vector() {
    let rows = json_lines("vectors/acl.jsonl");
    assert_eq!(rows.len(), 32);
    for row in &rows {
        let mut fields = OwnedFields::new();
        for (name, value) in row["fields"].as_object().expect("fields") {
            // Apache's class writes a missing value as this word; none is ever on the wire.
            fields.text(name, value.as_str().unwrap_or("null"));
        }
        let body = hex(&row["body_hex"]);
        let (secret, expected) = (text(row, "secret"), text(row, "signature"));
        let key = SigningKey::new(secret);
        if expected.starts_with("error:") {
            assert!(key.is_none(), "{row}");
            continue;
        }
        let key = key.expect("a secret");
        assert_eq!(key.sign(&fields, &[], &body), expected, "{row}");
        assert!(key.verify(&fields, &[], &body, expected), "{row}");
        assert!(!key.verify(&fields, &[], &[&body[..], b"x"].concat(), expected), "{row}");
        assert!(!key.verify(&fields, &[], &body, "no base64"), "{row}");
    }
}

#[test]
fn every_recorded_signature() {
    let mut checked = 0;
    for golden in all() {
        let Some(recorded) = golden.fields().filter(|fields| fields.contains_key(SIGNATURE)) else { continue };
        // A client with a wrong secret has a scenario of its own; its heartbeats fall into others.
        let wrong = golden.index["scenario"] == "acl-send-wrong-secret";
        let secrets: &[&str] = match recorded[ACCESS_KEY].as_str() {
            "ak-test" if wrong => &["sk-wrong-123456"],
            "ak-test" if golden.code() == 34 => &["sk-test-123456", "sk-wrong-123456"],
            "ak-test" | "ak-unknown" => &["sk-test-123456"],
            "ak-admin" => &["sk-admin-123456"],
            "ak-test-super" => &["sk-super-123456"],
            key => panic!("{} signs as {key}", golden.name()),
        };
        let mut fields = OwnedFields::new();
        for (name, value) in &recorded {
            fields.text(name, value);
        }
        let version = golden.index["version"].as_i64().expect("a version");
        let unsigned: &[&str] = if version < i64::from(Version::V4_9_4.0) { &[UNIQUE_KEY_QUERY] } else { &[] };
        let body = golden.frame().body;
        let verified = secrets.iter().any(|secret| {
            let key = SigningKey::new(secret).expect("a secret");
            key.verify(&fields, unsigned, &body, &recorded[SIGNATURE])
        });
        assert!(verified, "{}", golden.name());
        checked += 1;
    }
    assert_eq!(checked, 115);
}

#[test]
fn nothing_secret_is_shown() {
    let mut fields = OwnedFields::new();
    fields.text("AccessKey", "ak");
    fields.integer("n", -12);
    assert_eq!(format!("{fields:?}"), r#"["AccessKey", "n"]"#);
    assert_eq!(fields.iter().collect::<Vec<_>>(), [("AccessKey", "ak"), ("n", "-12")]);
    assert_eq!(format!("{:?}", SigningKey::new("sk").expect("a secret")), "SigningKey(..)");
}
