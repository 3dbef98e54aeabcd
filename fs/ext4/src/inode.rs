//! Inodes: everything about a file except for its names and its contents.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Index Nodes".

mod checksum;
mod device;
mod encode;
mod raw;
mod time;

use bitflags::bitflags;
use diskfs_vfs::{Device, FileAttributes, FileFlags, FileType, InodeNumber, Metadata, Timestamp};
use zerocopy::FromBytes;

use crate::bytes::{join32, join64, le16, le32, low16};
use crate::checksum::ChecksumSeed;
use crate::error::{Corrupt, Result, Structure, malformed};
use crate::features::{Incompatible, ReadOnlyCompatible};
use crate::superblock::Superblock;

pub(crate) use raw::RawInode;

pub(crate) use device::encode as encode_device;
pub(crate) use encode::{encode, encode_copy, encode_new, set_deleted};

/// The offset of `i_links_count`.
pub(crate) const LINKS_COUNT: usize = 0x1a;
/// The root directory's inode number.
pub(crate) const ROOT: u32 = 2;

bitflags! {
    /// The flags in `i_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct InodeFlags: u32 {
        const SYNC = 0x8;
        const IMMUTABLE = 0x10;
        const APPEND = 0x20;
        const NO_DUMP = 0x40;
        const NO_ATIME = 0x80;
        const ENCRYPT = 0x800;
        const INDEX = 0x1000;
        const IMAGIC = 0x2000;
        const JOURNAL_DATA = 0x4000;
        const NO_TAIL = 0x8000;
        const DIR_SYNC = 0x1_0000;
        const TOP_DIR = 0x2_0000;
        const HUGE_FILE = 0x4_0000;
        const EXTENTS = 0x8_0000;
        const VERITY = 0x10_0000;
        const EA_INODE = 0x20_0000;
        const DAX = 0x200_0000;
        const INLINE_DATA = 0x1000_0000;
        const PROJECT_INHERIT = 0x2000_0000;
        const CASEFOLD = 0x4000_0000;
        const _ = !0;
    }
}

/// An inode whose fields were checked for consistency.
#[derive(Debug, Clone)]
pub(crate) struct Inode {
    pub(crate) number: u32,
    pub(crate) generation: u32,
    /// The type of the file, or `None` for special inodes without one.
    pub(crate) file_type: Option<FileType>,
    pub(crate) permissions: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) links: u16,
    pub(crate) size_bytes: u64,
    pub(crate) allocated_bytes: u64,
    pub(crate) flags: InodeFlags,
    pub(crate) accessed: Timestamp,
    pub(crate) modified: Timestamp,
    pub(crate) changed: Timestamp,
    pub(crate) created: Option<Timestamp>,
    /// The stored value of `i_atime`; in an inode with an attribute value, the value's checksum.
    pub(crate) raw_atime: u32,
    /// The lower half of `i_version`; in an inode with an attribute value, the reference count.
    pub(crate) version: u32,
    /// `i_dtime`: the time of deletion; for an orphan, the next inode on the orphan list.
    pub(crate) deleted: u32,
    /// `i_projid`, if the inode is large enough to have it.
    pub(crate) project: u32,
    /// The number of bytes of fields after the first 128 bytes.
    pub(crate) extra_isize: u16,
    /// `i_block`: the root of the extent tree, the block map, a short symlink target, or data.
    pub(crate) block: [u8; 60],
    /// The block with further extended attributes; 0 if there is none.
    pub(crate) xattr_block: u64,
    /// The extended attributes within the inode, after its last field. Empty if there are none.
    pub(crate) xattr_bytes: Box<[u8]>,
    /// The checksum seed of the inode's structures; `None` without `metadata_csum`.
    pub(crate) checksum_seed: Option<ChecksumSeed>,
}

impl Inode {
    /// Parses an inode from its `s_inode_size` bytes and verifies its checksum. Returns `None` if
    /// it is not in use.
    pub(crate) fn parse(
        superblock: &Superblock,
        number: u32,
        bytes: &[u8],
    ) -> Result<Option<Self>> {
        let inode = Self::parse_unchecked(superblock, number, bytes)?;
        if let Some(inode) = &inode {
            checksum::verify(inode, bytes)?;
        }
        Ok(inode)
    }

    /// Verifies the checksum in the bytes from which the inode was parsed.
    ///
    /// # Errors
    /// `Corrupt` if it does not match.
    pub(crate) fn verify_checksum(&self, bytes: &[u8]) -> Result<()> {
        checksum::verify(self, bytes)
    }

