//! Where a topic's queues are: a name server's answer, made ready for sending and receiving. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use rocketmq_wire::fastjson;
use rocketmq_wire::model::{QueueData, TopicRoute, perm};

use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;

/// The id of a broker's master; other ids are slaves.
pub(crate) const MASTER_ID: i64 = 0;

/// More queues than this in one route are not believed: the numbers in it size memory.
const MOST_QUEUES: usize = 1 << 16;

/// A topic's queues and the brokers that hold them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    brokers: BTreeMap<Arc<str>, Broker>,
    write_queues: Arc<[WriteQueue]>,
    read_queues: Arc<[MessageQueue]>,
}

/// A broker and the addresses of its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broker {
    pub(crate) name: Arc<str>,
    /// By broker id; [`MASTER_ID`] is the master.
    pub(crate) addresses: BTreeMap<i64, Arc<str>>,
}

/// A queue that may be sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WriteQueue {
    pub(crate) queue: MessageQueue,
    /// Address of the broker's master.
    pub(crate) master: Arc<str>,
}

impl Route {
    /// Reads the body of a name server's answer, in any dialect of any version.
    pub(crate) fn parse(topic: &Arc<str>, body: &[u8]) -> Result<Self> {
        let route: TopicRoute = fastjson::from_slice("route", body).map_err(|error| {
            Error::new(ErrorKind::Protocol, format!("the route of `{topic}` cannot be read: {error}"))
                .with_source(error)
        })?;
        Ok(Self::new(topic, &route))
    }

    fn new(topic: &Arc<str>, route: &TopicRoute) -> Self {
        let brokers: BTreeMap<Arc<str>, Broker> = route
            .broker_datas
            .iter()
            .map(|data| {
                let name: Arc<str> = data.broker_name.as_str().into();
                let addresses = data.broker_addrs.iter().map(|(&id, address)| (id, address.as_str().into())).collect();
                (Arc::clone(&name), Broker { name, addresses })
            })
            .collect();
        let mut by_name: Vec<&QueueData> = route.queue_datas.iter().collect();
        by_name.sort_by(|a, b| a.broker_name.cmp(&b.broker_name));
        let shared_name =
            |name: &str| brokers.get_key_value(name).map_or_else(|| name.into(), |(name, _)| Arc::clone(name));
        let queue = |name: &Arc<str>, id| MessageQueue::new(Arc::clone(topic), Arc::clone(name), id);

        let read_queues = by_name
            .iter()
            .filter(|data| data.perm & perm::READ != 0)
            .flat_map(|data| {
                let name = shared_name(&data.broker_name);
                (0..data.read_queue_nums).map(move |id| queue(&name, id))
            })
            .take(MOST_QUEUES)
            .collect();
        let writable = |(name, count): (&str, i32)| {
            let broker = brokers.get(name).and_then(|broker| Some((&broker.name, broker.master()?)));
            broker.into_iter().flat_map(move |(name, master)| {
                (0..count).map(move |id| WriteQueue { queue: queue(name, id), master: Arc::clone(master) })
            })
        };
        let ordered = route.order_topic_conf.as_deref().filter(|conf| !conf.is_empty()).map(order_configuration);
        let write_queues = match ordered {
            Some(ordered) => ordered.flat_map(writable).take(MOST_QUEUES).collect(),
            None => by_name
                .iter()
                .filter(|data| data.perm & perm::WRITE != 0)
                .flat_map(|data| writable((&data.broker_name, data.write_queue_nums)))
                .take(MOST_QUEUES)
                .collect(),
        };
        Self { brokers, write_queues, read_queues }
    }

    /// The route that a topic will get when a broker makes it on the first send: that of the default topic, with at
    /// most `queues` queues on each broker, none of them for reading yet.
    pub(crate) fn for_new_topic(&self, topic: &Arc<str>, queues: i32) -> Self {
        let rename =
            |queue: &MessageQueue| MessageQueue::new(Arc::clone(topic), Arc::clone(queue.shared_broker()), queue.id());
        let write_queues = self
            .write_queues
            .iter()
            .filter(|write| write.queue.id() < queues)
            .map(|write| WriteQueue { queue: rename(&write.queue), master: Arc::clone(&write.master) })
            .collect();
        Self { brokers: self.brokers.clone(), write_queues, read_queues: Arc::default() }
    }

    /// The brokers that hold queues of the topic, by name.
    pub(crate) fn brokers(&self) -> impl Iterator<Item = &Broker> {
        self.brokers.values()
    }

    /// The queues to send to, in the order of turns: those of writable brokers that have a master.
    pub(crate) fn write_queues(&self) -> &Arc<[WriteQueue]> {
        &self.write_queues
    }

    /// The queues to receive from, by broker name and number.
    pub(crate) fn read_queues(&self) -> &Arc<[MessageQueue]> {
        &self.read_queues
    }
}

impl Broker {
    /// Address of the master, if there is one.
    pub(crate) fn master(&self) -> Option<&Arc<str>> {
        self.addresses.get(&MASTER_ID)
    }

