//! Counting sends under way.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::lanes::Lanes;

/// Counts what is under way, refuses more once it is told to, and lets one wait for the end of what is left.
///
/// What a send has to find out first is under the same lock as the count of those that began.
#[derive(Default)]
pub(super) struct UnderWay {
    lanes: Mutex<Lanes>,
    ended: AtomicUsize,
    ending: AtomicBool,
    one_ended: Notify,
}

/// One that is under way until this is dropped.
pub(super) struct Counted<'a>(&'a UnderWay);

impl UnderWay {
    /// The lock; held for a few instructions.
    pub(super) fn lanes(&self) -> MutexGuard<'_, Lanes> {
        // Nothing that is done under it can panic half way.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more and looks at the lanes; `None` when no more may begin.
    #[inline]
    pub(super) fn begin<T>(&self, look: impl FnOnce(&Lanes) -> T) -> Option<(Counted<'_>, T)> {
        let mut lanes = self.lanes();
        if lanes.is_closed() {
            return None;
        }
        lanes.begun = lanes.begun.wrapping_add(1);
        let seen = look(&lanes);
        Some((Counted(self), seen))
    }

    /// Lets no more begin and waits until nothing is under way. Dropping the future ends the wait only.
    pub(super) async fn end(&self) {
        // In one order with the counting: either the last one sees this, or it is counted as ended below.
        self.ending.store(true, Ordering::SeqCst);
        let begun = {
            let mut lanes = self.lanes();
            lanes.close();
            lanes.begun
        };
        loop {
            let one_ended = self.one_ended.notified();
            if self.ended.load(Ordering::SeqCst) == begun {
                return;
            }
            one_ended.await;
        }
    }

    /// Whether nothing is under way.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.ended.load(Ordering::SeqCst) == self.lanes().begun
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
        if self.0.ending.load(Ordering::SeqCst) {
            self.0.one_ended.notify_waiters();
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
        let begin = || under_way.begin(|_| ()).map(|(counted, ())| counted);
        let (first, second) = (begin(), begin());
        assert!(first.is_some() && second.is_some());
        let mut end = Box::pin(under_way.end());
        for counted in [first, second] {
            tokio::select! {
                biased;
                () = &mut end => panic!("ended too early"),
                () = yield_now() => {}
            }
            assert!(begin().is_none());
            drop(counted);
        }
        end.await;
        under_way.end().await;
    }
}
