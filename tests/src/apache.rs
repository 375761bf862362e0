//! Apache RocketMQ's own name server and broker, as published, in two child processes.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use crate::{
    cache,
    process::{Process, poll},
    raw,
};

/// How long a server may take to start. Alone it needs 3 to 11 s; beside other work on two cores, three times that.
const START_LIMIT: Duration = Duration::from_secs(90);
/// How long a broker may take to stop. 5.3.3 needs up to 26 s.
const STOP_LIMIT: Duration = Duration::from_secs(60);

const GET_ROUTE: u32 = 105;
const UPDATE_AND_CREATE_TOPIC: u32 = 17;

/// Delay levels that make a failed message come back within seconds.
pub(crate) const DELAY_LEVELS: &str = "1s 1s 1s 1s 2s 3s 4s 5s";

/// The settings every broker starts with: small files, and waits that fit a loaded machine.
const BROKER_PROPERTIES: &[(&str, &str)] = &[
    ("brokerClusterName", "DefaultCluster"),
    ("brokerName", "broker-a"),
    ("brokerId", "0"),
    ("brokerIP1", "127.0.0.1"),
    ("mappedFileSizeCommitLog", "67108864"),
    // 4.4.0 spells it so, and otherwise reserves 1 GiB.
    ("mapedFileSizeCommitLog", "67108864"),
    ("mappedFileSizeConsumeQueue", "600000"),
    ("maxIndexNum", "20000"),
    ("maxHashSlotNum", "5000"),
    ("autoCreateTopicEnable", "true"),
    ("enablePropertyFilter", "true"),
    ("diskMaxUsedSpaceRatio", "95"),
    ("waitTimeMillsInSendQueue", "20000"),
    ("osPageCacheBusyTimeOutMills", "20000"),
    ("transactionTimeOut", "2000"),
    ("transactionCheckInterval", "2000"),
    ("transactionOpBatchInterval", "300"),
    // After so many questions a half message is given up: with the usual 15, half a minute after the first.
    ("transactionCheckMax", "1000"),
    ("messageDelayLevel", DELAY_LEVELS),
    ("recallMessageEnable", "true"),
    ("traceTopicEnable", "true"),
];

/// A disk fuller than 90 % would make every send fail, whatever `diskMaxUsedSpaceRatio` says.
const DISK_FLAGS: [&str; 2] =
    ["-Drocketmq.broker.diskSpaceWarningLevelRatio=0.999", "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.998"];

/// What may differ from one cluster to another.
#[derive(Debug, Clone, Default)]
pub struct ApacheOptions {
    /// Broker properties, added to or replacing the usual ones.
    pub broker_properties: Vec<(String, String)>,
    /// Flags for the broker's virtual machine, after the usual ones, so that they win.
    pub broker_flags: Vec<String>,
    /// Where the store is; a folder of its own by default.
    pub store: Option<PathBuf>,
    /// A name server that runs elsewhere, instead of one of its own.
    pub name_server: Option<String>,
    /// Flags for the name server's virtual machine.
    pub name_server_flags: Vec<String>,
    /// Name servers at which the broker registers besides its own.
    pub more_name_servers: Vec<String>,
    /// Files in the home of both servers: paths within it, and contents.
    pub files: Vec<(String, String)>,
}

impl ApacheOptions {
    /// Sets one broker property.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.broker_properties.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Puts a file into the home of both servers.
    #[must_use]
    pub fn file(mut self, path: &str, content: &str) -> Self {
        self.files.push((path.to_owned(), content.to_owned()));
        self
    }

    /// Gives both virtual machines these flags.
    #[must_use]
    pub fn flags(mut self, flags: Vec<String>) -> Self {
        self.broker_flags.extend_from_slice(&flags);
        self.name_server_flags.extend(flags);
        self
    }
}

/// A name server and one broker of one Apache version, on ports of their own and a store that is removed at the end.
///
/// The processes end when the value is dropped and when the test process ends in any way. After a failed test the
/// folder with store and logs is kept and its path printed.
#[derive(Debug)]
pub struct ApacheCluster {
    version: String,
    options: ApacheOptions,
    directory: PathBuf,
    name_server_port: u16,
    broker_port: u16,
    name_server: Option<Process>,
    broker: Option<Process>,
}

