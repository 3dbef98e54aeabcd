//! Helpers for several requests: decoding of flags and encoding of replies.

use std::time::Duration;

use diskfs_vfs::RenameMode;
use fuser::{FileAttr, Generation, OpenFlags, RenameFlags, ReplyEmpty, ReplyEntry};

use super::Answer;

/// Returns true if a file was opened with `O_DIRECT`.
pub(super) fn is_direct(flags: OpenFlags) -> bool {
    flags.0 & libc::O_DIRECT != 0
}

pub(super) fn rename_mode(flags: RenameFlags) -> Option<RenameMode> {
    const NO_REPLACE: RenameFlags = RenameFlags::RENAME_NOREPLACE;
    const WHITEOUT: RenameFlags = RenameFlags::RENAME_WHITEOUT;
    match flags {
        flags if flags.is_empty() => Some(RenameMode::Replace),
        NO_REPLACE => Some(RenameMode::NoReplace),
        RenameFlags::RENAME_EXCHANGE => Some(RenameMode::Exchange),
        WHITEOUT => Some(RenameMode::Whiteout),
        flags if flags == NO_REPLACE.union(WHITEOUT) => Some(RenameMode::NoReplaceWhiteout),
        _ => None,
    }
}

/// Replies to a request that creates a name.
pub(super) fn reply_entry(
    operation: &str,
    kept: Duration,
    made: Answer<(FileAttr, Generation)>,
    reply: ReplyEntry,
) {
    match made {
        Ok((attr, generation)) => reply.entry(&kept, &attr, generation),
        Err(refusal) => reply.error(refusal.report(operation)),
    }
}

/// Replies to a request that has no result but success.
pub(super) fn reply_empty(operation: &str, done: Answer<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(refusal) => reply.error(refusal.report(operation)),
    }
}
