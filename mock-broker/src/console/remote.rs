//! The broker, reached from beside it.

use hyper::StatusCode;
use tokio::sync::{mpsc, oneshot};

use super::Problem;
use crate::server::{Control, State};

/// Asks the broker's server. Does not keep the broker alive.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    control: mpsc::WeakUnboundedSender<Control>,
}

impl Remote {
    pub(crate) fn new(control: &mpsc::UnboundedSender<Control>) -> Self {
        Remote { control: control.downgrade() }
    }

    /// Has something done with the state.
    ///
    /// # Errors
    ///
    /// While the broker is stopped.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut State) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let (done, result) = oneshot::channel();
        let call = Control::Call(Box::new(move |state| {
            // Whoever asked may be gone.
            let _ = done.send(call(state));
        }));
        self.send(call)?;
        result.await.map_err(|_| stopped())
    }

    /// Stops the broker, starts it, or empties it.
    ///
    /// # Errors
    ///
    /// What goes wrong, in words.
    pub(super) async fn control(
        &self,
        message: impl FnOnce(oneshot::Sender<Result<(), crate::StartError>>) -> Control,
    ) -> Result<(), Problem> {
        let (done, result) = oneshot::channel();
        self.send(message(done))?;
        let result = result.await.map_err(|_| stopped())?;
        result.map_err(|error| Problem::new(StatusCode::CONFLICT, error.to_string()))
    }

    fn send(&self, message: Control) -> Result<(), Problem> {
        let control = self.control.upgrade().ok_or_else(stopped)?;
        control.send(message).map_err(|_| stopped())
    }
}

fn stopped() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the broker is stopped: POST /v1/broker/start starts it")
}
