//! New disks: dynamic and fixed ones.

use diskfs_block::bytes::index;
use diskfs_block::{Error, ImageLayout, Result, WriteAt, check_bounds};
use uuid::Uuid;

use crate::bat_entry::{ZERO, encode_present};
use crate::file_type;
use crate::header::NewHeader;
use crate::metadata::{BLOCK_BYTES, NEW_SECTOR_BYTES, NewMetadata, SIZE_MAX_BYTES};
use crate::region_table::{MIB, Region, Regions};
use crate::vhdx::BITMAP_SECTORS;

/// The number of entries of the block allocation table to write at once: 1 MiB.
const ENTRIES_AT_ONCE: u64 = 1 << 17;

/// The properties of a new disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VhdxOptions {
    /// The size of the disk in bytes: a multiple of 512, at most 64 TiB.
    pub size_bytes: u64,
    /// True if all blocks are allocated, in the order of the disk.
    pub is_fixed: bool,
    /// The size of a block in bytes: a power of two from 1 MiB to 256 MiB; `None` for
    /// [`default_block_bytes`].
    pub block_bytes: Option<u64>,
    /// The size of the log in bytes: a multiple of 1 MiB from 1 MiB to 4095 MiB.
    pub log_bytes: u64,
    /// The identifiers of the disk, of the file and of the data.
    pub ids: [Uuid; 3],
}

/// Returns the size of blocks that QEMU chooses for a disk.
pub const fn default_block_bytes(size_bytes: u64) -> u64 {
    const GIB: u64 = 1 << 30;
    if size_bytes > 32 << 40 {
        return 64 << 20;
    }
    if size_bytes > 100 * GIB {
        return 32 << 20;
    }
    if size_bytes > GIB {
        return 16 << 20;
    }
    8 << 20
}

/// The layout of a new disk: the header section, an empty log, the metadata, the block allocation
/// table, and the blocks. A dynamic disk has them in the order in which they get their places, and
/// others read as zeroes.
///
/// The table is kept in memory: 4 bytes for each block.
#[derive(Debug)]
pub struct VhdxLayout {
    metadata: NewMetadata,
    header: NewHeader,
    regions: Regions,
    /// For each block, its offset in the file in MiB; 0 for none.
    blocks: Vec<u32>,
    /// The offset in the file of the next block in bytes.
    next: u64,
}

impl VhdxLayout {
    /// Returns the layout of a disk without data.
    ///
    /// # Errors
    /// `Invalid` for a size, block size or log size that the format does not have.
    pub fn new(options: &VhdxOptions) -> Result<Self> {
        let block_bytes = options
            .block_bytes
            .unwrap_or_else(|| default_block_bytes(options.size_bytes));
        let (block_bytes, log_bytes) = check(options, block_bytes)?;
        let blocks = options.size_bytes.div_ceil(block_bytes.into());
        let region = |at: u64, len_bytes: u64| Region { at, len_bytes };
        let metadata = region(MIB.saturating_add(log_bytes.into()), MIB);
        let bat_bytes = bat_entries(blocks, block_bytes).saturating_mul(8);
        let bat = region(
            metadata.at.saturating_add(metadata.len_bytes),
            bat_bytes.max(1).next_multiple_of(MIB),
        );
        let [disk_id, file_write_guid, data_write_guid] = options.ids;
        let mut layout = Self {
            metadata: NewMetadata {
                block_bytes,
                size_bytes: options.size_bytes,
                disk_id,
                is_fixed: options.is_fixed,
            },
            header: NewHeader {
                file_write_guid,
                data_write_guid,
                log_at: MIB,
                log_bytes,
            },
            regions: Regions { bat, metadata },
            blocks: vec![0; index(blocks)],
            next: bat.at.saturating_add(bat.len_bytes),
        };
        if options.is_fixed {
            layout.allocate_all();
        }
        Ok(layout)
    }

    fn allocate_all(&mut self) {
        let block_bytes = u64::from(self.metadata.block_bytes);
        for entry in &mut self.blocks {
            *entry = in_mib(self.next);
            self.next = self.next.saturating_add(block_bytes);
        }
    }

