//! An open image.

use std::sync::Arc;

use diskfs_block::{
    BitOrder, BlockOffset, BlockRead, Error, ImageMap, MappedRun, Result, RunStorage, SectorBitmap,
    Tables,
};
use uuid::Uuid;

use crate::bat_entry::{PayloadBlock, decode_bitmap};
use crate::file_type;
use crate::header::Header;
use crate::log;
use crate::metadata::Metadata;
use crate::parent_locator::Parent;
use crate::region_table::{MIB, Regions};

/// The budget for cached pieces of the block allocation table and of sector bitmaps. It maps 4 TiB
/// at the usual block size of 32 MiB, and 128 GiB at the smallest.
const TABLE_CACHE_BYTES: u64 = 1 << 20;
/// The number of bits in a sector bitmap of 1 MiB.
pub(crate) const BITMAP_SECTORS: u64 = 1 << 23;

/// A virtual hard disk, version 2.
#[derive(Debug)]
pub struct Vhdx {
    pub(crate) metadata: Metadata,
    data_write_guid: Uuid,
    creator: String,
    /// The offset of the block allocation table in bytes.
    bat_at: u64,
    tables: Tables,
    /// The parts of the file that no block may overlap: start and end in bytes.
    reserved: [(u64, u64); 4],
    file: Arc<dyn BlockRead>,
    has_log: bool,
}

impl Vhdx {
    /// Opens the image in `file`, and replays its log in memory.
    ///
    /// # Errors
    /// `Corrupt` and `Unsupported` with the byte of the field; the errors of reading.
    pub fn open(file: Arc<dyn BlockRead>) -> Result<Self> {
        let creator = file_type::read(file.as_ref())?;
        let header = Header::read(file.as_ref())?;
        let file = match header.log {
            Some(place) => log::replay(&file, place)?,
            None => file,
        };
        let regions = Regions::read(file.as_ref())?;
        let metadata = Metadata::read(file.as_ref(), regions.metadata)?;
        let tables = Tables::new(Arc::clone(&file), TABLE_CACHE_BYTES)?;
        let bat = regions.bat;
        let vhdx = Self {
            metadata,
            data_write_guid: header.data_write_guid,
            creator,
            bat_at: bat.at,
            tables,
            reserved: [
                (0, MIB),
                header.log_space,
                (bat.at, bat.len_bytes),
                (regions.metadata.at, regions.metadata.len_bytes),
            ],
            file,
            has_log: header.log.is_some(),
        };
        let entries = vhdx.bat_entries();
        if entries.saturating_mul(8) > bat.len_bytes {
            let reason = format!("block allocation table is too short for {entries} entries");
            return Err(Error::corrupt(reason).at(bat.at));
        }
        vhdx.tables
            .check("block allocation table", bat.at, entries, 8)?;
        Ok(vhdx)
    }

    /// Returns the file in which runs are stored: the image's, with the replayed log over it.
    pub fn file(&self) -> Arc<dyn BlockRead> {
        Arc::clone(&self.file)
    }

    /// Returns the size of a block in bytes.
    pub const fn block_size_bytes(&self) -> u64 {
        self.metadata.block_bytes
    }

    /// Returns the size of a sector of the disk in bytes: 512 or 4096.
    pub const fn sector_size_bytes(&self) -> u64 {
        self.metadata.sector_bytes
    }

    /// Returns the identifier of the data, which changes with it.
    pub const fn data_write_guid(&self) -> Uuid {
        self.data_write_guid
    }

    /// Returns the identifier of the disk.
    pub const fn disk_id(&self) -> Uuid {
        self.metadata.disk_id
    }

    /// Returns the name of the program that created the image.
    pub fn creator(&self) -> &str {
        &self.creator
    }

    /// Returns true if all blocks stay allocated.
    pub const fn is_fixed(&self) -> bool {
        self.metadata.is_fixed
    }

    /// Returns true if the image was not closed, and its log was replayed in memory.
    pub const fn has_log(&self) -> bool {
        self.has_log
    }

    /// Returns the parent of a differencing disk.
    pub const fn parent(&self) -> Option<&Parent> {
        self.metadata.parent.as_ref()
    }

