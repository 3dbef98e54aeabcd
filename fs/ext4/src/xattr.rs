//! Extended attributes: in the inode, in a block of their own, and with values in inodes of their
//! own.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Extended
//! Attributes".

mod acl;
mod attribute;
mod block;
mod entry;
pub(crate) mod hash;
mod inline;
mod name;
mod renumber;
mod set;
mod shared;
mod value;
mod value_inode;

use crate::error::{InInode, Result, Structure};
use crate::inode::Inode;
use crate::volume::Volume;

use entry::Entry;

pub(crate) use block::references as block_references;
pub(crate) use block::{HEADER_BYTES as BLOCK_HEADER_BYTES, check as check_block};
pub(crate) use entry::{Entries, RawEntry};
use name::NameIndex;

pub(crate) use inline::{inline_data_room, set_inline_data};
pub(crate) use renumber::{AttributePlace, for_each_value_inode, renumber_values};
pub(crate) use set::{check_name, release_all, set};
pub(crate) use shared::{RelocatedBlocks, relocate_block};

/// Returns the value of the attribute with this full name.
pub(crate) fn get(volume: &Volume, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
    let Some((index, rest)) = name::split(name) else {
        return Ok(None);
    };
    let mut found = None;
    for_each(volume, inode, |entry| {
        if found.is_none() && entry.index == index.number() && entry.name == rest {
            found = Some(value::read(volume, inode, &entry)?);
        }
        Ok(())
    })
    .in_inode(inode.number)?;
    match (found, index) {
        (Some(stored), NameIndex::AclAccess | NameIndex::AclDefault) => {
            acl::to_xattr(inode.number, &stored)
                .in_inode(inode.number)
                .map(Some)
        }
        (found, _) => Ok(found),
    }
}

/// Returns the full names of all attributes that the kernel shows.
pub(crate) fn list(volume: &Volume, inode: &Inode) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for_each(volume, inode, |entry| {
        names.extend(name::join(entry.index, entry.name));
        Ok(())
    })
    .in_inode(inode.number)?;
    Ok(names)
}

/// Returns the bytes of `system.data` within the inode: the part of inline data after `i_block`.
pub(crate) fn inline_data(inode: &Inode) -> Result<Option<&[u8]>> {
    for entry in in_inode(inode) {
        let entry = entry.in_inode(inode.number)?;
        if entry.index == name::SYSTEM && entry.name == b"data" {
            return Ok(entry.bytes());
        }
    }
    Ok(None)
}

fn in_inode(inode: &Inode) -> Entries<'_> {
    Entries::new(Structure::Inode(inode.number), &inode.xattr_bytes, 0)
}

fn for_each(
    volume: &Volume,
    inode: &Inode,
    mut then: impl FnMut(Entry<'_>) -> Result<()>,
) -> Result<()> {
    for entry in in_inode(inode) {
        then(entry?)?;
    }
    if inode.xattr_block == 0 {
        return Ok(());
    }
    let bytes = block::read(volume, inode)?;
    for entry in block::entries(inode, &bytes) {
        then(entry?)?;
    }
    Ok(())
}
