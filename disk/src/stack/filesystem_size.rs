//! The size of a filesystem that its superblock records.

use diskfs_block::{BlockRead, Result};

/// The position of the size fields in a superblock, in bytes from the start of the volume.
struct Layout {
    count_at: u64,
    count_len: usize,
    unit: Unit,
    is_big_endian: bool,
}

/// The unit of a size field.
enum Unit {
    Bytes(u64),
    /// A field of four bytes with the unit in bytes, at this offset.
    Field(u64),
    /// A field of four bytes with the exponent of a power of two, at this offset: the unit is 1024
    /// bytes times that power.
    Log1024(u64),
}

/// Returns the size in bytes that the superblock of a filesystem records, for the kinds that can
/// grow.
///
/// Sources: the on-disk formats of ext4, XFS and btrfs; F2FS and NTFS as their Linux drivers read
/// them.
///
/// # Errors
/// The errors of reading the device.
pub(super) fn filesystem_bytes(kind: &str, device: &dyn BlockRead) -> Result<Option<u64>> {
    let (count_at, count_len, unit) = match kind {
        "ext2" | "ext3" | "ext4" => (1024 + 4, 4, Unit::Log1024(1024 + 0x18)),
        "xfs" => (8, 8, Unit::Field(4)),
        // `total_bytes` of this device, in the superblock's `dev_item`.
        "btrfs" => (0x1_0000 + 0xc9 + 8, 8, Unit::Bytes(1)),
        "ntfs" => (0x28, 8, Unit::Bytes(512)),
        _ => return Ok(None),
    };
    let layout = Layout {
        count_at,
        count_len,
        unit,
        is_big_endian: kind == "xfs",
    };
    layout.read(device)
}

impl Layout {
    fn read(&self, device: &dyn BlockRead) -> Result<Option<u64>> {
        let unit = match self.unit {
            Unit::Bytes(bytes) => Some(bytes),
            Unit::Field(at) => Some(self.number(device, at, 4)?),
            Unit::Log1024(at) => {
                let log = u32::try_from(self.number(device, at, 4)?).unwrap_or(u32::MAX);
                1024u64.checked_shl(log)
            }
        };
        let count = self.number(device, self.count_at, self.count_len)?;
        Ok(unit.and_then(|unit| unit.checked_mul(count)))
    }

    fn number(&self, device: &dyn BlockRead, at: u64, len: usize) -> Result<u64> {
        let mut bytes = [0; 8];
        let field = if self.is_big_endian {
            bytes.get_mut(8usize.saturating_sub(len)..)
        } else {
            bytes.get_mut(..len)
        };
        device.read_at(at, field.unwrap_or_default())?;
        Ok(if self.is_big_endian {
            u64::from_be_bytes(bytes)
        } else {
            u64::from_le_bytes(bytes)
        })
    }
}