    /// Returns the number of payload blocks for each sector bitmap: 2^23 sectors in blocks.
    pub(crate) fn chunk_ratio(&self) -> u64 {
        let chunk_bytes = BITMAP_SECTORS.saturating_mul(self.metadata.sector_bytes);
        // Metadata checks the block size.
        chunk_bytes
            .checked_div(self.metadata.block_bytes)
            .unwrap_or(1)
            .max(1)
    }

    /// Returns the number of entries that the disk needs.
    fn bat_entries(&self) -> u64 {
        let blocks = self.metadata.size_bytes.div_ceil(self.metadata.block_bytes);
        let ratio = self.chunk_ratio();
        match &self.metadata.parent {
            None => blocks.saturating_add(blocks.saturating_sub(1).checked_div(ratio).unwrap_or(0)),
            Some(_) => blocks
                .div_ceil(ratio)
                .saturating_mul(ratio.saturating_add(1)),
        }
    }

    /// Returns an entry of the table, and its offset in the file.
    pub(crate) fn entry(&self, index: u64) -> Result<(u64, u64)> {
        let at = self.bat_at.saturating_add(index.saturating_mul(8));
        Ok((
            u64::from_le_bytes(self.tables.entry(self.bat_at, index)?),
            at,
        ))
    }

    /// Returns the state of a payload block.
    fn payload(&self, block: u64) -> Result<PayloadBlock> {
        let chunk = block.checked_div(self.chunk_ratio()).unwrap_or(0);
        let (entry, entry_at) = self.entry(block.saturating_add(chunk))?;
        let state = PayloadBlock::decode(entry, entry_at)?;
        match state {
            PayloadBlock::PartiallyPresent(_) if self.metadata.parent.is_none() => {
                let reason = format!("block {block} is partially present, without a parent");
                Err(Error::corrupt(reason).at(entry_at))
            }
            PayloadBlock::FullyPresent(at) | PayloadBlock::PartiallyPresent(at) => {
                self.check_place(at, self.metadata.block_bytes, entry_at)?;
                Ok(state)
            }
            PayloadBlock::NotPresent | PayloadBlock::Zero => Ok(state),
        }
    }

    /// Refuses an entry that points at the image's own structures.
    pub(crate) fn check_place(&self, at: u64, len_bytes: u64, entry_at: u64) -> Result<()> {
        let end = at.saturating_add(len_bytes);
        let overlaps = |(start, len): &(u64, u64)| at < start.saturating_add(*len) && *start < end;
        if self.reserved.iter().any(overlaps) {
            let reason = format!("block at {at:#x} overlaps the image's own structures");
            return Err(Error::corrupt(reason).at(entry_at));
        }
        Ok(())
    }

    /// Returns the run of sectors that the sector bitmap marks, or of those that it does not.
    fn present(&self, offset: u64, stored: MappedRun) -> Result<MappedRun> {
        let sector_bytes = self.metadata.sector_bytes;
        let ratio = self.chunk_ratio();
        let chunk = BlockOffset::of(offset, BITMAP_SECTORS.saturating_mul(sector_bytes));
        let index = chunk
            .number
            .saturating_add(1)
            .saturating_mul(ratio.saturating_add(1))
            .saturating_sub(1);
        let (entry, entry_at) = self.entry(index)?;
        let bitmap = SectorBitmap {
            at: decode_bitmap(entry, entry_at)?,
            sector_bytes,
            order: BitOrder::LowFirst,
        };
        self.check_place(bitmap.at, MIB, entry_at)?;
        self.tables.marked_run(bitmap, chunk.within, stored)
    }
}

impl ImageMap for Vhdx {
    fn size_bytes(&self) -> u64 {
        self.metadata.size_bytes
    }

    fn run_at(&self, offset: u64, max_len: u64) -> Result<MappedRun> {
        let block = BlockOffset::of(offset, self.metadata.block_bytes);
        let run = |storage| block.run(storage, 1, max_len);
        let stored = |offset| run(RunStorage::Stored { file: 0, offset });
        match self.payload(block.number)? {
            PayloadBlock::NotPresent => Ok(run(RunStorage::Absent)),
            PayloadBlock::Zero => Ok(run(RunStorage::Zero)),
            PayloadBlock::FullyPresent(at) => Ok(stored(at)),
            PayloadBlock::PartiallyPresent(at) => self.present(offset, stored(at)),
        }
    }
}
