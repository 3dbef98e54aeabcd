//! The table of attribute IDs: where the attributes of an inode are.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::{Result, corrupt};
use crate::inode_reference::InodeReference;
use crate::lookup_table::LookupTable;
use crate::metadata_block::{MetadataBlocks, Table};

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawXattrIdTable {
    xattr_table_start: U64,
    xattr_ids: U32,
    _unused: U32,
}

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawXattrId {
    xattr: U64,
    count: U32,
    size: U32,
}

/// The table of attribute IDs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct XattrIds {
    ids: LookupTable,
    /// The metadata blocks with names and values.
    pub(crate) table: Table,
}

/// The attributes of an inode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct XattrId {
    /// The place of the first attribute in the table.
    pub(crate) place: InodeReference,
    pub(crate) count: u32,
    /// The size of names and values in bytes, as Linux counts it.
    pub(crate) size_bytes: u32,
}

impl XattrIds {
    /// Reads the header of the table at `start`.
    pub(crate) fn read(blocks: &MetadataBlocks, start: u64) -> Result<Self> {
        let mut bytes = [0; size_of::<RawXattrIdTable>()];
        blocks.read_stored(start, &mut bytes)?;
        let raw = RawXattrIdTable::read_from_bytes(&bytes)
            .map_err(|_| corrupt("invalid table of attributes: wrong size", start))?;
        let header = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let table = Table {
            start: raw.xattr_table_start.get(),
            end: start,
        };
        if table.start > table.end {
            let reason = "invalid table of attributes: they come after their IDs";
            return Err(corrupt(reason, start));
        }
        Ok(Self {
            ids: LookupTable {
                start: start.saturating_add(header),
                entries: raw.xattr_ids.get().into(),
            },
            table,
        })
    }

    /// Returns the attributes with a number.
    pub(crate) fn id(&self, blocks: &MetadataBlocks, number: u32) -> Result<XattrId> {
        let raw: RawXattrId = self.ids.entry(blocks, number.into())?;
        Ok(XattrId {
            place: InodeReference(raw.xattr.get()),
            count: raw.count.get(),
            size_bytes: raw.size.get(),
        })
    }
}
