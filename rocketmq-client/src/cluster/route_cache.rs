//! Routes that are in use: looked up once however many ask, kept fresh, published.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream;
use rocketmq_wire::message::names::DEFAULT_TOPIC;
use tokio::sync::watch;

use super::brokers::Brokers;
use super::name_server::NameServers;
use super::route::Route;
use crate::env::{Env, Task};
use crate::error::{Error, ErrorKind, Result};

/// Queues of an automatically created topic, on each broker: the default of the Java client.
pub(crate) const QUEUES_OF_NEW_TOPIC: i32 = 4;

/// Topics that are refreshed at the same time.
const REFRESHED_TOGETHER: usize = 16;

/// A look-up that was asked for because something failed is not repeated sooner than this.
const LEAST_AGE: Duration = Duration::from_secs(1);

/// What is known of one topic.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// The topic's route, once a name server knew it. Kept while name servers are unreachable.
    pub(crate) route: Option<Arc<Route>>,
    /// While there is no route: where a first send makes the broker create the topic.
    pub(crate) provisional: Option<Arc<Route>>,
    /// Why the last look-up brought no route; [`ErrorKind::NoRoute`] when no name server knows the topic.
    pub(crate) failure: Option<Error>,
    /// Look-ups that have ended.
    look_ups: u64,
    /// Orders the routes of all topics by when they were fetched.
    fetched: u64,
    /// Since when name servers have said that the topic does not exist although there is a route.
    gone_since: Option<Instant>,
    ended_at: Option<Instant>,
}

impl Known {
    /// The route to send by.
    pub(crate) fn for_sending(&self) -> Option<&Arc<Route>> {
        self.route.as_ref().or(self.provisional.as_ref())
    }
}

/// One topic in the cache.
#[derive(Debug)]
pub(crate) struct Topic {
    name: Arc<str>,
    known: watch::Sender<Known>,
    /// Counts the changes of the route to send by.
    changes: AtomicU64,
    look_up: Mutex<LookUp>,
}

#[derive(Debug, Default)]
struct LookUp {
    running: bool,
    task: Option<Task>,
}

impl Topic {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// What is known now.
    pub(crate) fn known(&self) -> watch::Ref<'_, Known> {
        self.known.borrow()
    }

    /// The number of the state that the route to send by is in: asked before the route is, it tells whether what was
    /// made of the route is out of date.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// What is known, and every change of it.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Known> {
        self.known.subscribe()
    }
}

/// The routes of a client; clones are the same cache.
#[derive(Debug, Clone)]
pub(crate) struct RouteCache(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    env: Env,
    name_servers: NameServers,
    request_timeout: Duration,
    /// A topic that name servers have denied for so long is gone. Longer than brokers take to register again with a
    /// name server that was restarted.
    gone_after: Duration,
    topics: Mutex<Topics>,
    brokers: watch::Sender<Arc<Brokers>>,
}

