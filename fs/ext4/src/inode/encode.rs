//! Encoding of an inode into its bytes in the inode table.

use diskfs_vfs::Timestamp;
use zerocopy::FromBytes;

use super::raw::{self, RawInode, extra};
use super::{Inode, InodeFlags, XATTR_MAGIC, checksum, time};
use crate::bytes::{put, split32, split64};
use crate::error::{Error, ErrorKind, InInode, Result, Structure, malformed};
use crate::features::{Incompatible, ReadOnlyCompatible};
use crate::superblock::Superblock;

/// Writes an inode over its `s_inode_size` bytes. Fields that this driver does not know stay as
/// they were, and so does `i_dtime`: see [`set_deleted`].
///
/// # Errors
/// `FileTooLarge` if more is allocated than its fields can count; `Corrupt` if there are too few
/// bytes.
pub(crate) fn encode(superblock: &Superblock, inode: &Inode, bytes: &mut [u8]) -> Result<()> {
    let (blocks, flags) = blocks(superblock, inode).in_inode(inode.number)?;
    let (raw, _) = RawInode::mut_from_prefix(bytes)
        .map_err(|_| malformed(Structure::Inode(inode.number), "truncated"))?;
    fixed(superblock, inode, raw);
    let (blocks_high, blocks_low) = split64(blocks);
    raw.i_blocks_lo.set(blocks_low);
    raw.l_i_blocks_high.set(split32(blocks_high).1);
    raw.i_flags.set(flags.bits());
    if superblock.inode_size > 128 {
        put(
            bytes,
            extra::I_EXTRA_ISIZE,
            &inode.extra_isize.to_le_bytes(),
        );
        extra_fields(inode, bytes);
        attributes(inode, bytes);
    }
    if let Some(seed) = inode.checksum_seed {
        checksum::update(seed, bytes);
    }
    Ok(())
}

/// Writes an inode like [`encode`], but over an unused one: none of the old bytes are kept.
///
/// # Errors
/// Fails like [`encode`].
pub(crate) fn encode_new(superblock: &Superblock, inode: &Inode, bytes: &mut [u8]) -> Result<()> {
    bytes.fill(0);
    encode(superblock, inode, bytes)
}

/// Writes the bytes of another inode, which gets the number `number`.
///
/// # Errors
/// `Corrupt` if there are too few bytes.
pub(crate) fn encode_copy(
    superblock: &Superblock,
    number: u32,
    from: &[u8],
    bytes: &mut [u8],
) -> Result<()> {
    let (raw, _) = RawInode::ref_from_prefix(from)
        .map_err(|_| malformed(Structure::Inode(number), "truncated"))?;
    let seed = superblock.inode_checksum_seed(number, raw.i_generation.get());
    bytes.fill(0);
    put(bytes, 0, from);
    if let Some(seed) = seed {
        checksum::update(seed, bytes);
    }
    Ok(())
}

/// Writes `i_dtime` into an inode's bytes: the time of deletion, or for an orphan the next inode on
/// the orphan list. It is separate because updates of the list change inodes that other threads
/// have locked.
///
/// # Errors
/// `Corrupt` if there are too few bytes.
pub(crate) fn set_deleted(
    superblock: &Superblock,
    number: u32,
    deleted: u32,
    bytes: &mut [u8],
) -> Result<()> {
    let (raw, _) = RawInode::mut_from_prefix(bytes)
        .map_err(|_| malformed(Structure::Inode(number), "truncated"))?;
    raw.i_dtime.set(deleted);
    if let Some(seed) = superblock.inode_checksum_seed(number, raw.i_generation.get()) {
        checksum::update(seed, bytes);
    }
    Ok(())
}

fn fixed(superblock: &Superblock, inode: &Inode, raw: &mut RawInode) {
    let type_bits = inode.file_type.map_or(0, |file_type| {
        // The type has 16 bits in st_mode, too.
        u16::try_from(file_type.mode_bits()).unwrap_or(0)
    });
    raw.i_mode.set(type_bits | inode.permissions);
    let (uid_high, uid_low) = split32(inode.uid);
    let (gid_high, gid_low) = split32(inode.gid);
    raw.i_uid.set(uid_low);
    raw.l_i_uid_high.set(uid_high);
    raw.i_gid.set(gid_low);
    raw.l_i_gid_high.set(gid_high);
    let (size_high, size_low) = split64(inode.size_bytes);
    raw.i_size_lo.set(size_low);
    raw.i_size_high.set(size_high);
    raw.i_links_count.set(inode.links);
    raw.i_block = inode.block;
    raw.i_generation.set(inode.generation);
    let (xattr_high, xattr_low) = split64(inode.xattr_block);
    raw.i_file_acl_lo.set(xattr_low);
    if superblock.features.has(Incompatible::SIXTY_FOUR_BIT) {
        raw.l_i_file_acl_high.set(split32(xattr_high).1);
    }
    raw.l_i_version.set(inode.version);
    raw.i_atime.set(if inode.has(InodeFlags::EA_INODE) {
        inode.raw_atime
    } else {
        time::encode(inode.accessed, inode.reaches(extra::I_ATIME_EXTRA)).0
    });
    raw.i_mtime
        .set(time::encode(inode.modified, inode.reaches(extra::I_MTIME_EXTRA)).0);
    raw.i_ctime
        .set(time::encode(inode.changed, inode.reaches(extra::I_CTIME_EXTRA)).0);
}

