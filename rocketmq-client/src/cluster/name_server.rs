//! Asking name servers.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rocketmq_wire::ResponseCode;
use rocketmq_wire::request::Request;
use rocketmq_wire::request::route::TopicRouteRequest;

use super::route::Route;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::remoting::{Pool, Response};

/// How long a name server may be silent before the next one is asked too.
const PATIENCE: Duration = Duration::from_millis(500);

/// The name servers of a cluster, of which any will do.
///
/// The one that answered last is asked first. When it fails or is silent for half a second the next is asked as well,
/// and whichever answers first is the one asked first from then on. So a dead name server costs half a second once.
#[derive(Debug)]
pub(crate) struct NameServers {
    env: Env,
    pool: Pool,
    addresses: Addresses,
    first: AtomicUsize,
}

/// The addresses of the name servers, which may change; clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Addresses(Arc<RwLock<Arc<[Arc<str>]>>>);

impl Addresses {
    fn new(addresses: &[String]) -> Self {
        Self(Arc::new(RwLock::new(addresses.iter().map(|address| address.as_str().into()).collect())))
    }

    /// Replaces them; there is at least one.
    pub(crate) fn replace(&self, addresses: &[String]) {
        let addresses: Arc<[Arc<str>]> = addresses.iter().map(|address| address.as_str().into()).collect();
        if *addresses != *self.now() {
            tracing::info!(?addresses, "the name servers have changed");
            // A single assignment.
            *self.0.write().unwrap_or_else(PoisonError::into_inner) = addresses;
        }
    }

    fn now(&self) -> Arc<[Arc<str>]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl NameServers {
    /// Asks in the order given, from a random one on, so that clients spread over the servers. There is at least one
    /// address.
    pub(crate) fn new(env: Env, pool: Pool, addresses: &[String]) -> Self {
        let first = env.random_below(addresses.len());
        Self { env, pool, addresses: Addresses::new(addresses), first: AtomicUsize::new(first) }
    }

    /// The address of the one that answered last.
    pub(crate) fn preferred(&self) -> Arc<str> {
        let addresses = self.addresses.now();
        Arc::clone(&addresses[self.first.load(Ordering::Relaxed) % addresses.len()])
    }

    /// The addresses of all, as they are now.
    pub(crate) fn addresses(&self) -> Arc<[Arc<str>]> {
        self.addresses.now()
    }

    /// The addresses, to be replaced when they change.
    pub(super) fn changeable(&self) -> &Addresses {
        &self.addresses
    }

    /// The route of a topic; `None` when the name servers do not know the topic.
    pub(crate) async fn route(&self, topic: &Arc<str>, deadline: Instant) -> Result<Option<Route>> {
        let request = TopicRouteRequest { topic: Cow::Borrowed(topic), accept_standard_json_only: None };
        let conclusive = [ResponseCode::SUCCESS, ResponseCode::TOPIC_NOT_EXIST];
        let answer = self.ask(&request, &conclusive, deadline).await?;
        if answer.code() == ResponseCode::TOPIC_NOT_EXIST {
            return Ok(None);
        }
        Route::parse(topic, answer.body()).map(Some)
    }

    /// The first answer with one of the `conclusive` codes.
    pub(crate) async fn ask<R: Request>(
        &self,
        request: &R,
        conclusive: &[ResponseCode],
        deadline: Instant,
    ) -> Result<Response> {
        let body = Bytes::new();
        let addresses = self.addresses.now();
        let call = |index: usize| {
            let peer = self.pool.peer(&addresses[index]);
            let body = &body;
            async move { (index, peer.call(request, body, deadline).await) }
        };
        let first = self.first.load(Ordering::Relaxed) % addresses.len();
        let mut others = (1..addresses.len()).map(|step| (first + step) % addresses.len()).peekable();
        let mut calls = FuturesUnordered::new();
        calls.push(call(first));
        let mut failures = Vec::new();
        loop {
            let silence = async {
                match others.peek() {
                    Some(_) => self.env.sleep(PATIENCE).await,
                    None => std::future::pending().await,
                }
            };
            let ended = tokio::select! {
                biased;
                ended = calls.next() => ended,
                () = silence => {
                    calls.extend(others.next().map(call));
                    continue;
                }
            };
            match ended {
                Some((index, Ok(answer))) if conclusive.contains(&answer.code()) => {
                    self.first.store(index, Ordering::Relaxed);
                    return Ok(answer);
                }
                Some((index, answer)) => {
                    failures.push((index, answer.map_or_else(|error| error, |answer| answer.error())));
                    calls.extend(others.next().map(call));
                }
                None => return Err(nobody_answered(&addresses, failures)),
            }
        }
    }
}

fn nobody_answered(addresses: &[Arc<str>], failures: Vec<(usize, Error)>) -> Error {
    let mut message = String::from("no name server gave an answer: ");
    for (position, (index, error)) in failures.iter().enumerate() {
        let separator = if position == 0 { "" } else { "; " };
        // The error names the address itself unless it failed before there was one.
        let address = if error.broker().is_none() { &*addresses[*index] } else { "" };
        let _ = write!(message, "{separator}{address}{error}");
    }
    message.push_str(". Check the addresses given to the client, and that a name server listens there");
    let kind = failures.first().map_or(ErrorKind::Connection, |(_, error)| error.kind());
    let uniform = failures.iter().all(|(_, error)| error.kind() == kind);
    let error = Error::new(if uniform { kind } else { ErrorKind::Connection }, message);
    match failures.into_iter().next() {
        Some((_, first)) => error.with_source(first),
        None => error,
    }
}
