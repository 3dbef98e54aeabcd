//! Extended attributes: after the inode, or shared by several inodes.

use diskfs_block::bytes::{index, len_u64};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::{Result, corrupt};
use crate::features::COMPAT_SHARED_EA_IN_METABOX;
use crate::inode::Inode;
use crate::place::Place;
use crate::volume::Volume;
use crate::xattr_name::full_name;

/// The size of the header of an inode's attributes.
const HEADER_BYTES: u64 = 12;

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[expect(clippy::struct_field_names, reason = "the names are those of Linux")]
struct RawIbodyHeader {
    h_name_filter: U32,
    h_shared_count: u8,
    h_reserved2: [u8; 7],
}

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[expect(clippy::struct_field_names, reason = "the names are those of Linux")]
struct RawXattrEntry {
    e_name_len: u8,
    e_name_index: u8,
    e_value_size: U16,
}

const _: () = assert!(size_of::<RawIbodyHeader>() == 12);
const _: () = assert!(size_of::<RawXattrEntry>() == 4);

/// An attribute.
struct Attribute {
    /// The full name; `None` if Linux does not show it.
    name: Option<Vec<u8>>,
    value: Place,
    value_len: u16,
    /// The place of the next attribute.
    next: Place,
}

impl Attribute {
    fn read(volume: &Volume, place: Place) -> Result<Self> {
        let bytes: [u8; 4] = volume.metadata(place)?;
        let raw = RawXattrEntry::read_from_bytes(&bytes)
            .map_err(|_| corrupt("invalid attribute: wrong size", place.at))?;
        let mut rest = vec![0; usize::from(raw.e_name_len)];
        volume.read_metadata(place.after(4), &mut rest)?;
        let value = place.after(4).after(len_u64(rest.len()));
        let value_len = raw.e_value_size.get();
        Ok(Self {
            name: full_name(&volume.prefixes, raw.e_name_index, &rest),
            value,
            value_len,
            next: value.after(value_len.into()).aligned(4),
        })
    }

    fn value(&self, volume: &Volume) -> Result<Vec<u8>> {
        let mut value = vec![0; index(self.value_len)];
        volume.read_metadata(self.value, &mut value)?;
        Ok(value)
    }
}

/// Passes the attributes of an inode to `visit`, until it returns a result.
fn visit<T>(
    volume: &Volume,
    inode: &Inode,
    mut visit: impl FnMut(&Attribute) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let end = inode.body();
    if inode.xattr_bytes <= HEADER_BYTES {
        return Ok(None);
    }
    let bytes: [u8; 12] = volume.metadata(inode.xattrs)?;
    let header = RawIbodyHeader::read_from_bytes(&bytes)
        .map_err(|_| corrupt("invalid attributes: wrong size", inode.xattrs.at))?;
    let shared = inode.xattrs.after(HEADER_BYTES);
    let shared_bytes = u64::from(header.h_shared_count).saturating_mul(4);
    let mut place = shared.after(shared_bytes);
    if place.at > end.at {
        let reason = "invalid attributes: more shared ones than there is space for";
        return Err(corrupt(reason, inode.xattrs.at));
    }
    while place.at < end.at {
        let attribute = Attribute::read(volume, place)?;
        if attribute.next.at > end.at {
            let reason = "invalid attribute: it ends after the attributes of its inode";
            return Err(corrupt(reason, place.at));
        }
        if let Some(found) = visit(&attribute)? {
            return Ok(Some(found));
        }
        place = attribute.next;
    }
    for nth in 0..header.h_shared_count {
        let number = shared.after(u64::from(nth).saturating_mul(4));
        let number = u32::from_le_bytes(volume.metadata(number)?);
        let attribute = Attribute::read(volume, shared_place(volume, number))?;
        if let Some(found) = visit(&attribute)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the place of a shared attribute: its number counts in units of 4 bytes.
fn shared_place(volume: &Volume, number: u32) -> Place {
    let superblock = &volume.superblock;
    let is_in_metabox = superblock.features.has_compat(COMPAT_SHARED_EA_IN_METABOX)
        && volume.superblock.metabox.is_some();
    let start = superblock.byte_of(superblock.xattr_block.into());
    Place {
        is_in_metabox,
        at: start.saturating_add(u64::from(number).saturating_mul(4)),
    }
}

/// Returns the value of an attribute.
pub(crate) fn get(volume: &Volume, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
    visit(volume, inode, |attribute| {
        if attribute.name.as_deref() == Some(name) {
            return attribute.value(volume).map(Some);
        }
        Ok(None)
    })
}

/// Returns the names of all attributes.
pub(crate) fn list(volume: &Volume, inode: &Inode) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    visit(volume, inode, |attribute| {
        names.extend(attribute.name.clone());
        Ok(None::<()>)
    })?;
    Ok(names)
}
