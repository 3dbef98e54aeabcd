//! The superblock: `struct squashfs_super_block`, the first 96 bytes.

use diskfs_block::{BlockRead, read_within};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::compressor::Compressor;
use crate::error::{Error, ErrorKind, Result, corrupt, device_failed};
use crate::inode_reference::InodeReference;

/// The size of the superblock.
pub(crate) const SUPERBLOCK_BYTES: usize = 96;

const MAGIC: u32 = 0x7371_7368;

/// The place of a table that does not exist.
const NO_TABLE: u64 = u64::MAX;

/// The minimum and maximum of `block_log`: 4 KiB and 1 MiB.
const BLOCK_LOGS: std::ops::RangeInclusive<u16> = 12..=20;

/// The bit of `flags` that says that the compressor's options follow the superblock.
const COMPRESSOR_OPTIONS: u16 = 0x0400;

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSuperblock {
    s_magic: U32,
    inodes: U32,
    mkfs_time: U32,
    block_size: U32,
    fragments: U32,
    compression: U16,
    block_log: U16,
    flags: U16,
    no_ids: U16,
    s_major: U16,
    s_minor: U16,
    root_inode: U64,
    bytes_used: U64,
    id_table_start: U64,
    xattr_id_table_start: U64,
    inode_table_start: U64,
    directory_table_start: U64,
    fragment_table_start: U64,
    lookup_table_start: U64,
}

const _: () = assert!(size_of::<RawSuperblock>() == SUPERBLOCK_BYTES);

/// The checked superblock.
#[derive(Debug, Clone)]
pub(crate) struct Superblock {
    /// The number of inodes.
    pub(crate) inodes: u32,
    /// The size of a data block in bytes: a power of two from 4 KiB to 1 MiB.
    pub(crate) block_bytes: u32,
    /// The number of fragment blocks.
    pub(crate) fragments: u32,
    pub(crate) compressor: Compressor,
    pub(crate) has_compressor_options: bool,
    /// The number of user and group IDs.
    pub(crate) ids: u16,
    pub(crate) root: InodeReference,
    /// The size of the filesystem in bytes; at most that of the device.
    pub(crate) bytes_used: u64,
    pub(crate) id_table: u64,
    pub(crate) xattr_id_table: Option<u64>,
    pub(crate) inode_table: u64,
    pub(crate) directory_table: u64,
    pub(crate) fragment_table: Option<u64>,
    /// The export table, from inode numbers to inodes.
    pub(crate) export_table: Option<u64>,
}

impl Superblock {
    /// Reads and checks the superblock of a device.
    ///
    /// # Errors
    /// `Unsupported` for another version or compressor; `Corrupt` for invalid fields.
    pub(crate) fn read(device: &dyn BlockRead) -> Result<Self> {
        let bytes = read_within(device, 0, SUPERBLOCK_BYTES).map_err(device_failed)?;
        let bytes = bytes.ok_or_else(|| corrupt("no squashfs: the device is too small", 0))?;
        check_magic(&bytes)?;
        let raw = RawSuperblock::read_from_bytes(&bytes)
            .map_err(|_| corrupt("invalid superblock: wrong size", 0))?;
        check_version(raw.s_major.get(), raw.s_minor.get())?;
        Self::check(&raw, device.size_bytes())
    }

    fn check(raw: &RawSuperblock, device_bytes: u64) -> Result<Self> {
        let table = |start: U64| Some(start.get()).filter(|start| *start != NO_TABLE);
        let superblock = Self {
            inodes: raw.inodes.get(),
            block_bytes: raw.block_size.get(),
            fragments: raw.fragments.get(),
            compressor: Compressor::from_id(raw.compression.get())?,
            has_compressor_options: raw.flags.get() & COMPRESSOR_OPTIONS != 0,
            ids: raw.no_ids.get(),
            root: InodeReference(raw.root_inode.get()),
            bytes_used: raw.bytes_used.get(),
            id_table: raw.id_table_start.get(),
            xattr_id_table: table(raw.xattr_id_table_start),
            inode_table: raw.inode_table_start.get(),
            directory_table: raw.directory_table_start.get(),
            fragment_table: table(raw.fragment_table_start),
            export_table: table(raw.lookup_table_start),
        };
        check_block_size(raw)?;
        superblock.check_size(device_bytes)?;
        superblock.check_tables()?;
        Ok(superblock)
    }

    fn check_size(&self, device_bytes: u64) -> Result<()> {
        if self.bytes_used > device_bytes {
            let reason = format!(
                "invalid superblock: {} bytes in use, but the device has {device_bytes}",
                self.bytes_used
            );
            return Err(corrupt(reason, 40).with_hint("the image may be truncated"));
        }
        Ok(())
    }

    /// Fails unless the tables are in their order: inodes, directories, then all others.
    fn check_tables(&self) -> Result<()> {
        let first = u64::try_from(SUPERBLOCK_BYTES).unwrap_or(u64::MAX);
        let after = [
            Some(self.id_table),
            self.xattr_id_table,
            self.fragment_table,
            self.export_table,
        ];
        let is_ordered = self.inode_table >= first
            && self.inode_table < self.directory_table
            && after
                .into_iter()
                .flatten()
                .all(|start| start >= self.directory_table && start < self.bytes_used);
        if !is_ordered {
            let reason = "invalid superblock: tables overlap or lie outside of the filesystem";
            return Err(corrupt(reason, 48));
        }
        if self.fragments > 0 && self.fragment_table.is_none() {
            return Err(corrupt("invalid superblock: missing fragment table", 80));
        }
        if self.ids == 0 || self.inodes == 0 {
            return Err(corrupt("invalid superblock: no IDs or no inodes", 0));
        }
        Ok(())
    }
}

fn check_magic(bytes: &[u8]) -> Result<()> {
    let magic = diskfs_block::bytes::le32(bytes, 0).unwrap_or_default();
    if magic == MAGIC.swap_bytes() {
        let reason = "squashfs in big-endian byte order (before version 4) is not supported";
        return Err(Error::new(ErrorKind::Unsupported, reason));
    }
    if magic != MAGIC {
        let reason = format!("no squashfs: magic {magic:#010x}, expected {MAGIC:#010x}");
        return Err(corrupt(reason, 0));
    }
    Ok(())
}

fn check_version(major: u16, minor: u16) -> Result<()> {
    if (major, minor) == (4, 0) {
        return Ok(());
    }
    let reason = format!("squashfs {major}.{minor} is not supported: only 4.0 is");
    Err(Error::new(ErrorKind::Unsupported, reason).at(28))
}

fn check_block_size(raw: &RawSuperblock) -> Result<()> {
    let (size, log) = (raw.block_size.get(), raw.block_log.get());
    if BLOCK_LOGS.contains(&log) && size.is_power_of_two() && size.trailing_zeros() == log.into() {
        return Ok(());
    }
    let reason = format!("invalid block size {size} (log {log}): expected 4 KiB to 1 MiB");
    Err(corrupt(reason, 12))
}
