//! Receiving messages.

mod allocate;
mod flow_control;
mod message_view;
mod process_queue;
mod start_offset;
mod subscription;

pub use message_view::MessageView;
pub use start_offset::ConsumeFrom;
