//! The implementation of [`FsRead`].

mod open;

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_vfs::{
    DirEntries, DirEntry, FileAttributes, FileExtents, FileType, FsRead, Identity, InodeNumber,
    Metadata, Statistics,
};

use crate::bytes::{index, uuid_text};
use crate::contents::{self, Extents, Reader};
use crate::directory::{self, Entries};
use crate::error::{Error, ErrorKind, Result};
use crate::features;
use crate::inode::Inode;
use crate::options::Options;
use crate::read_ahead;
use crate::statistics;
use crate::subvolume_list::{self, SubvolumeInfo};
use crate::subvolumes::{FileId, Node, ROOT_INODE, Subvolumes};
use crate::volume::Volume;
use crate::xattr;

/// The longest target of a symlink (`PATH_MAX`).
const TARGET_MAX_BYTES: u64 = 4096;

/// A btrfs filesystem, opened for reading.
///
/// Inode numbers are those of the files themselves in the subvolume that is the root of the tree.
/// In other subvolumes, they have the number of the subvolume in their upper 16 bits, in the order
/// of their first use.
#[derive(Debug)]
pub struct Btrfs {
    volume: Volume,
    subvolumes: Subvolumes,
    reader: Reader,
    /// The ID of the subvolume that is the root of the tree.
    root_id: u64,
}

impl Btrfs {
    /// Opens the filesystem on `devices`: all devices of one filesystem, or those of them that are
    /// there, in any order.
    ///
    /// # Errors
    /// `Corrupt` if a superblock, a chunk or a tree is invalid; `Unsupported` for an unsupported
    /// feature; `NotFound` if the chosen subvolume does not exist; `Io` if a device fails or a
    /// missing one is needed; `Invalid` if the devices belong to different filesystems.
    pub fn open(devices: Vec<Arc<dyn BlockRead>>, options: &Options) -> Result<Self> {
        let mut volume = Volume::open(devices, options.metadata_cache_bytes)?;
        open::replay_log(&mut volume)?;
        let root_id = open::root_id(&volume, &options.root)?;
        let subvolumes = Subvolumes::default();
        subvolumes.open(&volume, root_id)?;
        tracing::debug!(root_id, notes = ?volume.notes, "btrfs opened");
        Ok(Self {
            reader: Reader::new(volume.sector_bytes(), options.data_cache_bytes),
            volume,
            subvolumes,
            root_id,
        })
    }

    /// Returns all subvolumes and snapshots, in the order of their IDs.
    ///
    /// # Errors
    /// `Corrupt` or `Io` if a tree can't be read; `Unsupported` if there are more than 65536.
    pub fn subvolumes(&self) -> Result<Vec<SubvolumeInfo>> {
        subvolume_list::list(&self.volume, &self.subvolumes)
    }

    /// Returns the ID of the subvolume that is the root of the tree.
    pub fn root_subvolume(&self) -> u64 {
        self.root_id
    }

    /// Returns the file with an inode number.
    fn file(&self, number: InodeNumber) -> Result<FileId> {
        match self.subvolumes.node(number)? {
            Node::File(file) => Ok(file),
            Node::Placeholder { .. } => Err(ErrorKind::IsADirectory.into()),
        }
    }

    fn inode(&self, number: InodeNumber) -> Result<Inode> {
        Inode::read(&self.volume, self.file(number)?)
    }

    /// Returns the inode of a file with contents.
    fn regular(&self, number: InodeNumber) -> Result<Inode> {
        let inode = self.inode(number)?;
        match inode.item.file_type {
            FileType::Regular => Ok(inode),
            FileType::Directory => Err(ErrorKind::IsADirectory.into()),
            _ => Err(ErrorKind::Invalid.into()),
        }
    }

    /// Returns the directory with an inode number.
    fn directory(&self, number: InodeNumber) -> Result<FileId> {
        let inode = self.inode(number)?;
        if inode.item.file_type == FileType::Directory {
            return Ok(inode.id);
        }
        Err(ErrorKind::NotADirectory.into())
    }

    /// Returns the metadata of the empty directory that stands for a subvolume, as Linux makes it
    /// up (`new_simple_dir`). Linux sets most times to now.
    fn placeholder(&self, number: InodeNumber, dir: FileId) -> Result<Metadata> {
        let dir = Inode::read(&self.volume, dir)?;
        let sector_bytes = self.volume.superblock().sector_bytes;
        Ok(Metadata {
            file_type: FileType::Directory,
            permissions: 0o755,
            links: 1,
            size_bytes: 0,
            allocated_bytes: 0,
            device: None,
            flags: diskfs_vfs::FileFlags::default(),
            ..dir.item.metadata(number, sector_bytes)
        })
    }

