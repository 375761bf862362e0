//! Faults as text, for command lines: `request=send,topic=orders,times=2,answer=2:busy`, or the JSON form.

use std::str::FromStr;

use super::rule::{Action, Fault};
use crate::pattern::Port;

impl FromStr for Fault {
    type Err = String;

    /// Reads `key=value` pairs separated by commas. Which requests: `request`, `topic`, `group`, `queue`, `client`,
    /// `connection`, `port`; how often: `times`, `after`; and one of `answer=CODE[:REMARK]`, `answer-after=CODE[:REMARK]`,
    /// `delay=MS`, `latency=MEDIAN/P99[/SEED]`, `drop-request`, `drop-answer`, `close`, `reset[=BYTES]`, `half-open`,
    /// `truncate=BYTES`, `corrupt[=AT]`, `duplicate`, `drip=BYTES/MS`, `refuse`, `off`, `stale-routes`, `no-routes`,
    /// `disk-full`, `flush-timeout`, `slave-lag`. Text that begins with `{` is JSON.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text).map_err(|error| format!("no fault: {error}"));
        }
        let mut fault = Fault::new(Action::Close);
        let mut action = None;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) =
                part.split_once('=').map_or((part, None), |(key, value)| (key.trim(), Some(value.trim())));
            let text = || value.filter(|value| !value.is_empty()).ok_or_else(|| format!("`{key}` needs a value"));
            match key {
                "request" => fault.pattern.request = Some(text()?.parse()?),
                "topic" => fault.pattern.topic = Some(text()?.to_owned()),
                "group" => fault.pattern.group = Some(text()?.to_owned()),
                "client" => fault.pattern.client = Some(text()?.to_owned()),
                "queue" => fault.pattern.queue = Some(number(key, text()?)?),
                "connection" => fault.pattern.connection = Some(number(key, text()?)?),
                "port" => fault.pattern.port = Some(port(text()?)?),
                "times" => fault.times = Some(number(key, text()?)?),
                "after" => fault.after = number(key, text()?)?,
                _ => {
                    let parsed = parse_action(key, value)?;
                    if action.replace(parsed).is_some() {
                        return Err(format!("`{key}` is one thing too many to happen in one fault"));
                    }
                }
            }
        }
        fault.action = action.ok_or_else(|| format!("`{text}` does not say what is to happen, such as delay=200"))?;
        Ok(fault)
    }
}

fn number<N: FromStr>(key: &str, text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("`{text}` is no number for `{key}`"))
}

fn port(text: &str) -> Result<Port, String> {
    match text {
        "broker" => Ok(Port::Broker),
        "name_server" | "name-server" => Ok(Port::NameServer),
        _ => Err(format!("`{text}` is no port: say broker or name-server")),
    }
}

