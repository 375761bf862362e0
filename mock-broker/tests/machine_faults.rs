//! Faults of the machine: a disk that is full or read-only, a directory that vanishes or is taken, a process that is stopped
//! for a while or ended under load.
#![cfg(all(target_os = "linux", feature = "cli"))]

#[path = "support/running.rs"]
mod running;
mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rocketmq_wire::message::StoredMessage;
use rocketmq_wire::{RequestCode, ResponseCode};
use running::{ANYWHERE, PROGRAM, Running, fails};
use support::{Peer, pull_fields, send_fields};

/// Nothing takes so long that works.
const LIMIT: Duration = Duration::from_secs(150);

/// Files so small that each kind is soon followed by another.
const SIZES: [&str; 10] = [
    "--set=mappedFileSizeCommitLog=65536",
    "--set=mappedFileSizeConsumeQueue=400",
    "--set=maxHashSlotNum=100",
    "--set=maxIndexNum=200",
    "--set=flushConsumerOffsetInterval=100",
    "--set=messageDelayLevel=1s 5s",
    "--set=autoCreateTopicEnable=true",
    "--set=autoCreateSubscriptionGroup=true",
    "--set=compatibility=4.9",
    "--set=diskMaxUsedSpaceRatio=99",
];

/// A place for a store whose space can be taken away and given back.
enum Disk {
    /// A file system of its own in memory.
    Mounted(tempfile::TempDir),
    /// Where nothing can be mounted: files of the process cannot grow or be made while its limit is 0.
    Limited(tempfile::TempDir),
}

impl Disk {
    fn small() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mounted = mount(&["-t", "tmpfs", "-o", "size=2m", "none"], directory.path());
        if mounted {
            Disk::Mounted(directory)
        } else {
            eprintln!(
                "NOTHING CAN BE MOUNTED HERE: instead of a small disk the size of files is limited (RLIMIT_FSIZE)"
            );
            Disk::Limited(directory)
        }
    }

    fn path(&self) -> &Path {
        match self {
            Disk::Mounted(directory) | Disk::Limited(directory) => directory.path(),
        }
    }

    fn store(&self) -> PathBuf {
        self.path().join("store")
    }

    /// The program with its store here.
    fn command(&self) -> Command {
        let mut command = match self {
            Disk::Mounted(_) => Command::new(PROGRAM),
            Disk::Limited(_) => {
                let mut command = Command::new("sh");
                // What is ignored stays so in the program: a file that cannot grow is an error then, not a signal.
                command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", PROGRAM]);
                command
            }
        };
        command.arg("--store").arg(self.store()).args(SIZES);
        command
    }

    /// Takes all space that is left.
    fn fill(&self, broker: &Running) {
        match self {
            Disk::Mounted(directory) => {
                let mut ballast = File::create(directory.path().join("ballast")).unwrap();
                for size in [4096, 1] {
                    while ballast.write_all(&vec![7; size]).is_ok() {}
                }
            }
            Disk::Limited(_) => limit(broker, "0"),
        }
    }

    /// Gives the space back.
    fn free(&self, broker: &Running) {
        match self {
            Disk::Mounted(directory) => fs::remove_file(directory.path().join("ballast")).unwrap(),
            Disk::Limited(_) => limit(broker, "unlimited"),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Disk::Mounted(directory) = self {
            let unmounted = Command::new("umount").arg("-l").arg(directory.path()).status();
            assert!(thread::panicking() || unmounted.is_ok_and(|status| status.success()));
        }
    }
}

fn mount(arguments: &[&str], at: &Path) -> bool {
    Command::new("mount").args(arguments).arg(at).output().is_ok_and(|output| output.status.success())
}

fn limit(broker: &Running, size: &str) {
    let arguments = ["--pid", &broker.id().to_string(), &format!("--fsize={size}:unlimited")];
    assert!(Command::new("prlimit").args(arguments).status().expect("util-linux is there").success());
}

