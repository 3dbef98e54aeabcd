//! The defaults that depend on the usage type (the `fs_types` of mke2fs.conf).

use super::options::{FormatOptions, UsageType};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// The default sizes for a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) block_bytes: u32,
    pub(super) bytes_per_inode: u64,
    pub(super) inode_bytes: u16,
}

impl Profile {
    /// Returns the defaults for a device of `device_bytes`.
    pub(super) fn choose(options: &FormatOptions, device_bytes: u64) -> Self {
        let mut profile = Self {
            block_bytes: 4096,
            bytes_per_inode: 16 * KIB,
            inode_bytes: 256,
        };
        if options.usage.is_empty() {
            profile.apply(of_size(device_bytes));
        }
        options.usage.iter().for_each(|&usage| profile.apply(usage));
        profile
    }

    fn apply(&mut self, usage: UsageType) {
        let (block_bytes, bytes_per_inode) = match usage {
            UsageType::Floppy => (Some(1024), 8 * KIB),
            UsageType::Small => (Some(1024), 4 * KIB),
            UsageType::Default => return,
            UsageType::Big => (None, 32 * KIB),
            UsageType::Huge => (None, 64 * KIB),
            UsageType::News => (None, 4 * KIB),
            UsageType::LargeFile => (Some(4096), MIB),
            UsageType::LargeFile4 => (Some(4096), 4 * MIB),
        };
        self.block_bytes = block_bytes.unwrap_or(self.block_bytes);
        self.bytes_per_inode = bytes_per_inode;
    }
}

/// Returns the usage type for a device of `device_bytes`.
fn of_size(device_bytes: u64) -> UsageType {
    const FLOPPY_END: u64 = 3 * MIB;
    const SMALL_END: u64 = 512 * MIB;
    const DEFAULT_END: u64 = 4 * TIB;
    const BIG_END: u64 = 16 * TIB;
    match device_bytes {
        0..FLOPPY_END => UsageType::Floppy,
        FLOPPY_END..SMALL_END => UsageType::Small,
        SMALL_END..DEFAULT_END => UsageType::Default,
        DEFAULT_END..BIG_END => UsageType::Big,
        _ => UsageType::Huge,
    }
}
