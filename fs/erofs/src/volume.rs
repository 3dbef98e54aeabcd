//! An open filesystem: its superblock, devices and caches.

use std::fmt::Debug;
use std::sync::Arc;

use diskfs_block::bytes::len_u64;
use diskfs_block::{BlockRead, ByteCache, Cache, CacheOptions};
use diskfs_vfs::InodeNumber;

use crate::device_slot::Devices;
use crate::error::{Result, corrupt, device_failed};
use crate::extent::{Decompressed, Encoded};
use crate::map_header::MapHeader;
use crate::place::Place;
use crate::superblock::Superblock;
use crate::xattr_name::Prefix;

/// The cache of metadata. Directories are read through it, too.
const METADATA: CacheOptions = CacheOptions {
    budget_bytes: 8 << 20,
    block_bytes: 16 << 10,
    bypass_bytes: 128 << 10,
};

/// The budget of headers of compressed files: some ten thousand of them.
const HEADERS_BYTES: u64 = 2 << 20;

/// The budget of decompressed extents. It serves reads of parts; whole extents are decompressed to
/// the reader's buffer.
const EXTENTS_BYTES: u64 = 16 << 20;

/// The usual size of a decompressed extent.
const EXTENT_TYPICAL_BYTES: u64 = 64 << 10;

/// The inode that has metadata. Its contents are read like those of any other inode, which needs
/// metadata in turn; so what reads them is given to the volume.
pub(crate) trait Metabox: Debug + Send + Sync {
    /// Returns the size of the contents.
    fn size_bytes(&self) -> u64;

    /// Reads contents that lie within the size.
    fn read(&self, volume: &Volume, at: u64, buf: &mut [u8]) -> Result<()>;
}

/// An open filesystem.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) superblock: Superblock,
    pub(crate) devices: Devices,
    /// The long prefixes of attributes.
    pub(crate) prefixes: Vec<Prefix>,
    pub(crate) headers: ByteCache<InodeNumber, MapHeader>,
    pub(crate) extents: ByteCache<Encoded, Decompressed>,
    /// The inode that has metadata, once it is open.
    pub(crate) metabox: Option<Box<dyn Metabox>>,
    metadata: Cache,
}

impl Volume {
    pub(crate) fn open(device: Arc<dyn BlockRead>, extra: Vec<Arc<dyn BlockRead>>) -> Result<Self> {
        let superblock = Superblock::read(&*device)?;
        let metadata = Cache::new(Arc::clone(&device), METADATA).map_err(device_failed)?;
        let volume = Self {
            devices: Devices::read(&superblock, device, extra)?,
            superblock,
            prefixes: Vec::new(),
            headers: ByteCache::new(HEADERS_BYTES, 256),
            extents: ByteCache::new(EXTENTS_BYTES, EXTENT_TYPICAL_BYTES),
            metabox: None,
            metadata,
        };
        Ok(volume)
    }

    /// Returns the number of bytes of metadata: those of the device, or of the metabox.
    pub(crate) fn metadata_end(&self, is_in_metabox: bool) -> u64 {
        if is_in_metabox {
            self.metabox
                .as_ref()
                .map_or(0, |metabox| metabox.size_bytes())
        } else {
            self.metadata.size_bytes()
        }
    }

    /// Reads metadata.
    ///
    /// # Errors
    /// `Corrupt` if it lies outside of the device or of the metabox.
    pub(crate) fn read_metadata(&self, place: Place, buf: &mut [u8]) -> Result<()> {
        let end = place.at.checked_add(len_u64(buf.len()));
        if end.is_none_or(|end| end > self.metadata_end(place.is_in_metabox)) {
            return Err(corrupt(
                "invalid place: outside of the filesystem",
                place.at,
            ));
        }
        match &self.metabox {
            Some(metabox) if place.is_in_metabox => metabox.read(self, place.at, buf),
            _ => self.metadata.read_at(place.at, buf).map_err(device_failed),
        }
    }

    /// Reads metadata of `N` bytes.
    pub(crate) fn metadata<const N: usize>(&self, place: Place) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_metadata(place, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the offset of a byte in its block.
    pub(crate) fn offset_in_block(&self, at: u64) -> u64 {
        at & self.superblock.block_bytes().wrapping_sub(1)
    }
}
