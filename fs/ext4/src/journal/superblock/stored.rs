//! The journal's superblock, changed.

use zerocopy::IntoBytes;
use zerocopy::big_endian::U32;

use crate::error::Result;
use crate::features::{self, Features, ReadOnlyCompatible};

use super::super::block_header::{BlockType, Sequence};
use super::super::error::unsupported_for_writing;
use super::super::features::{Compatible, Incompatible};
use super::super::log::LogBlock;
use super::{CHECKSUM_CRC32C, RawJournalSuperblock, SUPERBLOCK_BYTES, checksum_of};

/// The bytes of a journal superblock that was found right, to be changed and written back.
#[derive(Debug, Clone)]
pub(in super::super) struct StoredSuperblock {
    raw: Box<RawJournalSuperblock>,
}

/// What the superblock says of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct LogState {
    /// Where the oldest transaction begins; `None` when there is nothing to be replayed.
    pub(in super::super) start: Option<LogBlock>,
    /// The number of the oldest transaction, or of the next one.
    pub(in super::super) sequence: Sequence,
    /// Where the next transaction will begin.
    pub(in super::super) head: LogBlock,
}

impl StoredSuperblock {
    /// Of these bytes.
    pub(in super::super) fn new(bytes: &[u8; SUPERBLOCK_BYTES]) -> Self {
        let raw: RawJournalSuperblock = zerocopy::transmute!(*bytes);
        Self { raw: Box::new(raw) }
    }

    /// Fails for what Linux no longer writes either, or only after a repair.
    ///
    /// # Errors
    /// `Unsupported` for version 1, `Corrupt` when whoever wrote the journal last met an error.
    pub(in super::super) fn check_writable(&self) -> Result<()> {
        let raw = &self.raw;
        if BlockType::from(raw.header.h_blocktype.get()) != BlockType::SuperblockV2 {
            let hint = "on a copy, `tune2fs -O ^has_journal` and then `tune2fs -j` renew it";
            return Err(unsupported_for_writing("it is of version 1").with_hint(hint));
        }
        match raw.s_errno.get() {
            0 => Ok(()),
            errno => Err(super::corrupt_superblock(format_args!(
                "error {} was met when it was last written",
                errno.cast_signed().saturating_abs()
            ))),
        }
    }

    /// Sets the features as Linux does at mount: 64-bit block numbers where the filesystem has them,
    /// checksums of version 3 with `metadata_csum`, else none.
    pub(in super::super) fn set_features(&mut self, filesystem: Features) {
        let raw = &mut self.raw;
        let checksums = filesystem.has(ReadOnlyCompatible::METADATA_CSUM);
        let wide = filesystem.has(features::Incompatible::SIXTY_FOUR_BIT);
        let compatible = Compatible::from_bits_retain(raw.s_feature_compat.get());
        let mut incompatible = Incompatible::from_bits_retain(raw.s_feature_incompat.get());
        incompatible.remove(Incompatible::CSUM_V2 | Incompatible::ASYNC_COMMIT);
        incompatible.set(Incompatible::CSUM_V3, checksums);
        if wide {
            incompatible.insert(Incompatible::SIXTY_FOUR_BIT);
        }
        let compatible = compatible.difference(Compatible::CHECKSUM);
        raw.s_feature_compat.set(compatible.bits());
        raw.s_feature_incompat.set(incompatible.bits());
        raw.s_checksum_type = if checksums { CHECKSUM_CRC32C } else { 0 };
    }

    /// Says that there are revocation blocks. Returns whether that is news.
    pub(in super::super) fn set_revoke(&mut self) -> bool {
        let bits = self.raw.s_feature_incompat.get();
        let with = bits | Incompatible::REVOKE.bits();
        self.raw.s_feature_incompat.set(with);
        with != bits
    }

    /// Says where the log is.
    pub(in super::super) fn set_log(&mut self, log: LogState) {
        let start = log.start.map_or(0, |start| start.0);
        self.raw.s_start.set(start);
        self.raw.s_sequence.set(log.sequence.0);
        self.raw.s_head.set(log.head.0);
    }

    /// Says that an error was met: whoever opens it next marks the filesystem, even where the
    /// replay brings back an older superblock. Linux stores it negative.
    pub(in super::super) fn set_error(&mut self, errno: i32) {
        let errno = errno.saturating_abs().wrapping_neg();
        self.raw.s_errno.set(errno.cast_unsigned());
    }

    /// The bytes, with the right checksum.
    pub(in super::super) fn sealed(&mut self) -> &[u8] {
        let has_checksum = self.raw.s_checksum_type == CHECKSUM_CRC32C;
        let sum = if has_checksum {
            checksum_of(self.raw.as_bytes())
        } else {
            0
        };
        self.raw.s_checksum = U32::new(sum);
        self.raw.as_bytes()
    }
}