impl ApacheCluster {
    /// Starts both servers and waits until the broker is registered: about 6 s for 4.4.0, 12 s for 5.3.3.
    ///
    /// # Panics
    ///
    /// When the jars are missing (naming the command that fetches them) or a server does not start, with the end of
    /// its log.
    pub fn start(version: &str, options: ApacheOptions) -> Self {
        let directory = cache::run_directory(&format!("apache-{version}"));
        write_configuration(&directory);
        for (path, content) in &options.files {
            let file = directory.join("home").join(path);
            fs::write(&file, content).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
        let mut cluster = Self {
            version: version.to_owned(),
            options,
            directory,
            name_server_port: 0,
            broker_port: 0,
            name_server: None,
            broker: None,
        };
        // Between choosing a port and its use another process may take it: then the server ends, and other ports do.
        if cluster.options.name_server.is_none() {
            retry_once(|| {
                cluster.name_server_port = free_ports(&[0]);
                cluster.start_name_server()
            });
        }
        retry_once(|| {
            cluster.broker_port = free_ports(&[0, -2, 1]);
            cluster.start_broker_process()
        });
        cluster.await_registration();
        cluster
    }

    /// The version of the jars.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The name server's address.
    pub fn name_server(&self) -> String {
        self.options.name_server.clone().unwrap_or_else(|| format!("127.0.0.1:{}", self.name_server_port))
    }

    /// The broker's address.
    pub fn broker(&self) -> String {
        format!("127.0.0.1:{}", self.broker_port)
    }

    /// The process ids of the name server and the broker, for measurements.
    pub fn process_ids(&self) -> Vec<u32> {
        self.name_server.iter().chain(&self.broker).map(Process::id).collect()
    }

    /// The folder with configuration, store and logs.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Stops the broker cleanly, as SIGTERM does: up to 6 s, 26 s for 5.x.
    pub fn stop_broker(&mut self) {
        let mut broker = self.broker.take().expect("the broker runs");
        broker.write_line("stop");
        broker.wait(STOP_LIMIT);
    }

    /// Ends the broker without warning, as `kill -9` does.
    pub fn kill_broker(&mut self) {
        self.broker.take().expect("the broker runs").kill();
    }

    /// Starts the broker again on the same store and port, and waits until it is registered and answers.
    pub fn start_broker(&mut self) {
        assert!(self.broker.is_none(), "the broker runs already");
        self.start_broker_process().unwrap_or_else(|problem| panic!("{problem}"));
        self.await_registration();
    }

    /// Creates a topic on the broker and waits until the name server knows it.
    pub fn create_topic(&self, topic: &str, queues: u32) {
        create_topic(&self.name_server(), &self.broker(), topic, queues);
    }

    fn start_name_server(&mut self) -> Result<(), String> {
        let properties = [
            ("listenPort", self.name_server_port.to_string()),
            ("kvConfigPath", self.path("kv.json")),
            ("configStorePath", self.path("name_server.store.properties")),
        ];
        let file = self.directory.join("name_server.properties");
        write_properties(&file, properties.iter().map(|(key, value)| (*key, value.as_str())));
        let mut command = self.java(&["-Xms128m", "-Xmx128m"], &self.options.name_server_flags);
        command.arg("org.apache.rocketmq.namesrv.NamesrvStartup").arg("-c").arg(file);
        self.name_server = Some(self.start_server("name server", &mut command, "name_server.log")?);
        Ok(())
    }

    fn start_broker_process(&mut self) -> Result<(), String> {
        let store = self.options.store.clone().unwrap_or_else(|| self.directory.join("store"));
        let mut name_servers = vec![self.name_server()];
        name_servers.extend_from_slice(&self.options.more_name_servers);
        let own = [
            ("listenPort", self.broker_port.to_string()),
            ("namesrvAddr", name_servers.join(";")),
            ("storePathRootDir", store.display().to_string()),
            ("storePathCommitLog", store.join("commitlog").display().to_string()),
        ];
        let file = self.directory.join("broker.properties");
        let properties = BROKER_PROPERTIES
            .iter()
            .copied()
            .chain(version_properties(&self.version).iter().copied())
            .chain(own.iter().map(|(key, value)| (*key, value.as_str())))
            .chain(self.options.broker_properties.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        write_properties(&file, properties);
        // 256 MB of direct memory are not enough for 5.3.3: large bodies then get no answer.
        let memory = ["-Xms192m", "-Xmx256m", "-XX:MaxDirectMemorySize=512m"];
        let flags = [&DISK_FLAGS.map(str::to_owned)[..], &self.options.broker_flags].concat();
        let mut command = self.java(&memory, &flags);
        command.arg("org.apache.rocketmq.broker.BrokerStartup").arg("-c").arg(file);
        self.broker = Some(self.start_server("broker", &mut command, "broker.log")?);
        Ok(())
    }

    fn start_server(&self, role: &str, command: &mut Command, log: &str) -> Result<Process, String> {
        let name = format!("Apache {} {role}", self.version);
        Process::start_and_wait(&name, command, &self.directory.join(log), "boot success", START_LIMIT)
    }

    fn java(&self, memory: &[&str], flags: &[String]) -> Command {
        let home = self.directory.join("home");
        let class_path = format!(
            "{}:{}:{}/*",
            home.join("conf").display(),
            cache::java_classes(&self.version).display(),
            cache::jars(&self.version).display()
        );
        let mut command = Command::new("java");
        command
            .current_dir(&self.directory)
            .env("ROCKETMQ_HOME", &home)
            .args(memory)
            .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"])
            .args(cache::JAVA_OPEN_PACKAGES)
            .arg(format!("-Duser.home={}", home.display()))
            .args(flags)
            .args(["-cp", &class_path, "interop.Guarded"]);
        command
    }

    /// `boot success` comes before the first registration: a client that asks at once would find an empty cluster.
    fn await_registration(&self) {
        let (name_server, broker) = (self.name_server(), self.broker());
        let what = format!("Apache {} broker {broker} registered at {name_server}", self.version);
        let port = format!("\"{broker}\"");
        poll(&what, START_LIMIT, || {
            let answer = raw::ask(&name_server, GET_CLUSTER, &[], &[]).ok()?;
            let registered = String::from_utf8_lossy(&answer.body).contains(&port);
            let answers = raw::ask(&broker, GET_BROKER_RUNTIME_INFO, &[], &[]).is_ok();
            (registered && answers).then_some(())
        });
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }
}

const GET_CLUSTER: u32 = 106;
const GET_BROKER_RUNTIME_INFO: u32 = 28;

impl Drop for ApacheCluster {
    fn drop(&mut self) {
        self.broker = None;
        self.name_server = None;
        if thread::panicking() {
            eprintln!("store and logs of Apache {}: {}", self.version, self.directory.display());
        } else if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("{} cannot be removed: {error}", self.directory.display());
        }
    }
}

/// 4.4.0 counts the whole stored record against its limit, later versions the body alone: with 64 KiB more it takes a
/// body of 4 MiB as they do.
fn version_properties(version: &str) -> &'static [(&'static str, &'static str)] {
    if version.starts_with("4.4.") { &[("maxMessageSize", "4259840")] } else { &[] }
}

