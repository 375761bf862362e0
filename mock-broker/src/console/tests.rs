//! The description of the control API and what it describes.

use hyper::Method;
use serde_json::Value;

use super::query::Query;
use super::{Access, Console, Remote};
use crate::fault::{Action, Fault};

fn described() -> Value {
    serde_json::from_str(include_str!("openapi.json")).expect("the description is JSON")
}

/// Every request that is described leads somewhere, and every one that leads somewhere is described.
#[tokio::test]
async fn what_is_described_is_served_and_what_is_served_is_described() {
    // A broker that is gone: what leads to it answers so, what leads nowhere answers 404.
    let (control, _) = tokio::sync::mpsc::unbounded_channel();
    let console = Console { access: Access::default(), remote: Remote::new(&control) };
    let nothing = Query::parse("topic=t&id=i");
    let described = described();
    let paths = described["paths"].as_object().expect("paths");
    let mut count = 0;
    for (path, methods) in paths {
        for method in methods.as_object().expect("methods").keys() {
            let method: Method = method.to_uppercase().parse().expect("a method");
            let path = path.replace("{id}", "7");
            let served = console.route(&method, &path, &nothing, b"{}").await;
            let status = served.map_or_else(|problem| problem.status.as_u16(), |answer| answer.status.as_u16());
            assert!(status == 503 || status == 400, "{method} {path}: {status}");
            count += 1;
        }
    }
    let routes = include_str!("api.rs").lines().filter(|line| line.trim_start().starts_with("(\""));
    assert_eq!(routes.count(), count, "the routes of api.rs and the description differ");
}

#[test]
fn references_lead_to_schemas_and_every_action_is_described() {
    let described = described();
    let text = described.to_string();
    for reference in text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().expect("the end of a name");
        assert!(described["components"]["schemas"].get(name).is_some(), "there is no schema {name}");
    }
    let actions = described["components"]["schemas"]["Action"].to_string();
    for action in [
        Action::Answer { code: 1, remark: None },
        Action::AnswerAfter { code: 1, remark: None },
        Action::Delay { ms: 1 },
        Action::Latency { median_ms: 1.0, p99_ms: 2.0, seed: 3 },
        Action::DropRequest,
        Action::DropAnswer,
        Action::Close,
        Action::Reset { after_bytes: None },
        Action::HalfOpen,
        Action::Truncate { bytes: 1 },
        Action::Corrupt { at: 1 },
        Action::Duplicate,
        Action::Drip { bytes: 1, every_ms: 1 },
        Action::Refuse,
        Action::Off,
        Action::StaleRoutes,
        Action::NoRoutes,
        Action::DiskFull,
        Action::FlushTimeout,
        Action::SlaveLag,
    ] {
        let json = serde_json::to_value(Fault::new(action)).expect("a fault is JSON");
        let name = match &json["do"] {
            Value::String(name) => name.clone(),
            object => object.as_object().and_then(|object| object.keys().next()).expect("a name").clone(),
        };
        assert!(actions.contains(&format!("\"{name}\"")), "{name} is not described");
    }
}
