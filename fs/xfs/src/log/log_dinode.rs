//! The core of an inode in the log, `struct xfs_log_dinode`: the fields of the inode on the device,
//! in little-endian order.

use diskfs_block::bytes::{le16, put};

use crate::bytes::{array, be64, part};

use super::lsn::Lsn;

/// The size of the core in version 3, and of what is logged of older ones.
const CORE_BYTES: usize = 176;
const CORE_BYTES_VERSION_2: usize = 96;
/// `XFS_DINODE_MAGIC`.
pub(super) const MAGIC: u16 = 0x494e;
/// The largest value of `di_flushiter`, after which it starts again.
const FLUSH_ITERATION_MAX: u16 = 0xffff;

/// The offsets of fields on the device and in the log.
const VERSION: usize = 4;
const FLUSH_ITERATION: usize = 30;
const ATIME: usize = 32;
const CREATION_TIME: usize = 144;
const EXTENT_COUNT: usize = 76;
const FLAGS2: usize = 120;
const UNION: usize = 24;
pub(super) const CRC: usize = 100;
const LSN: usize = 112;
const INODE: usize = 152;

/// The flags of `di_flags2` that change the form of other fields.
const BIG_TIME: u64 = 1 << 3;
const BIG_COUNTS: u64 = 1 << 4;

/// The fields that are numbers of 2, 4 or 8 bytes at the same offset in both structures, of all
/// versions.
const NUMBERS: [(usize, usize); 17] = [
    (0, 2),  // di_magic
    (2, 2),  // di_mode
    (6, 2),  // di_metatype, formerly di_onlink
    (8, 4),  // di_uid
    (12, 4), // di_gid
    (16, 4), // di_nlink
    (20, 2), // di_projid_lo
    (22, 2), // di_projid_hi
    (56, 8), // di_size
    (64, 8), // di_nblocks
    (72, 4), // di_extsize
    (84, 4), // di_dmevmask
    (88, 2), // di_dmstate
    (90, 2), // di_flags
    (92, 4), // di_gen
    (4, 1),  // di_version
    (5, 1),  // di_format
];

/// The fields of version 3 only.
const NUMBERS_VERSION_3: [(usize, usize); 4] = [
    (104, 8), // di_changecount
    (120, 8), // di_flags2
    (128, 4), // di_cowextsize
    (152, 8), // di_ino
];

/// The core of an inode in the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogDinode<'a>(&'a [u8]);

impl<'a> LogDinode<'a> {
    /// Checks the magic and the length; `None` if they are wrong.
    pub(super) fn parse(bytes: &'a [u8], is_version_3: bool) -> Option<Self> {
        let len = if is_version_3 {
            CORE_BYTES
        } else {
            CORE_BYTES_VERSION_2
        };
        let version = if is_version_3 { 3..=3 } else { 1..=2 };
        let core = part(bytes, 0, len)?;
        let dinode = Self(core);
        let is_valid = le16(core, 0) == Some(MAGIC)
            && core
                .get(VERSION)
                .is_some_and(|found| version.contains(found));
        is_valid.then_some(dinode)
    }

    fn is_version_3(self) -> bool {
        self.0.len() == CORE_BYTES
    }

    /// Returns `di_ino`, which only version 3 has.
    pub(super) fn inode(self) -> Option<u64> {
        array(self.0, INODE).map(u64::from_le_bytes)
    }

    /// Returns true if the inode on the device is newer than this one, judged by the counter of
    /// versions 1 and 2.
    pub(super) fn is_older_than(self, on_device: &[u8]) -> bool {
        if self.is_version_3() {
            return false;
        }
        let logged = le16(self.0, FLUSH_ITERATION).unwrap_or(0);
        let stored = array(on_device, FLUSH_ITERATION).map_or(0, u16::from_be_bytes);
        let has_wrapped = stored == FLUSH_ITERATION_MAX && logged < FLUSH_ITERATION_MAX >> 1;
        logged < stored && !has_wrapped
    }

    /// Writes all fields into an inode of the device. Its list of unlinked inodes is kept: it
    /// belongs to the buffer.
    pub(super) fn write_to(self, inode: &mut [u8], lsn: Lsn) {
        for (offset, len) in NUMBERS {
            self.copy_reversed(inode, offset, len);
        }
        // di_forkoff and di_aformat.
        self.copy_reversed(inode, 82, 1);
        self.copy_reversed(inode, 83, 1);
        for time in [ATIME, ATIME.wrapping_add(8), ATIME.wrapping_add(16)] {
            self.copy_time(inode, time);
        }
        if self.is_version_3() {
            self.write_version_3(inode, lsn);
        } else {
            // The counter starts again after a recovery.
            put(inode, UNION, &[0; 8]);
        }
        self.copy_extent_counts(inode);
    }