/// Waits for something, and says what did not come.
fn await_that(what: &str, mut check: impl FnMut() -> bool) {
    const PAUSE: Duration = Duration::from_millis(20);
    let came = (0..LIMIT.as_millis() / PAUSE.as_millis()).any(|_| {
        let came = check();
        if !came {
            thread::sleep(PAUSE);
        }
        came
    });
    assert!(came, "not within {LIMIT:?}: {what}");
}

/// Messages of a queue by body, from its beginning to its end.
fn messages(peer: &mut Peer, topic: &str, queue_id: &str) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let offset = found.len().to_string();
        let pulled = peer.request(RequestCode::PULL_MESSAGE, &pull_fields("g", topic, queue_id, &offset, "*", "0"), "");
        if pulled.code != 0 {
            return found;
        }
        for message in StoredMessage::records(pulled.body) {
            let message = message.expect("a whole record");
            message.verify_crc().expect("an undamaged body");
            found.push(String::from_utf8(message.body().to_vec()).expect("text"));
        }
    }
}

/// Sends numbered messages until one is refused, or `most`; returns the code that refused.
fn send_until_refused(peer: &mut Peer, acknowledged: &mut Vec<String>, most: usize) -> Option<ResponseCode> {
    for _ in 0..most {
        let body = format!("{}-{}", acknowledged.len(), "x".repeat(1500));
        let properties = format!("KEYS\u{1}key{}\u{2}WAIT\u{1}true\u{2}", acknowledged.len());
        let sent = peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("full", "0", &properties), body.clone());
        if sent.code != 0 {
            let remark = sent.remark.unwrap_or_default();
            assert!(remark.contains("space") || remark.contains("large"), "{remark}");
            return Some(ResponseCode(sent.code));
        }
        acknowledged.push(body);
    }
    None
}

const PLACE: [(&str, &str); 3] = [("consumerGroup", "g"), ("topic", "full"), ("queueId", "0")];

fn commit(peer: &mut Peer, offset: &str) {
    let fields = [&PLACE[..], &[("commitOffset", offset)]].concat();
    assert_eq!(peer.request(RequestCode::UPDATE_CONSUMER_OFFSET, &fields, "").code, 0);
}

fn committed(peer: &mut Peer) -> Option<String> {
    peer.request(RequestCode::QUERY_CONSUMER_OFFSET, &PLACE, "").field("offset").map(str::to_owned)
}

fn by_key(peer: &mut Peer, key: &str) -> i32 {
    let times = [("beginTimestamp", "0"), ("endTimestamp", "9000000000000")];
    let fields = [&[("topic", "full"), ("key", key), ("maxNum", "32")][..], &times].concat();
    peer.request(RequestCode::QUERY_MESSAGE, &fields, "").code
}

