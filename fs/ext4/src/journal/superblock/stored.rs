//! Changes of the journal's superblock.

use zerocopy::IntoBytes;
use zerocopy::big_endian::U32;

use crate::error::Result;
use crate::features::{self, Features, ReadOnlyCompatible};

use super::super::block_header::{BlockType, Sequence};
use super::super::error::unsupported_for_writing;
use super::super::features::{Compatible, Incompatible};
use super::super::log::LogBlock;
use super::{CHECKSUM_CRC32C, RawJournalSuperblock, SUPERBLOCK_BYTES, checksum_of};

/// The bytes of a journal superblock that was checked, to be changed and written back.
#[derive(Debug, Clone)]
pub(in super::super) struct StoredSuperblock {
    raw: Box<RawJournalSuperblock>,
}

/// The log's state according to the superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct LogState {
    /// The start of the oldest transaction; `None` if nothing has to be replayed.
    pub(in super::super) start: Option<LogBlock>,
    /// The sequence number of the oldest transaction, or of the next one.
    pub(in super::super) sequence: Sequence,
    /// The log block where the next transaction will begin.
    pub(in super::super) head: LogBlock,
}

impl StoredSuperblock {
    /// Returns the superblock with these bytes.
    pub(in super::super) fn new(bytes: &[u8; SUPERBLOCK_BYTES]) -> Self {
        let raw: RawJournalSuperblock = zerocopy::transmute!(*bytes);
        Self { raw: Box::new(raw) }
    }

    /// Fails for journals that Linux no longer writes, or only after a repair.
    ///
    /// # Errors
    /// `Unsupported` for version 1; `Corrupt` if the last writer of the journal recorded an error.
    pub(in super::super) fn check_writable(&self) -> Result<()> {
        let raw = &self.raw;
        if BlockType::from(raw.header.h_blocktype.get()) != BlockType::SuperblockV2 {
            let hint =
                "on a copy, recreate it with `tune2fs -O ^has_journal` and then `tune2fs -j`";
            return Err(
                unsupported_for_writing("version 1 of the journal is not supported")
                    .with_hint(hint),
            );
        }
        match raw.s_errno.get() {
            0 => Ok(()),
            errno => Err(super::corrupt_superblock(format_args!(
                "error {} was recorded when it was last written",
                errno.cast_signed().saturating_abs()
            ))),
        }
    }

    /// Sets the features as Linux does at mount: 64-bit block numbers if the filesystem has them,
    /// and checksums of version 3 with `metadata_csum`, otherwise none.
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

    /// Sets the feature for revocation blocks. Returns true if it was not set before.
    pub(in super::super) fn set_revoke(&mut self) -> bool {
        let bits = self.raw.s_feature_incompat.get();
        let with = bits | Incompatible::REVOKE.bits();
        self.raw.s_feature_incompat.set(with);
        with != bits
    }

    /// Sets the log's state.
    pub(in super::super) fn set_log(&mut self, log: LogState) {
        let start = log.start.map_or(0, |start| start.0);
        self.raw.s_start.set(start);
        self.raw.s_sequence.set(log.sequence.0);
        self.raw.s_head.set(log.head.0);
    }

    /// Records an error: at the next mount the filesystem is marked as having errors, even if the
    /// replay restores an older superblock. Linux stores the number negative.
    pub(in super::super) fn set_error(&mut self, errno: i32) {
        let errno = errno.saturating_abs().wrapping_neg();
        self.raw.s_errno.set(errno.cast_unsigned());
    }

    /// Returns the bytes with their checksum.
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
