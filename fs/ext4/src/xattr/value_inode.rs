//! Creating and removing inodes with an attribute's value (`ea_inode`).
//!
//! `i_atime` is the value's checksum, and `i_ctime` with `i_version` the reference count.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Extended
//! Attributes"; Linux, `fs/ext4/xattr.c`, for the places of the fields.

use diskfs_vfs::{FileType, Timestamp};

use crate::bytes::{len_u64, split64};
use crate::error::{ErrorKind, InInode, Result, Structure, malformed};
use crate::features::Incompatible;
use crate::file_blocks;
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};
use crate::volume::Volume;

/// Reads the inode of a value.
pub(super) fn read(handle: &Handle<'_>, number: u32) -> Result<Inode> {
    match handle.inode(number) {
        Ok(inode) if inode.has(InodeFlags::EA_INODE) => Ok(inode),
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => {
            let problem = "not an inode with an attribute value";
            Err(malformed(Structure::XattrValue(number), problem))
        }
    }
}

/// Returns true if the inode contains this value; false if it can't be read, so that another one is
/// created.
pub(super) fn is_same(handle: &Handle<'_>, number: u32, checksum: u32, value: &[u8]) -> bool {
    let Ok(inode) = read(handle, number) else {
        return false;
    };
    if inode.raw_atime != checksum
        || inode.size_bytes != len_u64(value.len())
        || inode.version == 0
        || inode.version == u32::MAX
    {
        return false;
    }
    let mut stored = vec![0; value.len()];
    let read = file_blocks::read(handle.volume(), &inode, 0, &mut stored);
    read.is_ok() && stored == value
}

/// Creates an inode for a value, with one reference and no contents yet.
pub(super) fn make(handle: &Handle<'_>, owner: &Inode, checksum: u32) -> Result<Inode> {
    let allocator = handle.allocator;
    let number = allocator.allocate_inode(handle, owner.number, false)?;
    let inode = new_value_inode(handle, owner, number, checksum);
    handle.store_new(&inode)?;
    Ok(inode)
}

fn new_value_inode(handle: &Handle<'_>, owner: &Inode, number: u32, checksum: u32) -> Inode {
    let Volume {
        superblock,
        ambient,
        ..
    } = handle.volume();
    let generation = ambient.random();
    let time = ambient.now();
    let mut inode = Inode {
        number,
        generation,
        file_type: Some(FileType::Regular),
        permissions: 0o600,
        links: 1,
        size_bytes: 0,
        allocated_bytes: 0,
        flags: InodeFlags::EA_INODE,
        accessed: Timestamp::default(),
        modified: time,
        // The upper half of the reference count.
        changed: Timestamp::default(),
        created: Some(time),
        raw_atime: checksum,
        version: 1,
        deleted: 0,
        project: 0,
        extra_isize: superblock.want_extra_isize,
        xattr_block: 0,
        xattr_bytes: Box::default(),
        checksum_seed: superblock.inode_checksum_seed(number, generation),
        ..owner.clone()
    };
    if superblock.features.has(Incompatible::EXTENTS) {
        inode.flags.insert(InodeFlags::EXTENTS);
    }
    file_blocks::initialise(&mut inode);
    inode
}

/// Writes the value into a new inode: past the journal, to blocks that nothing refers to before the
/// transaction does.
///
/// # Errors
/// `NoSpace`: the inode keeps the blocks that were allocated until then; `Corrupt`, `Io`.
pub(super) fn fill(handle: &Handle<'_>, inode: &mut Inode, value: &[u8]) -> Result<()> {
    let filled = append(handle, inode, value);
    handle.store(inode)?;
    filled
}

fn append(handle: &Handle<'_>, inode: &mut Inode, value: &[u8]) -> Result<()> {
    let block_bytes = handle.volume().superblock.block_size.len();
    for part in value.chunks(block_bytes) {
        let (_, block) = file_blocks::append_block(handle, inode)?;
        let mut bytes = part.to_vec();
        bytes.resize(block_bytes, 0);
        handle.device.write_block(block, &bytes)?;
        inode.size_bytes = inode.size_bytes.saturating_add(len_u64(part.len()));
    }
    Ok(())
}

/// The credits for removing an inode with a value: its inode, the inode bitmap, the bitmaps and
/// descriptors of the few groups with its blocks.
pub(super) const REMOVE_CREDITS: u32 = 12;

/// Frees an inode without references.
pub(super) fn remove(handle: &Handle<'_>, number: u32) -> Result<()> {
    let mut inode = read(handle, number)?;
    file_blocks::remove(handle, &mut inode, 0..file_blocks::END).in_inode(number)?;
    inode.size_bytes = 0;
    inode.links = 0;
    handle.store(&inode)?;
    let seconds = handle.now().seconds.cast_unsigned();
    handle.set_deleted(number, split64(seconds).1)?;
    handle.allocator.free_inode(handle, number, false)
}
