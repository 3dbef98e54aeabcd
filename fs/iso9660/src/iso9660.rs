//! The implementation of [`FsRead`].

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_vfs::{
    DirEntries, FileExtents, FsRead, Identity, InodeNumber, Metadata, Result, Statistics,
};

use crate::directory::{self, Entries};
use crate::name::Names;
use crate::node::Node;
use crate::rrip::MAX_NAME_BYTES;
use crate::volume::Volume;
use crate::{boot_catalog, contents};

/// An ISO 9660 filesystem, opened for reading.
///
/// The inode number of a file is the offset of its first directory record on the device, that of a
/// directory is the offset of the directory. Files that share their contents on the device have
/// different numbers.
#[derive(Debug)]
pub struct Iso9660 {
    volume: Volume,
    features: Vec<String>,
}

impl Iso9660 {
    /// Opens the filesystem on `device`.
    ///
    /// # Errors
    /// `Corrupt` if a descriptor or the root directory is invalid; `Io` if the device fails.
    pub fn open(device: Arc<dyn BlockRead>) -> Result<Self> {
        let volume = Volume::open(device)?;
        let features = features(&volume)?;
        tracing::debug!(?volume.names, ?features, "ISO 9660 opened");
        Ok(Self { volume, features })
    }

    fn node(&self, inode: InodeNumber) -> Result<Node> {
        Node::read(&self.volume, inode)
    }
}

fn features(volume: &Volume) -> Result<Vec<String>> {
    let mut features = Vec::new();
    if matches!(volume.names, Names::RockRidge { .. }) {
        features.push("rock-ridge");
    }
    if volume.descriptors.joliet.is_some() {
        features.push("joliet");
    }
    if let Some(record) = volume.descriptors.boot_record {
        features.extend(boot_catalog::platforms(volume, record)?);
    }
    Ok(features.into_iter().map(str::to_owned).collect())
}

impl FsRead for Iso9660 {
    fn identity(&self) -> Identity {
        let primary = &self.volume.descriptors.primary;
        Identity {
            kind: "iso9660".to_owned(),
            label: primary.volume_identifier.trim_ascii_end().to_vec(),
            uuid: primary.uuid(),
            features: self.features.clone(),
            notes: Vec::new(),
        }
    }

    fn root(&self) -> InodeNumber {
        InodeNumber(self.volume.root)
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let node = self.node(dir)?;
        directory::lookup(&self.volume, &node, name).map_err(|e| e.in_inode(dir))
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        self.node(inode)?.metadata(&self.volume)
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let node = self.node(inode)?;
        contents::read_at(&self.volume, &node, offset, buf).map_err(|e| e.in_inode(inode))
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        let node = self.node(dir)?;
        let entries = Entries::new(&self.volume, &node, cookie).map_err(|e| e.in_inode(dir))?;
        Ok(Box::new(entries))
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        self.node(inode)?.target().map_err(|e| e.in_inode(inode))
    }

    fn xattr(&self, inode: InodeNumber, _: &[u8]) -> Result<Option<Vec<u8>>> {
        self.node(inode)?;
        Ok(None)
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        self.node(inode)?;
        Ok(Vec::new())
    }

    fn statistics(&self) -> Result<Statistics> {
        let block_size = self.volume.block_bytes();
        Ok(Statistics {
            block_size,
            allocation_size: block_size,
            blocks: self.volume.descriptors.primary.blocks.into(),
            name_max: u32::try_from(MAX_NAME_BYTES).unwrap_or_default(),
            ..Statistics::default()
        })
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        let node = self.node(inode)?;
        let extents = contents::extents(&self.volume, &node, offset);
        Ok(Box::new(extents.map_err(|e| e.in_inode(inode))?))
    }

    fn will_need(&self, inode: InodeNumber, offset: u64, len_bytes: u64) {
        let Ok(extents) = self.extents_of(inode, offset) else {
            return; // The read will report the error.
        };
        if let Some(Ok(extent)) = extents.into_iter().next()
            && let diskfs_vfs::FileExtentKind::Stored { device_offset } = extent.kind
        {
            let len = len_bytes.min(extent.len_bytes);
            self.volume.device.will_need(device_offset, len);
        }
    }
}
