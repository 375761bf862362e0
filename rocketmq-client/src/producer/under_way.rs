//! Counting sends under way.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts what is under way, refuses more once it is told to, and lets one wait for the end of what is left.
///
/// Counting costs one addition and one subtraction a send.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    count: AtomicUsize,
    ending: AtomicBool,
    ended: Notify,
}

/// One that is under way until this is dropped.
#[derive(Debug)]
pub(super) struct Counted<'a>(&'a UnderWay);

impl UnderWay {
    /// Counts one more; `None` when no more may begin.
    pub(super) fn begin(&self) -> Option<Counted<'_>> {
        self.count.fetch_add(1, Ordering::SeqCst);
        let counted = Counted(self);
        (!self.ending.load(Ordering::SeqCst)).then_some(counted)
    }

    /// Lets no more begin and waits until nothing is under way. Dropping the future ends the wait only.
    pub(super) async fn end(&self) {
        // In one order with the counting: either the last one sees this, or it is no longer counted below.
        self.ending.store(true, Ordering::SeqCst);
        loop {
            let ended = self.ended.notified();
            if self.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Whether nothing is under way.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.ending.load(Ordering::SeqCst) {
            self.0.ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::yield_now;

    #[tokio::test]
    async fn the_end_waits_for_what_has_begun_and_for_nothing_else() {
        let under_way = UnderWay::default();
        let (first, second) = (under_way.begin(), under_way.begin());
        assert!(first.is_some() && second.is_some());
        let mut end = Box::pin(under_way.end());
        for counted in [first, second] {
            tokio::select! {
                biased;
                () = &mut end => panic!("ended too early"),
                () = yield_now() => {}
            }
            assert!(under_way.begin().is_none());
            drop(counted);
        }
        end.await;
        under_way.end().await;
        assert!(under_way.is_empty());
    }
}
