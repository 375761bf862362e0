//! Putting faults on a broker from the test that holds it.

use rocketmq_wire::ResponseCode;
use tokio::sync::mpsc;

use super::{MockBroker, block_on};
use crate::fault::{Fault, FaultStatus};
use crate::pattern::Requests;
use crate::server::{Control, State};

/// A fault that lasts until this is dropped.
///
/// Dropping waits until the broker's thread has removed the fault, for no longer than it needs to answer a request.
#[derive(Debug)]
#[must_use = "the fault is removed when this is dropped; `keep` leaves it"]
pub struct FaultGuard {
    id: u64,
    /// Weak, because the broker ends when nobody can ask it for anything.
    control: mpsc::WeakUnboundedSender<Control>,
}

impl FaultGuard {
    /// The fault's number.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How many requests the fault has met; 0 once the broker is gone or stopped.
    #[must_use]
    pub fn hits(&self) -> u64 {
        let id = self.id;
        let hits = self.call(move |state| {
            state.faults().into_iter().find(|status| status.id == id).map_or(0, |status| status.hits)
        });
        hits.unwrap_or(0)
    }

    /// Removes the fault now.
    pub fn remove(self) {
        drop(self);
    }

    /// Leaves the fault until it is used up or removed by its number, which this returns.
    pub fn keep(mut self) -> u64 {
        // Nobody to ask any more: the drop does nothing.
        self.control = mpsc::unbounded_channel().0.downgrade();
        self.id
    }

    fn call<T: Send + 'static>(&self, call: impl FnOnce(&mut State) -> T + Send + 'static) -> Option<T> {
        let control = self.control.upgrade()?;
        block_on(super::ask(&control, call))
    }
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        let id = self.id;
        // A broker that is stopped keeps its faults; it is told when it serves again, or never.
        let _ = self.call(move |state| state.remove_fault(id));
    }
}

impl MockBroker {
    /// Puts a fault behind those that there are: the first that a request matches decides. It lasts until the guard is
    /// dropped. Waits for the broker's thread, for no longer than it needs to answer a request; what the fault does to ports
    /// has been done when this returns.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rocketmq_mock_broker::StartError> {
    /// use rocketmq_mock_broker::{Family, Fault, MockBroker};
    ///
    /// let broker = MockBroker::start().await?;
    /// let lost = broker.fault(Fault::drop_answer().on(Family::Send).topic("orders").times(1));
    /// // .. the first send is stored, and its producer waits in vain ..
    /// assert_eq!(lost.hits(), 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub fn fault(&self, fault: Fault) -> FaultGuard {
        let id = self.call_blocking(move |state| state.put_fault(fault));
        let control = self.control.as_ref().map(mpsc::UnboundedSender::downgrade);
        FaultGuard { id, control: control.unwrap_or_else(|| mpsc::unbounded_channel().0.downgrade()) }
    }

    /// Answers the next `times` requests of a code or a family with a response code, without acting on them.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub fn fail_next(&self, requests: impl Into<Requests>, response: ResponseCode, times: u32) {
        self.fault(Fault::answer(response, "fault of a test").on(requests).times(times)).keep();
    }

    /// All faults in their order, used-up ones included.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    #[must_use]
    pub fn faults(&self) -> Vec<FaultStatus> {
        self.call_blocking(|state| state.faults())
    }

    /// Removes a fault by its number. Returns whether it was there.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub fn remove_fault(&self, id: u64) -> bool {
        self.call_blocking(move |state| state.remove_fault(id))
    }

    /// Removes all faults.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub fn clear_faults(&self) {
        self.call_blocking(State::clear_faults);
    }
}
