//! The implementation of [`FsRead`].

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_vfs::{
    DirEntries, FileExtents, FsRead, Identity, InodeNumber, Metadata, Result, Statistics,
};

use crate::directory::{self, Entries};
use crate::directory_entry::NAME_MAX_BYTES;
use crate::extents::Extents;
use crate::inode::Inode;
use crate::volume::Volume;
use crate::{contents, metadata, xattr};

/// A squashfs filesystem, opened for reading.
///
/// With an export table, inodes have the numbers that Linux shows. Without it, the number is the
/// place of the inode in its table, plus one.
#[derive(Debug)]
pub struct Squashfs {
    volume: Volume,
    root: InodeNumber,
}

impl Squashfs {
    /// Opens the filesystem on `device`.
    ///
    /// # Errors
    /// `Unsupported` for another version than 4.0 or an unknown compressor; `Corrupt` if the
    /// superblock or the root directory is invalid; `Io` if the device fails.
    pub fn open(device: Arc<dyn BlockRead>) -> Result<Self> {
        let volume = Volume::open(device)?;
        let root = Inode::read_at(&volume, volume.superblock.root)?;
        root.directory()?;
        tracing::debug!(?volume.superblock, "squashfs opened");
        Ok(Self {
            root: root.number,
            volume,
        })
    }

    fn inode(&self, number: InodeNumber) -> Result<Inode> {
        Inode::read(&self.volume, number)
    }
}

impl FsRead for Squashfs {
    fn identity(&self) -> Identity {
        let superblock = &self.volume.superblock;
        let features = [
            Some(superblock.compressor.name()),
            superblock.export_table.map(|_| "exports"),
            superblock.xattr_id_table.map(|_| "xattrs"),
        ];
        Identity {
            kind: "squashfs".to_owned(),
            features: features.into_iter().flatten().map(str::to_owned).collect(),
            ..Identity::default()
        }
    }

    fn root(&self) -> InodeNumber {
        self.root
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let inode = self.inode(dir)?;
        directory::lookup(&self.volume, &inode, name).map_err(|e| e.in_inode(dir))
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        metadata::metadata(&self.volume, &self.inode(inode)?).map_err(|e| e.in_inode(inode))
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        contents::read_at(&self.volume, &self.inode(inode)?, offset, buf)
            .map_err(|e| e.in_inode(inode))
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        let entries = Entries::new(&self.volume, self.inode(dir)?, cookie);
        Ok(Box::new(entries.map_err(|e| e.in_inode(dir))?))
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        let target = self.inode(inode)?.target(&self.volume);
        target.map_err(|e| e.in_inode(inode))
    }

    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>> {
        xattr::get(&self.volume, &self.inode(inode)?, name).map_err(|e| e.in_inode(inode))
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        xattr::list(&self.volume, &self.inode(inode)?).map_err(|e| e.in_inode(inode))
    }

    fn statistics(&self) -> Result<Statistics> {
        let superblock = &self.volume.superblock;
        let block_size = superblock.block_bytes;
        Ok(Statistics {
            block_size,
            allocation_size: block_size,
            blocks: superblock.bytes_used.div_ceil(block_size.into()),
            inodes: superblock.inodes.into(),
            name_max: u32::try_from(NAME_MAX_BYTES).unwrap_or_default(),
            ..Statistics::default()
        })
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        let extents = Extents::new(&self.volume, &self.inode(inode)?, offset)?;
        Ok(Box::new(
            extents.map(move |extent| extent.map_err(|e| e.in_inode(inode))),
        ))
    }

    fn will_need(&self, inode: InodeNumber, offset: u64, len_bytes: u64) {
        let Ok(inode) = self.inode(inode) else {
            return; // The read will report the error.
        };
        // The same holds here.
        let _ = contents::will_need(&self.volume, &inode, offset, len_bytes);
    }
}
