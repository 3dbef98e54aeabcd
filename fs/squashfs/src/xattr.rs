//! Extended attributes: names and values, which may be stored elsewhere.

use diskfs_block::bytes::index;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::{Result, corrupt};
use crate::inode::Inode;
use crate::inode_reference::InodeReference;
use crate::metadata_block::MetadataCursor;
use crate::volume::Volume;
use crate::xattr_id::{XattrId, XattrIds};

/// The bit of a type that says that the value is stored elsewhere.
const OUT_OF_LINE: u16 = 0x100;

/// The bits of a type that select the prefix of the name.
const PREFIX_MASK: u16 = 0xff;

/// The maximum length of a value, which is Linux's.
const VALUE_MAX_BYTES: u32 = 64 << 10;

/// The maximum length of a name, which is Linux's.
const NAME_MAX_BYTES: usize = 255;

/// The maximum number of attributes of an inode. Linux lists names of at most 64 KiB.
const COUNT_MAX: u32 = 16 << 10;

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawXattrEntry {
    entry_type: U16,
    size: U16,
}

/// The attributes of an inode in order.
#[derive(Debug)]
struct Attributes<'a> {
    volume: &'a Volume,
    cursor: MetadataCursor<'a>,
    left: u32,
}

/// An attribute, whose value comes next.
struct Attribute {
    /// The full name; `None` if the prefix is unknown, as in Linux, which hides those.
    name: Option<Vec<u8>>,
    is_out_of_line: bool,
}

impl<'a> Attributes<'a> {
    fn of(volume: &'a Volume, inode: &Inode) -> Result<Option<Self>> {
        let Some((ids, id)) = id(volume, inode)? else {
            return Ok(None);
        };
        if id.count > COUNT_MAX {
            let reason = format!("invalid attributes: {} of one inode", id.count);
            return Err(corrupt(reason, ids.table.start));
        }
        if id.count == 0 {
            return Ok(None);
        }
        Ok(Some(Self {
            volume,
            cursor: volume.blocks.cursor(ids.table, id.place)?,
            left: id.count,
        }))
    }

    fn next_attribute(&mut self) -> Result<Option<Attribute>> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        let place = self.cursor.place();
        let raw: RawXattrEntry = self.cursor.read_raw()?;
        let (kind, len) = (raw.entry_type.get(), usize::from(raw.size.get()));
        if len == 0 || len > NAME_MAX_BYTES {
            let reason = format!("invalid attribute: a name of {len} bytes");
            return Err(corrupt(reason, place));
        }
        let rest = self.cursor.read_vec(len)?;
        Ok(Some(Attribute {
            name: prefix(kind & PREFIX_MASK).map(|prefix| [prefix, &rest].concat()),
            is_out_of_line: kind & OUT_OF_LINE != 0,
        }))
    }

    /// Reads the size of the value that comes next.
    fn value_len(cursor: &mut MetadataCursor<'_>) -> Result<u32> {
        let place = cursor.place();
        let len = cursor.read_raw::<U32>()?.get();
        if len > VALUE_MAX_BYTES {
            let reason = format!("invalid attribute: a value of {len} bytes, more than 65536");
            return Err(corrupt(reason, place));
        }
        Ok(len)
    }

    fn skip_value(&mut self) -> Result<()> {
        let len = Self::value_len(&mut self.cursor)?;
        self.cursor.skip(len.into())
    }

    fn value(&mut self, attribute: &Attribute) -> Result<Vec<u8>> {
        let len = Self::value_len(&mut self.cursor)?;
        if !attribute.is_out_of_line {
            return self.cursor.read_vec(index(len));
        }
        let place = InodeReference(self.cursor.read_raw::<U64>()?.get());
        let Some(ids) = &self.volume.xattr_ids else {
            return Ok(Vec::new());
        };
        let mut cursor = self.volume.blocks.cursor(ids.table, place)?;
        let len = Self::value_len(&mut cursor)?;
        cursor.read_vec(index(len))
    }
}

/// Returns the table of attributes, and where those of an inode are.
fn id<'a>(volume: &'a Volume, inode: &Inode) -> Result<Option<(&'a XattrIds, XattrId)>> {
    let (Some(number), Some(ids)) = (inode.xattr, &volume.xattr_ids) else {
        return Ok(None);
    };
    Ok(Some((ids, ids.id(&volume.blocks, number)?)))
}

/// Returns the number of bytes that Linux counts for the attributes of an inode.
pub(crate) fn size_bytes(volume: &Volume, inode: &Inode) -> Result<u64> {
    Ok(id(volume, inode)?.map_or(0, |(_, id)| id.size_bytes.into()))
}

fn prefix(kind: u16) -> Option<&'static [u8]> {
    match kind {
        0 => Some(b"user."),
        1 => Some(b"trusted."),
        2 => Some(b"security."),
        _ => None,
    }
}

/// Returns the value of an attribute.
pub(crate) fn get(volume: &Volume, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
    let Some(mut attributes) = Attributes::of(volume, inode)? else {
        return Ok(None);
    };
    while let Some(attribute) = attributes.next_attribute()? {
        if attribute.name.as_deref() == Some(name) {
            return attributes.value(&attribute).map(Some);
        }
        attributes.skip_value()?;
    }
    Ok(None)
}

/// Returns the names of all attributes.
pub(crate) fn list(volume: &Volume, inode: &Inode) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    let Some(mut attributes) = Attributes::of(volume, inode)? else {
        return Ok(names);
    };
    while let Some(attribute) = attributes.next_attribute()? {
        names.extend(attribute.name);
        attributes.skip_value()?;
    }
    Ok(names)
}
