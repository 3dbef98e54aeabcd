//! Errors of the journal, with their place.

use diskfs_vfs::{Error, ErrorKind};

use crate::block::FsBlock;

use super::log::LogBlock;

/// The hint for a journal that can't be replayed.
const HINT: &str = "run e2fsck on a copy of the filesystem";

/// Returns the error for an invalid journal block.
pub(super) fn corrupt_block(block: LogBlock, reason: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("journal block {block}: {reason}"),
    )
    .with_hint(HINT)
}

/// Returns the error for an invalid journal superblock.
pub(super) fn corrupt_superblock(reason: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, format!("journal superblock: {reason}")).with_hint(HINT)
}

/// Returns the error for a journal inode that does not map the journal's blocks.
pub(super) fn corrupt_map(reason: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, format!("invalid journal: {reason}")).with_hint(HINT)
}

/// Returns the error for a valid journal that this driver cannot replay.
pub(super) fn unsupported(reason: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("cannot recover the journal: {reason}"),
    )
    .with_hint("mount it once with its own operating system, or run e2fsck on a copy")
}

/// Returns the error for a valid journal that this driver cannot write.
pub(super) fn unsupported_for_writing(reason: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("cannot write the journal: {reason}"),
    )
}

/// The reason why a transaction is damaged although it has a commit block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    #[error("descriptor block {0} has an invalid checksum")]
    Descriptor(LogBlock),
    #[error("revocation block {0} has an invalid checksum")]
    Revocation(LogBlock),
    #[error("revocation block {0} claims to be longer than a block")]
    RevocationLength(LogBlock),
    #[error("data block {log} (for block {target}) has an invalid checksum")]
    Data { log: LogBlock, target: FsBlock },
    #[error("data block {log} is for block {target}, which is outside of the filesystem")]
    Target { log: LogBlock, target: FsBlock },
    #[error("commit block {0} has an invalid checksum")]
    Commit(LogBlock),
    #[error("the transaction's blocks do not match the checksum in commit block {0}")]
    Transaction(LogBlock),
}

impl Damage {
    /// Returns the log block where the damage was found.
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
