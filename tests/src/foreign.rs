//! The Java and Go clients, driven over pipes.
//!
//! Both drivers (`interop/java`, `interop/go`) speak the same language: a command a line in, events as JSON lines
//! out. One driver process serves many jobs, since starting a virtual machine costs more than most scenarios.

use std::{
    collections::HashMap,
    fmt::Write as _,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio::{sync::mpsc, time};

use crate::{
    cache,
    party::{Outcome, Received, Sent},
    process::Process,
};

/// How the Java client writes its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Headers {
    /// Its default.
    Json,
    /// `-Drocketmq.serialize.type=ROCKETMQ`.
    Binary,
}

type Jobs = Arc<Mutex<HashMap<u32, mpsc::UnboundedSender<Value>>>>;

/// A running driver. It ends when dropped, and with the test process.
#[derive(Debug)]
pub struct Driver {
    name: String,
    process: Mutex<Process>,
    jobs: Jobs,
    next_job: AtomicU32,
    /// The administrator's tools keep the name server and what they print in places that a process has one of.
    mqadmin: tokio::sync::Mutex<()>,
}

impl Driver {
    /// Starts the Java client of one version. It is told to rebalance every second instead of every twenty.
    pub fn java(version: &str, headers: Headers) -> Self {
        Self::java_with(version, headers, &[])
    }

    /// As [`java`](Self::java), with more flags for the virtual machine.
    pub fn java_with(version: &str, headers: Headers, flags: &[String]) -> Self {
        let directory = cache::run_directory(&format!("java-{version}"));
        std::fs::write(directory.join("logback.xml"), "<configuration><root level=\"OFF\"/></configuration>")
            .expect("the folder was just made");
        // The administrator's tools of 4.x do not start without it.
        std::fs::create_dir(directory.join("conf"))
            .and_then(|()| {
                let silent = "<configuration><root level=\"OFF\"/></configuration>";
                std::fs::write(directory.join("conf/logback_tools.xml"), silent)
            })
            .expect("the folder was just made");
        let mut command = java_command(version, headers);
        command
            .args(flags)
            .arg("-XX:TieredStopAtLevel=1")
            .arg(format!("-Drocketmq.home.dir={}", directory.display()))
            .arg(format!("-Duser.home={}", directory.display()))
            .arg("interop.Driver");
        Self::start(&format!("Java client {version} ({headers:?})"), &mut command, &directory.join("driver.log"))
    }

    /// Starts the Go client.
    pub fn go() -> Self {
        let directory = cache::run_directory("go");
        let mut command = Command::new(cache::go_driver());
        // Its log folder.
        command.env("HOME", &directory);
        Self::start("Go client", &mut command, &directory.join("driver.log"))
    }

