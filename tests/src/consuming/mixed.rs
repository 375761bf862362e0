//! Groups whose members are Java, Go and our consumers.

use std::collections::{BTreeMap, BTreeSet};

use tokio::{sync::mpsc, task::JoinHandle};

use super::*;
use crate::{
    party::{Party, Subscription, go, java, ours},
    scenario::scaled,
};

const QUEUES: usize = 6;
/// Messages of one round for each queue.
const EACH: usize = 2;

/// Rounds in a row in which every queue has to have the same one owner.
const ROUNDS: usize = 3;

/// What members tell of a delivery: their number, the message's key and its queue.
type Told = (usize, String, u32);

/// A member of the group.
struct Member {
    number: usize,
    party: Party,
    stop: mpsc::Sender<()>,
    ended: JoinHandle<()>,
}

async fn join(
    server: &'static Server,
    number: usize,
    party: Party,
    subscription: &Subscription,
    told: &mpsc::UnboundedSender<Told>,
) -> Member {
    let mut consumption = party.consume(server, subscription).await;
    let (stop, mut stopped) = mpsc::channel(1);
    let told = told.clone();
    let ended = tokio::spawn(async move {
        loop {
            let messages = tokio::select! {
                messages = consumption.messages(1) => messages,
                _ = stopped.recv() => break,
            };
            for message in messages {
                // The test may have seen enough.
                let _ = told.send((number, message.keys, message.queue_id));
            }
        }
        for message in consumption.stop().await {
            let _ = told.send((number, message.keys, message.queue_id));
        }
    });
    Member { number, party, stop, ended }
}

/// Members of three kinds come and go while messages flow. After each change every queue soon has one owner and keeps it,
/// every member owns some, and in the end no message is missing.
pub async fn every_queue_has_one_owner_in_a_mixed_group(server: &'static Server) {
    let _running = server.share().await;
    let topic = topic(server, "mixed", QUEUES as u32);
    let group = server.name("mixed-group");
    let subscription = Subscription::new(&group, &topic);
    let client = connect(server).await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let mut members: Vec<Member> = Vec::new();
    let (mut sent, mut seen) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    // Fixed, so that a failure can be repeated.
    let mut random = 7u64;
    let mut draw = move |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    for change in 0..scaled(6) {
        // The first four are of all kinds; then members leave and join.
        let joins = members.len() < 2 || change < 4 || (members.len() < 4 && draw(2) == 0);
        if joins {
            let party = [ours(), java(), go()][if change < 4 { change % 3 } else { draw(3) }];
            members.push(join(server, change, party, &subscription, &told).await);
        } else {
            let member = members.swap_remove(draw(members.len()));
            member.stop.send(()).await.expect("it listens");
            member.ended.await.expect("it ends in good order");
        }
        let settled = async {
            let (mut owners, mut stable) = (BTreeMap::<u32, usize>::new(), 0);
            for round in 0.. {
                let prefix = format!("{change}-{round}-");
                send(&client, &topic, &prefix, QUEUES * EACH, QUEUES).await;
                let keys: BTreeSet<_> = (0..QUEUES * EACH).map(|index| format!("{prefix}{index}")).collect();
                sent.extend(keys.iter().cloned());
                let mut missing = keys.clone();
                let mut seen_by = BTreeMap::<u32, BTreeSet<usize>>::new();
                while !missing.is_empty() {
                    let (owner, key, queue) = heard.recv().await.expect("members tell");
                    *seen.entry(key.clone()).or_default() += 1;
                    if keys.contains(&key) {
                        missing.remove(&key);
                        seen_by.entry(queue).or_default().insert(owner);
                    }
                }
                let once = keys.iter().all(|key| seen[key] == 1) && seen_by.values().all(|members| members.len() == 1);
                let now: BTreeMap<u32, usize> = seen_by
                    .into_iter()
                    .filter_map(|(queue, members)| Some((queue, members.into_iter().next()?)))
                    .collect();
                let all_own = members.iter().all(|member| now.values().any(|owner| *owner == member.number));
                stable = if once && all_own && now == owners { stable + 1 } else { usize::from(once && all_own) };
                owners = now;
                if stable == ROUNDS {
                    return;
                }
            }
        };
        let kinds: Vec<_> = members.iter().map(|member| member.party).collect();
        within(&format!("after change {change} every queue has one owner among {kinds:?}"), settled).await;
    }
    for member in members {
        member.stop.send(()).await.expect("it listens");
        member.ended.await.expect("it ends in good order");
    }
    while let Ok((_, key, _)) = heard.try_recv() {
        *seen.entry(key).or_default() += 1;
    }
    assert_eq!(seen.keys().cloned().collect::<BTreeSet<_>>(), sent);
    let again: usize = seen.values().map(|times| times - 1).sum();
    println!("{} messages, {again} of them came again when queues changed hands", sent.len());
    client.close().await;
}
