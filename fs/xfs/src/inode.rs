//! Inodes.
//!
//! Source: "XFS Algorithms & Data Structures", section "On-disk Inode".

mod fork;
mod metadata;
mod parse;
mod raw;
mod time;

use bitflags::bitflags;
use diskfs_vfs::{FileType, Timestamp};
use zerocopy::FromBytes;

pub(crate) use self::fork::{Fork, ForkKind};

use self::parse::Parts;
use self::raw::{CORE_BYTES, CORE_V3_BYTES, RawInode, RawInodeV3};
use crate::bytes::len_u64;
use crate::checksum;
use crate::error::{Error, Result, corrupt};
use crate::superblock::Superblock;

/// `IN`, the magic of an inode.
const MAGIC: [u8; 2] = *b"IN";

bitflags! {
    /// The flags of `di_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct InodeFlags: u16 {
        const REALTIME = 0x0001;
        const IMMUTABLE = 0x0008;
        const APPEND = 0x0010;
        const SYNC = 0x0020;
        const NOATIME = 0x0040;
        const NODUMP = 0x0080;
        const PROJINHERIT = 0x0200;
    }

    /// The flags of `di_flags2`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct InodeFlags2: u64 {
        const DAX = 0x01;
        const BIGTIME = 0x08;
        const NREXT64 = 0x10;
        const METADATA = 0x20;
    }
}

/// A valid inode that is in use.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) number: u64,
    /// The byte of the device at which it starts.
    pub(crate) at: u64,
    pub(crate) file_type: FileType,
    pub(crate) permissions: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) links: u32,
    pub(crate) project: u32,
    pub(crate) size_bytes: u64,
    /// The number of blocks of both forks and of their trees.
    pub(crate) blocks: u64,
    pub(crate) generation: u32,
    pub(crate) accessed: Timestamp,
    pub(crate) modified: Timestamp,
    pub(crate) changed: Timestamp,
    pub(crate) created: Option<Timestamp>,
    pub(crate) flags: InodeFlags,
    pub(crate) flags2: InodeFlags2,
    pub(crate) data: Fork,
    pub(crate) attributes: Option<Fork>,
}

impl Inode {
    /// Returns true if bytes begin with the magic of an inode.
    pub(crate) fn has_magic(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Parses and checks the inode in `bytes`, which start at byte `at` of the device. Returns
    /// `None` if it is free.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for a form that the driver does not read.
    pub(crate) fn parse(
        superblock: &Superblock,
        number: u64,
        bytes: &[u8],
        at: u64,
    ) -> Result<Option<Self>> {
        let invalid = |what: &str| corrupt(format!("invalid inode: {what}"), at);
        let (raw, rest) =
            RawInode::ref_from_prefix(bytes).map_err(|_| invalid("it is truncated"))?;
        if !Self::has_magic(&raw.di_magic) {
            return Err(invalid("wrong magic"));
        }
        let v3 = if superblock.has_checksums() {
            Some(check_v3(superblock, number, bytes, rest, at)?)
        } else {
            None
        };
        match (raw.di_version, v3.is_some()) {
            (3, true) | (1 | 2, false) => {}
            (other, _) => return Err(invalid(&format!("unexpected version {other}"))),
        }
        if raw.di_mode.get() == 0 {
            return Ok(None);
        }
        let parts = Parts {
            superblock,
            raw,
            flags2: InodeFlags2::from_bits_retain(v3.map_or(0, |v3| v3.di_flags2.get())),
            literal: bytes
                .get(
                    if v3.is_some() {
                        CORE_V3_BYTES
                    } else {
                        CORE_BYTES
                    }..,
                )
                .unwrap_or_default(),
            at,
        };
        parts.inode(number, v3).map(Some)
    }

    /// Returns one of the forks; an inode may have no attribute fork.
    pub(crate) fn fork(&self, kind: ForkKind) -> Option<&Fork> {
        match kind {
            ForkKind::Data => Some(&self.data),
            ForkKind::Attributes => self.attributes.as_ref(),
        }
    }

    /// Returns true if the file is of this type.
    pub(crate) fn is(&self, file_type: FileType) -> bool {
        self.file_type == file_type
    }

    /// Returns the error for a part of the inode that contradicts the specification.
    pub(crate) fn corrupt(&self, what: impl std::fmt::Display) -> Error {
        corrupt(what.to_string(), self.at).in_inode(diskfs_vfs::InodeNumber(self.number))
    }

    /// Returns the memory that the inode uses.
    pub(crate) fn memory_bytes(&self) -> u64 {
        /// The overhead of the cache and of allocations.
        const ENTRY_BYTES: u64 = 64;
        len_u64(size_of::<Self>())
            .saturating_add(ENTRY_BYTES)
            .saturating_add(self.data.memory_bytes())
            .saturating_add(self.attributes.as_ref().map_or(0, Fork::memory_bytes))
    }
}

fn check_v3<'a>(
    superblock: &Superblock,
    number: u64,
    bytes: &[u8],
    rest: &'a [u8],
    at: u64,
) -> Result<&'a RawInodeV3> {
    checksum::verify(bytes, raw::CRC_OFFSET, "inode", at)?;
    let (v3, _) = RawInodeV3::ref_from_prefix(rest)
        .map_err(|_| corrupt("invalid inode: it is truncated", at))?;
    if v3.di_ino.get() != number {
        let actual = v3.di_ino.get();
        let reason = format!("invalid inode: its number is {actual}, expected {number}");
        return Err(corrupt(reason, at));
    }
    if v3.di_uuid != superblock.meta_uuid {
        let reason = "invalid inode: its UUID belongs to another filesystem";
        return Err(corrupt(reason, at));
    }
    Ok(v3)
}
