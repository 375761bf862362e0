//! Receiving messages.
//!
//! `rebalance` compares the queues that this client should read with those it reads, and gives each its own task
//! (`pull`), which asks `offset_store` where to begin, keeps one pull under way while `flow_control` allows, and puts what
//! comes (`received`) into the queue's `process_queue`. `dispatch` passes the messages of all queues in turn to as many
//! workers as handlers may run at once (`concurrent`). What was not consumed goes back to the broker (`retry`). The offset
//! committed is that of the first message that is not done, so nothing is lost whatever fails in between.

mod allocate;
mod concurrent;
mod dispatch;
mod flow_control;
mod group;
mod message_view;
mod offset_store;
mod owned_queue;
mod process_queue;
mod pull;
mod push;
mod rebalance;
mod received;
mod retry;
mod start_offset;
mod subscription;

pub use concurrent::HandlerResult;
pub use group::ConsumerStats;
pub use message_view::MessageView;
pub use push::{PushConsumer, PushConsumerBuilder};
pub use start_offset::ConsumeFrom;

#[cfg(test)]
mod tests;
