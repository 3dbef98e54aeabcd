//! The inode of a file (`struct btrfs_inode_item`).

use diskfs_vfs::{Device, FileFlags, FileType, InodeNumber, Metadata, Timestamp};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::bytes::low32;
use crate::cursor::Item;
use crate::error::Result;
use crate::timestamp::RawTimestamp;

#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawInodeItem {
    generation: U64,
    transid: U64,
    size: U64,
    nbytes: U64,
    block_group: U64,
    nlink: U32,
    uid: U32,
    gid: U32,
    mode: U32,
    rdev: U64,
    flags: U64,
    sequence: U64,
    reserved: [U64; 4],
    atime: RawTimestamp,
    ctime: RawTimestamp,
    mtime: RawTimestamp,
    otime: RawTimestamp,
}

const _: () = assert!(size_of::<RawInodeItem>() == 160);

/// The flags of an inode (`BTRFS_INODE_*`), and those that Linux keeps in the upper half
/// (`BTRFS_INODE_RO_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InodeFlags(u64);

/// Each flag of an inode, and the bits of linux/fs.h that Linux shows for it
/// (`btrfs_inode_flags_to_fsflags`).
const SHOWN_FLAGS: [(u64, u32); 9] = [
    (1 << 1, 0x0080_0000),  // nodatacow
    (1 << 5, 0x0000_0008),  // sync
    (1 << 6, 0x0000_0010),  // immutable
    (1 << 7, 0x0000_0020),  // append
    (1 << 8, 0x0000_0040),  // nodump
    (1 << 9, 0x0000_0080),  // noatime
    (1 << 10, 0x0001_0000), // dirsync
    (1 << 32, 0x0010_0000), // verity
    (1 << 3, 0x0000_0400),  // nocompress
];

impl InodeFlags {
    const NO_DATA_CHECKSUMS: u64 = 1;
    const NO_COMPRESSION: u64 = 1 << 3;
    const COMPRESSED: u64 = 1 << 11;
    /// `FS_COMPR_FL`.
    const SHOWN_COMPRESSED: u32 = 0x0000_0004;

    /// Returns true if the data has no checksums.
    pub(crate) const fn has_no_data_checksums(self) -> bool {
        self.0 & Self::NO_DATA_CHECKSUMS != 0
    }

    /// Returns the flags as bits of linux/fs.h, as `FS_IOC_GETFLAGS` does.
    pub(crate) fn shown(self) -> u32 {
        let shown = SHOWN_FLAGS.iter().filter(|(flag, _)| self.0 & flag != 0);
        let shown = shown.fold(0, |all, (_, bit)| all | bit);
        if self.0 & Self::COMPRESSED != 0 && self.0 & Self::NO_COMPRESSION == 0 {
            shown | Self::SHOWN_COMPRESSED
        } else {
            shown
        }
    }

    fn attributes(self) -> FileFlags {
        FileFlags {
            immutable: self.shown() & 0x10 != 0,
            append_only: self.shown() & 0x20 != 0,
            no_dump: self.shown() & 0x40 != 0,
            verity: self.shown() & 0x0010_0000 != 0,
            ..FileFlags::default()
        }
    }
}

/// An inode whose type is valid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InodeItem {
    pub(crate) file_type: FileType,
    pub(crate) size_bytes: u64,
    pub(crate) flags: InodeFlags,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) accessed: Timestamp,
    pub(crate) generation: u64,
    permissions: u16,
    links: u32,
    allocated_bytes: u64,
    rdev: u64,
    changed: Timestamp,
    modified: Timestamp,
    created: Timestamp,
}

impl InodeItem {
    pub(crate) fn parse(item: &Item) -> Result<Self> {
        let (raw, _) = RawInodeItem::ref_from_prefix(item.bytes())
            .map_err(|_| item.invalid("it is too short"))?;
        let mode = raw.mode.get();
        let invalid = || item.invalid(&format!("mode {mode:#o}"));
        Ok(Self {
            file_type: FileType::from_mode(mode).ok_or_else(invalid)?,
            size_bytes: raw.size.get(),
            flags: InodeFlags(raw.flags.get()),
            uid: raw.uid.get(),
            gid: raw.gid.get(),
            accessed: raw.atime.get(),
            generation: raw.generation.get(),
            permissions: u16::try_from(mode & 0o7777).unwrap_or_default(),
            links: raw.nlink.get(),
            allocated_bytes: raw.nbytes.get(),
            rdev: raw.rdev.get(),
            changed: raw.ctime.get(),
            modified: raw.mtime.get(),
            created: raw.otime.get(),
        })
    }

    pub(crate) fn metadata(&self, inode: InodeNumber, sector_bytes: u32) -> Metadata {
        let sectors = self
            .allocated_bytes
            .div_ceil(u64::from(sector_bytes).max(1));
        Metadata {
            inode,
            generation: low32(self.generation),
            file_type: self.file_type,
            permissions: self.permissions,
            links: self.links,
            uid: self.uid,
            gid: self.gid,
            size_bytes: self.size_bytes,
            allocated_bytes: sectors.saturating_mul(u64::from(sector_bytes)),
            accessed: self.accessed,
            modified: self.modified,
            changed: self.changed,
            created: Some(self.created),
            device: self.device(),
            block_size: sector_bytes,
            flags: self.flags.attributes(),
        }
    }

    /// Returns the number of a device node, which is stored as the kernel's `dev_t`.
    fn device(&self) -> Option<Device> {
        const MINOR_BITS: u32 = 20;
        let is_device = matches!(
            self.file_type,
            FileType::CharacterDevice | FileType::BlockDevice
        );
        is_device.then(|| Device {
            major: low32(self.rdev.wrapping_shr(MINOR_BITS)),
            minor: low32(self.rdev & ((1 << MINOR_BITS) - 1)),
        })
    }
}
