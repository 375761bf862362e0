//! Asking name servers.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
    addresses: Vec<Arc<str>>,
    first: AtomicUsize,
}

impl NameServers {
    /// Asks in the order given, from a random one on, so that clients spread over the servers. There is at least one
    /// address.
    pub(crate) fn new(env: Env, pool: Pool, addresses: &[String]) -> Self {
        let first = env.random_below(addresses.len());
        let addresses = addresses.iter().map(|address| address.as_str().into()).collect();
        Self { env, pool, addresses, first: AtomicUsize::new(first) }
    }

    /// The address of the one that answered last.
    pub(crate) fn preferred(&self) -> &Arc<str> {
        &self.addresses[self.first.load(Ordering::Relaxed)]
    }

    /// The addresses of all.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &Arc<str>> {
        self.addresses.iter()
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
        let call = |index: usize| {
            let peer = self.pool.peer(&self.addresses[index]);
            let body = &body;
            async move { (index, peer.call(request, body, deadline).await) }
        };
        let first = self.first.load(Ordering::Relaxed);
        let mut others = (1..self.addresses.len()).map(|step| (first + step) % self.addresses.len()).peekable();
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
                None => return Err(self.nobody_answered(failures)),
            }
        }
    }

    fn nobody_answered(&self, failures: Vec<(usize, Error)>) -> Error {
        let mut message = String::from("no name server gave an answer: ");
        for (position, (index, error)) in failures.iter().enumerate() {
            let separator = if position == 0 { "" } else { "; " };
            // The error names the address itself unless it failed before there was one.
            let address = if error.broker().is_none() { &self.addresses[*index] } else { "" };
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
}
