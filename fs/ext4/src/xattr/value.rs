//! Attribute values, beside their entry or in an inode of their own (`ea_inode`).

use crate::bytes::{index, len_u64};
use crate::error::{Corrupt, InInode, Result, Structure, malformed};
use crate::file_blocks;
use crate::inode::{Inode, InodeFlags};
use crate::volume::Volume;

use super::entry::{Entry, Value};

/// The maximum length of a value: Linux returns no longer one (`XATTR_SIZE_MAX`).
pub(super) const SIZE_MAX_BYTES: usize = 64 * 1024;

/// Returns the value of an attribute.
pub(super) fn read(volume: &Volume, owner: &Inode, entry: &Entry<'_>) -> Result<Vec<u8>> {
    match entry.value {
        Value::Here(bytes) => Ok(bytes.to_vec()),
        Value::InInode { inode, size_bytes } => {
            from_inode(volume, owner, inode, size_bytes).in_inode(inode)
        }
    }
}

/// Returns the value in an inode.
pub(super) fn from_inode(
    volume: &Volume,
    owner: &Inode,
    number: u32,
    size_bytes: u32,
) -> Result<Vec<u8>> {
    let structure = Structure::XattrValue(number);
    let inode = volume
        .inode(number)?
        .filter(|inode| inode.has(InodeFlags::EA_INODE) && !inode.has(InodeFlags::INLINE_DATA))
        .ok_or_else(|| malformed(structure, "not an inode with an attribute value"))?;
    if index(size_bytes) > SIZE_MAX_BYTES || inode.size_bytes != u64::from(size_bytes) {
        return Err(Corrupt::Field {
            structure,
            field: "size",
            value: inode.size_bytes,
            range: "the size in the attribute's entry, and at most 64 KiB",
        }
        .into());
    }
    let mut value = vec![0; index(size_bytes)];
    file_blocks::read(volume, &inode, 0, &mut value)?;
    debug_assert_eq!(len_u64(value.len()), inode.size_bytes);
    verify(volume, owner, &inode, &value)?;
    Ok(value)
}

/// Verifies a value's checksum, which is stored as its inode's access time. A value that Lustre
/// wrote has none, but names its owner.
fn verify(volume: &Volume, owner: &Inode, inode: &Inode, value: &[u8]) -> Result<()> {
    let expected = volume.superblock.value_seed.of(&[value]);
    let actual = inode.raw_atime;
    let of_lustre =
        inode.modified.seconds == i64::from(owner.number) && inode.generation == owner.generation;
    if expected == actual || of_lustre {
        return Ok(());
    }
    Err(Corrupt::Checksum {
        structure: Structure::XattrValue(inode.number),
        expected,
        actual,
    }
    .into())
}
