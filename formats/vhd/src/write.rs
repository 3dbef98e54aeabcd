//! New disks: fixed and dynamic ones.

use diskfs_block::bytes::{index, len_u64};
use diskfs_block::{Error, ImageLayout, Result, WriteAt, check_bounds};
use uuid::Uuid;

use crate::dynamic_header::{HEADER_BYTES, RawDynamicHeader};
use crate::footer::{DiskType, FOOTER_BYTES, NewFooter, SECTOR_BYTES};
use crate::geometry::Geometry;
use crate::vhd::UNUSED;

/// The size of a block of a dynamic disk: 2 MiB, which all programs expect.
const BLOCK_BYTES: u32 = 2 << 20;
/// The sector bitmap before each block: a bit for each of 4096 sectors.
const BITMAP_BYTES: u64 = 512;
/// A bitmap of a block whose sectors were all written.
const FULL_BITMAP: [u8; 512] = [0xff; 512];
/// The largest disk: 2040 GiB, as in QEMU and Windows.
const SIZE_MAX_BYTES: u64 = 2040 << 30;

/// The properties of a new disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VhdOptions {
    /// The requested size in bytes, of which parts of sectors are rounded up.
    pub size_bytes: u64,
    /// The rule by which the size is rounded.
    pub size_rule: SizeRule,
    /// True if all of the disk is allocated, without a block allocation table.
    pub is_fixed: bool,
    /// The unique identifier.
    pub id: Uuid,
    /// The time of creation in seconds since 2000-01-01.
    pub created: u32,
}

/// The rule by which the size of a new disk is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SizeRule {
    /// Up to the next size that a geometry can state, by at most 2 MiB, as far as there are
    /// geometries (127.5 GiB). Old programs, such as Virtual PC, ignore the size in bytes.
    #[default]
    Geometry,
    /// Not at all. The geometry is the largest one, which makes QEMU use the size in bytes; Hyper-V
    /// and Azure always use that.
    Exact,
}

/// Returns the size of a new disk in bytes.
///
/// # Errors
/// `Invalid` for a disk of more than 2040 GiB.
pub fn virtual_size_bytes(size_bytes: u64, rule: SizeRule) -> Result<u64> {
    let (sectors, _) = sectors_and_geometry(size_bytes, rule)?;
    Ok(sectors.saturating_mul(SECTOR_BYTES))
}

fn sectors_and_geometry(size_bytes: u64, rule: SizeRule) -> Result<(u64, Geometry)> {
    if size_bytes > SIZE_MAX_BYTES {
        let reason = format!("disk of {size_bytes} bytes is too large for a VHD: at most 2040 GiB");
        return Err(Error::invalid(reason).with_hint("VHDX has larger disks"));
    }
    let sectors = size_bytes.div_ceil(SECTOR_BYTES);
    let geometry = match rule {
        SizeRule::Geometry => Geometry::containing(sectors),
        SizeRule::Exact => Geometry::MAX,
    };
    match geometry {
        Geometry::MAX => Ok((sectors, geometry)),
        geometry => Ok((geometry.sectors(), geometry)),
    }
}

/// The layout of a new disk. A dynamic one has its blocks in the order in which they get their
/// places, each after a bitmap that marks all sectors as written.
///
/// The block allocation table is kept in memory: 2 KiB for each GiB of the disk.
#[derive(Debug)]
pub struct VhdLayout {
    footer: NewFooter,
    /// `None` for a fixed disk.
    blocks: Option<Blocks>,
}

/// The blocks of a new dynamic disk.
#[derive(Debug)]
struct Blocks {
    /// The block allocation table: for each block the sector of its bitmap.
    table: Vec<u32>,
    /// The byte of the file at which the next block's bitmap begins.
    next: u64,
}

