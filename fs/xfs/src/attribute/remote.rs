//! Values in blocks of their own. In version 5, each block has a header, `struct
//! xfs_attr3_rmt_hdr`.
//!
//! Source: "XFS Algorithms & Data Structures", section "Remote Attribute Values".

use crate::bmap::{self, extents_from};
use crate::bytes::{be32, be64, index, len_u64, part};
use crate::checksum;
use crate::error::{Result, corrupt};
use crate::inode::{ForkKind, Inode};
use crate::superblock::basic_block;
use crate::volume::Volume;

use super::VALUE_BYTES_MAX;

const MAGIC: [u8; 4] = *b"XARM";
const HEADER_BYTES: usize = 56;
const OFFSET_OFFSET: usize = 4;
const BYTES_OFFSET: usize = 8;
const CRC_OFFSET: usize = 12;
const UUID_OFFSET: usize = 16;
const OWNER_OFFSET: usize = 32;
const BLOCK_OFFSET: usize = 40;

/// Returns the value of `len` bytes that starts at a block of the attribute fork.
pub(super) fn read(volume: &Volume, inode: &Inode, file_block: u64, len: usize) -> Result<Vec<u8>> {
    if len > VALUE_BYTES_MAX {
        return Err(inode.corrupt(format!("the value of an attribute has {len} bytes")));
    }
    if volume.superblock.has_checksums() {
        return read_blocks(volume, inode, file_block, len);
    }
    let mut value = vec![0; len];
    let offset = volume.superblock.bytes_of(file_block);
    bmap::read(volume, inode, ForkKind::Attributes, offset, &mut value)?;
    Ok(value)
}

fn read_blocks(volume: &Volume, inode: &Inode, file_block: u64, len: usize) -> Result<Vec<u8>> {
    let mut value = Vec::with_capacity(len);
    let mut next = file_block;
    for extent in extents_from(volume, inode, ForkKind::Attributes, file_block) {
        let extent = extent?;
        while value.len() < len && (extent.file_block..extent.end()).contains(&next) {
            let block = extent.first.after(next.saturating_sub(extent.file_block));
            let at = volume.superblock.byte_of(block).unwrap_or(u64::MAX);
            let bytes = volume.read_bytes(at, volume.superblock.block_len())?;
            let left = len.saturating_sub(value.len());
            let piece = piece(volume, inode, &bytes, at, value.len())?;
            value.extend_from_slice(piece.get(..left).unwrap_or(piece));
            next = next.saturating_add(1);
        }
        if value.len() >= len || extent.end() > next {
            break;
        }
    }
    if value.len() == len {
        return Ok(value);
    }
    Err(inode.corrupt("a block of the value of an attribute is missing"))
}

/// Returns the contents of a block, after checking its header.
fn piece<'a>(
    volume: &Volume,
    inode: &Inode,
    bytes: &'a [u8],
    at: u64,
    offset: usize,
) -> Result<&'a [u8]> {
    const NAME: &str = "block of an attribute's value";
    let superblock = &volume.superblock;
    let invalid = |what: &str| corrupt(format!("invalid {NAME}: {what}"), at);
    if !bytes.starts_with(&MAGIC) {
        return Err(invalid("wrong magic"));
    }
    checksum::verify(bytes, CRC_OFFSET, NAME, at)?;
    checksum::verify_uuid(bytes, UUID_OFFSET, &superblock.meta_uuid, NAME, at)?;
    let belongs = be64(bytes, OWNER_OFFSET) == Some(inode.number)
        && be64(bytes, BLOCK_OFFSET) == Some(basic_block(at))
        && be32(bytes, OFFSET_OFFSET).map(u64::from) == Some(len_u64(offset));
    if !belongs {
        return Err(invalid("it belongs to another value or place"));
    }
    let len = index(be32(bytes, BYTES_OFFSET).unwrap_or(0));
    part(bytes, HEADER_BYTES, len)
        .filter(|piece| !piece.is_empty())
        .ok_or_else(|| invalid("its length does not fit"))
}
