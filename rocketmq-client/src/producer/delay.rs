//! Messages for a time of their own: by the timer of brokers since 5.0, by delay levels before.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rocketmq_wire::message::properties;
use rocketmq_wire::request::admin::BrokerConfigRequest;
use rocketmq_wire::{ResponseCode, Version};

use super::Inner;
use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::remoting::Peer;

/// How a broker holds a message back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Delay {
    /// Until the time asked for, to the second: the timer of brokers since 5.0.
    Timer,
    /// For the time of this delay level, the smallest that is not shorter than what was asked for: brokers before 5.0.
    Level(u32),
    /// Not at all, as the time had come.
    None,
}

/// What a broker can do about delays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ability {
    Timer,
    /// The time of each level, from 1 on.
    Levels(Vec<Duration>),
}

/// The levels of a broker that is not configured otherwise, as it writes them.
const DEFAULT_LEVELS: &str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";

/// The time of one level: a number and a unit.
fn level(text: &str) -> Option<Duration> {
    let unit = match text.chars().next_back()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    let count: u64 = text[..text.len() - 1].parse().ok()?;
    Some(Duration::from_secs(count.checked_mul(unit)?))
}

/// Reads a table of levels as brokers do: up to the first that is none.
fn levels(text: &str) -> Vec<Duration> {
    text.trim().split(' ').map_while(level).collect()
}

/// What a broker of this version can do that has these properties, lines of `key=value`; they may be unknown.
fn ability(version: Version, configuration: &str) -> Ability {
    let value = |wanted: &str| {
        let mut pairs = configuration.lines().filter_map(|line| line.split_once('='));
        pairs.find(|(key, _)| key.trim() == wanted).map(|(_, value)| value.trim())
    };
    if version >= Version::V5_0_0 && value("timerWheelEnable") != Some("false") {
        return Ability::Timer;
    }
    Ability::Levels(levels(value("messageDelayLevel").unwrap_or(DEFAULT_LEVELS)))
}

/// The smallest level that is not shorter than `wanted`, counted from 1.
fn smallest(levels: &[Duration], wanted: Duration) -> Option<u32> {
    let place = levels.iter().enumerate().filter(|(_, time)| **time >= wanted).min_by_key(|(_, time)| **time)?.0;
    u32::try_from(place + 1).ok()
}

impl Inner {
    /// How the broker will hold the message back, and the properties that make it do so; without the unique id.
    pub(super) async fn time(&self, message: &Message, peer: &Peer, deadline: Instant) -> Result<(Delay, String)> {
        let mut plain = message.clone();
        let timer = plain.take_timer();
        let now_ms = self.cluster.env().wall_clock_ms();
        let wanted = match timer {
            Some((properties::TIMER_DELIVER_MS, at_ms)) => at_ms.saturating_sub(now_ms),
            Some((_, after_ms)) => after_ms,
            None => 0,
        };
        let Ok(wanted) = u64::try_from(wanted).map(Duration::from_millis) else {
            return Ok((Delay::None, plain.encoded_properties().to_owned()));
        };
        match self.ability(peer, deadline).await? {
            Ability::Timer => Ok((Delay::Timer, message.encoded_properties().to_owned())),
            Ability::Levels(_) if wanted.is_zero() => Ok((Delay::None, plain.encoded_properties().to_owned())),
            Ability::Levels(levels) => {
                let level = smallest(&levels, wanted).ok_or_else(|| {
                    let longest = levels.iter().max().copied().unwrap_or_default();
                    Error::new(
                        ErrorKind::Unsupported,
                        format!(
                            "the message for `{}` is to be held back for {wanted:?}, but this broker has no timer, and the \
                             longest of its delay levels is {longest:?}",
                            message.topic()
                        ),
                    )
                    .with_broker(std::sync::Arc::clone(peer.address()))
                })?;
                plain.set_own_property(properties::DELAY, &level.to_string());
                Ok((Delay::Level(level), plain.encoded_properties().to_owned()))
            }
        }
    }

    /// What the broker can do: asked once, and again when it is of another version.
    async fn ability(&self, peer: &Peer, deadline: Instant) -> Result<Ability> {
        let known = || self.abilities.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((version, ability)) = known().get(peer.address())
            && peer.version().is_none_or(|current| current == *version)
        {
            return Ok(ability.clone());
        }
        let answer = peer.call(&BrokerConfigRequest, &Bytes::new(), deadline).await?;
        let version = answer.version();
        // Who may not ask for the configuration learns the version all the same.
        let configuration = match answer.code() {
            ResponseCode::SUCCESS => String::from_utf8_lossy(answer.body()).into_owned(),
            _ => String::new(),
        };
        let ability = ability(version, &configuration);
        known().insert(std::sync::Arc::clone(peer.address()), (version, ability.clone()));
        Ok(ability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_tell_what_they_can() {
        let default: Vec<_> = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
            .map(Duration::from_secs)
            .into();
        let seconds = |list: &[u64]| Ability::Levels(list.iter().copied().map(Duration::from_secs).collect());
        assert_eq!(ability(Version::V4_9_7, ""), Ability::Levels(default));
        assert_eq!(ability(Version::V4_4_0, "a=b\nmessageDelayLevel=1s 2m x 5s\n"), seconds(&[1, 120]));
        assert_eq!(ability(Version::V5_0_0, "messageDelayLevel=1s"), Ability::Timer);
        assert_eq!(ability(Version::V5_3_3, "timerWheelEnable=false\r\nmessageDelayLevel=2d"), seconds(&[172_800]));
    }

    #[test]
    fn the_level_chosen_is_never_early() {
        let levels = levels(DEFAULT_LEVELS);
        for (wanted, expected) in
            [(1, Some(1)), (1000, Some(1)), (1001, Some(2)), (59_999, Some(5)), (7_200_000, Some(18))]
        {
            assert_eq!(smallest(&levels, Duration::from_millis(wanted)), expected, "{wanted}");
        }
        assert_eq!(smallest(&levels, Duration::from_millis(7_200_001)), None);
        // A table need not be in order.
        assert_eq!(smallest(&super::levels("10s 1s 5s"), Duration::from_secs(2)), Some(3));
    }
}
