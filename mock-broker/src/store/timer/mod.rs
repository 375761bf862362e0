//! Messages for any time (timers): they wait in `rmq_sys_wheel_timer` until they are due.
//!
//! ```text
//! put -> the timer topic -> enqueue -> slot of the wheel -> deliver -> the real topic
//! ```
//!
//! Time is cut into slots of [`TimerConfig::precision_ms`]. A message waits in the slot before the time it asks for,
//! and a slot is delivered when it is over, so that nothing is early and nothing is more than one slot late. What waits
//! is known in memory; on disk it is kept in Apache's `timerwheel`, `timerlog` and `config/timercheck`.

mod files;
mod wheel;

use rocketmq_wire::message::names;
use rocketmq_wire::message::properties::{self, Properties};

use crate::store::error::PutError;
use crate::store::properties::replaced;
use crate::store::put::PutMessage;

pub(super) use wheel::Timers;

/// The settings of timers; the defaults are those of Apache's broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimerConfig {
    /// Whether messages for a time are taken (`timerWheelEnable`). Default true; otherwise they are refused.
    pub enabled: bool,
    /// Length of a slot in milliseconds (`timerPrecisionMs`). Default 1000.
    pub precision_ms: i64,
    /// How far ahead a message may be, in milliseconds (`timerMaxDelaySec`, which is in seconds). Default three days.
    pub max_delay_ms: i64,
    /// Messages that wait for more slots are put to the timer topic again on their way (`timerRollWindowSlot`).
    /// Default 172,800.
    pub roll_window_slots: i64,
    /// Size of a file of the timer log in bytes (`mappedFileSizeTimerLog`). Default 100 MiB, sparse. A store that
    /// exists keeps the size of its files.
    pub log_file_size: u64,
}

impl Default for TimerConfig {
    fn default() -> Self {
        TimerConfig {
            enabled: true,
            precision_ms: 1000,
            max_delay_ms: 3 * 86_400_000,
            roll_window_slots: 172_800,
            log_file_size: 100 << 20,
        }
    }
}

/// A message on its way into the timer topic.
#[derive(Debug)]
pub(super) struct Timed {
    pub(super) properties: Vec<u8>,
    /// The slot that it waits in, in milliseconds since 1970.
    pub(super) out_ms: i64,
}

/// Decides whether a message has to wait; none if it is delivered at once, as one is whose time has come.
///
/// # Errors
///
/// [`PutError::TimerDisabled`] and [`PutError::TimerIllegal`].
pub(super) fn enter(config: &TimerConfig, now: i64, message: &PutMessage<'_>) -> Result<Option<Timed>, PutError> {
    let given = Properties::new(message.properties);
    // What was timed once is not timed again.
    if message.topic == names::TIMER_TOPIC || given.value(properties::TIMER_OUT_MS).is_some() {
        return Ok(None);
    }
    let Some(asked) = asked_time(given, now) else { return Ok(None) };
    if !config.enabled {
        return Err(PutError::TimerDisabled);
    }
    let illegal = || PutError::TimerIllegal { max_delay_ms: config.max_delay_ms };
    let deliver_ms = asked.ok_or_else(illegal)?;
    if deliver_ms <= now {
        let is_recall = given.value(properties::TIMER_DEL_UNIQUE_ID).is_some();
        return if is_recall { Err(illegal()) } else { Ok(None) };
    }
    if deliver_ms - now > config.max_delay_ms {
        return Err(illegal());
    }
    let out_ms = (deliver_ms - 1).div_euclid(config.precision_ms) * config.precision_ms;
    let changes = [
        (properties::TIMER_OUT_MS, out_ms.to_string()),
        (properties::REAL_TOPIC, message.topic.to_owned()),
        (properties::REAL_QUEUE_ID, message.queue_id.to_string()),
    ];
    Ok(Some(Timed { properties: replaced(message.properties, &[], &changes), out_ms }))
}

/// The time that a message asks for: none if it asks for none, `Some(None)` if it says something that is no time.
/// Sums that overflow wrap, as they do in Java, and so are in the past.
fn asked_time(given: Properties<'_>, now: i64) -> Option<Option<i64>> {
    let number = |text: &str| text.parse::<i64>().ok();
    if let Some(seconds) = given.value(properties::TIMER_DELAY_SEC) {
        return Some(number(seconds).map(|seconds| now.wrapping_add(seconds.wrapping_mul(1000))));
    }
    if let Some(milliseconds) = given.value(properties::TIMER_DELAY_MS) {
        return Some(number(milliseconds).map(|milliseconds| now.wrapping_add(milliseconds)));
    }
    given.value(properties::TIMER_DELIVER_MS).map(number)
}