    /// Which client it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn start(name: &str, command: &mut Command, log: &std::path::Path) -> Self {
        let jobs = Jobs::default();
        let table = Arc::clone(&jobs);
        let process = Process::start(name, command, log, move |line| {
            let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            let job = event["job"].as_u64().and_then(|job| u32::try_from(job).ok());
            if let Some(events) = job.and_then(|job| table.lock().expect("no panic inside").get(&job).cloned()) {
                // A job that nobody listens to any more.
                let _ = events.send(event);
            }
        });
        Self {
            name: name.to_owned(),
            process: Mutex::new(process),
            jobs,
            next_job: AtomicU32::new(1),
            mqadmin: tokio::sync::Mutex::default(),
        }
    }

    /// Starts sending. Ask the job for its [`Job::outcome`].
    pub fn produce(&self, arguments: &Arguments) -> Job<'_> {
        self.command("produce", arguments)
    }

    /// Starts a push consumer and waits until it runs.
    pub async fn consume(&self, arguments: &Arguments) -> Job<'_> {
        let mut job = self.command("consume", arguments);
        job.next("started").await;
        job
    }

    /// Starts a transaction producer (Java only), which begins with half messages and answers checks until it is stopped.
    pub async fn transact(&self, arguments: &Arguments) -> Job<'_> {
        let mut job = self.command("transact", arguments);
        job.next("started").await;
        job
    }

    /// Asks questions by messages and returns the bodies of the replies.
    pub async fn request(&self, arguments: &Arguments) -> Vec<String> {
        let mut job = self.command("request", arguments);
        job.limit = Duration::from_secs(150);
        job.next("started").await;
        let mut replies = Vec::new();
        loop {
            let event = job.any("reply").await;
            match event["event"].as_str() {
                Some("reply") => replies.push(text(&event, "body")),
                Some("done") => return replies,
                _ => panic!("{event}"),
            }
        }
    }

    /// Runs one `mqadmin` command (Java only) and returns what it printed.
    pub async fn mqadmin(&self, name_server: &str, line: &str) -> String {
        let _turn = self.mqadmin.lock().await;
        let mut job = self.command("mqadmin", &Arguments::new().set("name_server", name_server).set("line", line));
        let done = job.next("done").await;
        done["output"].as_str().unwrap_or_default().to_owned()
    }

    fn command(&self, command: &str, arguments: &Arguments) -> Job<'_> {
        let id = self.next_job.fetch_add(1, Ordering::Relaxed);
        let (sender, events) = mpsc::unbounded_channel();
        self.jobs.lock().expect("no panic inside").insert(id, sender);
        self.write(&format!("{id} {command}{}", arguments.0));
        Job { driver: self, id, events, limit: Duration::from_secs(60) }
    }

    fn write(&self, line: &str) {
        self.process.lock().expect("a driver that ended fails every test that uses it").write_line(line);
    }

    fn log_tail(&self) -> String {
        self.process.lock().map(|process| process.log_tail()).unwrap_or_default()
    }
}

/// The `java` command with everything but the main class: the client of one version and our driver on the class path.
pub fn java_command(version: &str, headers: Headers) -> Command {
    let mut command = Command::new("java");
    command.args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Drocketmq.client.rebalance.waitInterval=1000"]);
    command.args(cache::JAVA_OPEN_PACKAGES);
    if headers == Headers::Binary {
        command.arg("-Drocketmq.serialize.type=ROCKETMQ");
    }
    let (classes, jars) = (cache::java_classes(version), cache::jars(version));
    command.arg("-cp").arg(format!("{}:{}/*", classes.display(), jars.display()));
    command
}

/// The words after a command. Values may hold any text.
#[derive(Debug, Clone, Default)]
pub struct Arguments(String);

impl Arguments {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `key=value`.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl ToString) -> Self {
        let _ = write!(self.0, " {key}=");
        self.encode(&value.to_string());
        self
    }

    /// Adds `key.name=value`, where the name may be any text as well.
    #[must_use]
    pub fn set_named(mut self, key: &str, name: &str, value: &str) -> Self {
        let _ = write!(self.0, " {key}.");
        self.encode(name);
        self.0.push('=');
        self.encode(value);
        self
    }

    fn encode(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' | b':' | b'*' | b',' => {
                    self.0.push(char::from(byte));
                }
                _ => {
                    let _ = write!(self.0, "%{byte:02X}");
                }
            }
        }
    }
}

/// One command that a driver is carrying out.
#[derive(Debug)]
pub struct Job<'a> {
    driver: &'a Driver,
    id: u32,
    events: mpsc::UnboundedReceiver<Value>,
    limit: Duration,
}