    fn write_version_3(self, inode: &mut [u8], lsn: Lsn) {
        for (offset, len) in NUMBERS_VERSION_3 {
            self.copy_reversed(inode, offset, len);
        }
        self.copy_time(inode, CREATION_TIME);
        put(inode, LSN, &lsn.0.to_be_bytes());
        put(inode, 132, &[0; 12]);
        put(inode, 160, part(self.0, 160, 16).unwrap_or_default());
        put(inode, UNION, &[0; 8]);
    }

    fn copy_extent_counts(self, inode: &mut [u8]) {
        if self.has(BIG_COUNTS) {
            self.copy_reversed(inode, UNION, 8);
            self.copy_reversed(inode, EXTENT_COUNT, 4);
            put(inode, 80, &[0; 2]);
        } else {
            self.copy_reversed(inode, EXTENT_COUNT, 4);
            self.copy_reversed(inode, 80, 2);
        }
    }

    /// Copies a time: one number of 8 bytes, or seconds and nanoseconds.
    fn copy_time(self, inode: &mut [u8], offset: usize) {
        if self.has(BIG_TIME) {
            self.copy_reversed(inode, offset, 8);
        } else {
            self.copy_reversed(inode, offset, 4);
            self.copy_reversed(inode, offset.saturating_add(4), 4);
        }
    }

    fn has(self, flag: u64) -> bool {
        let flags = array(self.0, FLAGS2).map_or(0, u64::from_le_bytes);
        self.is_version_3() && flags & flag != 0
    }

    /// Copies a number and changes its byte order.
    fn copy_reversed(self, inode: &mut [u8], offset: usize, len: usize) {
        let mut bytes = [0; 8];
        let (Some(source), Some(number)) = (part(self.0, offset, len), bytes.get_mut(..len)) else {
            return;
        };
        number.copy_from_slice(source);
        number.reverse();
        put(inode, offset, number);
    }
}

/// Returns true if an inode of version 3 on the device has numbers of extents of 64 and 32 bits.
pub(super) fn has_big_counts(inode: &[u8]) -> bool {
    be64(inode, FLAGS2).is_some_and(|flags| flags & BIG_COUNTS != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(flags2: u64) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..176).collect();
        bytes[..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4] = 3;
        bytes[120..128].copy_from_slice(&flags2.to_le_bytes());
        bytes
    }

    #[test]
    fn all_numbers_change_their_byte_order() {
        let bytes = core(BIG_TIME | BIG_COUNTS);
        let mut inode = vec![0xff; 512];
        LogDinode::parse(&bytes, true)
            .unwrap()
            .write_to(&mut inode, Lsn(0x0102));
        assert_eq!(inode[..6], [0x49, 0x4e, 3, 2, 3, 5]);
        assert_eq!(inode[24..34], [31, 30, 29, 28, 27, 26, 25, 24, 39, 38]);
        assert_eq!(inode[76..84], [79, 78, 77, 76, 0, 0, 82, 83]);
        // The list of unlinked inodes stays.
        assert_eq!(inode[96..100], [0xff; 4]);
        assert_eq!(inode[112..120], [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(inode[160..162], [160, 161]);
    }

    #[test]
    fn old_times_are_two_numbers() {
        let bytes = core(0);
        let mut inode = vec![0xff; 512];
        LogDinode::parse(&bytes, true)
            .unwrap()
            .write_to(&mut inode, Lsn(1));
        assert_eq!(inode[32..40], [35, 34, 33, 32, 39, 38, 37, 36]);
        assert_eq!(inode[24..32], [0; 8]);
        assert_eq!(inode[76..82], [79, 78, 77, 76, 81, 80]);
    }

    #[test]
    fn versions_without_lsn_have_a_counter() {
        let mut bytes = core(0)[..96].to_vec();
        bytes[4] = 2;
        let older = |logged: u16, stored: u16| {
            let mut bytes = bytes.clone();
            bytes[30..32].copy_from_slice(&logged.to_le_bytes());
            let mut inode = vec![0; 256];
            inode[30..32].copy_from_slice(&stored.to_be_bytes());
            LogDinode::parse(&bytes, false)
                .unwrap()
                .is_older_than(&inode)
        };
        assert!(older(1, 2) && !older(2, 2) && !older(1, 0xffff) && older(0x8000, 0xffff));
    }
}
