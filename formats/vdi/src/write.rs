//! New images: dynamic and static ones.

use diskfs_block::bytes::index;
use diskfs_block::{Error, ImageLayout, Result, WriteAt, check_bounds};
use uuid::Uuid;

use crate::header::{BLOCKS_MAX, ImageType, NEW_BLOCK_BYTES, NewHeader};
use crate::vdi::UNALLOCATED;

/// The offset of the block map: after the header.
const MAP_AT: u32 = 512;
/// The alignment of the first block, as in VirtualBox.
const DATA_ALIGNMENT: u64 = 1 << 20;

/// The properties of a new image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VdiOptions {
    /// The size of the disk in bytes: a multiple of 512.
    pub size_bytes: u64,
    /// The type of the image.
    pub image_type: ImageType,
    /// The UUID of the image. VirtualBox refuses two disks with the same one.
    pub id: Uuid,
    /// The UUID of the contents, which VirtualBox changes when it writes to the disk.
    pub contents_id: Uuid,
}

/// The layout of a new image. A dynamic one has its blocks in the order in which they get their
/// places, a static one in the order of the disk.
///
/// The block map is kept in memory: 4 KiB for each GiB of the disk.
#[derive(Debug)]
pub struct VdiLayout {
    options: VdiOptions,
    /// The block map: for each block its number in the file.
    map: Vec<u32>,
    allocated: u32,
    data_at: u32,
}

impl VdiLayout {
    /// Returns the layout of an image without data.
    ///
    /// # Errors
    /// `Invalid` for a size that is not a multiple of 512 bytes, or is more than 512 TiB;
    /// `Unsupported` for a differencing image.
    pub fn new(options: VdiOptions) -> Result<Self> {
        if options.image_type == ImageType::Differencing {
            let reason = "creating a VDI with a parent is not supported";
            return Err(Error::unsupported(reason));
        }
        let size_bytes = options.size_bytes;
        let blocks = size_bytes.div_ceil(NEW_BLOCK_BYTES.into());
        let blocks = u32::try_from(blocks).ok().filter(|it| *it <= BLOCKS_MAX);
        let Some(blocks) = blocks.filter(|_| size_bytes.is_multiple_of(512)) else {
            let reason =
                format!("invalid size {size_bytes} of a VDI: not a multiple of 512 up to 512 TiB");
            return Err(Error::invalid(reason));
        };
        let map_end = u64::from(blocks)
            .saturating_mul(4)
            .saturating_add(MAP_AT.into());
        // The largest map has 2 GiB.
        let data_at = u32::try_from(map_end.next_multiple_of(DATA_ALIGNMENT))
            .map_err(|_| Error::invalid("the block map of the VDI is too large"))?;
        let (map, allocated) = match options.image_type {
            ImageType::Dynamic | ImageType::Differencing => (vec![UNALLOCATED; index(blocks)], 0),
            ImageType::Static => ((0..blocks).collect(), blocks),
        };
        Ok(Self {
            options,
            map,
            allocated,
            data_at,
        })
    }

    /// Returns the byte of the file at which a block begins.
    fn place_of(&self, block: u32) -> u64 {
        u64::from(block)
            .saturating_mul(NEW_BLOCK_BYTES.into())
            .saturating_add(self.data_at.into())
    }
}

impl ImageLayout for VdiLayout {
    fn size_bytes(&self) -> u64 {
        self.options.size_bytes
    }

    fn block_bytes(&self) -> u64 {
        NEW_BLOCK_BYTES.into()
    }

    fn place(&mut self, offset: u64, _: &mut WriteAt<'_>) -> Result<u64> {
        check_bounds(offset, 1, self.options.size_bytes)?;
        let block_bytes = u64::from(NEW_BLOCK_BYTES);
        let outside = || Error::invalid("block is outside of the disk").at(offset);
        let entry = self
            .map
            .get_mut(index(offset.div_euclid(block_bytes)))
            .ok_or_else(outside)?;
        if *entry == UNALLOCATED {
            *entry = self.allocated;
            self.allocated = self.allocated.saturating_add(1);
        }
        let block = *entry;
        let within = offset.rem_euclid(block_bytes);
        Ok(self.place_of(block).saturating_add(within))
    }

    fn finish(&mut self, write: &mut WriteAt<'_>) -> Result<u64> {
        let map: Vec<u8> = self.map.iter().flat_map(|it| it.to_le_bytes()).collect();
        write(MAP_AT.into(), &map)?;
        let header = NewHeader {
            image_type: self.options.image_type,
            size_bytes: self.options.size_bytes,
            blocks: u32::try_from(self.map.len()).unwrap_or(BLOCKS_MAX),
            allocated: self.allocated,
            map_at: MAP_AT,
            data_at: self.data_at,
            id: self.options.id,
            contents_id: self.options.contents_id,
        };
        write(0, &header.encode())?;
        Ok(self.place_of(self.allocated))
    }
}
