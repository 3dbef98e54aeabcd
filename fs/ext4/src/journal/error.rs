//! Failures of the journal, with their place.

use diskfs_vfs::{Error, ErrorKind};

use crate::block::FsBlock;

use super::log::LogBlock;

/// What to do about a journal that can't be replayed.
const HINT: &str = "run e2fsck on a copy of the filesystem";

/// A journal block that contradicts the specification.
pub(super) fn corrupt_block(block: LogBlock, reason: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("journal block {block}: {reason}"),
    )
    .with_hint(HINT)
}

/// The journal's superblock contradicts the specification.
pub(super) fn corrupt_superblock(reason: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, format!("journal superblock: {reason}")).with_hint(HINT)
}

/// The journal's inode does not lead to its blocks.
pub(super) fn corrupt_map(reason: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("the journal's blocks: {reason}"),
    )
    .with_hint(HINT)
}

/// Well-formed, but nothing that this driver replays.
pub(super) fn unsupported(reason: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("the journal needs recovery, and {reason}"),
    )
    .with_hint("let its own system mount it once, or run e2fsck on a copy")
}

/// Well-formed, but nothing that this driver writes.
pub(super) fn unsupported_for_writing(reason: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("the journal can't be written: {reason}"),
    )
}

/// Why a transaction is no whole one, although its commit block is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    #[error("descriptor block {0} has a wrong checksum")]
    Descriptor(LogBlock),
    #[error("revocation block {0} has a wrong checksum")]
    Revocation(LogBlock),
    #[error("revocation block {0} says that it is longer than a block")]
    RevocationLength(LogBlock),
    #[error("data block {log} (for block {target}) has a wrong checksum")]
    Data { log: LogBlock, target: FsBlock },
    #[error("data block {log} is for block {target}, which is outside of the filesystem")]
    Target { log: LogBlock, target: FsBlock },
    #[error("commit block {0} has a wrong checksum")]
    Commit(LogBlock),
    #[error("its blocks don't give the checksum of commit block {0}")]
    Transaction(LogBlock),
}

impl Damage {
    /// The block of the log that it was found at.
    pub(super) const fn log_block(self) -> LogBlock {
        match self {
            Self::Descriptor(log)
            | Self::Revocation(log)
            | Self::RevocationLength(log)
            | Self::Data { log, .. }
            | Self::Target { log, .. }
            | Self::Commit(log)
            | Self::Transaction(log) => log,
        }
    }
}
