//! The console: the control API over HTTP and JSON, and a page for people.
//!
//! It runs on the broker's thread beside the server, and goes on while the broker is stopped. Everything that it does goes
//! the way of the embedding API.

mod api;
mod contents;
mod query;
mod remote;
#[cfg(test)]
mod tests;
mod waiting;

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;
use tokio::task::LocalSet;

pub(crate) use remote::Remote;

use crate::server::rest;

/// A body of a request may have so many bytes: more than the largest message, written as base64.
const LARGEST_BODY: usize = 24 << 20;

/// Connections at one time.
const MOST_CONNECTIONS: usize = 256;

/// A client has so long for the head of a request.
const HEAD_LIMIT: Duration = Duration::from_secs(10);

/// A client has so long for the body of a request.
const BODY_LIMIT: Duration = Duration::from_secs(30);

/// Scripts, styles and requests of the page itself, and nothing else: what stands in messages is never run.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// Who may use the console.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    /// What clients have to show as a bearer token; none lets in who comes from this machine.
    pub(crate) token: Option<String>,
}

/// Serves for as long as the broker's thread runs.
pub(crate) async fn serve(listener: TcpListener, access: Access, remote: Remote) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the console cannot serve"),
    };
    let shared = Rc::new(Console { access, remote });
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let tasks = LocalSet::new();
    let accept = async {
        loop {
            // Closed never: waits until there is room.
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let shared = Rc::clone(&shared);
                    tokio::task::spawn_local(async move {
                        let service = service_fn(move |request| {
                            let shared = Rc::clone(&shared);
                            async move { Ok::<_, Infallible>(shared.respond(request).await) }
                        });
                        let served = hyper::server::conn::http1::Builder::new()
                            .timer(TokioTimer::new())
                            .header_read_timeout(HEAD_LIMIT)
                            .max_headers(64)
                            .max_buf_size(64 << 10)
                            .serve_connection(TokioIo::new(stream), service)
                            .await;
                        if let Err(error) = served {
                            tracing::debug!(%error, "console connection lost");
                        }
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::error!(%error, "a console connection could not be accepted");
                    rest(Duration::from_millis(50)).await;
                }
            }
        }
    };
    tasks.run_until(accept).await;
}

/// What all connections share.
#[derive(Debug)]
struct Console {
    access: Access,
    remote: Remote,
}

/// What a request is answered with.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    kind: &'static str,
    body: Bytes,
}

impl Answer {
    fn json(value: &impl serde::Serialize) -> Self {
        Self { status: StatusCode::OK, kind: "application/json", body: crate::json::to_vec(value).into() }
    }

    fn done() -> Self {
        Self { status: StatusCode::NO_CONTENT, kind: "", body: Bytes::new() }
    }

    fn asset(kind: &'static str, text: &'static str) -> Self {
        Self { status: StatusCode::OK, kind, body: Bytes::from_static(text.as_bytes()) }
    }

    fn with(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }
}

/// Why a request is refused, in words that say what to do.
#[derive(Debug)]
struct Problem {
    status: StatusCode,
    text: String,
}

impl Problem {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Problem { status, text: text.into() }
    }

    fn bad(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }
}

impl From<Problem> for Answer {
    fn from(problem: Problem) -> Self {
        Answer::json(&serde_json::json!({ "error": problem.text })).with(problem.status)
    }
}

impl Console {
    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let answer = match self.answer(request).await {
            Ok(answer) => answer,
            Err(problem) => problem.into(),
        };
        let mut response = Response::new(Full::new(answer.body));
        *response.status_mut() = answer.status;
        let headers = response.headers_mut();
        if !answer.kind.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.kind));
        }
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        headers.insert("referrer-policy", HeaderValue::from_static("no-referrer"));
        response
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Answer, Problem> {
        let (head, body) = request.into_parts();
        self.check_host(&head.headers)?;
        if head.method == Method::GET
            && let Some(asset) = asset(head.uri.path())
        {
            return Ok(asset);
        }
        self.check_token(&head.headers)?;
        let read = Limited::new(body, LARGEST_BODY).collect();
        let body = tokio::select! {
            read = read => read.map_err(|error| Problem::new(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()))?.to_bytes(),
            () = rest(BODY_LIMIT) => return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "the body did not come within 30 s")),
        };
        let query = query::Query::parse(head.uri.query().unwrap_or_default());
        self.route(&head.method, head.uri.path(), &query, &body).await
    }

    /// Pages of other sites may not use the console of somebody who looks at them.
    fn check_host(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let host = text(HOST).unwrap_or_default();
        if let Some(origin) = text(ORIGIN)
            && origin.split_once("://").is_none_or(|(_, origin)| origin != host)
        {
            return Err(Problem::new(StatusCode::FORBIDDEN, "requests of other sites are not served"));
        }
        let name = host.rsplit_once(':').map_or(host, |(name, port)| if port.ends_with(']') { host } else { name });
        let is_local = name == "localhost" || name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
        if self.access.token.is_none() && !is_local {
            let text = format!("the console is not called `{name}`: use its address, localhost, or a token");
            return Err(Problem::new(StatusCode::FORBIDDEN, text));
        }
        Ok(())
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(token) = &self.access.token else { return Ok(()) };
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        // In the same time, wherever they differ.
        let differs = given
            .bytes()
            .zip(token.bytes())
            .fold(given.len() ^ token.len(), |differs, (a, b)| differs | usize::from(a ^ b));
        if differs == 0 {
            return Ok(());
        }
        Err(Problem::new(StatusCode::UNAUTHORIZED, "say `Authorization: Bearer TOKEN` with the console's token"))
    }
}

fn asset(path: &str) -> Option<Answer> {
    Some(match path {
        "/" => Answer::asset("text/html; charset=utf-8", include_str!("page/index.html")),
        "/console.css" => Answer::asset("text/css; charset=utf-8", include_str!("page/console.css")),
        "/console.js" => Answer::asset("text/javascript; charset=utf-8", include_str!("page/console.js")),
        "/icon.svg" => Answer::asset("image/svg+xml", include_str!("page/icon.svg")),
        "/openapi.json" => Answer::asset("application/json", include_str!("openapi.json")),
        _ => return None,
    })
}

/// Where a console listens, and whether that needs a token.
///
/// # Errors
///
/// In words: an address beyond this machine without a token, or one that cannot be listened on.
pub(crate) fn bind(address: SocketAddr, access: &Access) -> Result<TcpListener, String> {
    if !address.ip().is_loopback() && access.token.as_deref().unwrap_or_default().is_empty() {
        return Err(format!("a console on {address} can be reached from other machines: give it a token"));
    }
    let listener =
        TcpListener::bind(address).map_err(|error| format!("the console cannot listen on {address}: {error}"))?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    Ok(listener)
}
