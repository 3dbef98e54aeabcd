//! The block of attributes, which several inodes can share, `struct ext4_xattr_header`.

use std::sync::Arc;

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute::{self, Attribute, Hashes};
use super::entry::Entries;
use crate::block::FsBlock;
use crate::bytes::put;
use crate::error::{Corrupt, Result, Structure, malformed};
use crate::inode::Inode;
use crate::metadata_cache::Key;
use crate::superblock::Superblock;
use crate::volume::Volume;

#[derive(Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
struct RawHeader {
    h_magic: U32,
    h_refcount: U32,
    h_blocks: U32,
    h_hash: U32,
    h_checksum: U32,
    h_reserved: [u8; 12],
}

/// The magic of a block, `EXT4_XATTR_MAGIC`.
const MAGIC: u32 = 0xea02_0000;
pub(crate) const HEADER_BYTES: usize = size_of::<RawHeader>();
const CHECKSUM: usize = std::mem::offset_of!(RawHeader, h_checksum);
const CHECKSUM_END: usize = CHECKSUM + size_of::<U32>();

const _: () = assert!(HEADER_BYTES == 32 && CHECKSUM == 16);

/// Reads and checks the inode's block of attributes.
pub(super) fn read(volume: &Volume, inode: &Inode) -> Result<Arc<[u8]>> {
    let block = FsBlock(inode.xattr_block);
    volume
        .superblock
        .check_blocks(Structure::Inode(inode.number), block, 1)?;
    read_at(volume, block)
}

/// Reads and checks a block of attributes.
pub(super) fn read_at(volume: &Volume, block: FsBlock) -> Result<Arc<[u8]>> {
    let superblock = &volume.superblock;
    volume.checked_block(Key::xattr_block(block), |bytes| {
        check(superblock, block, bytes)
    })
}

/// Returns the entries of a block.
pub(super) fn entries<'a>(inode: &Inode, bytes: &'a [u8]) -> Entries<'a> {
    let structure = Structure::XattrBlock(FsBlock(inode.xattr_block));
    Entries::new(structure, bytes, HEADER_BYTES)
}

/// Checks the header of a block of attributes, and its checksum.
///
/// # Errors
/// `Corrupt` if one is invalid.
pub(crate) fn check(superblock: &Superblock, block: FsBlock, bytes: &[u8]) -> Result<()> {
    let structure = Structure::XattrBlock(block);
    let (header, _) =
        RawHeader::ref_from_prefix(bytes).map_err(|_| malformed(structure, "truncated"))?;
    let magic = header.h_magic.get();
    if magic != MAGIC {
        return Err(Corrupt::Magic {
            structure,
            expected: MAGIC,
            actual: magic,
        }
        .into());
    }
    if header.h_blocks.get() != 1 {
        return Err(Corrupt::Field {
            structure,
            field: "h_blocks",
            value: u64::from(header.h_blocks.get()),
            range: "1",
        }
        .into());
    }
    let actual = header.h_checksum.get();
    match checksum(superblock, block, bytes) {
        Some(expected) if expected != actual => Err(Corrupt::Checksum {
            structure,
            expected,
            actual,
        }
        .into()),
        _ => Ok(()),
    }
}

/// Computes `h_checksum`, or returns `None` if the filesystem has no checksums.
fn checksum(superblock: &Superblock, block: FsBlock, bytes: &[u8]) -> Option<u32> {
    let before = bytes.get(..CHECKSUM).unwrap_or_default();
    let after = bytes.get(CHECKSUM_END..).unwrap_or_default();
    let seed = superblock.checksum_seed?;
    Some(seed.of(&[&block.0.to_le_bytes(), before, &[0; 4], after]))
}

/// Encodes a block with these attributes and one reference, without its checksum. The attributes
/// are in the order of a block, and fit into it.
pub(super) fn encode(superblock: &Superblock, attributes: &[Attribute]) -> Vec<u8> {
    let mut bytes = vec![0; superblock.block_size.len()];
    let header = RawHeader {
        h_magic: MAGIC.into(),
        h_refcount: 1.into(),
        h_blocks: 1.into(),
        h_hash: attribute::block_hash(attributes).into(),
        ..RawHeader::default()
    };
    put(&mut bytes, 0, header.as_bytes());
    attribute::lay_out(attributes, &mut bytes, HEADER_BYTES, Hashes::All);
    bytes
}

/// Updates the checksum.
pub(super) fn seal(superblock: &Superblock, block: FsBlock, bytes: &mut [u8]) {
    if let Some(checksum) = checksum(superblock, block, bytes) {
        put(bytes, CHECKSUM, &checksum.to_le_bytes());
    }
}

/// Returns how many inodes have the block (`h_refcount`).
pub(crate) fn references(bytes: &[u8]) -> u32 {
    RawHeader::ref_from_prefix(bytes).map_or(0, |(header, _)| header.h_refcount.get())
}

/// Sets how many inodes have the block.
pub(super) fn set_references(bytes: &mut [u8], references: u32) {
    if let Ok((header, _)) = RawHeader::mut_from_prefix(bytes) {
        header.h_refcount.set(references);
    }
}

/// Returns the block's hash, `h_hash`.
pub(super) fn hash(bytes: &[u8]) -> u32 {
    RawHeader::ref_from_prefix(bytes).map_or(0, |(header, _)| header.h_hash.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::ChecksumSeed;
    use crate::superblock::tests::sample;

    #[test]
    fn magic_count_and_checksum() {
        let mut superblock = Superblock::parse(&sample(), 4 << 20).unwrap();
        let seed = ChecksumSeed(9);
        superblock.checksum_seed = Some(seed);
        let mut bytes = vec![0; 4096];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8] = 1;
        let sum = seed.of(&[&20u64.to_le_bytes(), &bytes]);
        bytes[16..20].copy_from_slice(&sum.to_le_bytes());
        check(&superblock, FsBlock(20), &bytes).unwrap();
        for (at, says) in [
            (0, "magic"),
            (8, "h_blocks"),
            (16, "checksum"),
            (4000, "checksum"),
        ] {
            bytes[at] ^= 4;
            let e = check(&superblock, FsBlock(20), &bytes)
                .unwrap_err()
                .to_string();
            assert!(
                e.starts_with("invalid xattr block 20: ") && e.contains(says),
                "{e}"
            );
            bytes[at] ^= 4;
        }
        assert!(check(&superblock, FsBlock(21), &bytes).is_err());
    }
}