#[test]
fn a_full_disk_refuses_sends_and_nothing_else() {
    let disk = Disk::small();
    let mut acknowledged = Vec::new();
    let broker = Running::start_by(disk.command());
    let mut peer = Peer::connect(&broker.broker);
    assert_eq!(send_until_refused(&mut peer, &mut acknowledged, 10), None);
    commit(&mut peer, "3");

    disk.fill(&broker);
    // The next file of the log or of the queue, whichever is needed first.
    let refused = send_until_refused(&mut peer, &mut acknowledged, 500);
    assert_eq!(refused, Some(ResponseCode::SERVICE_NOT_AVAILABLE));
    // The first file of another queue.
    let other = peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("other", "1", ""), "x".repeat(4000));
    assert_eq!(other.code, ResponseCode::SERVICE_NOT_AVAILABLE.0, "{other:?}");
    // A delayed message waits in a queue of its own.
    let delayed = send_fields("full", "0", "DELAY\u{1}1\u{2}");
    let delayed = peer.request(RequestCode::SEND_MESSAGE_V2, &delayed, "x".repeat(4000));
    assert_eq!(delayed.code, ResponseCode::SERVICE_NOT_AVAILABLE.0, "{delayed:?}");
    // Reads go on, those by key too, though the index may lack what it has no space for.
    assert_eq!(messages(&mut peer, "full", "0"), acknowledged);
    assert!([0, ResponseCode::QUERY_NOT_FOUND.0].contains(&by_key(&mut peer, "key0")));
    // The file of offsets and the checkpoint cannot be written; what they hold is known nevertheless.
    commit(&mut peer, "7");
    await_that("the offset", || committed(&mut peer).as_deref() == Some("7"));
    assert_eq!(send_until_refused(&mut peer, &mut acknowledged, 500), Some(ResponseCode::SERVICE_NOT_AVAILABLE));

    disk.free(&broker);
    assert_eq!(send_until_refused(&mut peer, &mut acknowledged, 100), None, "there is space again");
    let other = peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("other", "1", ""), "later");
    assert_eq!(other.code, 0, "{other:?}");
    let all: Vec<usize> = (0..acknowledged.len()).step_by(9).collect();
    await_that("the index", || all.iter().all(|index| by_key(&mut peer, &format!("key{index}")) == 0));
    assert_eq!(broker.terminate().0, Some(0));

    let broker = Running::start_by(disk.command());
    let mut peer = Peer::connect(&broker.broker);
    assert_eq!(messages(&mut peer, "full", "0"), acknowledged);
    assert_eq!(messages(&mut peer, "other", "1"), ["later"]);
    assert_eq!(committed(&mut peer).as_deref(), Some("7"));

    // Killed while the disk is full, it starts nevertheless, has all that it answered, and refuses more.
    disk.fill(&broker);
    assert_eq!(send_until_refused(&mut peer, &mut acknowledged, 500), Some(ResponseCode::SERVICE_NOT_AVAILABLE));
    broker.kill();
    let broker = Running::start_by(disk.command());
    let mut peer = Peer::connect(&broker.broker);
    if let Disk::Limited(_) = disk {
        limit(&broker, "0");
    }
    assert_eq!(messages(&mut peer, "full", "0"), acknowledged);
    assert_eq!(send_until_refused(&mut peer, &mut acknowledged, 500), Some(ResponseCode::SERVICE_NOT_AVAILABLE));
    disk.free(&broker);
    assert_eq!(send_until_refused(&mut peer, &mut acknowledged, 100), None);
    assert_eq!(messages(&mut peer, "full", "0"), acknowledged);
    assert_eq!(broker.terminate().0, Some(0));
}

#[test]
fn a_store_that_cannot_be_written_is_a_clear_error() {
    let directory = tempfile::tempdir().unwrap();
    let read_only = mount(&["-t", "tmpfs", "-o", "ro", "none"], directory.path());
    // Nobody can make a directory in this one, root included.
    let place = if read_only { directory.path() } else { Path::new("/proc") };
    let store = place.join("store");
    let output = fails(&[&ANYWHERE[..], &["--store", store.to_str().unwrap()]].concat());
    if read_only {
        assert!(Command::new("umount").arg(directory.path()).status().expect("umount runs").success());
    } else {
        eprintln!("NOTHING CAN BE MOUNTED HERE: instead of a read-only file system {} is used", store.display());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(store.to_str().unwrap()), "{said}");
}

#[test]
fn a_store_that_somebody_has_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().to_str().unwrap();
    let broker = Running::start(&["--store", store]);
    let output = fails(&[&ANYWHERE[..], &["--store", store]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("process {}", broker.id())) && said.contains("lock"), "{said}");
    let mut peer = Peer::connect(&broker.broker);
    assert_eq!(peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "x").code, 0);
    assert_eq!(broker.terminate().0, Some(0));
}

