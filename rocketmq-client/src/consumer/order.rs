//! In which order handlers get messages.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::message_view::MessageView;

type KeyOf = dyn Fn(&MessageView) -> String + Send + Sync;

/// What must be handled one after the other.
#[derive(Clone, Default)]
pub(super) enum Order {
    /// Nothing.
    #[default]
    Free,
    /// All messages of a queue.
    Queue,
    /// Those messages of a queue for which the user's function gives the same text.
    Key(Arc<KeyOf>),
}

impl Order {
    pub(super) fn is_ordered(&self) -> bool {
        !matches!(self, Self::Free)
    }

    pub(super) fn has_lanes(&self) -> bool {
        self.is_ordered()
    }

    /// The lane of a message. Keys that share one are ordered among each other, which does no harm.
    pub(super) fn lane(&self, message: &MessageView) -> u64 {
        match self {
            Self::Free | Self::Queue => 0,
            Self::Key(key_of) => {
                let mut hasher = DefaultHasher::new();
                key_of(message).hash(&mut hasher);
                hasher.finish()
            }
        }
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Free => "Free",
            Self::Queue => "Queue",
            Self::Key(_) => "Key",
        })
    }
}
