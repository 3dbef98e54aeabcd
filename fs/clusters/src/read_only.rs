//! The filesystem opened for reading.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_vfs::{
    DirEntries, FileExtents, FreeRanges, FsRead, Identity, InodeNumber, Metadata, Result,
    Statistics,
};

use crate::format::Format;
use crate::numbers::ROOT;
use crate::volume::Volume;

/// A FAT or exFAT filesystem, opened for reading.
#[derive(Debug)]
pub struct ReadOnly<F: Format> {
    volume: Volume<F>,
}

impl<F: Format> ReadOnly<F> {
    /// Opens the filesystem.
    ///
    /// # Errors
    /// `Corrupt` if the boot sector or a structure that it leads to is invalid, `Unsupported` for
    /// an unknown version, `Io` if the device fails.
    pub fn open(device: Arc<dyn BlockRead>) -> Result<Self> {
        Self::open_with(device, &F::Names::default())
    }

    /// Opens the filesystem, and decodes its names with `names`.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_with(device: Arc<dyn BlockRead>, names: &F::Names) -> Result<Self> {
        let volume = Volume::open(device, names)?;
        Ok(Self { volume })
    }
}

impl<F: Format> FsRead for ReadOnly<F> {
    fn identity(&self) -> Identity {
        F::identity(&self.volume)
    }

    fn root(&self) -> InodeNumber {
        ROOT
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.volume.lookup(dir, name)
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        self.volume.metadata(inode)
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.volume.read_at(inode, offset, buf)
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        let entries = self.volume.read_dir(dir, cookie)?;
        Ok(Box::new(entries.into_iter().map(Ok)))
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        self.volume.no_link(inode)
    }

    fn xattr(&self, inode: InodeNumber, _name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.volume.metadata(inode).map(|_| None)
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        self.volume.metadata(inode).map(|_| Vec::new())
    }

    fn statistics(&self) -> Result<Statistics> {
        let free = self.volume.free_clusters()?;
        Ok(self.volume.statistics(free))
    }

    fn free_ranges(&self) -> Result<FreeRanges<'_>> {
        self.volume.free_ranges()
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        let extents = self.volume.extents_of(inode, offset)?;
        Ok(Box::new(extents.into_iter().map(Ok)))
    }

    fn will_need(&self, inode: InodeNumber, offset: u64, len_bytes: u64) {
        self.volume.will_need(inode, offset, len_bytes);
    }
}
