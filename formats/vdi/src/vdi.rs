//! An open image.

use std::sync::Arc;

use diskfs_block::{
    BlockOffset, BlockRead, Error, ImageMap, MappedRun, Result, RunStorage, Tables,
};
use uuid::Uuid;

use crate::header::{Header, ImageType};
use crate::ids::DiskIds;

/// The budget for the cached block map. It maps 256 GiB at a block size of 1 MiB.
const MAP_CACHE_BYTES: u64 = 1 << 20;

/// The entry of a block that was never written.
pub(crate) const UNALLOCATED: u32 = 0xffff_ffff;
/// The entry of a block that was discarded.
pub(crate) const DISCARDED: u32 = 0xffff_fffe;

/// A VirtualBox disk image.
#[derive(Debug)]
pub struct Vdi {
    pub(crate) header: Header,
    pub(crate) file: Arc<dyn BlockRead>,
    map: Tables,
}

impl Vdi {
    /// Opens the image in `file`.
    ///
    /// # Errors
    /// `Corrupt` and `Unsupported` with the byte of the field; the errors of reading.
    pub fn open(file: Arc<dyn BlockRead>) -> Result<Self> {
        let header = Header::read(file.as_ref())?;
        let map = Tables::new(Arc::clone(&file), MAP_CACHE_BYTES)?;
        map.check("block map", header.map_at, header.blocks, 4)?;
        Ok(Self { header, file, map })
    }

    /// Returns the type of the image.
    pub const fn image_type(&self) -> ImageType {
        self.header.image_type
    }

    /// Returns the size of a block in bytes.
    pub const fn block_size_bytes(&self) -> u64 {
        self.header.block_bytes
    }

    /// Returns the UUID of the image.
    pub const fn id(&self) -> Uuid {
        self.header.id
    }

    /// Returns the identifiers of the parent, which a differencing image has.
    pub const fn parent(&self) -> Option<DiskIds> {
        self.header.parent
    }

    /// Returns the place of a block.
    fn block(&self, number: u64) -> Result<RunStorage> {
        let entry = u32::from_le_bytes(self.map.entry(self.header.map_at, number)?);
        match entry {
            UNALLOCATED => Ok(RunStorage::Absent),
            DISCARDED => Ok(RunStorage::Zero),
            entry if u64::from(entry) < self.header.blocks => Ok(RunStorage::Stored {
                file: 0,
                // Both factors have at most 29 and 26 bits.
                offset: u64::from(entry)
                    .saturating_mul(self.header.block_bytes)
                    .saturating_add(self.header.data_at),
            }),
            entry => {
                let blocks = self.header.blocks;
                let at = self.header.map_at.saturating_add(number.saturating_mul(4));
                let reason =
                    format!("block {number} refers to block {entry} of {blocks} in the file");
                Err(Error::corrupt(reason).at(at))
            }
        }
    }
}

impl ImageMap for Vdi {
    fn size_bytes(&self) -> u64 {
        self.header.size_bytes
    }

    fn run_at(&self, offset: u64, max_len: u64) -> Result<MappedRun> {
        let block = BlockOffset::of(offset, self.header.block_bytes);
        Ok(block.run(self.block(block.number)?, 1, max_len))
    }
}