    /// Writes the block allocation table: after each chunk of blocks there is an entry for a sector
    /// bitmap, which only differencing disks have.
    fn write_bat(&self, write: &mut WriteAt<'_>) -> Result<()> {
        let ratio = chunk_ratio(self.metadata.block_bytes);
        let mut entries: Vec<u8> = Vec::new();
        let mut at = self.regions.bat.at;
        let mut left_in_chunk = ratio;
        for block in &self.blocks {
            if left_in_chunk == 0 {
                entries.extend([0; 8]);
                left_in_chunk = ratio;
            }
            left_in_chunk = left_in_chunk.saturating_sub(1);
            let entry = match block {
                0 => ZERO,
                mib => encode_present(u64::from(*mib).saturating_mul(MIB)),
            };
            entries.extend(entry.to_le_bytes());
            if entries.len() >= index(ENTRIES_AT_ONCE.saturating_mul(8)) {
                write(at, &entries)?;
                at = at.saturating_add(diskfs_block::bytes::len_u64(entries.len()));
                entries.clear();
            }
        }
        write(at, &entries)
    }
}

/// Returns the offset of a block in MiB. The file of the largest disk has less than 2^27 of them.
fn in_mib(at: u64) -> u32 {
    u32::try_from(at.div_euclid(MIB)).unwrap_or(u32::MAX)
}

/// Checks the sizes; returns those of a block and of the log.
fn check(options: &VhdxOptions, block_bytes: u64) -> Result<(u32, u32)> {
    let size_bytes = options.size_bytes;
    if size_bytes > SIZE_MAX_BYTES || !size_bytes.is_multiple_of(NEW_SECTOR_BYTES.into()) {
        let reason =
            format!("invalid size {size_bytes} of a VHDX: not a multiple of 512 up to 64 TiB");
        return Err(Error::invalid(reason));
    }
    let block = u32::try_from(block_bytes).ok();
    let block = block.filter(|it| it.is_power_of_two() && BLOCK_BYTES.contains(it));
    let Some(block) = block else {
        let reason = format!(
            "invalid block size {block_bytes} of a VHDX: expected a power of two from 1M to 256M"
        );
        return Err(Error::invalid(reason));
    };
    let log_bytes = options.log_bytes;
    let log = u32::try_from(log_bytes).ok();
    let log = log.filter(|_| log_bytes >= MIB && log_bytes.is_multiple_of(MIB));
    let Some(log) = log else {
        let reason = format!(
            "invalid log size {log_bytes} of a VHDX: expected a multiple of 1M from 1M to 4095M"
        );
        return Err(Error::invalid(reason));
    };
    Ok((block, log))
}

/// Returns the number of payload blocks for each sector bitmap.
fn chunk_ratio(block_bytes: u32) -> u64 {
    let chunk_bytes = BITMAP_SECTORS.saturating_mul(NEW_SECTOR_BYTES.into());
    chunk_bytes.div_euclid(u64::from(block_bytes).max(1)).max(1)
}

/// Returns the number of entries of the block allocation table.
fn bat_entries(blocks: u64, block_bytes: u32) -> u64 {
    let bitmaps = blocks
        .saturating_sub(1)
        .div_euclid(chunk_ratio(block_bytes).max(1));
    blocks.saturating_add(bitmaps)
}

impl ImageLayout for VhdxLayout {
    fn size_bytes(&self) -> u64 {
        self.metadata.size_bytes
    }

    fn block_bytes(&self) -> u64 {
        self.metadata.block_bytes.into()
    }

    fn place(&mut self, offset: u64, _: &mut WriteAt<'_>) -> Result<u64> {
        check_bounds(offset, 1, self.metadata.size_bytes)?;
        let block_bytes = u64::from(self.metadata.block_bytes).max(1);
        let outside = || Error::invalid("block is outside of the disk").at(offset);
        let entry = self
            .blocks
            .get_mut(index(offset.div_euclid(block_bytes)))
            .ok_or_else(outside)?;
        if *entry == 0 {
            *entry = in_mib(self.next);
            self.next = self.next.saturating_add(block_bytes);
        }
        Ok(u64::from(*entry)
            .saturating_mul(MIB)
            .saturating_add(offset.rem_euclid(block_bytes)))
    }

    fn finish(&mut self, write: &mut WriteAt<'_>) -> Result<u64> {
        write(0, &file_type::encode("diskfs"))?;
        self.header.write(write)?;
        self.regions.write(write)?;
        write(self.regions.metadata.at, &self.metadata.encode())?;
        self.write_bat(write)?;
        Ok(self.next)
    }
}