#[test]
fn a_store_that_vanishes_ends_nothing_but_sends() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let broker = Running::start(&[&["--store", store.to_str().unwrap()][..], &SIZES].concat());
    let mut peer = Peer::connect(&broker.broker);
    let mut send = |index: usize| {
        let body = format!("{index}-{}", "x".repeat(1500));
        peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("gone", "0", ""), body).code
    };
    assert_eq!(send(0), 0);
    fs::remove_dir_all(&store).unwrap();
    // As long as the files last that are open.
    let taken = (1..500).take_while(|index| send(*index) == 0).count();
    assert!(taken < 400, "where did {taken} messages go?");
    let found = messages(&mut peer, "gone", "0");
    assert_eq!(found.len(), taken + 1, "what was answered can be read");
    let (code, _) = broker.terminate();
    assert_eq!(code, Some(1), "it could not be closed");
}

#[test]
fn a_process_that_is_stopped_for_a_while_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Running::start(&[&["--store", directory.path().to_str().unwrap()][..], &SIZES].concat());
    let mut peer = Peer::connect(&broker.broker);
    assert_eq!(
        peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("slept", "0", "DELAY\u{1}1\u{2}"), "one").code,
        0
    );
    assert_eq!(
        peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("slept", "0", "DELAY\u{1}2\u{2}"), "two").code,
        0
    );
    let mut waiting = Peer::connect(&broker.broker);
    let pull = waiting.command(RequestCode::PULL_MESSAGE, &pull_fields("g", "slept", "1", "0", "*", "1000"), "");
    waiting.send(&pull);
    broker.signal("STOP");
    // The fault itself: longer than the first delay and than the pull waits, shorter than the second delay.
    thread::sleep(Duration::from_secs(2));
    broker.signal("CONT");
    await_that("the first message", || messages(&mut peer, "slept", "0") == ["one"]);
    assert_eq!(waiting.answer_to(pull.opaque).code, ResponseCode::PULL_NOT_FOUND.0);
    await_that("the second message", || messages(&mut peer, "slept", "0") == ["one", "two"]);
    assert_eq!(broker.terminate().0, Some(0));
}

#[test]
fn ended_under_load_it_keeps_what_it_answered() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = [&["--store", directory.path().to_str().unwrap()][..], &SIZES].concat();
    let broker = Running::start(&arguments);
    let address = broker.broker.clone();
    let answered = AtomicUsize::new(0);
    let mut acknowledged: BTreeMap<String, u64> = BTreeMap::new();
    thread::scope(|scope| {
        let senders: Vec<_> = (0..4)
            .map(|sender| {
                let (address, answered) = (&address, &answered);
                scope.spawn(move || {
                    let mut peer = Peer::connect(address);
                    let mut acknowledged = Vec::new();
                    for index in 0.. {
                        let body = format!("{sender}-{index}");
                        let fields = send_fields("ended", "0", "");
                        let request = peer.command(RequestCode::SEND_MESSAGE_V2, &fields, body.clone());
                        if !peer.try_send(&request) {
                            break;
                        }
                        // It may close the connection before the answer.
                        let Some(sent) = peer.try_receive() else { break };
                        assert_eq!(sent.code, 0, "{sent:?}");
                        acknowledged.push((body, sent.field("queueOffset").unwrap().parse::<u64>().unwrap()));
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    acknowledged
                })
            })
            .collect();
        await_that("a load", || answered.load(Ordering::Relaxed) > 400);
        assert_eq!(broker.terminate().0, Some(0));
        acknowledged.extend(senders.into_iter().flat_map(|sender| sender.join().unwrap()));
    });
    let broker = Running::start(&arguments);
    let found = messages(&mut Peer::connect(&broker.broker), "ended", "0");
    for (body, offset) in &acknowledged {
        assert_eq!(found.get(*offset as usize), Some(body));
    }
    // Whoever asks twice does not wait for ever.
    broker.signal("TERM");
    let (code, _) = broker.terminate();
    assert!(matches!(code, Some(0 | 1)), "{code:?}");
}
