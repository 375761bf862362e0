//! Receiving messages.
//!
//! `rebalance` compares the queues that this client should read (`allocate`) with those it reads, and gives each its own task
//! (`pull`), which locks it if order is wanted (`lock`), asks `queue_offset` where to begin, keeps one pull under way while
//! `flow_control` allows, and puts what comes (`received`) into the queue's `process_queue`. `dispatch` passes the messages of
//! all queues in turn to as many workers as handlers may run at once (`concurrent`), or to a `stream`. `settle` does what
//! becomes of each: what was not consumed goes back to the broker (`retry`) or waits in `redelivery`. The offset committed
//! (`offset_store`) is that of the first message that is not done, so nothing is lost whatever fails in between.
//!
//! `pull_consumer` is for those who ask for messages themselves.

mod allocate;
mod builder;
mod concurrent;
mod delay_levels;
mod dispatch;
mod explain;
mod flow_control;
mod group;
mod handler;
mod lanes;
mod lock;
mod message_view;
mod offset_store;
mod order;
mod owned_queue;
mod process_queue;
mod pull;
mod pull_consumer;
mod push;
mod queue_offset;
mod rebalance;
mod received;
mod redelivery;
mod reports;
mod requests;
mod retry;
mod settle;
mod start;
mod start_offset;
mod stream;
mod subscription;
mod sweep;
mod window;

pub use allocate::{
    AllocateStrategy, Average, AverageByCircle, Configured, ConsistentHash, MachineRoom, MachineRoomNearby,
    MachineRoomResolver,
};
pub use builder::PushConsumerBuilder;
pub use explain::{Explanation, Paused, QueueExplanation, TopicExplanation, Trouble};
pub use group::ConsumerStats;
pub use handler::{BatchHandlerResult, BatchResult, ConsumeResult, HandlerResult};
pub use message_view::MessageView;
pub(crate) use message_view::Origin;
pub use offset_store::OffsetStore;
pub use pull_consumer::{PullConsumer, PullConsumerBuilder, PullResult, QueueReader};
pub use push::{PushConsumer, Unfinished, UnfinishedQueue};
pub use rebalance::QueueChange;
pub use start_offset::ConsumeFrom;
pub use stream::{Delivery, DeliveryStream};
pub use subscription::FilterExpression;

#[cfg(test)]
mod tests;