fn parse_action(key: &str, value: Option<&str>) -> Result<Action, String> {
    let needed = || value.ok_or_else(|| format!("`{key}` needs a value"));
    let pair = |what: &str| needed()?.split_once('/').ok_or_else(|| format!("`{key}` needs {what}"));
    let answer = || {
        let (code, remark) = needed()?.split_once(':').map_or((needed()?, None), |(code, remark)| (code, Some(remark)));
        Ok::<_, String>((number(key, code)?, remark.map(str::to_owned)))
    };
    let plain = match key {
        "drop-request" => Some(Action::DropRequest),
        "drop-answer" => Some(Action::DropAnswer),
        "close" => Some(Action::Close),
        "half-open" => Some(Action::HalfOpen),
        "duplicate" => Some(Action::Duplicate),
        "refuse" => Some(Action::Refuse),
        "off" => Some(Action::Off),
        "stale-routes" => Some(Action::StaleRoutes),
        "no-routes" => Some(Action::NoRoutes),
        "disk-full" => Some(Action::DiskFull),
        "flush-timeout" => Some(Action::FlushTimeout),
        "slave-lag" => Some(Action::SlaveLag),
        _ => None,
    };
    match (plain, value) {
        (Some(_), Some(_)) => return Err(format!("`{key}` takes no value")),
        (Some(plain), None) => return Ok(plain),
        (None, _) => {}
    }
    Ok(match key {
        "answer" => {
            let (code, remark) = answer()?;
            Action::Answer { code, remark }
        }
        "answer-after" => {
            let (code, remark) = answer()?;
            Action::AnswerAfter { code, remark }
        }
        "delay" => Action::Delay { ms: number(key, needed()?)? },
        "latency" => {
            let (median, rest) = pair("MEDIAN/P99 in milliseconds")?;
            let (p99, seed) = rest.split_once('/').unwrap_or((rest, "0"));
            Action::Latency { median_ms: number(key, median)?, p99_ms: number(key, p99)?, seed: number(key, seed)? }
        }
        "reset" => Action::Reset { after_bytes: value.map(|bytes| number(key, bytes)).transpose()? },
        "truncate" => Action::Truncate { bytes: number(key, needed()?)? },
        "corrupt" => Action::Corrupt { at: value.map_or(Ok(super::rule::first_of_header()), |at| number(key, at))? },
        "drip" => {
            let (bytes, every) = pair("BYTES/MILLISECONDS")?;
            Action::Drip { bytes: number(key, bytes)?, every_ms: number(key, every)? }
        }
        _ => return Err(format!("`{key}` is nothing that a fault can say")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Family;
    use rocketmq_wire::{RequestCode, ResponseCode};
    use std::time::Duration;

    #[test]
    fn text_and_json_say_the_same() {
        for (text, expected) in [
            (
                "request=send,topic=t,times=2,answer=2:busy",
                Fault::answer(ResponseCode(2), "busy").on(Family::Send).topic("t").times(2),
            ),
            (
                "request=11, group=g, queue=3, delay=200",
                Fault::delay(Duration::from_millis(200)).on(RequestCode::PULL_MESSAGE).group("g").queue(3),
            ),
            ("answer-after=10", Fault::new(Action::AnswerAfter { code: 10, remark: None })),
            ("latency=5/50/9", Fault::latency(Duration::from_millis(5), Duration::from_millis(50), 9)),
            ("client=c*,connection=4,after=1,drop-request", Fault::drop_request().client("c*").connection(4).after(1)),
            ("drop-answer", Fault::drop_answer()),
            ("close", Fault::close()),
            ("reset", Fault::reset()),
            ("reset=7", Fault::reset_after(7)),
            ("half-open", Fault::half_open()),
            ("truncate=0", Fault::truncate(0)),
            ("corrupt", Fault::corrupt(8)),
            ("corrupt=0", Fault::corrupt(0)),
            ("duplicate", Fault::duplicate()),
            ("drip=3/20", Fault::drip(3, Duration::from_millis(20))),
            ("port=name-server,refuse", Fault::refuse(Port::NameServer)),
            ("port=broker,off", Fault::off(Port::Broker)),
            ("stale-routes", Fault::stale_routes()),
            ("no-routes", Fault::no_routes()),
            ("disk-full", Fault::disk_full()),
            ("flush-timeout", Fault::flush_timeout()),
            ("slave-lag", Fault::slave_lag()),
        ] {
            let parsed: Fault = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(parsed, expected, "{text}");
            let json = serde_json::to_string(&expected).unwrap();
            assert_eq!(json.parse::<Fault>().as_ref(), Ok(&expected), "{json}");
        }
    }

    #[test]
    fn what_is_no_fault_is_explained() {
        for (text, part) in [
            ("", "does not say what is to happen"),
            ("topic=orders", "does not say what is to happen"),
            ("topc=orders,close", "topc"),
            ("close,drop-answer", "one thing too many"),
            ("delay=soon", "no number"),
            ("close=1", "takes no value"),
            ("drip=3", "BYTES/MILLISECONDS"),
            ("port=http,off", "name-server"),
            ("{\"do\":\"explode\"}", "explode"),
            ("{\"do\":\"close\",\"when\":1}", "when"),
        ] {
            let error = text.parse::<Fault>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
