//! The known metadata items: MS-VHDX 2.6.2.

use diskfs_block::{BlockRead, Error, Result, bytes};
use uuid::{Uuid, uuid};

use crate::metadata_table::{self, IS_REQUIRED, IS_VIRTUAL_DISK, Item, NewItem};
use crate::parent_locator::Parent;
use crate::region_table::Region;

const FILE_PARAMETERS: Uuid = uuid!("caa16737-fa36-4d43-b3b6-33f0aa44e76b");
const VIRTUAL_DISK_SIZE: Uuid = uuid!("2fa54224-cd1b-4876-b211-5dbed83bf4b8");
const VIRTUAL_DISK_ID: Uuid = uuid!("beca12ab-b2e6-4523-93ef-c309e000c746");
const LOGICAL_SECTOR_SIZE: Uuid = uuid!("8141bf1d-a96f-4709-ba47-f233a8faab5f");
const PHYSICAL_SECTOR_SIZE: Uuid = uuid!("cda348c7-445d-4471-9cc9-e9885251c556");
const PARENT_LOCATOR: Uuid = uuid!("a8d35f2d-b30b-454d-abf7-d3d84834ab0c");

/// The block sizes of the specification (`BlockSize`).
pub(crate) const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 1 << 20..=256 << 20;
/// The largest disk of the specification: 64 TiB (`VirtualDiskSize`).
pub(crate) const SIZE_MAX_BYTES: u64 = 64 << 40;
const LEAVE_BLOCKS_ALLOCATED: u32 = 1;
const HAS_PARENT: u32 = 2;

/// The properties of the disk.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) block_bytes: u64,
    pub(crate) size_bytes: u64,
    pub(crate) sector_bytes: u64,
    pub(crate) disk_id: Uuid,
    /// True if all blocks stay allocated (a fixed disk).
    pub(crate) is_fixed: bool,
    pub(crate) parent: Option<Parent>,
}

/// The properties of a new disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewMetadata {
    pub(crate) block_bytes: u32,
    pub(crate) size_bytes: u64,
    pub(crate) disk_id: Uuid,
    pub(crate) is_fixed: bool,
}

/// The sectors of a new disk, as in QEMU.
pub(crate) const NEW_SECTOR_BYTES: u32 = 512;

impl NewMetadata {
    /// Returns the start of the metadata region.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let flags = if self.is_fixed {
            LEAVE_BLOCKS_ALLOCATED
        } else {
            0
        };
        let of_disk = IS_REQUIRED | IS_VIRTUAL_DISK;
        let item = |id, flags, value: &[u8]| NewItem {
            id,
            flags,
            value: value.to_vec(),
        };
        let parameters = [self.block_bytes.to_le_bytes(), flags.to_le_bytes()].concat();
        let sector = NEW_SECTOR_BYTES.to_le_bytes();
        metadata_table::encode(&[
            item(FILE_PARAMETERS, IS_REQUIRED, &parameters),
            item(VIRTUAL_DISK_SIZE, of_disk, &self.size_bytes.to_le_bytes()),
            item(VIRTUAL_DISK_ID, of_disk, &self.disk_id.to_bytes_le()),
            item(LOGICAL_SECTOR_SIZE, of_disk, &sector),
            item(PHYSICAL_SECTOR_SIZE, of_disk, &sector),
        ])
    }
}

/// The items while they are read.
#[derive(Default)]
struct Found {
    parameters: Option<(u32, u32)>,
    size_bytes: Option<u64>,
    sector_bytes: Option<u32>,
    disk_id: Uuid,
    parent: Option<Parent>,
}

impl Metadata {
    /// Reads and checks the items in the metadata region.
    pub(crate) fn read(file: &dyn BlockRead, region: Region) -> Result<Self> {
        let mut found = Found::default();
        for item in metadata_table::read(file, region)? {
            found.take(file, &item)?;
        }
        found.metadata(region)
    }
}

impl Found {
    fn take(&mut self, file: &dyn BlockRead, item: &Item) -> Result<()> {
        match item.id {
            FILE_PARAMETERS => {
                let bytes = read::<8>(file, item)?;
                self.parameters = bytes::le32(&bytes, 0).zip(bytes::le32(&bytes, 4));
            }
            VIRTUAL_DISK_SIZE => self.size_bytes = Some(u64::from_le_bytes(read(file, item)?)),
            LOGICAL_SECTOR_SIZE => self.sector_bytes = Some(u32::from_le_bytes(read(file, item)?)),
            VIRTUAL_DISK_ID => self.disk_id = Uuid::from_bytes_le(read(file, item)?),
            PHYSICAL_SECTOR_SIZE => {}
            PARENT_LOCATOR => self.parent = Some(Parent::read(file, item)?),
            unknown if item.is_required => {
                let reason = format!("unsupported VHDX: it requires the unknown item {unknown}");
                return Err(Error::unsupported(reason).at(item.at));
            }
            _ => {}
        }
        Ok(())
    }

    fn metadata(self, region: Region) -> Result<Metadata> {
        let corrupt = |reason: String| Error::corrupt(reason).at(region.at);
        let missing = |what: &str| corrupt(format!("metadata has no item for the {what}"));
        let (block_bytes, flags) = self.parameters.ok_or_else(|| missing("file parameters"))?;
        let size_bytes = self.size_bytes.ok_or_else(|| missing("size of the disk"))?;
        let sector_bytes = self.sector_bytes.ok_or_else(|| missing("sector size"))?;
        if !block_bytes.is_power_of_two() || !BLOCK_BYTES.contains(&block_bytes) {
            return Err(corrupt(format!("invalid block size {block_bytes}")));
        }
        if !matches!(sector_bytes, 512 | 4096) {
            return Err(corrupt(format!("invalid sector size {sector_bytes}")));
        }
        let is_whole = size_bytes.checked_rem(u64::from(sector_bytes)) == Some(0);
        if size_bytes > SIZE_MAX_BYTES || !is_whole {
            return Err(corrupt(format!("invalid size {size_bytes} of the disk")));
        }
        let has_parent = flags & HAS_PARENT != 0;
        if has_parent && self.parent.is_none() {
            return Err(missing("parent of the differencing disk"));
        }
        Ok(Metadata {
            block_bytes: u64::from(block_bytes),
            size_bytes,
            sector_bytes: u64::from(sector_bytes),
            disk_id: self.disk_id,
            is_fixed: flags & LEAVE_BLOCKS_ALLOCATED != 0 && !has_parent,
            parent: self.parent.filter(|_| has_parent),
        })
    }
}

/// Reads an item of `N` bytes.
fn read<const N: usize>(file: &dyn BlockRead, item: &Item) -> Result<[u8; N]> {
    if item.len_bytes != bytes::len_u64(N) {
        let reason = format!(
            "metadata item {} has {} bytes, not {N}",
            item.id, item.len_bytes
        );
        return Err(Error::corrupt(reason).at(item.at));
    }
    let mut bytes = [0; N];
    file.read_at(item.at, &mut bytes)
        .map_err(|e| e.at(item.at))?;
    Ok(bytes)
}
