//! The slave's side of replication: follows the log of a master, and copies its settings.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use rocketmq_wire::frame::DEFAULT_MAX_FRAME_LENGTH;
use rocketmq_wire::header::SerializeType;
use rocketmq_wire::{Frame, LanguageCode, RemotingCommand, RequestCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::rest;
use super::state::State;

/// Between two attempts to reach the master.
const RETRY: Duration = Duration::from_secs(5);
/// The master hears where the log ends at least this often (`haSendHeartbeatInterval`).
const REPORT: Duration = Duration::from_secs(5);
/// A master that says nothing for so long is gone (`haHousekeepingInterval`).
const SILENCE: Duration = Duration::from_secs(20);
/// Between two looks at the master's settings.
const SETTINGS: Duration = Duration::from_secs(10);
/// How long the master may take for an answer.
const ANSWER: Duration = Duration::from_secs(3);
/// Apache's masters send at most 32 KiB in a frame; its slaves could not take more than this.
const MOST_BYTES: usize = 4 << 20;

const HEADER: usize = 12;

/// What a slave asks for, in this order.
const SETTINGS_REQUESTS: [RequestCode; 4] = [
    RequestCode::GET_ALL_TOPIC_CONFIG,
    RequestCode::GET_ALL_CONSUMER_OFFSET,
    RequestCode::GET_ALL_DELAY_OFFSET,
    RequestCode::GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
];

/// Follows the master's log for as long as the broker runs.
pub(super) async fn follow_log(state: Rc<RefCell<State>>) {
    loop {
        let master = state.borrow().broker().ha_master().map(str::to_owned);
        if let Some(master) = master {
            let error = follow(&state, &master).await.err();
            tracing::warn!(master, error = error.map(tracing::field::display), "the master's log is not followed");
        }
        rest(RETRY).await;
    }
}

#[expect(clippy::disallowed_methods, reason = "the server opens the broker's connections")]
async fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = tokio::select! {
        stream = TcpStream::connect(address) => stream?,
        () = rest(ANSWER) => return Err(io::Error::new(io::ErrorKind::TimedOut, "no connection within 3 seconds")),
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Follows one connection until it ends.
async fn follow(state: &RefCell<State>, master: &str) -> io::Result<()> {
    let (mut reader, mut writer) = connect(master).await?.into_split();
    let mut end = state.borrow().broker().log_end();
    writer.write_u64(end).await?;
    tracing::info!(master, end, "following the master's log");
    let mut received = BytesMut::new();
    // Counted in reports: nobody has heard from the master since so many.
    let mut silent = 0;
    loop {
        tokio::select! {
            read = reader.read_buf(&mut received) => {
                if read? == 0 {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the master closed the connection"));
                }
                silent = 0;
                let before = end;
                take_frames(state, &mut received, &mut end)?;
                if end > before {
                    writer.write_u64(end).await?;
                }
            }
            () = rest(REPORT) => {
                silent += 1;
                if REPORT * silent >= SILENCE {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the master said nothing for 20 seconds"));
                }
                writer.write_u64(end).await?;
            }
        }
    }
}

/// Appends the whole frames among what was received; `end` is where the log ends.
fn take_frames(state: &RefCell<State>, received: &mut BytesMut, end: &mut u64) -> io::Result<()> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    while let Some(header) = received.first_chunk::<HEADER>() {
        let [o0, o1, o2, o3, o4, o5, o6, o7, s0, s1, s2, s3] = *header;
        let offset = u64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]);
        let size = u32::from_be_bytes([s0, s1, s2, s3]) as usize;
        if size > MOST_BYTES {
            return Err(wrong(format!("a frame of {size} bytes")));
        }
        if *end != 0 && offset != *end {
            return Err(wrong(format!("bytes at {offset} do not continue the log, which ends at {end}")));
        }
        if received.len() < HEADER + size {
            received.reserve(HEADER + size - received.len());
            break;
        }
        if size > 0 {
            let appended = state.borrow_mut().append_replicated(offset, &received[HEADER..HEADER + size]);
            *end = appended.map_err(|error| wrong(error.to_string()))?;
        }
        received.advance(HEADER + size);
    }
    Ok(())
}

/// Copies the master's settings for as long as the broker runs.
pub(super) async fn follow_settings(state: Rc<RefCell<State>>) {
    loop {
        let master = state.borrow().broker().master().map(str::to_owned);
        if let Some(master) = master
            && let Err(error) = copy_settings(&state, &master).await
        {
            tracing::warn!(master, %error, "the master's settings are not copied");
        }
        rest(SETTINGS).await;
    }
}

async fn copy_settings(state: &RefCell<State>, master: &str) -> io::Result<()> {
    let mut stream = connect(master).await?;
    for (opaque, code) in (1..).zip(SETTINGS_REQUESTS) {
        let version = state.borrow().version();
        let request = RemotingCommand {
            serialize_type: SerializeType::Json,
            code: code.0,
            language: LanguageCode::JAVA,
            version,
            opaque,
            flag: 0,
            remark: None,
            fields: None,
            body: Bytes::new(),
        };
        stream.write_all(&request.to_bytes().map_err(io::Error::other)?).await?;
        let answer = tokio::select! {
            answer = answer(&mut stream) => answer?,
            () = rest(ANSWER) => return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within 3 seconds")),
        };
        if answer.code != 0 {
            let remark = answer.remark.unwrap_or_default();
            return Err(io::Error::other(format!("{code} was answered with {}: {remark}", answer.code)));
        }
        state.borrow_mut().take_over(code, &answer.body).map_err(io::Error::other)?;
    }
    Ok(())
}

async fn answer(stream: &mut TcpStream) -> io::Result<RemotingCommand> {
    let mut received = BytesMut::new();
    loop {
        if let Some(frame) = Frame::next(&mut received, DEFAULT_MAX_FRAME_LENGTH).map_err(io::Error::other)? {
            return RemotingCommand::decode(&frame).map_err(io::Error::other);
        }
        if stream.read_buf(&mut received).await? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the master closed the connection"));
        }
    }
}
