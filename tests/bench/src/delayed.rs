//! Many delayed messages in a store whose clock is turned a second at a time.

use std::{error::Error, net::SocketAddr};

use rocketmq_mock_broker::store::{Arrival, PutMessage, Store, StoreConfig, TimerConfig};

use crate::{arguments::Arguments, outcome::Stopwatch};

const TOPIC: &str = "bench";
/// When all begin to wait, in milliseconds since 1970.
const NOW: i64 = 1_700_000_000_000;
/// The clock is turned by this much, in milliseconds.
const TICK: i64 = 1000;
/// The longest delay level, in ticks. Messages for a time of their own are spread over as many.
const TICKS: i64 = 2 * 3600;
/// Delay levels, which brokers have from 1 on.
const LEVELS: i64 = 18;

/// Puts `count` messages, half of them with a delay level and half for a time, and turns the clock until all are due:
/// `count=N`. A message fails that does not come, or not in the tick in which it is due.
///
/// # Errors
///
/// When the store refuses a message.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let count: i64 = arguments.number("count", 1);
    let stopwatch = Stopwatch::start();
    let mut config = StoreConfig::memory();
    config.timers = Some(TimerConfig::default());
    let mut store = Store::memory(config);
    let levels = store.config().delay_levels.to_string();
    let delays: Vec<i64> = levels.split(' ').map(milliseconds).collect();
    for index in 0..count {
        let number = index / 2;
        let (due, properties) = if index % 2 == 0 {
            let level = number % LEVELS;
            (NOW + delays[level as usize], format!("DELAY\u{1}{}\u{2}", level + 1))
        } else {
            let due = NOW + (1 + number % TICKS) * TICK;
            (due, format!("TIMER_DELIVER_MS\u{1}{due}\u{2}"))
        };
        store.put(NOW, &message(&due.to_be_bytes(), properties.as_bytes()))?;
    }
    let (mut fired, mut in_time) = (0, 0);
    for tick in 0..=TICKS {
        let now = NOW + tick * TICK;
        let mut arrived = |arrival: Arrival<'_>| {
            if arrival.topic == TOPIC {
                let due = arrival.record.body().first_chunk().map_or(0, |due| i64::from_be_bytes(*due));
                fired += 1;
                in_time += i64::from(due == now);
            }
        };
        store.deliver_scheduled(now, &mut arrived)?;
        store.deliver_timed(now, &mut arrived)?;
    }
    // What comes twice is as bad as what does not come.
    let failed = (count - in_time).max(fired - in_time);
    stopwatch.outcome(in_time as u64, failed as u64).print();
    Ok(())
}

fn milliseconds(delay: &str) -> i64 {
    let (number, unit) = delay.split_at(delay.len() - 1);
    let unit = match unit {
        "s" => 1000,
        "m" => 60_000,
        _ => 3_600_000,
    };
    number.parse::<i64>().unwrap_or(0) * unit
}

fn message<'a>(body: &'a [u8], properties: &'a [u8]) -> PutMessage<'a> {
    let host = SocketAddr::from(([127, 0, 0, 1], 10911));
    PutMessage {
        topic: TOPIC,
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp: NOW,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties,
    }
}