impl Job<'_> {
    /// The next event, which must be of this kind.
    ///
    /// # Panics
    ///
    /// When another comes, or none within a minute.
    pub async fn next(&mut self, kind: &str) -> Value {
        let event = self.any(kind).await;
        assert_eq!(event["event"], kind, "{event}");
        event
    }

    /// Collects the events of a `produce` until it is done.
    pub async fn outcome(&mut self) -> Outcome {
        let mut outcome = Outcome::default();
        loop {
            let event = self.any("done").await;
            match event["event"].as_str() {
                Some("started") => {}
                Some("sent") => outcome.sent.push(sent(&event)),
                Some("failed") => outcome.failed.push(event["message"].as_str().unwrap_or_default().to_owned()),
                Some("done") => return outcome,
                _ => panic!("{event}"),
            }
        }
    }

    /// Collects the events of a `produce` until it is done; waits at most `limit` for each.
    ///
    /// # Panics
    ///
    /// When it fails, or none comes in time.
    pub async fn events(&mut self, limit: Duration) -> Vec<Value> {
        self.limit = limit;
        let mut events = Vec::new();
        loop {
            let event = self.any("done").await;
            assert_ne!(event["event"], "error", "{event}");
            if event["event"] == "done" {
                return events;
            }
            events.push(event);
        }
    }

    /// The next `count` deliveries of a `consume`.
    ///
    /// # Panics
    ///
    /// When the next does not come within a minute, saying how many did.
    pub async fn messages(&mut self, count: usize) -> Vec<Received> {
        let mut messages = Vec::with_capacity(count);
        while messages.len() < count {
            let event = self.any(&format!("message {} of {count}", messages.len() + 1)).await;
            match event["event"].as_str() {
                Some("message") => messages.push(received(&event)),
                Some("done") => {}
                _ => panic!("{event}"),
            }
        }
        messages
    }

    /// The body of the next message that a `transact` is asked about.
    pub async fn checked(&mut self) -> String {
        text(&self.next("checked").await, "body")
    }

    /// Stops a `consume` or `transact` and returns what was delivered but not asked for.
    pub async fn stop(mut self) -> Vec<Received> {
        self.driver.write(&format!("{} stop", self.id));
        let mut rest = Vec::new();
        loop {
            let event = self.any("stopped").await;
            match event["event"].as_str() {
                Some("message") => rest.push(received(&event)),
                Some("done" | "checked") => {}
                Some("stopped") => return rest,
                _ => panic!("{event}"),
            }
        }
    }

    async fn any(&mut self, awaited: &str) -> Value {
        match time::timeout(self.limit, self.events.recv()).await {
            Ok(Some(event)) => event,
            Ok(None) => unreachable!("the table keeps a sender for as long as the job lives"),
            Err(_) => {
                panic!("no {awaited} of job {} within {:?}:\n{}", self.id, self.limit, self.driver.log_tail())
            }
        }
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        if let Ok(mut jobs) = self.driver.jobs.lock() {
            jobs.remove(&self.id);
        }
    }
}

fn sent(event: &Value) -> Sent {
    assert_eq!(event["status"], "SEND_OK", "{event}");
    Sent {
        index: number(event, "index"),
        msg_id: text(event, "msg_id"),
        queue_id: number(event, "queue_id"),
        queue_offset: number(event, "queue_offset"),
    }
}

fn received(event: &Value) -> Received {
    let properties = event["properties"].as_object().into_iter().flatten();
    Received {
        succeeded: event["outcome"] == "success",
        msg_id: text(event, "msg_id"),
        topic: text(event, "topic"),
        queue_id: number(event, "queue_id"),
        queue_offset: number(event, "queue_offset"),
        reconsume_times: number(event, "reconsume_times"),
        size: number(event, "size"),
        sha1: text(event, "sha1"),
        tag: text(event, "tags"),
        keys: text(event, "keys"),
        properties: properties
            .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect(),
    }
}

fn text(event: &Value, key: &str) -> String {
    event[key].as_str().unwrap_or_default().to_owned()
}

fn number<T: TryFrom<u64>>(event: &Value, key: &str) -> T {
    let number = event[key].as_u64().and_then(|number| T::try_from(number).ok());
    number.unwrap_or_else(|| panic!("no {key} in {event}"))
}
