//! Changes of an inode's attributes.
//!
//! As in Linux, an attribute goes into the inode if it has room there, else into the block; with
//! `ea_inode`, its value otherwise goes into an inode of its own. Other attributes stay where they
//! are.

use diskfs_vfs::FileType;

use crate::error::{Error, ErrorKind, InInode, Result};
use crate::features::Incompatible;
use crate::handle::Handle;
use crate::inode::Inode;
use crate::superblock::Superblock;
use crate::volume::Volume;

use super::attribute::{self, Attribute, Hashes, ValueInode, ValuePlace};
use super::name::{self, NameIndex};
use super::shared::AttributeChange;
use super::{acl, block, in_inode, value};

/// The maximum length of a name, without the prefix that a number stands for: `e_name_len` is a
/// byte.
const NAME_MAX_BYTES: usize = 255;

/// Sets the attribute with this full name, or removes it. Removing an absent attribute is not an
/// error. The caller stores the inode.
///
/// # Errors
/// `NoSpace` if there is no room for it, with nothing changed; `Unsupported` for a name with an
/// unknown prefix; `NameTooLong`; `Invalid` for an invalid ACL; `Corrupt`, `Io`.
pub(crate) fn set(
    handle: &Handle<'_>,
    inode: &mut Inode,
    name: &[u8],
    value: Option<&[u8]>,
) -> Result<()> {
    let number = inode.number;
    set_checked(handle, inode, name, value).in_inode(number)
}

fn set_checked(
    handle: &Handle<'_>,
    inode: &mut Inode,
    name: &[u8],
    value: Option<&[u8]>,
) -> Result<()> {
    let (index, rest) = split_checked(inode, name)?;
    let value = match (value, index) {
        (Some(value), NameIndex::AclAccess | NameIndex::AclDefault) => {
            Some(acl::from_xattr(value)?)
        }
        (value, _) => value.map(<[u8]>::to_vec),
    };
    match value {
        Some(value) => insert(handle, inode, index.number(), rest, value),
        None => remove(handle, inode, index.number(), rest),
    }
}

/// Fails for a name that no attribute of this file can have.
///
/// # Errors
/// `Unsupported` for a name with an unknown prefix; `NameTooLong`; `NotPermitted` for an attribute
/// that this type of file cannot have.
pub(crate) fn check_name(inode: &Inode, name: &[u8]) -> Result<()> {
    split_checked(inode, name).map(|_| ())
}

fn split_checked<'n>(inode: &Inode, name: &'n [u8]) -> Result<(NameIndex, &'n [u8])> {
    let (index, rest) = name::split(name).ok_or_else(|| {
        let reason = "unknown prefix of the attribute name";
        Error::new(ErrorKind::Unsupported, reason)
    })?;
    if rest.len() > NAME_MAX_BYTES {
        let reason = "the attribute name is too long: at most 255 bytes after its prefix";
        return Err(Error::new(ErrorKind::NameTooLong, reason));
    }
    let is_user = index == NameIndex::User;
    if is_user && !inode.is(FileType::Regular) && !inode.is(FileType::Directory) {
        let reason = "only regular files and directories can have `user.` attributes";
        return Err(Error::new(ErrorKind::NotPermitted, reason));
    }
    Ok((index, rest))
}

/// Frees all attributes of an inode.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(crate) fn release_all(handle: &Handle<'_>, inode: &mut Inode) -> Result<()> {
    if inode.xattr_block == 0 && inode.xattr_bytes.is_empty() {
        return Ok(());
    }
    let number = inode.number;
    let within = Attribute::all(in_inode(inode)).in_inode(number)?;
    if inode.xattr_block != 0 || within.iter().any(|one| one.value_inode().is_some()) {
        let mut change = AttributeChange::new(handle, inode);
        let before = change.block_attributes().in_inode(number)?;
        change.put_block(&before, &[], None).in_inode(number)?;
        change.drop_values(&within)?;
        change.count_values(&[], &within);
        change.finish()?;
    }
    inode.xattr_bytes = Box::default();
    Ok(())
}

