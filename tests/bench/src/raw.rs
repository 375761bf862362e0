//! Ready-made frames, a window of them under way, one write for all that became free.
//!
//! Against the stub it shows the floor below any client on this machine, against a broker how fast that broker can
//! be.

use std::io;

use crate::{
    arguments::Arguments,
    frames::{Answers, SendFrames},
    outcome::Stopwatch,
};
use bytes::{Buf, BytesMut};
use rocketmq_wire::header::SerializeType;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Free room kept in the read buffer, in bytes.
const READ_ROOM: usize = 256 * 1024;

struct Generator {
    stream: TcpStream,
    frames: SendFrames,
    out: Vec<u8>,
    input: BytesMut,
}

impl Generator {
    /// Sends `count` messages, `in_flight` at a time, and returns how many were refused.
    async fn send(&mut self, count: u64, in_flight: u64) -> io::Result<u64> {
        let (mut read_half, mut write_half) = self.stream.split();
        let (mut sent, mut answered, mut refused) = (0, 0, 0);
        let mut written = 0;
        while answered < count {
            if written == self.out.len() {
                self.out.clear();
                written = 0;
                let free = (in_flight - (sent - answered)).min(count - sent);
                self.frames.write(&mut self.out, free as usize);
                sent += free;
            }
            tokio::select! {
                biased;
                wrote = write_half.write(&self.out[written..]), if written < self.out.len() => written += wrote?,
                read = read_half.read_buf(&mut self.input) => {
                    if read? == 0 {
                        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the broker closed the connection"));
                    }
                    let answers = Answers::count(&self.input);
                    answered += answers.acknowledged + answers.refused;
                    refused += answers.refused;
                    self.input.advance(answers.length);
                    self.input.reserve(READ_ROOM / 2);
                }
            }
        }
        Ok(refused)
    }
}

/// Runs the load that the arguments describe and prints its outcome:
/// `broker=ADDRESS count=N [warm_up=N] [in_flight=32] [header=binary|json] [topic=bench] [size=128]`.
///
/// # Errors
///
/// When the broker cannot be reached or closes the connection.
pub fn run(arguments: &Arguments) -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure(arguments))
}

async fn measure(arguments: &Arguments) -> io::Result<()> {
    let serialize_type = match arguments.text("header", "binary") {
        "json" => SerializeType::Json,
        _ => SerializeType::Binary,
    };
    let stream = TcpStream::connect(arguments.required("broker")).await?;
    stream.set_nodelay(true)?;
    let mut generator = Generator {
        stream,
        frames: SendFrames::new(serialize_type, arguments.text("topic", "bench"), arguments.number("size", 128)),
        out: Vec::new(),
        input: BytesMut::with_capacity(READ_ROOM),
    };
    let (count, in_flight) = (arguments.number("count", 1), arguments.number("in_flight", 32));
    // One send alone creates the topic.
    generator.send(1, 1).await?;
    generator.send(arguments.number("warm_up", 0), in_flight).await?;
    let stopwatch = Stopwatch::start();
    let failed = generator.send(count, in_flight).await?;
    stopwatch.outcome(count - failed, failed).print();
    Ok(())
}
