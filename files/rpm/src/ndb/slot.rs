//! Slots: the locations of package headers.

use diskfs_block::bytes::{index, le32};
use diskfs_block::{Error, Result};

use crate::window::Window;

const MAGIC: &[u8; 4] = b"Slot";

/// The number of the first slot. The header of the database occupies the space of the two before
/// it.
pub(super) const FIRST: u64 = 2;

/// A slot in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    number: u64,
    /// The package's number in the database.
    pub(super) package: u32,
    pub(super) first_block: u32,
    pub(super) blocks: u32,
}

impl Slot {
    pub(super) const BYTES: u64 = 16;

    /// Reads slot `number`; `None` if it is not in use.
    pub(super) fn read(window: &mut Window<'_>, number: u64) -> Result<Option<Self>> {
        let at = number.saturating_mul(Self::BYTES);
        let bytes = window.get(at, index(Self::BYTES))?;
        if !bytes.starts_with(MAGIC) {
            return Err(Error::corrupt(format!("invalid slot {number}")).at(at));
        }
        let field = |at| le32(bytes, at).unwrap_or_default();
        let first_block = field(8);
        Ok((first_block != 0).then(|| Self {
            number,
            package: field(4),
            first_block,
            blocks: field(12),
        }))
    }

    /// Returns the error with the slot that it is about.
    pub(super) fn name_in(&self, error: &Error) -> Error {
        let reason = format!(
            "package {} in slot {}: {}",
            self.package,
            self.number,
            error.reason()
        );
        Error::new(error.kind(), reason)
    }
}
