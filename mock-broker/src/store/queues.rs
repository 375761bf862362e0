//! All consume queues, by topic and queue id.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use crate::store::consume_queue::{ConsumeQueue, ENTRY_SIZE};
use crate::store::file_sequence::{FileSequence, Layout};
use crate::store::flush::Registry;
use crate::store::mapped_file::Reservation;
use crate::store::queue_extension::QueueExtension;

/// Every queue of every topic that has, or had, a message.
#[derive(Debug)]
pub(super) struct Queues {
    /// Position of each topic in `topics`, so that one look-up by name is enough.
    by_name: HashMap<Box<str>, usize>,
    topics: Vec<BTreeMap<i32, ConsumeQueue>>,
    place: Place,
}

/// Where the files of queues are, and how large.
#[derive(Debug)]
struct Place {
    directory: Option<PathBuf>,
    file_entries: usize,
    /// Where the extensions are, and the size of their files.
    extensions: Option<(PathBuf, usize)>,
    registry: Option<Registry>,
}

impl Place {
    fn layout(&self, topic: &str, queue_id: i32) -> Layout {
        Layout {
            directory: self.directory.as_ref().map(|root| root.join(topic).join(queue_id.to_string())),
            file_size: self.file_entries * ENTRY_SIZE,
            // Most queues of a large broker hold little, so they begin small; one page is faulted in at a time.
            reservation: Reservation { first: 4096, largest: 1 << 20, prefault: false },
            registry: self.registry.clone(),
        }
    }
}

impl Place {
    /// Gives a queue its extension, if queues have one.
    fn extended(&self, queue: ConsumeQueue, topic: &str, queue_id: i32) -> ConsumeQueue {
        let Some((root, file_size)) = &self.extensions else { return queue };
        let layout = Layout {
            directory: Some(root.join(topic).join(queue_id.to_string())),
            file_size: *file_size,
            ..self.layout(topic, queue_id)
        };
        queue.with_extension(QueueExtension::new(layout))
    }
}

impl Queues {
    /// No queues yet. With a `directory`, each will have its files in `<directory>/<topic>/<queue id>`.
    ///
    /// `extensions` says where to keep an extension of each, and the size of its files.
    pub(super) fn new(
        directory: Option<PathBuf>,
        file_entries: usize,
        extensions: Option<(PathBuf, usize)>,
        registry: Option<Registry>,
    ) -> Self {
        let place = Place { directory, file_entries, extensions, registry };
        Queues { by_name: HashMap::new(), topics: Vec::new(), place }
    }

    /// Returns how the files of a queue are made.
    pub(super) fn layout(&self, topic: &str, queue_id: i32) -> Layout {
        self.place.layout(topic, queue_id)
    }

    /// Returns a queue; none if it never had a message.
    pub(super) fn queue(&self, topic: &str, queue_id: i32) -> Option<&ConsumeQueue> {
        self.topics[*self.by_name.get(topic)?].get(&queue_id)
    }

    /// Returns a queue, an empty one if there was none. The topic must be fit for a [directory name](is_directory_name).
    pub(super) fn queue_or_new(&mut self, topic: &str, queue_id: i32) -> &mut ConsumeQueue {
        let index = self.index_or_new(topic);
        let place = &self.place;
        self.topics[index].entry(queue_id).or_insert_with(|| {
            let queue = ConsumeQueue::new(FileSequence::new(place.layout(topic, queue_id), 0), 0);
            place.extended(queue, topic, queue_id)
        })
    }

    /// Adds a queue that exists on disk.
    pub(super) fn insert(&mut self, topic: &str, queue_id: i32, queue: ConsumeQueue) {
        let index = self.index_or_new(topic);
        let queue = self.place.extended(queue, topic, queue_id);
        self.topics[index].insert(queue_id, queue);
    }

    fn index_or_new(&mut self, topic: &str) -> usize {
        if let Some(&index) = self.by_name.get(topic) {
            return index;
        }
        self.by_name.insert(topic.into(), self.topics.len());
        self.topics.push(BTreeMap::new());
        self.topics.len() - 1
    }

    /// Returns all queues, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = &ConsumeQueue> {
        self.topics.iter().flat_map(BTreeMap::values)
    }

    /// Returns all queues, in no order, to be changed.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut ConsumeQueue> {
        self.topics.iter_mut().flat_map(BTreeMap::values_mut)
    }

    /// Forgets the queues of a topic.
    pub(super) fn remove(&mut self, topic: &str) {
        // The position stays taken, and is used again if the topic comes back.
        if let Some(&index) = self.by_name.get(topic) {
            self.topics[index].clear();
        }
    }

    /// Forgets all queues.
    pub(super) fn clear(&mut self) {
        self.by_name.clear();
        self.topics.clear();
    }

    /// Returns the topics in alphabetical order.
    pub(super) fn topics(&self) -> Vec<&str> {
        let with_queues = self.by_name.iter().filter(|(_, index)| !self.topics[**index].is_empty());
        let mut topics: Vec<&str> = with_queues.map(|(topic, _)| topic.as_ref()).collect();
        topics.sort_unstable();
        topics
    }

    /// Returns the queues of a topic, ordered by queue id.
    pub(super) fn of_topic(&self, topic: &str) -> impl Iterator<Item = (i32, &ConsumeQueue)> {
        self.by_name
            .get(topic)
            .into_iter()
            .flat_map(|&index| &self.topics[index])
            .map(|(&queue_id, queue)| (queue_id, queue))
    }
}

/// Returns whether a topic can be the name of a directory. Names with separators could leave the store.
pub(super) fn is_directory_name(topic: &str) -> bool {
    let fits = (1..=255).contains(&topic.len());
    fits && topic != "." && topic != ".." && !topic.bytes().any(|byte| matches!(byte, b'/' | b'\\' | b'\0'))
}