    /// Parses an inode like [`parse`](Self::parse), from bytes that a journal's checksum covers.
    pub(crate) fn parse_unchecked(
        superblock: &Superblock,
        number: u32,
        bytes: &[u8],
    ) -> Result<Option<Self>> {
        let structure = Structure::Inode(number);
        let (raw, _) =
            RawInode::ref_from_prefix(bytes).map_err(|_| malformed(structure, "truncated"))?;
        if raw.i_mode.get() == 0 && raw.i_links_count.get() == 0 {
            return Ok(None);
        }
        let fields = fields_end(superblock, structure, bytes)?;
        let fixed = known_fields(bytes, fields);
        let flags = InodeFlags::from_bits_retain(raw.i_flags.get());
        let file_type = FileType::from_mode(u32::from(raw.i_mode.get()));
        let generation = raw.i_generation.get();
        Ok(Some(Self {
            number,
            generation,
            file_type,
            permissions: raw.i_mode.get() & 0o7777,
            uid: join32(raw.l_i_uid_high.get(), raw.i_uid.get()),
            gid: join32(raw.l_i_gid_high.get(), raw.i_gid.get()),
            links: raw.i_links_count.get(),
            size_bytes: size_bytes(superblock, number, raw, file_type)?,
            allocated_bytes: allocated_bytes(superblock, raw, flags),
            flags,
            accessed: time::decode(raw.i_atime.get(), fixed, raw::extra::I_ATIME_EXTRA),
            modified: time::decode(raw.i_mtime.get(), fixed, raw::extra::I_MTIME_EXTRA),
            changed: time::decode(raw.i_ctime.get(), fixed, raw::extra::I_CTIME_EXTRA),
            created: time::created(fixed),
            raw_atime: raw.i_atime.get(),
            version: raw.l_i_version.get(),
            deleted: raw.i_dtime.get(),
            project: le32(fixed, raw::extra::I_PROJID).unwrap_or(0),
            extra_isize: u16::try_from(fields.saturating_sub(raw::SIZE_BYTES)).unwrap_or(0),
            block: raw.i_block,
            xattr_block: xattr_block(superblock, raw),
            xattr_bytes: xattr_bytes(bytes, fields),
            checksum_seed: superblock.inode_checksum_seed(number, generation),
        }))
    }

    /// Returns true if all of these flags are set.
    pub(crate) fn has(&self, flags: InodeFlags) -> bool {
        self.flags.contains(flags)
    }

    /// Returns true if the inode has this type.
    pub(crate) fn is(&self, file_type: FileType) -> bool {
        self.file_type == Some(file_type)
    }

    /// Returns the metadata for `stat`, or `None` for an inode that is not a file.
    pub(crate) fn metadata(&self, superblock: &Superblock) -> Option<Metadata> {
        let file_type = self.file_type?;
        Some(Metadata {
            inode: InodeNumber(u64::from(self.number)),
            generation: self.generation,
            file_type,
            permissions: self.permissions,
            links: u32::from(self.links),
            uid: self.uid,
            gid: self.gid,
            size_bytes: self.size_bytes,
            allocated_bytes: self.allocated_bytes.saturating_add(self.inline_bytes()),
            accessed: self.accessed,
            modified: self.modified,
            changed: self.changed,
            created: self.created,
            device: self.device(file_type),
            block_size: superblock.block_size.bytes(),
            flags: self.file_flags(),
        })
    }

    /// Returns the size of inline contents in units of 512 bytes. The kernel counts them as
    /// allocated, so that tools do not mistake the file for a hole; it does so for regular files
    /// only.
    fn inline_bytes(&self) -> u64 {
        if self.has(InodeFlags::INLINE_DATA) && self.is(FileType::Regular) {
            self.size_bytes.div_ceil(512).saturating_mul(512)
        } else {
            0
        }
    }

    fn device(&self, file_type: FileType) -> Option<Device> {
        let is_device = matches!(file_type, FileType::CharacterDevice | FileType::BlockDevice);
        is_device.then(|| device::decode(&self.block))
    }

    /// The flags that are shown to programs, `EXT4_FL_USER_VISIBLE`.
    pub(crate) const VISIBLE_FLAGS: u32 = 0x725b_dfff;

