//! Bodies of answers, in the dialect of JSON that the asking client reads.
//!
//! No blanks anywhere: the Go client finds addresses by splitting the text.

use std::fmt::Write;

use rocketmq_wire::model::TopicList;

use super::route_table::{BrokerGroup, RouteTable};
use crate::compatibility::Compatibility;
use crate::json::{array, text};

/// The route of a topic; none if no broker has it. `quoted` asks for standard JSON, in which numbers that are keys
/// stand in quotes. `fixed` are the queues of an ordered topic.
pub(super) fn route(
    compatibility: Compatibility,
    routes: &RouteTable,
    topic: &str,
    fixed: Option<&str>,
    quoted: bool,
) -> Option<String> {
    let queues = routes.queues(topic)?;
    let mut out = String::from("{\"brokerDatas\":");
    array(
        &mut out,
        queues.keys().filter_map(|name| Some((name, routes.brokers().get(name)?))),
        |out, (name, group)| {
            broker(compatibility, out, name, group, quoted);
        },
    );
    out.push_str(",\"filterServerTable\":{}");
    if let Some(fixed) = fixed {
        out.push_str(",\"orderTopicConf\":");
        text(&mut out, fixed);
    }
    out.push_str(",\"queueDatas\":");
    array(&mut out, queues.values(), |out, queue| {
        out.push_str("{\"brokerName\":");
        text(out, &queue.broker_name);
        let sys_flag_key = compatibility.topic_sys_flag_key();
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            ",\"perm\":{},\"readQueueNums\":{},\"{sys_flag_key}\":{},\"writeQueueNums\":{}}}",
            queue.perm, queue.read_queue_nums, queue.topic_sys_flag, queue.write_queue_nums
        );
    });
    out.push('}');
    Some(out)
}

/// All brokers and clusters. Numbers that are keys never stand in quotes here.
pub(super) fn cluster(compatibility: Compatibility, routes: &RouteTable) -> String {
    let mut out = String::from("{\"brokerAddrTable\":{");
    let mut clusters = std::collections::BTreeMap::<&str, Vec<&str>>::new();
    for (index, (name, group)) in routes.brokers().iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        text(&mut out, name);
        out.push(':');
        broker(compatibility, &mut out, name, group, false);
        clusters.entry(&group.cluster).or_default().push(name);
    }
    out.push_str("},\"clusterAddrTable\":{");
    for (index, (cluster, names)) in clusters.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        text(&mut out, cluster);
        out.push(':');
        array(&mut out, names.into_iter(), text);
    }
    out.push_str("}}");
    out
}

/// The names of all topics.
pub(super) fn topic_list(routes: &RouteTable) -> Vec<u8> {
    let list = TopicList { broker_addr: None, topic_list: routes.topics().map(str::to_owned).collect() };
    crate::json::to_vec(&list)
}

fn broker(compatibility: Compatibility, out: &mut String, name: &str, group: &BrokerGroup, quoted: bool) {
    out.push_str("{\"brokerAddrs\":{");
    for (index, (id, address)) in group.addresses().enumerate() {
        if index > 0 {
            out.push(',');
        }
        let _ = if quoted { write!(out, "\"{id}\":") } else { write!(out, "{id}:") };
        text(out, address);
    }
    out.push_str("},\"brokerName\":");
    text(out, name);
    out.push_str(",\"cluster\":");
    text(out, &group.cluster);
    if compatibility.has_acting_masters() {
        let _ = write!(out, ",\"enableActingMaster\":{}", group.enable_acting_master);
    }
    out.push('}');
}