fn extra_fields(inode: &Inode, bytes: &mut [u8]) {
    let second = |time| time::encode(time, true).1;
    let created = inode.created.unwrap_or_default();
    let fields = [
        (extra::I_CTIME_EXTRA, second(inode.changed)),
        (extra::I_MTIME_EXTRA, second(inode.modified)),
        (extra::I_ATIME_EXTRA, second(inode.accessed)),
        (
            extra::I_CRTIME,
            time::encode(created, inode.reaches(extra::I_CRTIME_EXTRA)).0,
        ),
        (extra::I_CRTIME_EXTRA, second(created)),
        (extra::I_PROJID, inode.project),
    ];
    for (offset, value) in fields {
        if inode.reaches(offset) {
            put(bytes, offset, &value.to_le_bytes());
        }
    }
}

/// Writes the attributes within the inode, after its last field up to its end.
fn attributes(inode: &Inode, bytes: &mut [u8]) {
    let start = raw::SIZE_BYTES.saturating_add(usize::from(inode.extra_isize));
    let room = bytes.get_mut(start..).unwrap_or_default();
    room.fill(0);
    if !inode.xattr_bytes.is_empty() {
        put(room, 0, &XATTR_MAGIC);
        put(room, XATTR_MAGIC.len(), &inode.xattr_bytes);
    }
}

/// Returns `i_blocks`, and the flags that give its unit.
fn blocks(superblock: &Superblock, inode: &Inode) -> Result<(u64, InodeFlags)> {
    const SECTOR_BITS: u32 = 9;
    const WIDE: u64 = 1 << 48;
    let flags = inode.flags.difference(InodeFlags::HUGE_FILE);
    let sectors = inode.allocated_bytes.wrapping_shr(SECTOR_BITS);
    if u32::try_from(sectors).is_ok() {
        return Ok((sectors, flags));
    }
    if !superblock.features.has(ReadOnlyCompatible::HUGE_FILE) {
        let reason =
            "the file needs more blocks than i_blocks can count without the feature `huge_file`";
        return Err(Error::new(ErrorKind::FileTooLarge, reason));
    }
    if sectors < WIDE {
        return Ok((sectors, flags));
    }
    let blocks = superblock.block_size.blocks_for(inode.allocated_bytes);
    if blocks < WIDE {
        return Ok((blocks, flags.union(InodeFlags::HUGE_FILE)));
    }
    let reason = "the file needs more blocks than i_blocks can count";
    Err(Error::new(ErrorKind::FileTooLarge, reason))
}

impl Inode {
    /// Returns true if the four bytes at `offset` are among the inode's fields.
    fn reaches(&self, offset: usize) -> bool {
        const FIELD_BYTES: usize = 4;
        let end = raw::SIZE_BYTES.saturating_add(usize::from(self.extra_isize));
        offset.saturating_add(FIELD_BYTES) <= end
    }

    /// Returns a time of change as it will be read again: in a small inode without nanoseconds, and
    /// not after 2038.
    pub(crate) fn storable(&self, time: Timestamp) -> Timestamp {
        time::stored(time, self.reaches(extra::I_MTIME_EXTRA))
    }

    /// Returns true if the inode is large enough to have a project ID.
    pub(crate) fn has_project(&self) -> bool {
        self.reaches(extra::I_PROJID)
    }

    /// Returns how many bytes of attributes fit into the inode, after their magic.
    pub(crate) fn xattr_room_bytes(&self, superblock: &Superblock) -> usize {
        usize::from(superblock.inode_size)
            .saturating_sub(raw::SIZE_BYTES)
            .saturating_sub(usize::from(self.extra_isize))
            .saturating_sub(XATTR_MAGIC.len())
    }
}

#[cfg(test)]
mod tests {
    use diskfs_vfs::{FileType, Timestamp};

    use super::*;

    #[test]
    fn an_inode_comes_back() {
        let superblock = Superblock::parse(&crate::superblock::tests::sample(), 4 << 20).unwrap();
        let time = Timestamp {
            seconds: 5_000_000_000,
            nanoseconds: 7,
        };
        let inode = Inode {
            number: 12,
            generation: 99,
            file_type: Some(FileType::Directory),
            permissions: 0o1755,
            uid: 70_000,
            gid: 80_000,
            links: 3,
            size_bytes: 4096,
            allocated_bytes: 8192,
            flags: InodeFlags::EXTENTS,
            accessed: time,
            modified: time,
            changed: time,
            created: Some(time),
            raw_atime: 705_032_704,
            version: 3,
            deleted: 0,
            project: 44,
            extra_isize: 32,
            block: [9; 60],
            xattr_block: 77,
            xattr_bytes: vec![1; 256 - 128 - 32 - 4].into(),
            checksum_seed: superblock.inode_checksum_seed(12, 99),
        };
        let mut bytes = [0xff; 256];
        encode_new(&superblock, &inode, &mut bytes).unwrap();
        let again = Inode::parse(&superblock, 12, &bytes).unwrap().unwrap();
        assert_eq!(format!("{again:?}"), format!("{inode:?}"));
        assert_eq!(inode.xattr_room_bytes(&superblock), 92);
    }
}
