//! An open image.

use std::sync::Arc;

use diskfs_block::{
    BitOrder, BlockOffset, BlockRead, Error, ImageMap, MappedRun, Result, RunStorage, SectorBitmap,
    Tables,
};
use uuid::Uuid;

use crate::dynamic_header::DynamicHeader;
use crate::footer::{DiskType, Footer, SECTOR_BYTES};
use crate::parent::Parent;

/// The budget for cached pieces of the block allocation table and of sector bitmaps. It maps 512
/// GiB at the usual block size of 2 MiB.
const TABLE_CACHE_BYTES: u64 = 1 << 20;
/// The entry of a block that is not stored.
pub(crate) const UNUSED: u32 = 0xffff_ffff;

/// A virtual hard disk.
#[derive(Debug)]
pub struct Vhd {
    footer: Footer,
    /// `None` for a fixed disk.
    blocks: Option<Blocks>,
}

/// The blocks of a dynamic or differencing disk.
#[derive(Debug)]
struct Blocks {
    header: DynamicHeader,
    tables: Tables,
    parent: Option<Parent>,
}

impl Vhd {
    /// Opens the image in `file`.
    ///
    /// # Errors
    /// `Corrupt` and `Unsupported` with the byte of the field; the errors of reading.
    pub fn open(file: Arc<dyn BlockRead>) -> Result<Self> {
        let footer = Footer::read(file.as_ref())?;
        let blocks = match footer.disk_type {
            DiskType::Fixed => None,
            DiskType::Dynamic | DiskType::Differencing => Some(Blocks::open(file, &footer)?),
        };
        Ok(Self { footer, blocks })
    }

    /// Returns the type of the disk.
    pub const fn disk_type(&self) -> DiskType {
        self.footer.disk_type
    }

    /// Returns the size of a block in bytes; `None` for a fixed disk.
    pub fn block_size_bytes(&self) -> Option<u64> {
        self.blocks.as_ref().map(|blocks| blocks.header.block_bytes)
    }

    /// Returns the unique identifier of the disk.
    pub const fn id(&self) -> Uuid {
        self.footer.id
    }

    /// Returns the name of the program that created the disk, of at most four characters.
    pub fn creator(&self) -> &str {
        &self.footer.creator
    }

    /// Returns the parent of a differencing disk.
    pub fn parent(&self) -> Option<&Parent> {
        self.blocks.as_ref()?.parent.as_ref()
    }
}

impl Blocks {
    fn open(file: Arc<dyn BlockRead>, footer: &Footer) -> Result<Self> {
        let header = DynamicHeader::read(file.as_ref(), footer)?;
        let parent = match footer.disk_type {
            DiskType::Differencing => Some(Parent::read(file.as_ref(), &header)?),
            DiskType::Fixed | DiskType::Dynamic => None,
        };
        let tables = Tables::new(file, TABLE_CACHE_BYTES)?;
        tables.check("block allocation table", header.table_at, header.blocks, 4)?;
        Ok(Self {
            header,
            tables,
            parent,
        })
    }

    fn run_at(&self, offset: u64, max_len: u64) -> Result<MappedRun> {
        let block = BlockOffset::of(offset, self.header.block_bytes);
        let entry = u32::from_be_bytes(self.tables.entry(self.header.table_at, block.number)?);
        if entry == UNUSED {
            return Ok(block.run(RunStorage::Absent, 1, max_len));
        }
        let bitmap_at = u64::from(entry).saturating_mul(SECTOR_BYTES);
        self.check_block(block.number, bitmap_at)?;
        let data = RunStorage::Stored {
            file: 0,
            offset: bitmap_at.saturating_add(self.header.bitmap_bytes()),
        };
        let stored = block.run(data, 1, max_len);
        if self.parent.is_none() {
            // The sector bitmap of a dynamic disk says which sectors were written. The others are
            // zeroes in the file, too.
            return Ok(stored);
        }
        let bitmap = SectorBitmap {
            at: bitmap_at,
            sector_bytes: SECTOR_BYTES,
            order: BitOrder::HighFirst,
        };
        self.tables.marked_run(bitmap, block.within, stored)
    }

    /// Refuses an entry that points at the image's own tables.
    fn check_block(&self, number: u64, at: u64) -> Result<()> {
        let table = self.header.table_at;
        let table_end = table.saturating_add(self.header.blocks.saturating_mul(4));
        let end = at
            .saturating_add(self.header.bitmap_bytes())
            .saturating_add(self.header.block_bytes);
        if at >= SECTOR_BYTES && (at >= table_end || end <= table) {
            return Ok(());
        }
        let entry_at = table.saturating_add(number.saturating_mul(4));
        let reason = format!("block {number} at {at:#x} overlaps the image's own tables");
        Err(Error::corrupt(reason).at(entry_at))
    }
}

impl ImageMap for Vhd {
    fn size_bytes(&self) -> u64 {
        self.footer.size_bytes
    }

    fn run_at(&self, offset: u64, max_len: u64) -> Result<MappedRun> {
        match &self.blocks {
            None => Ok(MappedRun {
                len_bytes: max_len,
                storage: RunStorage::Stored { file: 0, offset },
            }),
            Some(blocks) => blocks.run_at(offset, max_len),
        }
    }
}
