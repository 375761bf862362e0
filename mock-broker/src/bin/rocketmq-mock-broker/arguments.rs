//! What the command line says.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use rocketmq_mock_broker::{Compatibility, Fault};

/// A RocketMQ name server and broker to test against.
///
/// Prints one line on stdout when it serves, logs to stderr, ends on SIGTERM and Ctrl-C. Flags win over the file of --config,
/// and --set wins over flags. Under systemd it notifies READY=1.
#[derive(Debug, Parser)]
#[command(version, name = "rocketmq-mock-broker", args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) serve: Serve,
}

/// What it does besides serving.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print what a store directory holds, ours or Apache's, as JSON lines; nothing is changed
    Dump {
        /// The store directory
        directory: PathBuf,
        /// Only messages of this topic
        #[arg(long)]
        topic: Option<String>,
        /// Go on with what is stored later, until a signal ends it
        #[arg(long)]
        follow: bool,
    },
    /// Check every file of a store directory, ours or Apache's, and say what is wrong where; exit code 1 if anything is
    Verify {
        /// The store directory
        directory: PathBuf,
    },
    /// Put messages of a file of JSON lines, as `dump` prints them, into a store directory
    Load {
        /// The file; - reads stdin
        file: PathBuf,
        /// The store directory
        #[arg(long, value_name = "DIRECTORY")]
        store: PathBuf,
        /// Which version's files it has
        #[arg(long, default_value = "5.3")]
        compatibility: Compatibility,
    },
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// How it serves.
#[derive(Debug, Parser)]
pub(crate) struct Serve {
    /// Where the name server listens; port 0 takes a free one [default: 127.0.0.1:9876]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,

    /// Where the broker listens; it takes the port two below as well, for clients of 4.4 [default: 127.0.0.1:10911]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) broker_listen: Option<SocketAddr>,

    /// The host that routes name; needed when the broker listens on an unspecified address
    #[arg(long, value_name = "HOST")]
    pub(crate) advertise: Option<String>,

    /// Keep messages, topics and offsets in this directory, in Apache's format; without it they are in memory
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) store: Option<PathBuf>,

    /// Serve the console, a page for people and an API for programs, at this address; keeps a journal as well
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) console: Option<SocketAddr>,

    /// What the console's users have to show; needed when it can be reached from other machines
    #[arg(long, value_name = "TOKEN", env = "ROCKETMQ_MOCK_BROKER_TOKEN", hide_env_values = true)]
    pub(crate) console_token: Option<String>,

    /// Read settings from a file: TOML if its name ends in .toml, else Apache's properties
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Have a topic with so many queues, 8 if none is said; repeatable
    #[arg(long, value_name = "NAME[:QUEUES]", value_parser = topic)]
    pub(crate) topic: Vec<(String, u32)>,

    /// Behave like this line of releases: 4.4, 4.9 or 5.3
    #[arg(long, value_name = "VERSION")]
    pub(crate) compatibility: Option<Compatibility>,

    /// Put a fault, such as request=send,topic=orders,times=2,answer=2:busy; repeatable
    #[arg(long, value_name = "FAULT")]
    pub(crate) fault: Vec<Fault>,

    /// How many of the latest requests and answers the journal keeps [default: 10000 with a console, else 0]
    #[arg(long, value_name = "ENTRIES")]
    pub(crate) journal: Option<usize>,

    /// Whether message time goes on
    #[arg(long, value_enum)]
    pub(crate) clock: Option<ClockKind>,

    /// What is logged, such as info or rocketmq_mock_broker=debug [default: RUST_LOG, else warn]
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,

    /// Set a property by Apache's name, such as autoCreateTopicEnable=false, or compatibility=4.4|4.9|5.3; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) set: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ClockKind {
    /// Message time is real time
    Real,
    /// Message time stands still
    Manual,
    /// Message time skips to what is due next whenever nobody asks for anything
    Skipping,
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not of the form key=value"))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

fn topic(text: &str) -> Result<(String, u32), String> {
    let (name, queues) = text.rsplit_once(':').unwrap_or((text, "8"));
    let queues = queues.parse().ok().filter(|queues| (1..=65_536).contains(queues));
    let queues = queues.ok_or_else(|| format!("`{text}` is not of the form name:queues"))?;
    rocketmq_wire::message::names::check(name, 127).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), queues))
}
