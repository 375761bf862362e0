//! One request and its answer over a socket, written without any of the project's own code.
//!
//! The harness must not depend on what it judges: it asks servers whether they are ready with these few lines.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::{Map, Value, json};

/// The longest answer accepted.
const ANSWER_LIMIT: usize = 16 << 20;
/// The version of the protocol that is claimed: that of Apache RocketMQ 5.3.3.
const VERSION: u32 = 479;

/// The answer to a request.
#[derive(Debug, Clone)]
pub struct Answer {
    /// 0 is success.
    pub code: i64,
    /// What the server said about a failure.
    pub remark: Option<String>,
    /// The header fields.
    pub fields: Map<String, Value>,
    /// What follows the header.
    pub body: Vec<u8>,
}

/// Sends one request with a JSON header over a new connection and reads the answer, at most ten seconds.
///
/// # Errors
///
/// When the server cannot be reached, does not answer, or answers something that is not a frame.
pub fn ask(address: &str, code: u32, fields: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    let limit = Duration::from_secs(10);
    let mut socket = TcpStream::connect_timeout(&address, limit)?;
    socket.set_read_timeout(Some(limit))?;
    socket.set_write_timeout(Some(limit))?;
    let fields: Map<String, Value> = fields.iter().map(|&(key, value)| (key.to_owned(), json!(value))).collect();
    let header = json!({
        "code": code, "language": "OTHER", "version": VERSION, "opaque": 1, "flag": 0, "extFields": fields,
        "serializeTypeCurrentRPC": "JSON",
    });
    socket.write_all(&frame(header.to_string().as_bytes(), body))?;
    read_answer(&mut socket)
}

/// A whole frame with a JSON header.
pub fn frame(header: &[u8], body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(8 + header.len() + body.len());
    frame.extend_from_slice(&(4 + header.len() as u32 + body.len() as u32).to_be_bytes());
    frame.extend_from_slice(&(header.len() as u32).to_be_bytes());
    frame.extend_from_slice(header);
    frame.extend_from_slice(body);
    frame
}

fn read_answer(socket: &mut TcpStream) -> io::Result<Answer> {
    let mut lengths = [0; 8];
    socket.read_exact(&mut lengths)?;
    let [l0, l1, l2, l3, _serialize_type, h0, h1, h2] = lengths;
    let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    let header_length = u32::from_be_bytes([0, h0, h1, h2]) as usize;
    if length > ANSWER_LIMIT || header_length + 4 > length {
        return Err(io::Error::other(format!("not a frame: {lengths:02x?}")));
    }
    let mut header = vec![0; length - 4];
    socket.read_exact(&mut header)?;
    let body = header.split_off(header_length);
    let header: Value = serde_json::from_slice(&header)?;
    Ok(Answer {
        code: header["code"].as_i64().unwrap_or(-1),
        remark: header["remark"].as_str().map(str::to_owned),
        fields: header["extFields"].as_object().cloned().unwrap_or_default(),
        body,
    })
}

/// A connection that is kept for many requests.
#[derive(Debug)]
pub struct Connection {
    socket: TcpStream,
    opaque: u32,
}

impl Connection {
    /// Connects; every read and write may take ten seconds.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached.
    pub fn open(address: &str) -> io::Result<Self> {
        let address: SocketAddr = address.parse().map_err(io::Error::other)?;
        let limit = Duration::from_secs(10);
        let socket = TcpStream::connect_timeout(&address, limit)?;
        socket.set_read_timeout(Some(limit))?;
        socket.set_write_timeout(Some(limit))?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, opaque: 0 })
    }

    /// Sends one request and reads the answer.
    ///
    /// # Errors
    ///
    /// As [`ask`].
    pub fn ask(&mut self, code: u32, fields: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
        self.opaque += 1;
        let fields: Map<String, Value> = fields.iter().map(|&(key, value)| (key.to_owned(), json!(value))).collect();
        let header = json!({
            "code": code, "language": "OTHER", "version": VERSION, "opaque": self.opaque, "flag": 0,
            "extFields": fields, "serializeTypeCurrentRPC": "JSON",
        });
        self.socket.write_all(&frame(header.to_string().as_bytes(), body))?;
        read_answer(&mut self.socket)
    }
}
