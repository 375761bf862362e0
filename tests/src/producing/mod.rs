//! What our producer must do on any broker, beside plain sends.

mod forms;
mod requests;
mod transactions;
mod watching;

pub use forms::*;
pub use requests::*;
pub use transactions::*;
pub use watching::*;