    /// Address to read from when replica `wanted` is asked for, and its id: that one, or the first slave after it, or
    /// any.
    pub(crate) fn reading_from(&self, wanted: i64) -> Option<(i64, &Arc<str>)> {
        let address = |id: i64| self.addresses.get(&id).map(|address| (id, address));
        let next = || if wanted == MASTER_ID { None } else { address(wanted + 1) };
        let any = || self.addresses.first_key_value().map(|(&id, address)| (id, address));
        address(wanted).or_else(next).or_else(any)
    }
}

/// `broker:count` pairs with semicolons between them; what is not one is passed over.
fn order_configuration(text: &str) -> impl Iterator<Item = (&str, i32)> {
    text.split(';').filter_map(|pair| {
        let (broker, count) = pair.split_once(':')?;
        Some((broker, count.trim().parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Route {
        Route::parse(&"t".into(), json.as_bytes()).expect("a route")
    }

    fn writes(route: &Route) -> Vec<String> {
        route.write_queues().iter().map(|write| format!("{}@{}", write.queue, write.master)).collect()
    }

    /// Bare numeric keys, as name servers write them for old clients.
    const TWO_BROKERS: &str = r#"{"brokerDatas":[
        {"brokerAddrs":{0:"b0:1",1:"b1:1"},"brokerName":"b","cluster":"c"},
        {"brokerAddrs":{0:"a0:1"},"brokerName":"a","cluster":"c"}],
        "queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":1,"topicSynFlag":0,"writeQueueNums":2},
        {"brokerName":"a","perm":6,"readQueueNums":2,"writeQueueNums":1,"topicSysFlag":0}]}"#;

    #[test]
    fn queues_are_sorted_by_broker_and_number() {
        let route = parse(TWO_BROKERS);
        assert_eq!(writes(&route), ["t:a:0@a0:1", "t:b:0@b0:1", "t:b:1@b0:1"]);
        let reads: Vec<_> = route.read_queues().iter().map(ToString::to_string).collect();
        assert_eq!(reads, ["t:a:0", "t:a:1", "t:b:0"]);
        assert_eq!(parse(&TWO_BROKERS.replace("0:\"", "\"0\":\"").replace("1:\"b1", "\"1\":\"b1")), route);
    }

    #[test]
    fn writing_needs_permission_and_a_master_reading_does_not() {
        let no_master = TWO_BROKERS.replace("{0:\"b0:1\",1:\"b1:1\"}", "{1:\"b1:1\"}");
        let route = parse(&no_master.replace("\"a\",\"perm\":6", "\"a\",\"perm\":2"));
        assert_eq!(writes(&route), ["t:a:0@a0:1"]);
        assert_eq!(route.read_queues().len(), 1);
        let gone = parse(&TWO_BROKERS.replace("\"brokerName\":\"a\",\"cluster\"", "\"brokerName\":\"z\",\"cluster\""));
        assert_eq!(writes(&gone), ["t:b:0@b0:1", "t:b:1@b0:1"]);
    }

    #[test]
    fn an_ordered_topic_has_the_queues_of_its_configuration() {
        let conf = r#"{"orderTopicConf":"b:1;a:2;x:1;junk;:","#;
        let route = parse(&TWO_BROKERS.replacen('{', conf, 1));
        assert_eq!(writes(&route), ["t:b:0@b0:1", "t:a:0@a0:1", "t:a:1@a0:1"]);
        let none = parse(&TWO_BROKERS.replacen('{', r#"{"orderTopicConf":null,"#, 1));
        assert_eq!(none, parse(TWO_BROKERS));
    }

    #[test]
    fn a_new_topic_takes_the_default_topics_place() {
        let route = parse(TWO_BROKERS).for_new_topic(&"new".into(), 1);
        assert_eq!(writes(&route), ["new:a:0@a0:1", "new:b:0@b0:1"]);
        assert!(route.read_queues().is_empty());
    }

    #[test]
    fn a_replica_to_read_from() {
        let route = parse(TWO_BROKERS);
        let broker = route.brokers().last().expect("two brokers");
        let read = |wanted| broker.reading_from(wanted).map(|(id, address)| (id, &**address));
        assert_eq!((read(0), read(1), read(7)), (Some((0, "b0:1")), Some((1, "b1:1")), Some((0, "b0:1"))));
        let slaves = Broker { name: "b".into(), addresses: [(2, "s:1".into())].into() };
        assert_eq!(slaves.reading_from(1).map(|(id, _)| id), Some(2));
        assert_eq!(slaves.reading_from(0).map(|(id, _)| id), Some(2));
        assert_eq!(slaves.master(), None);
    }

    #[test]
    fn numbers_do_not_size_memory() {
        let route = parse(&TWO_BROKERS.replace("\"writeQueueNums\":2", "\"writeQueueNums\":2147483647"));
        assert_eq!(route.write_queues().len(), MOST_QUEUES);
        assert_eq!(writes(&parse(&TWO_BROKERS.replace("\"writeQueueNums\":2", "\"writeQueueNums\":-2"))).len(), 1);
    }

    #[test]
    fn broken_routes_are_errors() {
        for end in 0..TWO_BROKERS.len() {
            let error = Route::parse(&"t".into(), &TWO_BROKERS.as_bytes()[..end]).expect_err("cut short");
            assert_eq!(error.kind(), ErrorKind::Protocol);
        }
        let recorded_forms = parse("{}");
        assert!(recorded_forms.write_queues().is_empty());
    }
}
