//! The implementation of [`FsRead`].

use std::fmt::Write as _;
use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_vfs::{
    DirEntries, FileExtents, FsRead, Identity, InodeNumber, Metadata, Result, Statistics,
};

use crate::directory::{self, Entries};
use crate::directory_block::NAME_MAX_BYTES;
use crate::extents::Extents;
use crate::inode::Inode;
use crate::volume::Volume;
use crate::{contents, metabox, metadata, symlink, xattr, xattr_prefix};

/// An EROFS filesystem, opened for reading.
#[derive(Debug)]
pub struct Erofs {
    volume: Volume,
}

impl Erofs {
    /// Opens the filesystem on `device`.
    ///
    /// # Errors
    /// `Unsupported` for unknown features, or if the filesystem is on several devices; `Corrupt` if
    /// the superblock or the root directory is invalid; `Io` if the device fails.
    pub fn open(device: Arc<dyn BlockRead>) -> Result<Self> {
        Self::open_with_devices(device, Vec::new())
    }

    /// Opens the filesystem on `device`, with its other devices in the order of the device table.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_with_devices(
        device: Arc<dyn BlockRead>,
        others: Vec<Arc<dyn BlockRead>>,
    ) -> Result<Self> {
        let mut volume = Volume::open(device, others)?;
        volume.metabox = metabox::open(&volume)?;
        volume.prefixes = xattr_prefix::read_all(&volume)?;
        let root = Inode::read_named(&volume, volume.superblock.root)?;
        root.check_directory()?;
        let fs = Self { volume };
        tracing::debug!(?fs.volume.superblock, "EROFS opened");
        Ok(fs)
    }

    fn inode(&self, number: InodeNumber) -> Result<Inode> {
        Inode::read(&self.volume, number)
    }
}

/// Formats a UUID as `blkid` prints it; `None` for one that is not set.
fn uuid(bytes: [u8; 16]) -> Option<String> {
    if bytes == [0; 16] {
        return None;
    }
    let mut text = String::new();
    for (nth, byte) in bytes.iter().enumerate() {
        if matches!(nth, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    Some(text)
}

impl FsRead for Erofs {
    fn identity(&self) -> Identity {
        let superblock = &self.volume.superblock;
        let name = superblock.volume_name.split(|byte| *byte == 0).next();
        Identity {
            kind: "erofs".to_owned(),
            label: name.unwrap_or_default().to_vec(),
            uuid: uuid(superblock.uuid),
            features: superblock.features.names(),
            notes: Vec::new(),
        }
    }

    fn root(&self) -> InodeNumber {
        let superblock = &self.volume.superblock;
        superblock.number_of(superblock.root)
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let inode = self.inode(dir)?;
        directory::lookup(&self.volume, &inode, name).map_err(|e| e.in_inode(dir))
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        Ok(metadata::metadata(&self.volume, &self.inode(inode)?))
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let file = self.inode(inode)?;
        file.check_file()?;
        contents::read(&self.volume, &file, offset, buf).map_err(|e| e.in_inode(inode))
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        let entries = Entries::new(&self.volume, self.inode(dir)?, cookie)?;
        Ok(Box::new(entries))
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        let target = symlink::target(&self.volume, &self.inode(inode)?);
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
        let block_size = u32::try_from(superblock.block_bytes()).unwrap_or(4096);
        let extra = self.volume.devices.extra_blocks();
        Ok(Statistics {
            block_size,
            allocation_size: block_size,
            blocks: superblock.blocks.saturating_add(extra),
            // Linux counts from the largest number, since there is no limit.
            inodes: u64::MAX,
            inodes_free: u64::MAX.saturating_sub(superblock.inodes),
            name_max: u32::try_from(NAME_MAX_BYTES).unwrap_or_default(),
            ..Statistics::default()
        })
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        let extents = Extents::new(&self.volume, self.inode(inode)?, offset)?;
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
