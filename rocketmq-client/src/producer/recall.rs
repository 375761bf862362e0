//! Taking back messages that wait for their time.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use bytes::Bytes;
use rocketmq_wire::message::names;
use rocketmq_wire::request::send::RecallMessageRequest;

use super::{Inner, Producer};
use crate::error::{Error, ErrorKind, Result};
use crate::message::invalid;

impl Producer {
    /// Takes back a timed message that is not delivered yet, and returns its id.
    ///
    /// `handle` is what the [receipt](super::SendReceipt::recall_handle) of the send said. Brokers know recalls since 5.3.2,
    /// and allow them when `recallMessageEnable` is set there. There is one attempt, within the producer's timeout.
    ///
    /// Dropping the future may have taken the message back or not.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a topic or handle that is none, [`ErrorKind::NoRoute`] when no broker of the topic is
    /// known, [`ErrorKind::NotPermitted`] when the broker does not allow recalls, [`ErrorKind::Unsupported`] when it does not
    /// know them, [`ErrorKind::Rejected`] with code 604 when it is too late.
    pub async fn recall(&self, topic: &str, handle: &str) -> Result<String> {
        self.0.recall(topic, handle).await.map_err(|error| error.with_operation("recall"))
    }
}

impl Inner {
    async fn recall(&self, topic: &str, handle: &str) -> Result<String> {
        if names::is_retry_topic(topic) || names::is_dead_letter_topic(topic) {
            return Err(invalid(format!("messages of `{topic}` have no time of their own that could be recalled")));
        }
        let broker = broker_of(handle)?;
        let deadline = self.deadline(self.cluster.env().now(), None);
        let known = self.look_up(&topic.into(), deadline).await?;
        let route = self.cluster.routes().for_sending(&known.topic, deadline).await?;
        let masters: Vec<_> = route.brokers().filter_map(|broker| Some((&broker.name, broker.master()?))).collect();
        let named = masters.iter().find(|(name, _)| ***name == *broker);
        let (name, master) = named.or_else(|| masters.first()).ok_or_else(|| {
            Error::new(ErrorKind::NoRoute, format!("no broker of the topic `{topic}` has a master to be asked"))
        })?;
        let request = RecallMessageRequest {
            producer_group: (&*self.group).into(),
            topic: topic.into(),
            recall_handle: handle.into(),
            broker_name: Some((&***name).into()),
        };
        let answer = self.cluster.peer(master).call(&request, &Bytes::new(), deadline).await?.success()?;
        answer.decode::<RecallMessageRequest<'_>>().map(|answer| answer.message_id.into_owned())
    }
}

/// The name of the broker in a handle: `v1 topic broker time id` in URL-safe base64.
fn broker_of(handle: &str) -> Result<String> {
    let text = URL_SAFE.decode(handle).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let broker = text.as_deref().and_then(|text| match text.split(' ').collect::<Vec<_>>()[..] {
        ["v1", _, broker, _, _] => Some(broker.to_owned()),
        _ => None,
    });
    broker.ok_or_else(|| invalid(format!("{handle:?} is no recall handle: take it from the receipt of the send")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_name_their_broker() {
        let handle = "djEgVCBicm9rZXItYSAxNzAwMDAwMDAwMDAxIDdGMDAwMDAxMDAwMTJBMTM5QTVBMDAwMA==";
        assert_eq!(broker_of(handle).expect("a handle"), "broker-a");
        let old = URL_SAFE.encode("v2 T broker-a 1 X");
        for wrong in ["", "djEg", "not base64!", old.as_str()] {
            assert_eq!(broker_of(wrong).expect_err("no handle").kind(), ErrorKind::InvalidArgument, "{wrong}");
        }
    }
}