    /// Returns the file attributes that lsattr(1) shows.
    pub(crate) fn file_attributes(&self) -> FileAttributes {
        let hidden = if self.is(FileType::Regular) {
            InodeFlags::PROJECT_INHERIT
        } else {
            InodeFlags::empty()
        };
        FileAttributes {
            flags: self.flags.difference(hidden).bits() & Self::VISIBLE_FLAGS,
            project: self.project,
        }
    }

    fn file_flags(&self) -> FileFlags {
        FileFlags {
            immutable: self.has(InodeFlags::IMMUTABLE),
            append_only: self.has(InodeFlags::APPEND),
            encrypted: self.has(InodeFlags::ENCRYPT),
            verity: self.has(InodeFlags::VERITY),
            casefold: self.has(InodeFlags::CASEFOLD),
            no_dump: self.has(InodeFlags::NO_DUMP),
        }
    }
}

/// Returns the bytes that contain fields. Old inodes have an `i_extra_isize` of 0; the kernel then
/// treats all fields that it knows as present, with the value zero.
fn known_fields(bytes: &[u8], end: usize) -> &[u8] {
    let end = if end == raw::SIZE_BYTES && bytes.len() > end {
        raw::KNOWN_BYTES
    } else {
        end
    };
    bytes.get(..end).unwrap_or(bytes)
}

/// Returns where the inode's fields end: `i_extra_isize` after the first 128 bytes.
fn fields_end(superblock: &Superblock, structure: Structure, bytes: &[u8]) -> Result<usize> {
    if superblock.inode_size <= 128 {
        return Ok(raw::SIZE_BYTES);
    }
    let extra = le16(bytes, raw::extra::I_EXTRA_ISIZE).unwrap_or(0);
    let end = raw::SIZE_BYTES.saturating_add(usize::from(extra));
    if end > bytes.len() || extra & 3 != 0 {
        return Err(Corrupt::Field {
            structure,
            field: "i_extra_isize",
            value: u64::from(extra),
            range: "a multiple of 4 within the inode",
        }
        .into());
    }
    Ok(end)
}

fn size_bytes(
    superblock: &Superblock,
    number: u32,
    raw: &RawInode,
    file_type: Option<FileType>,
) -> Result<u64> {
    // For other types the upper half of the size formerly had another meaning.
    let is_wide =
        file_type == Some(FileType::Regular) || superblock.features.has(Incompatible::LARGE_DIR);
    let high = if is_wide { raw.i_size_high.get() } else { 0 };
    let size = join64(high, raw.i_size_lo.get());
    // A block's number within a file has 32 bits. No extent or map reaches past that, and reading
    // there would return zeroes for hours.
    let size_max = superblock.block_size.bytes_of(1 << 32);
    if size > size_max {
        return Err(Corrupt::Field {
            structure: Structure::Inode(number),
            field: "i_size",
            value: size,
            range: "at most 2^32 blocks",
        }
        .into());
    }
    Ok(size)
}

/// Converts `i_blocks`, which counts units of 512 bytes, or with the flag `HUGE_FILE` blocks of the
/// filesystem, to bytes.
fn allocated_bytes(superblock: &Superblock, raw: &RawInode, flags: InodeFlags) -> u64 {
    let low = raw.i_blocks_lo.get();
    if !superblock.features.has(ReadOnlyCompatible::HUGE_FILE) {
        return u64::from(low).saturating_mul(512);
    }
    let blocks = join64(u32::from(raw.l_i_blocks_high.get()), low);
    if flags.contains(InodeFlags::HUGE_FILE) {
        superblock.block_size.bytes_of(blocks)
    } else {
        blocks.saturating_mul(512)
    }
}

fn xattr_block(superblock: &Superblock, raw: &RawInode) -> u64 {
    let high = if superblock.features.has(Incompatible::SIXTY_FOUR_BIT) {
        u32::from(raw.l_i_file_acl_high.get())
    } else {
        0
    };
    join64(high, raw.i_file_acl_lo.get())
}

/// The magic `EXT4_XATTR_MAGIC`, before the attributes in the inode and at the start of their
/// block.
const XATTR_MAGIC: [u8; 4] = 0xea02_0000u32.to_le_bytes();

/// Returns the attributes within the inode: the bytes after the magic that follows the last field.
fn xattr_bytes(bytes: &[u8], fields: usize) -> Box<[u8]> {
    bytes
        .get(fields..)
        .and_then(|rest| rest.strip_prefix(&XATTR_MAGIC))
        .map(Box::from)
        .unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests;
