//! Telling a broker how a transaction ended.

use std::time::Instant;

use bytes::Bytes;
use rocketmq_wire::message::sys_flag;
use rocketmq_wire::request::reply::EndTransactionRequest;

use super::{Half, TransactionResolution};
use crate::error::Result;
use crate::producer::Inner;
use crate::remoting::Peer;
use crate::trace_topic::{MessageType, Subject};

/// Tells the broker. Of a decision its confirmation is awaited: the Java client does not ask for one, but all brokers
/// answer who does. Of no decision there is nothing to confirm, and brokers do not answer.
pub(super) async fn end(
    producer: &Inner,
    peer: &Peer,
    half: &Half<'_>,
    resolution: TransactionResolution,
    why: Option<&str>,
    deadline: Instant,
) -> Result<()> {
    trace(producer, peer, half, resolution);
    let request = EndTransactionRequest {
        topic: Some(half.topic.into()),
        producer_group: half.group.into(),
        tran_state_table_offset: half.queue_offset,
        commit_log_offset: half.commit_log_offset,
        commit_or_rollback: match resolution {
            TransactionResolution::Commit => sys_flag::TRANSACTION_COMMIT,
            TransactionResolution::Rollback => sys_flag::TRANSACTION_ROLLBACK,
            TransactionResolution::Unknown => sys_flag::TRANSACTION_NONE,
        },
        from_transaction_check: Some(half.from_check),
        message_id: half.message_id.into(),
        transaction_id: Some(half.transaction_id.into()),
        broker_name: half.broker_name.map(Into::into),
    };
    let (operation, answer) = match resolution {
        TransactionResolution::Commit => ("commit", peer.call(&request, &Bytes::new(), deadline).await),
        TransactionResolution::Rollback => ("roll back", peer.call(&request, &Bytes::new(), deadline).await),
        TransactionResolution::Unknown => {
            if let Some(why) = why {
                tracing::warn!(message_id = half.message_id, group = half.group, why, "a transaction stays undecided");
            }
            let told = peer.call_one_way(&request, &Bytes::new(), deadline).await;
            return told.map_err(|error| error.with_operation("leave a transaction undecided"));
        }
    };
    answer.and_then(|answer| answer.success()).map(drop).map_err(|error| error.with_operation(operation))
}

fn trace(producer: &Inner, peer: &Peer, half: &Half<'_>, resolution: TransactionResolution) {
    let Some(tracer) = &producer.tracer else { return };
    let subject = Subject {
        timestamp_ms: producer.cluster.env().wall_clock_ms(),
        region: "",
        group: half.group,
        topic: half.topic,
        message_id: half.message_id,
        tags: half.tags,
        keys: half.keys,
        store_host: peer.address(),
        message_type: MessageType::Commit,
    };
    let state = match resolution {
        TransactionResolution::Commit => "COMMIT_MESSAGE",
        TransactionResolution::Rollback => "ROLLBACK_MESSAGE",
        TransactionResolution::Unknown => "UNKNOW",
    };
    tracer.transaction_ended(&subject, half.transaction_id, state, half.from_check);
}