#[derive(Debug, Default)]
struct Topics {
    by_name: BTreeMap<Arc<str>, Arc<Topic>>,
    fetches: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds one of these locks half way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RouteCache {
    pub(super) fn new(env: Env, name_servers: NameServers, request_timeout: Duration, interval: Duration) -> Self {
        Self(Arc::new(Shared {
            env,
            name_servers,
            request_timeout,
            gone_after: interval * 2,
            topics: Mutex::default(),
            brokers: watch::Sender::default(),
        }))
    }

    /// The name servers.
    pub(crate) fn name_servers(&self) -> &NameServers {
        &self.0.name_servers
    }

    /// The brokers of all known routes.
    pub(super) fn brokers(&self) -> watch::Receiver<Arc<Brokers>> {
        self.0.brokers.subscribe()
    }

    /// The topic of that name; it is kept fresh from now on. Looks nothing up by itself.
    pub(crate) fn topic(&self, name: &Arc<str>) -> Arc<Topic> {
        let mut topics = lock(&self.0.topics);
        if let Some(topic) = topics.by_name.get(name) {
            return Arc::clone(topic);
        }
        let topic = Arc::new(Topic {
            name: Arc::clone(name),
            known: watch::Sender::default(),
            changes: 0.into(),
            look_up: Mutex::default(),
        });
        topics.by_name.insert(Arc::clone(name), Arc::clone(&topic));
        topic
    }

    /// Asks the name servers now, together with everybody who asks for the same topic, and returns what is known then.
    ///
    /// Dropping the future leaves the look-up to the others.
    pub(crate) async fn look_up(&self, topic: &Arc<Topic>, deadline: Instant) -> Result<Known> {
        let mut known = topic.known.subscribe();
        let before = self.start_look_up(topic);
        let ended = self.0.env.within(deadline, known.wait_for(|known| known.look_ups > before)).await;
        match ended {
            Some(Ok(known)) => Ok(known.clone()),
            // The sender lives in `topic`.
            Some(Err(_)) => Err(closed()),
            None => Err(Error::new(
                ErrorKind::Timeout,
                format!("the name servers did not say in time where the topic `{}` is", topic.name),
            )
            .with_operation("look up route")),
        }
    }

    /// Starts a look-up unless one is running or has just ended: something hints that the route is out of date.
    pub(crate) fn suspect(&self, topic: &Arc<Topic>) {
        let now = self.0.env.now();
        let recent = topic.known().ended_at.is_some_and(|at| now.saturating_duration_since(at) < LEAST_AGE);
        if !recent {
            self.start_look_up(topic);
        }
    }

    /// The number of look-ups ended before the one that is running now.
    fn start_look_up(&self, topic: &Arc<Topic>) -> u64 {
        let before = {
            let mut look_up = lock(&topic.look_up);
            let before = topic.known().look_ups;
            if std::mem::replace(&mut look_up.running, true) {
                return before;
            }
            before
        };
        let deadline = self.0.env.now() + self.0.request_timeout;
        let ending = Ending { shared: Arc::clone(&self.0), topic: Arc::clone(topic), outcome: None };
        // Not under the lock: a runtime that has ended drops the future at once, which takes the lock.
        let task = self.0.env.spawn(async move {
            let outcome = ending.shared.name_servers.route(&ending.topic.name, deadline).await;
            ending.end(outcome);
        });
        lock(&topic.look_up).task = Some(task);
        before
    }

    /// The route to send a message of a topic by. A topic that does not exist gets the route at which a broker will
    /// create it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoRoute`], or why the name servers could not be asked.
    pub(crate) async fn for_sending(&self, topic: &Arc<Topic>, deadline: Instant) -> Result<Arc<Route>> {
        if let Some(route) = topic.known().for_sending() {
            return Ok(Arc::clone(route));
        }
        // In memory of its own: the future of each send would have to have room for it otherwise.
        Box::pin(self.look_up_for_sending(topic, deadline)).await
    }

    async fn look_up_for_sending(&self, topic: &Arc<Topic>, deadline: Instant) -> Result<Arc<Route>> {
        let known = self.look_up(topic, deadline).await?;
        if let Some(route) = known.for_sending() {
            return Ok(Arc::clone(route));
        }
        match known.failure {
            Some(failure) if failure.kind() == ErrorKind::NoRoute => self.provisional(topic, failure, deadline).await,
            Some(failure) => Err(failure),
            None => Err(no_route(&topic.name)),
        }
    }

    async fn provisional(&self, topic: &Arc<Topic>, failure: Error, deadline: Instant) -> Result<Arc<Route>> {
        let default = self.topic(&DEFAULT_TOPIC.into());
        let route = default.known().route.clone();
        let route = match route {
            Some(route) => route,
            None => self.look_up(&default, deadline).await?.route.ok_or(failure)?,
        };
        let route = Arc::new(route.for_new_topic(&topic.name, QUEUES_OF_NEW_TOPIC));
        topic.known.send_modify(|known| known.provisional = Some(Arc::clone(&route)));
        topic.changes.fetch_add(1, Ordering::Release);
        self.0.publish_brokers();
        Ok(route)
    }

    /// Refreshes all routes again and again; ends only by being dropped.
    pub(super) async fn keep_fresh(self, interval: Duration) {
        let mut at = self.0.env.now() + interval;
        loop {
            self.0.env.sleep_until(at).await;
            at = self.0.env.now() + interval;
            let look_up = |topic: Arc<Topic>| {
                let deadline = self.0.env.now() + self.0.request_timeout;
                let this = &self;
                // What became of it is in `Known::failure`.
                async move { drop(this.look_up(&topic, deadline).await) }
            };
            stream::iter(self.0.topics_in_use()).for_each_concurrent(REFRESHED_TOGETHER, look_up).await;
        }
    }

    /// Ends look-ups under way; whoever waits for one is told that the client is closed.
    pub(super) fn close(&self) {
        let topics: Vec<_> = lock(&self.0.topics).by_name.values().cloned().collect();
        for topic in topics {
            let task = lock(&topic.look_up).task.take();
            drop(task);
        }
    }
}

impl Shared {
    /// Forgets topics that nobody asks for and that do not exist, and returns the others.
    fn topics_in_use(&self) -> Vec<Arc<Topic>> {
        let mut topics = lock(&self.topics);
        topics.by_name.retain(|_, topic| Arc::strong_count(topic) > 1 || topic.known().route.is_some());
        topics.by_name.values().cloned().collect()
    }