impl VhdLayout {
    /// Returns the layout of a disk without data.
    ///
    /// # Errors
    /// `Invalid` for a disk of more than 2040 GiB.
    pub fn new(options: &VhdOptions) -> Result<Self> {
        let (sectors, geometry) = sectors_and_geometry(options.size_bytes, options.size_rule)?;
        let size_bytes = sectors.saturating_mul(SECTOR_BYTES);
        Ok(Self {
            footer: NewFooter {
                disk_type: if options.is_fixed {
                    DiskType::Fixed
                } else {
                    DiskType::Dynamic
                },
                size_bytes,
                geometry,
                id: options.id,
                created: options.created,
            },
            blocks: (!options.is_fixed).then(|| Blocks::new(size_bytes)),
        })
    }
}

impl Blocks {
    /// The offset of the table: after the copy of the footer and the header.
    const TABLE_AT: u64 = 1536;

    fn new(size_bytes: u64) -> Self {
        let count = size_bytes.div_ceil(BLOCK_BYTES.into());
        let table_bytes = count.saturating_mul(4).next_multiple_of(SECTOR_BYTES);
        Self {
            table: vec![UNUSED; index(count)],
            next: Self::TABLE_AT.saturating_add(table_bytes),
        }
    }

    fn place(&mut self, offset: u64, write: &mut WriteAt<'_>) -> Result<u64> {
        let block_bytes = u64::from(BLOCK_BYTES);
        let outside = || Error::invalid("block is outside of the disk").at(offset);
        let entry = self
            .table
            .get_mut(index(offset.div_euclid(block_bytes)))
            .ok_or_else(outside)?;
        if *entry == UNUSED {
            write(self.next, &FULL_BITMAP)?;
            // 2040 GiB in blocks end before sector 2^32.
            *entry = u32::try_from(self.next.div_euclid(SECTOR_BYTES))
                .map_err(|_| Error::unsupported("unsupported VHD file of more than 2 TiB"))?;
            let used = BITMAP_BYTES.saturating_add(block_bytes);
            self.next = self.next.saturating_add(used);
        }
        Ok(u64::from(*entry)
            .saturating_mul(SECTOR_BYTES)
            .saturating_add(BITMAP_BYTES)
            .saturating_add(offset.rem_euclid(block_bytes)))
    }

    /// Writes the copy of the footer, the header and the table.
    fn finish(&self, footer: &[u8], write: &mut WriteAt<'_>) -> Result<()> {
        let count = u32::try_from(self.table.len()).unwrap_or(UNUSED);
        let header: [u8; HEADER_BYTES] =
            RawDynamicHeader::encode(Self::TABLE_AT, count, BLOCK_BYTES);
        write(0, footer)?;
        write(FOOTER_BYTES, &header)?;
        let entries = self.table.iter();
        let mut table: Vec<u8> = entries.flat_map(|entry| entry.to_be_bytes()).collect();
        let sectors = len_u64(table.len()).next_multiple_of(SECTOR_BYTES);
        table.resize(index(sectors), 0xff);
        write(Self::TABLE_AT, &table)
    }
}

impl ImageLayout for VhdLayout {
    fn size_bytes(&self) -> u64 {
        self.footer.size_bytes
    }

    fn block_bytes(&self) -> u64 {
        BLOCK_BYTES.into()
    }

    fn place(&mut self, offset: u64, write: &mut WriteAt<'_>) -> Result<u64> {
        check_bounds(offset, 1, self.footer.size_bytes)?;
        match &mut self.blocks {
            None => Ok(offset),
            Some(blocks) => blocks.place(offset, write),
        }
    }

    fn finish(&mut self, write: &mut WriteAt<'_>) -> Result<u64> {
        let footer = self.footer.encode();
        let end = match &self.blocks {
            None => self.footer.size_bytes,
            Some(blocks) => {
                blocks.finish(&footer, write)?;
                blocks.next
            }
        };
        write(end, &footer)?;
        Ok(end.saturating_add(FOOTER_BYTES))
    }
}
