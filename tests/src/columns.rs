//! What Apache's tools print of our broker, column by column beside what they print of Apache's with the same contents.

use std::collections::BTreeSet;

use rocketmq_native::{Client, ConsumeFrom, Message, MessageQueue, SendOptions};

use crate::{administration, foreign::Driver, server::Server};

/// Messages that are sent, as many to each of two queues.
const COUNT: usize = 6;

/// A difference that is meant to be: the command, what the line has in it, and why.
pub type Explained = (&'static str, &'static str, &'static str);

/// Puts the same into both servers, has the tools look at both, and compares what they print. Values that no two runs share
/// (addresses, times, ids, rates) count as equal.
///
/// # Panics
///
/// With every line that one prints and the other does not, and nobody has explained.
pub fn compare(ours: &Server, theirs: &Server, tools: &Driver, explained: &[Explained]) {
    administration::run(async {
        let printed = [look(ours, tools).await, look(theirs, tools).await];
        let mut unexplained = Vec::new();
        for ((command, ours), (_, theirs)) in printed[0].iter().zip(&printed[1]) {
            let differences = ours.difference(theirs).map(|line| ("ours only", line));
            for (whose, line) in differences.chain(theirs.difference(ours).map(|line| ("Apache only", line))) {
                let why = explained.iter().find(|(of, part, _)| of == command && line.contains(part));
                match why {
                    Some((_, _, why)) => println!("{command}: {whose}: {line}\n    {why}"),
                    None => unexplained.push(format!("{command}: {whose}: {line}")),
                }
            }
        }
        assert!(unexplained.is_empty(), "differences that nobody explained:\n{}", unexplained.join("\n"));
    });
}

/// What the tools print, command by command, as sets of lines whose columns are comparable.
async fn look(server: &Server, tools: &Driver) -> Vec<(&'static str, BTreeSet<String>)> {
    let (topic, group) = ("columns", "columns-group");
    let _shared = server.share().await;
    let run = |line: String| async move { tools.mqadmin(server.name_server(), &line).await };
    run(format!("updateTopic -c DefaultCluster -t {topic} -r 2 -w 2")).await;
    run(format!("updateSubGroup -c DefaultCluster -g {group} -r 3")).await;
    let client = Client::builder(server.name_server()).connect().await.expect("a name server");
    let producer = client.producer("columns-producers").start().await.expect("a producer");
    // A broker tells the name server of a new topic when it gets round to it.
    let known = async {
        while client.admin().topic_ranges(topic).await.map_or(0, |ranges| ranges.len()) < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(150), known).await.expect("the route of the topic");
    for number in 0..COUNT {
        let message = Message::new(topic, format!("body {number}")).tag("made").key(format!("key-{number}"));
        let queue = MessageQueue::new(topic, "broker-a", (number % 2) as i32);
        producer.send_with(message, SendOptions::new().queue(queue)).await.expect("sent");
    }
    let (arrived, mut arrivals) = tokio::sync::mpsc::unbounded_channel();
    let handler = move |_| {
        let arrived = arrived.clone();
        async move { arrived.send(()) }
    };
    let consumer = client.push_consumer(group).subscribe(topic, "*").consume_from(ConsumeFrom::First);
    let consumer = consumer.start(handler).await.expect("a consumer");
    for _ in 0..COUNT {
        arrivals.recv().await.expect("it runs");
    }
    let mut commands = vec![
        ("consumerConnection", format!("-g {group}")),
        ("producerConnection", format!("-g columns-producers -t {topic}")),
    ];
    let mut printed = Vec::new();
    for (command, arguments) in commands.drain(..) {
        printed.push((command, comparable(server, &client, &run(format!("{command} {arguments}")).await)));
    }
    consumer.shutdown().await.expect("it ends");
    producer.shutdown().await;
    let broker = server.broker().to_owned();
    for (command, arguments) in [
        ("topicList", String::new()),
        ("topicRoute", format!("-t {topic}")),
        ("topicStatus", format!("-t {topic}")),
        ("topicClusterList", format!("-t {topic}")),
        ("clusterList", String::new()),
        ("consumerProgress", format!("-g {group}")),
        ("queryCq", format!("-t {topic} -q 0 -i 0 -b {broker}")),
        ("queryMsgByKey", format!("-t {topic} -k key-3")),
    ] {
        printed.push((command, comparable(server, &client, &run(format!("{command} {arguments}")).await)));
    }
    client.close().await;
    printed
}

/// Lines with one blank between columns, and with marks for what no two runs share.
fn comparable(server: &Server, client: &Client, output: &str) -> BTreeSet<String> {
    let host = server.broker().rsplit_once(':').map_or(server.broker(), |(host, _)| host);
    let output = output.replace(client.client_id(), "CLIENT");
    let output = output.replace(server.broker(), "BROKER").replace(server.name_server(), "NAMES").replace(host, "HOST");
    let line = |line: &str| line.split_whitespace().map(column).collect::<Vec<_>>().join(" ");
    output.lines().map(line).filter(|line| !line.is_empty()).collect()
}

/// A column with a mark for a time, an id or a rate.
fn column(text: &str) -> String {
    let bare = text.trim_matches([',', ';', '[', ']', '{', '}', '"']);
    let digits = bare.chars().filter(char::is_ascii_digit).count();
    let is_made_of = |others: &str| bare.chars().all(|c| c.is_ascii_digit() || others.contains(c));
    let mark = if bare.starts_with("HOST:") {
        "HOST:PORT"
    } else if bare.len() >= 24 && bare.chars().all(|c| c.is_ascii_hexdigit()) {
        "ID"
    } else if digits >= 10 && is_made_of("") || digits >= 6 && is_made_of("-:,.T") && bare.contains(['-', ':']) {
        "TIME"
    } else if digits >= 2 && is_made_of(".,%(ms|)-w") && bare.contains('.') {
        "RATE"
    } else {
        return text.to_owned();
    };
    text.replace(bare, mark)
}