fn remove(handle: &Handle<'_>, inode: &mut Inode, index: u8, name: &[u8]) -> Result<()> {
    let superblock = &handle.volume().superblock;
    let within = Attribute::all(in_inode(inode))?;
    let (removed, kept): (Vec<_>, Vec<_>) = within.into_iter().partition(|one| one.is(index, name));
    let mut change = AttributeChange::new(handle, inode);
    let before = change.block_attributes()?;
    let left = without(&before, index, name);
    if left.len() != before.len() {
        change.put_block(&before, &left, None)?;
    }
    change.drop_values(&removed)?;
    change.count_values(&[], &removed);
    if !removed.is_empty() {
        put_within(superblock, change.inode, &kept);
    }
    change.finish()
}

fn insert(
    handle: &Handle<'_>,
    inode: &mut Inode,
    index: u8,
    name: &[u8],
    value: Vec<u8>,
) -> Result<()> {
    check_size(&value)?;
    let places = AttributePlacement {
        within: Attribute::all(in_inode(inode))?,
        in_block: Vec::new(),
        index,
        name,
    };
    let mut change = AttributeChange::new(handle, inode);
    let places = AttributePlacement {
        in_block: change.block_attributes()?,
        ..places
    };
    let superblock = &handle.volume().superblock;
    if places.has(handle.volume(), change.inode, &value)? {
        return Ok(());
    }
    let has_inodes = superblock.features.has(Incompatible::EA_INODE);
    let large = has_inodes && value.len() > large_from(superblock);
    let beside = Attribute {
        index,
        name: name.to_vec(),
        value: ValuePlace::Here(value),
    };
    if !large && places.put(superblock, &mut change, &beside, None)? {
        return change.finish();
    }
    let ValuePlace::Here(value) = &beside.value else {
        return Err(no_room());
    };
    if !has_inodes || value.is_empty() {
        return Err(no_room());
    }
    let stored = match change.store_value(name, value) {
        Ok(stored) => stored,
        Err(e) => {
            change.finish()?;
            return Err(e);
        }
    };
    let apart = Attribute {
        value: ValuePlace::InInode(stored),
        ..beside
    };
    let put = places.put(superblock, &mut change, &apart, Some(stored));
    if !matches!(put, Ok(true)) {
        change.drop_value(stored)?;
    }
    change.finish()?;
    if put? { Ok(()) } else { Err(no_room()) }
}

/// Fails for values longer than the kernel's maximum (`XATTR_SIZE_MAX`).
fn check_size(value: &[u8]) -> Result<()> {
    if value.len() <= value::SIZE_MAX_BYTES {
        return Ok(());
    }
    let reason = "the attribute value is too large: at most 64 KiB";
    Err(Error::new(ErrorKind::NoSpace, reason))
}

/// Returns the length from which values get an inode of their own with `ea_inode`
/// (`EXT4_XATTR_MIN_LARGE_EA_SIZE`): with the shortest name, such a value would fill a block.
fn large_from(superblock: &Superblock) -> usize {
    /// An entry with a name of up to 4 bytes, and the end of the list.
    const REST_BYTES: usize = 20 + 4;
    superblock
        .block_size
        .len()
        .saturating_sub(block::HEADER_BYTES)
        .saturating_sub(REST_BYTES)
}

fn no_room() -> Error {
    let reason = "no space left for the attribute in the inode and its xattr block";
    Error::new(ErrorKind::NoSpace, reason)
}

fn without(attributes: &[Attribute], index: u8, name: &[u8]) -> Vec<Attribute> {
    let others = attributes.iter().filter(|one| !one.is(index, name));
    others.cloned().collect()
}

