//! The properties of an image to write.

use diskfs_block::{Error, Result};

use crate::sectors::SECTOR_BYTES;

/// The size of a grain of the images that are written: 64 KiB, as VMware and QEMU write them.
pub const GRAIN_BYTES: u64 = 64 << 10;

/// The largest disk: 64 TiB. VMware's largest is 62 TiB.
const MAX_CAPACITY_BYTES: u64 = 64 << 40;

/// The longest name of a file of Linux.
const MAX_NAME_BYTES: usize = 255;

/// The types of virtual controllers that QEMU and VMware know.
pub const ADAPTER_TYPES: [&str; 4] = ["ide", "buslogic", "lsilogic", "legacyESX"];

/// The properties of an image to write.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// The size of the disk: a multiple of 512 bytes, at most 64 TiB.
    pub capacity_bytes: u64,
    /// The name of the file, without directories, as the descriptor states it.
    pub file_name: String,
    /// The content identifier. It should be random; the same one makes the same bytes.
    pub content_id: u32,
    /// The type of the virtual controller: `ide`, `lsilogic`, `buslogic` or `legacyESX`.
    pub adapter_type: String,
    /// The version of the virtual hardware: 4 is read by all of VMware's products.
    pub hardware_version: u32,
}

impl WriteOptions {
    /// Checks that the options make a valid image.
    ///
    /// # Errors
    /// `Invalid` for a size that is too large or not in whole sectors, and for texts that a
    /// descriptor cannot contain.
    pub(super) fn check(&self) -> Result<()> {
        let capacity = self.capacity_bytes;
        if capacity > MAX_CAPACITY_BYTES || !capacity.is_multiple_of(SECTOR_BYTES) {
            let reason =
                format!("invalid size {capacity} of a VMDK: not a multiple of 512 up to 64 TiB");
            return Err(Error::invalid(reason));
        }
        if !ADAPTER_TYPES.contains(&&*self.adapter_type) {
            let (wrong, known) = (&self.adapter_type, ADAPTER_TYPES.join(", "));
            let reason = format!("unknown adapter type {wrong:?} of a VMDK; known: {known}");
            return Err(Error::invalid(reason));
        }
        check_text("file name", &self.file_name)
    }

    pub(super) fn capacity_sectors(&self) -> u64 {
        self.capacity_bytes.div_ceil(SECTOR_BYTES)
    }

    /// Returns the number of grains.
    pub(super) fn grains(&self) -> u64 {
        self.capacity_bytes.div_ceil(GRAIN_BYTES)
    }
}

fn check_text(what: &str, text: &str) -> Result<()> {
    let is_quotable = !text.contains(|c: char| c == '"' || c.is_control());
    if is_quotable && (1..=MAX_NAME_BYTES).contains(&text.len()) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "invalid {what} {text:?} for a VMDK"
    )))
}
