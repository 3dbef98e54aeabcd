//! Targets of symlinks: in the inode, or in blocks. In version 5, each contiguous run of blocks has
//! a header, `struct xfs_dsymlink_hdr`.
//!
//! Source: "XFS Algorithms & Data Structures", section "Symbolic Links".

use crate::bmap::{self, extents_from};
use crate::bytes::{be32, be64, index, len_u64, part};
use crate::checksum;
use crate::error::{Result, corrupt};
use crate::extent::Extent;
use crate::inode::{Fork, ForkKind, Inode};
use crate::superblock::basic_block;
use crate::volume::Volume;

/// The maximum length of a target, `XFS_SYMLINK_MAXLEN`.
const TARGET_BYTES_MAX: u64 = 1024;
/// The maximum number of blocks of a target: 1024 bytes and headers, in the smallest blocks.
const TARGET_BLOCKS_MAX: u64 = 3;
const MAGIC: [u8; 4] = *b"XSLM";
const HEADER_BYTES: usize = 56;
const OFFSET_OFFSET: usize = 4;
const BYTES_OFFSET: usize = 8;
const CRC_OFFSET: usize = 12;
const UUID_OFFSET: usize = 16;
const OWNER_OFFSET: usize = 32;
const BLOCK_OFFSET: usize = 40;

/// Returns the target of a symlink.
///
/// # Errors
/// `Corrupt`; `Io`.
pub(crate) fn target(volume: &Volume, inode: &Inode) -> Result<Vec<u8>> {
    if inode.size_bytes > TARGET_BYTES_MAX {
        let len = inode.size_bytes;
        return Err(inode.corrupt(format!("the target of the symlink has {len} bytes")));
    }
    if let Fork::Local(bytes) = &inode.data {
        return Ok(bytes.to_vec());
    }
    if volume.superblock.has_checksums() {
        return read_runs(volume, inode);
    }
    let mut target = vec![0; index(inode.size_bytes)];
    bmap::read(volume, inode, ForkKind::Data, 0, &mut target)?;
    Ok(target)
}

fn read_runs(volume: &Volume, inode: &Inode) -> Result<Vec<u8>> {
    let len = index(inode.size_bytes);
    let mut target = Vec::with_capacity(len);
    let mut next = 0;
    for extent in extents_from(volume, inode, ForkKind::Data, 0) {
        let extent = extent?;
        if extent.file_block != next || extent.end() > TARGET_BLOCKS_MAX || target.len() >= len {
            break;
        }
        next = extent.end();
        read_run(volume, inode, &extent, &mut target)?;
    }
    if target.len() == len {
        return Ok(target);
    }
    Err(inode.corrupt("the target of the symlink does not have the length of its inode"))
}

/// Appends the part of the target in a run of blocks.
fn read_run(volume: &Volume, inode: &Inode, extent: &Extent, target: &mut Vec<u8>) -> Result<()> {
    const NAME: &str = "symlink block";
    let superblock = &volume.superblock;
    let at = superblock.byte_of(extent.first).unwrap_or(u64::MAX);
    let len = superblock.bytes_of(extent.len_blocks.into());
    let bytes = volume.read_bytes(at, index(len))?;
    let invalid = |what: &str| corrupt(format!("invalid {NAME}: {what}"), at);
    if !bytes.starts_with(&MAGIC) {
        return Err(invalid("wrong magic"));
    }
    checksum::verify(&bytes, CRC_OFFSET, NAME, at)?;
    checksum::verify_uuid(&bytes, UUID_OFFSET, &superblock.meta_uuid, NAME, at)?;
    let belongs = be64(&bytes, OWNER_OFFSET) == Some(inode.number)
        && be64(&bytes, BLOCK_OFFSET) == Some(basic_block(at))
        && be32(&bytes, OFFSET_OFFSET).map(u64::from) == Some(len_u64(target.len()));
    if !belongs {
        return Err(invalid("it belongs to another symlink or place"));
    }
    let len = index(be32(&bytes, BYTES_OFFSET).unwrap_or(0));
    let piece = part(&bytes, HEADER_BYTES, len).filter(|piece| !piece.is_empty());
    target.extend_from_slice(piece.ok_or_else(|| invalid("its length does not fit"))?);
    Ok(())
}
