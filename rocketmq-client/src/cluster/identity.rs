//! How a client names itself and its messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU16, Ordering};

use rocketmq_wire::message::id::{UniqueId, UniqueIdFactory, UniqueIdSuffix};

/// How a client names itself and its messages.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(super) client_id: Arc<str>,
    /// Whether the client id is the same each time.
    pub(super) has_instance_name: bool,
    unique_ids: UniqueIdFactory,
    counter: AtomicU16,
    month: Month,
}

/// The month that the last id was made in, so that not every id takes a calendar. Empty at first.
#[derive(Debug, Default)]
struct Month {
    start: AtomicI64,
    end: AtomicI64,
}

impl Identity {
    pub(crate) fn new(client_id: String, has_instance_name: bool, unique_ids: UniqueIdFactory, first: u16) -> Self {
        let counter = AtomicU16::new(first);
        Self { client_id: client_id.into(), has_instance_name, unique_ids, counter, month: Month::default() }
    }

    /// The part of a new message id that has to be kept, made at `now_ms` (milliseconds since 1970).
    #[inline]
    pub(super) fn next_unique_id(&self, now_ms: i64) -> UniqueIdSuffix {
        let counter = self.counter.fetch_add(1, Ordering::Relaxed);
        // The end is written last: with the end of one month and the start of the next there is nothing in between.
        let end = self.month.end.load(Ordering::Acquire);
        let known = self.month.start.load(Ordering::Acquire)..end;
        if known.contains(&now_ms) {
            return self.unique_ids.suffix_in(&known, now_ms, counter);
        }
        let month = self.unique_ids.month(now_ms);
        self.month.end.store(i64::MIN, Ordering::Release);
        self.month.start.store(month.start, Ordering::Release);
        self.month.end.store(month.end, Ordering::Release);
        self.unique_ids.suffix_in(&month, now_ms, counter)
    }

    /// What all message ids begin with.
    pub(super) fn unique_id_prefix(&self) -> &str {
        self.unique_ids.prefix()
    }

    /// The message id of that part.
    #[inline]
    pub(super) fn unique_id(&self, suffix: UniqueIdSuffix) -> UniqueId {
        self.unique_ids.with(suffix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocketmq_wire::message::id::UniqueIdParts;
    use std::net::Ipv4Addr;

    #[test]
    fn ids_follow_the_calendar_whichever_way_the_clock_goes() {
        let ids = || UniqueIdFactory::new(Ipv4Addr::LOCALHOST.into(), 1, 2, 3_600_000);
        let identity = Identity::new("c".into(), false, ids(), 0);
        // Ends of months, a leap day, and a step back.
        for now_ms in [1_700_000_000_000, 1_701_385_199_999, 1_701_385_200_000, 1_709_161_200_000, 1_700_000_000_000] {
            let id = identity.unique_id(identity.next_unique_id(now_ms));
            let parts = UniqueIdParts::parse(id.as_str()).expect("an id");
            let fresh = UniqueIdParts::parse(ids().id(now_ms, 0).as_str()).expect("an id");
            assert_eq!(parts.since_month_start_millis, fresh.since_month_start_millis, "{now_ms}");
        }
    }
}