    /// Takes in what a look-up brought. The caller holds the topic's look-up lock, so it is the only one.
    fn learn(&self, topic: &Topic, outcome: Result<Option<Route>>) {
        let now = self.env.now();
        let fetched = {
            let mut topics = lock(&self.topics);
            topics.fetches += 1;
            topics.fetches
        };
        let mut changed = false;
        topic.known.send_modify(|known| {
            known.look_ups += 1;
            known.ended_at = Some(now);
            match outcome {
                Ok(Some(route)) => {
                    known.fetched = fetched;
                    known.failure = None;
                    known.gone_since = None;
                    changed = known.provisional.take().is_some();
                    if known.route.as_deref() != Some(&route) {
                        known.route = Some(Arc::new(route));
                        changed = true;
                    }
                }
                Ok(None) => {
                    known.failure = Some(no_route(&topic.name));
                    let since = *known.gone_since.get_or_insert(now);
                    if known.route.is_some() && now.saturating_duration_since(since) >= self.gone_after {
                        known.route = None;
                        changed = true;
                    }
                }
                Err(error) => known.failure = Some(error.with_operation("look up route")),
            }
        });
        if changed {
            topic.changes.fetch_add(1, Ordering::Release);
            self.publish_brokers();
        }
        if let Some(failure) = &topic.known().failure {
            tracing::debug!(topic = &*topic.name, %failure, "a route could not be looked up");
        }
    }

    fn publish_brokers(&self) {
        let topics: Vec<_> = lock(&self.topics).by_name.values().cloned().collect();
        let mut routes: Vec<_> = topics
            .iter()
            .filter_map(|topic| {
                let known = topic.known();
                known.for_sending().map(|route| (known.fetched, Arc::clone(route)))
            })
            .collect();
        routes.sort_by_key(|(fetched, _)| *fetched);
        let brokers = Brokers::of(routes.iter().map(|(_, route)| &**route));
        self.brokers.send_if_modified(|published| {
            let changed = **published != brokers;
            if changed {
                *published = Arc::new(brokers);
            }
            changed
        });
    }
}

/// Ends a look-up, cancelled or not: what it brought is taken in before the next may start.
struct Ending {
    shared: Arc<Shared>,
    topic: Arc<Topic>,
    outcome: Option<Result<Option<Route>>>,
}

impl Ending {
    fn end(mut self, outcome: Result<Option<Route>>) {
        self.outcome = Some(outcome);
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut look_up = lock(&self.topic.look_up);
        look_up.running = false;
        self.shared.learn(&self.topic, self.outcome.take().unwrap_or_else(|| Err(closed())));
        drop(look_up);
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the client was closed")
}

fn no_route(topic: &str) -> Error {
    Error::new(
        ErrorKind::NoRoute,
        format!(
            "no name server knows the topic `{topic}`, and no broker creates topics by itself: create the topic, or set \
             `autoCreateTopicEnable=true` on a broker"
        ),
    )
}