/// Creates a topic on any broker and waits until the name server knows it.
///
/// # Panics
///
/// When the broker refuses it, or the route does not appear within 30 s.
pub fn create_topic(name_server: &str, broker: &str, topic: &str, queues: u32) {
    let queues = queues.to_string();
    let fields = [
        ("topic", topic),
        ("defaultTopic", "TBW102"),
        ("readQueueNums", &queues),
        ("writeQueueNums", &queues),
        ("perm", "6"),
        ("topicFilterType", "SINGLE_TAG"),
        ("topicSysFlag", "0"),
        ("order", "false"),
    ];
    let answer = raw::ask(broker, UPDATE_AND_CREATE_TOPIC, &fields, &[])
        .unwrap_or_else(|error| panic!("creating topic {topic} on {broker}: {error}"));
    assert_eq!(answer.code, 0, "creating topic {topic} on {broker}: {:?}", answer.remark);
    poll(&format!("a route for {topic}"), Duration::from_secs(30), || {
        let answer = raw::ask(name_server, GET_ROUTE, &[("topic", topic)], &[]).ok()?;
        (answer.code == 0).then_some(())
    });
}

/// Logging configurations that print nothing. 4.x looks for the first three in its home and ends without them, 5.x
/// for the last on the class path.
fn write_configuration(directory: &Path) {
    let conf = directory.join("home/conf");
    fs::create_dir_all(&conf).unwrap_or_else(|error| panic!("{}: {error}", conf.display()));
    let silent = "<configuration><root level=\"OFF\"/></configuration>";
    let silent_5 = "<configuration>\
        <statusListener class=\"org.apache.rocketmq.logging.ch.qos.logback.core.status.NopStatusListener\"/>\
        <root level=\"OFF\"/></configuration>";
    for (name, content) in [
        ("logback_namesrv.xml", silent),
        ("logback_broker.xml", silent),
        ("logback_tools.xml", silent),
        ("logback.xml", silent),
        ("rmq.logback.xml", silent_5),
    ] {
        fs::write(conf.join(name), content).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

fn write_properties<'a>(file: &Path, properties: impl Iterator<Item = (&'a str, &'a str)>) {
    // A key that is set twice: Java's Properties keep the last.
    let text: String = properties.map(|(key, value)| format!("{key}={value}\n")).collect();
    fs::write(file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

/// A port chosen by the kernel such that the ports at these distances from it are free as well.
fn free_ports(distances: &[i32]) -> u16 {
    poll("free ports", Duration::from_secs(10), || {
        let chosen = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        let port = chosen.local_addr().ok()?.port();
        let neighbours = distances.iter().filter(|&&distance| distance != 0);
        let all_free = neighbours
            .map(|distance| u16::try_from(i32::from(port) + distance).ok())
            .all(|port| port.is_some_and(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()));
        all_free.then_some(port)
    })
}

fn retry_once(mut start: impl FnMut() -> Result<(), String>) {
    if let Err(first) = start() {
        start().unwrap_or_else(|second| panic!("{first}\nand again: {second}"));
    }
}