/// All attributes of an inode, of which one is being set.
struct AttributePlacement<'n> {
    within: Vec<Attribute>,
    in_block: Vec<Attribute>,
    index: u8,
    name: &'n [u8],
}

impl AttributePlacement<'_> {
    /// Returns true if the attribute already has this value.
    fn has(&self, volume: &Volume, inode: &Inode, value: &[u8]) -> Result<bool> {
        let mut all = self.within.iter().chain(&self.in_block);
        Ok(match all.find(|one| one.is(self.index, self.name)) {
            None => false,
            Some(one) => match &one.value {
                ValuePlace::Here(stored) => stored == value,
                ValuePlace::InInode(stored) => {
                    value::from_inode(volume, inode, stored.inode, stored.size_bytes)? == value
                }
            },
        })
    }

    /// Stores the attribute in the inode or in the block, if it fits into one of them.
    fn put(
        &self,
        superblock: &Superblock,
        change: &mut AttributeChange<'_, '_, '_>,
        new: &Attribute,
        fresh: Option<ValueInode>,
    ) -> Result<bool> {
        let mut within = without(&self.within, self.index, self.name);
        let mut in_block = without(&self.in_block, self.index, self.name);
        within.push(new.clone());
        if fits_within(superblock, change.inode, &within) {
            if in_block.len() != self.in_block.len() {
                change.put_block(&self.in_block, &in_block, None)?;
            }
        } else {
            within.pop();
            in_block.push(new.clone());
            if !fits_block(superblock, &in_block, new) {
                return Ok(false);
            }
            attribute::sort(&mut in_block);
            change.put_block(&self.in_block, &in_block, fresh)?;
        }
        self.put_within(superblock, change, &within)?;
        Ok(true)
    }

    fn put_within(
        &self,
        superblock: &Superblock,
        change: &mut AttributeChange<'_, '_, '_>,
        within: &[Attribute],
    ) -> Result<()> {
        if within == self.within {
            return Ok(());
        }
        let old = self
            .within
            .iter()
            .filter(|one| one.is(self.index, self.name));
        let old: Vec<Attribute> = old.cloned().collect();
        change.drop_values(&old)?;
        change.count_values(within, &self.within);
        put_within(superblock, change.inode, within);
        Ok(())
    }
}

/// Returns how many bytes attributes may use within an inode, after their magic.
pub(super) fn room_within(superblock: &Superblock, inode: &Inode) -> usize {
    // Inodes from before these fields existed have no attributes within.
    if inode.extra_isize == 0 {
        return 0;
    }
    inode.xattr_room_bytes(superblock)
}

fn fits_within(superblock: &Superblock, inode: &Inode, attributes: &[Attribute]) -> bool {
    attribute::needed_bytes(attributes) <= room_within(superblock, inode)
}

fn fits_block(superblock: &Superblock, attributes: &[Attribute], new: &Attribute) -> bool {
    let size = superblock.block_size.len();
    let needed = attribute::needed_bytes(attributes).saturating_add(block::HEADER_BYTES);
    // If the value can have an inode of its own, some room is left for the entries of others
    // (`EXT4_XATTR_BLOCK_RESERVE`).
    let reserve = if superblock.features.has(Incompatible::EA_INODE) && new.has_local_value() {
        size.wrapping_div(8)
    } else {
        0
    };
    let values = attributes.iter().map(Attribute::value_bytes);
    let values = values.fold(0, usize::saturating_add);
    needed <= size && size.saturating_sub(values) >= reserve
}

/// Writes these attributes into an inode. They fit.
pub(super) fn put_within(superblock: &Superblock, inode: &mut Inode, attributes: &[Attribute]) {
    if attributes.is_empty() {
        inode.xattr_bytes = Box::default();
        return;
    }
    let mut bytes = vec![0; room_within(superblock, inode)];
    attribute::lay_out(attributes, &mut bytes, 0, Hashes::ValueInodes);
    inode.xattr_bytes = bytes.into();
}
