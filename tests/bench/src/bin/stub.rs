//! The fast stub broker. `bench-stub [backlog=MESSAGES_PER_QUEUE]` prints where it listens and serves until its standard
//! input ends.

use std::{cell::RefCell, io, rc::Rc};

use rocketmq_bench::{
    arguments::Arguments,
    stub::{Stub, serve},
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::LocalSet,
};

fn main() -> io::Result<()> {
    let backlog = Arguments::from_command_line().number("backlog", 0);
    std::thread::spawn(|| {
        // Its end, or the failure to read it, means that whoever started this is gone.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, run(backlog))
}

async fn run(backlog: i64) -> io::Result<()> {
    let name_server = TcpListener::bind("127.0.0.1:0").await?;
    let broker = TcpListener::bind("127.0.0.1:0").await?;
    println!("ready name_server={} broker={}", name_server.local_addr()?, broker.local_addr()?);
    let stub = Rc::new(RefCell::new(Stub::new(broker.local_addr()?.port(), backlog)));
    loop {
        let (stream, _) = tokio::select! {
            accepted = name_server.accept() => accepted?,
            accepted = broker.accept() => accepted?,
        };
        tokio::task::spawn_local(connection(Rc::clone(&stub), stream));
    }
}

async fn connection(stub: Rc<RefCell<Stub>>, stream: TcpStream) {
    if let Err(error) = serve(&stub, stream).await {
        eprintln!("connection closed: {error}");
    }
}
