//! The bits of a message's system flag.

/// The body is compressed; [`COMPRESSION_MASK`] says how.
pub const COMPRESSED: i32 = 0x1;
/// The message carries several tags. A legacy bit that no client sets.
pub const MULTI_TAGS: i32 = 0x2;
/// The two bits of the transaction state.
pub const TRANSACTION_MASK: i32 = 0xC;
/// Transaction state: not part of a transaction.
pub const TRANSACTION_NONE: i32 = 0;
/// Transaction state: a half message, invisible until committed.
pub const TRANSACTION_PREPARED: i32 = 0x4;
/// Transaction state: committed.
pub const TRANSACTION_COMMIT: i32 = 0x8;
/// Transaction state: rolled back.
pub const TRANSACTION_ROLLBACK: i32 = 0xC;
/// The born host is an IPv6 address of 16 bytes.
pub const BORN_HOST_V6: i32 = 0x10;
/// The store host is an IPv6 address of 16 bytes.
pub const STORE_HOST_V6: i32 = 0x20;
/// The body is a batch that the consumer unwraps (with [`INNER_BATCH`]).
pub const NEED_UNWRAP: i32 = 0x40;
/// The record is an inner batch: one record that holds many messages.
pub const INNER_BATCH: i32 = 0x80;
/// The three bits of the compression type.
pub const COMPRESSION_MASK: i32 = 0x700;
/// Compression type: LZ4 frame.
pub const COMPRESSION_LZ4: i32 = 0x100;
/// Compression type: Zstandard.
pub const COMPRESSION_ZSTD: i32 = 0x200;
/// Compression type: zlib. Senders before 4.9.4 leave the type bits zero and mean zlib too.
pub const COMPRESSION_ZLIB: i32 = 0x300;

/// Returns the transaction state, one of the `TRANSACTION_*` values.
pub const fn transaction(sys_flag: i32) -> i32 {
    sys_flag & TRANSACTION_MASK
}

/// Returns `sys_flag` with its transaction state replaced by `state`, one of the `TRANSACTION_*` values.
pub const fn with_transaction(sys_flag: i32, state: i32) -> i32 {
    (sys_flag & !TRANSACTION_MASK) | (state & TRANSACTION_MASK)
}

/// Returns whether the body is compressed.
pub const fn is_compressed(sys_flag: i32) -> bool {
    sys_flag & COMPRESSED != 0
}

/// Returns whether the body is a batch that a consumer has to unwrap.
pub const fn is_inner_batch(sys_flag: i32) -> bool {
    const BOTH: i32 = NEED_UNWRAP | INNER_BATCH;
    sys_flag & BOTH == BOTH
}
