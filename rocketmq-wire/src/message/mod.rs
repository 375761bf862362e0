//! What a message is made of: the stored record, its properties, flags and ids.
//!
//! [`stored::StoredMessage`] reads what brokers hand out, [`record::Record`] writes what brokers keep. The other
//! modules are the parts of both.

pub mod batch;
pub mod compression;
pub mod id;
#[cfg(feature = "lz4")]
mod lz4_frame;
pub mod names;
pub mod namespace;
pub mod properties;
pub mod record;
pub mod stored;
pub mod sys_flag;
pub mod tag_hash;

pub use batch::BatchElement;
pub use compression::Compression;
pub use id::{OffsetMessageId, UniqueId, UniqueIdFactory};
pub use properties::{Properties, PropertiesWriter};
pub use record::{MagicVersion, Record};
pub use stored::{LogEntry, RecordView, Records, StoredMessage};
pub use tag_hash::tag_hash;