    fn find(&self, number: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        match self.subvolumes.node(number)? {
            Node::File(_) => {
                let dir = self.directory(number)?;
                directory::lookup(&self.volume, &self.subvolumes, &dir, name)
            }
            Node::Placeholder { dir } => match name {
                b"." => Ok(number),
                b".." => dir.number(),
                _ => Err(ErrorKind::NotFound.into()),
            },
        }
    }
}

/// Returns the entries of a placeholder from a cookie on.
fn placeholder_entries(number: InodeNumber, dir: &FileId, cookie: u64) -> Result<DirEntries<'_>> {
    let special = |name: &[u8], inode, cookie| {
        Ok(DirEntry {
            name: name.to_vec(),
            inode,
            file_type: Some(FileType::Directory),
            cookie,
        })
    };
    let entries = [special(b".", number, 1), special(b"..", dir.number()?, 2)];
    Ok(Box::new(entries.into_iter().skip(index(cookie))))
}

impl FsRead for Btrfs {
    fn identity(&self) -> Identity {
        let superblock = self.volume.superblock();
        let mut features = features::names(superblock.incompat, superblock.compat_ro);
        features.push(superblock.checksum.name().to_owned());
        Identity {
            kind: "btrfs".to_owned(),
            label: superblock.label.clone(),
            uuid: Some(uuid_text(superblock.fsid)),
            features,
            notes: self.volume.notes.clone(),
        }
    }

    fn root(&self) -> InodeNumber {
        InodeNumber(ROOT_INODE)
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.find(dir, name).map_err(|e| e.in_inode(dir))
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        let metadata = match self.subvolumes.node(inode)? {
            Node::Placeholder { dir } => self.placeholder(inode, dir),
            Node::File(file) => Inode::read(&self.volume, file).map(|read| {
                read.item
                    .metadata(inode, self.volume.superblock().sector_bytes)
            }),
        };
        metadata.map_err(|e| e.in_inode(inode))
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let read = |inode| self.reader.read(&self.volume, &inode, offset, buf);
        self.regular(inode)
            .and_then(read)
            .map_err(|e| e.in_inode(inode))
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        if let Node::Placeholder { dir: above } = self.subvolumes.node(dir)? {
            let entries: Vec<_> = placeholder_entries(dir, &above, cookie)?.collect();
            return Ok(Box::new(entries.into_iter()));
        }
        let file = self.directory(dir).map_err(|e| e.in_inode(dir))?;
        Ok(Box::new(Entries::new(
            &self.volume,
            &self.subvolumes,
            file,
            cookie,
        )))
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        let link = self.inode(inode).map_err(|e| e.in_inode(inode))?;
        if link.item.file_type != FileType::Symlink {
            return Err(Error::from(ErrorKind::Invalid).in_inode(inode));
        }
        if link.item.size_bytes > TARGET_MAX_BYTES {
            let reason = format!("invalid symlink of {} bytes", link.item.size_bytes);
            return Err(Error::new(ErrorKind::Corrupt, reason).in_inode(inode));
        }
        let mut target = vec![0; index(link.item.size_bytes)];
        let read = self.reader.read(&self.volume, &link, 0, &mut target);
        read.map_err(|e| e.in_inode(inode))?;
        Ok(target)
    }

    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.subvolumes.node(inode)? {
            Node::Placeholder { .. } => Ok(None),
            Node::File(file) => {
                xattr::get(&self.volume, &file, name).map_err(|e| e.in_inode(inode))
            }
        }
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        match self.subvolumes.node(inode)? {
            Node::Placeholder { .. } => Ok(Vec::new()),
            Node::File(file) => xattr::list(&self.volume, &file).map_err(|e| e.in_inode(inode)),
        }
    }

    fn statistics(&self) -> Result<Statistics> {
        statistics::statistics(&self.volume)
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        let extents = |file: Inode| Extents::new(&self.volume, &file, offset);
        let extents = self.regular(inode).and_then(extents);
        Ok(Box::new(extents.map_err(|e| e.in_inode(inode))?))
    }

    fn subvolume(&self, id: Option<u64>) -> Result<Vec<u8>> {
        let id = id.map_or_else(|| open::default_id(&self.volume), Ok)?;
        subvolume_list::path(&self.volume, &self.subvolumes, self.root_id, id)
    }

    fn file_attributes(&self, inode: InodeNumber) -> Result<FileAttributes> {
        let flags = match self.subvolumes.node(inode)? {
            Node::Placeholder { .. } => 0,
            Node::File(file) => Inode::read(&self.volume, file)?.item.flags.shown(),
        };
        Ok(FileAttributes { flags, project: 0 })
    }

    fn will_need_metadata(&self, inodes: &[InodeNumber]) {
        read_ahead::inodes(&self.volume, &self.subvolumes, inodes);
    }

    fn will_need(&self, inode: InodeNumber, offset: u64, len_bytes: u64) {
        // The read itself will report an error.
        if let Ok(inode) = self.regular(inode) {
            let _ = contents::will_need(&self.volume, &inode, offset, len_bytes);
        }
    }
}
