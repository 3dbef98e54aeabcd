//! The public type of an opened filesystem.

use std::sync::{Arc, OnceLock};

use diskfs_block::BlockRead;
use diskfs_vfs::{
    DirEntries, Error, ErrorKind, FileAttributes, FileExtents, FileType, FreeRanges, FsRead,
    Identity, InodeNumber, Metadata, Result, Statistics,
};

use crate::attribute;
use crate::clean_log::ends_with_unmount;
use crate::contents;
use crate::directory;
use crate::error::unsupported;
use crate::free_ranges::free_ranges;
use crate::identity::identity;
use crate::inode::{Fork, Inode};
use crate::inode_table;
use crate::log;
use crate::statistics::{NAME_BYTES_MAX, statistics};
use crate::superblock::{self, Superblock};
use crate::symlink;
use crate::volume::Volume;

/// An XFS filesystem, opened for reading.
#[derive(Debug)]
pub struct Xfs {
    volume: Volume,
    identity: Identity,
    /// True if the log was not clean.
    is_replayed: bool,
    statistics: OnceLock<Statistics>,
}

impl Xfs {
    /// Returns true if the device contains XFS, judged by the magic of its superblock.
    ///
    /// # Errors
    /// Fails if the device cannot be read.
    pub fn probe(device: &dyn BlockRead) -> diskfs_block::Result<bool> {
        superblock::probe(device)
    }

    /// Opens the filesystem. Only the superblock and the log's end are read, and the whole log if
    /// it is not clean; everything else is read and checked when it is used.
    ///
    /// # Errors
    /// `Corrupt` if the superblock is invalid, or the filesystem is larger than the device;
    /// `Unsupported`, with their names, for features that this driver cannot read.
    pub fn open(device: Arc<dyn BlockRead>) -> Result<Self> {
        let mut superblock = Superblock::read(&*device)?;
        let log::Recovered {
            device,
            is_replayed,
            notes,
        } = if ends_with_unmount(&*device, &superblock)? {
            log::Recovered {
                device,
                is_replayed: false,
                notes: Vec::new(),
            }
        } else {
            log::recover(device, &superblock)?
        };
        if is_replayed {
            superblock = Superblock::read(&*device)?;
        }
        Ok(Self {
            identity: identity(&superblock, notes),
            volume: Volume::new(device, superblock),
            is_replayed,
            statistics: OnceLock::new(),
        })
    }

    fn inode(&self, number: InodeNumber) -> Result<Arc<Inode>> {
        self.volume
            .inode(number.0)?
            .ok_or_else(|| self.no_such(number))
    }

    /// Returns the error for an inode that is not in use. The root inode is always in use.
    fn no_such(&self, number: InodeNumber) -> Error {
        if number == self.root() {
            let reason = "the root directory's inode is not in use";
            return Error::new(ErrorKind::Corrupt, reason)
                .with_hint("run `xfs_repair` on a copy")
                .in_inode(number);
        }
        Error::new(ErrorKind::NotFound, "no such inode").in_inode(number)
    }

    fn directory(&self, number: InodeNumber) -> Result<Arc<Inode>> {
        let inode = self.inode(number)?;
        if inode.is(FileType::Directory) {
            return Ok(inode);
        }
        Err(Error::new(ErrorKind::NotADirectory, "not a directory").in_inode(number))
    }

    /// Returns an inode whose contents may be read.
    fn readable(&self, number: InodeNumber) -> Result<Arc<Inode>> {
        let inode = self.inode(number)?;
        match (inode.file_type, &inode.data) {
            (FileType::Regular, Fork::Realtime) => {
                let e = unsupported("the contents of the file are on the real-time device");
                Err(e.in_inode(number))
            }
            (FileType::Regular, _) => Ok(inode),
            (FileType::Directory, _) => {
                Err(Error::new(ErrorKind::IsADirectory, "is a directory").in_inode(number))
            }
            _ => Err(Error::new(ErrorKind::Invalid, "not a regular file").in_inode(number)),
        }
    }

    /// Checks that an inode which the directory `dir` refers to is in use.
    fn named(&self, dir: InodeNumber, inode: u64) -> Result<InodeNumber> {
        match self.volume.inode(inode) {
            Ok(None) => {
                let reason = format!("the entry refers to inode {inode}, which is not in use");
                Err(Error::new(ErrorKind::Corrupt, reason)
                    .with_hint("run `xfs_repair` on a copy")
                    .in_inode(dir))
            }
            // Other errors in the inode are reported when it is read.
            _ => Ok(InodeNumber(inode)),
        }
    }
}

impl FsRead for Xfs {
    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn root(&self) -> InodeNumber {
        InodeNumber(self.volume.superblock.root_inode)
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let directory = self.directory(dir)?;
        if diskfs_block::len_of(name) > NAME_BYTES_MAX.into() {
            let reason = "the name is too long: at most 255 bytes";
            return Err(Error::new(ErrorKind::NameTooLong, reason).in_inode(dir));
        }
        let found = directory::lookup(&self.volume, &directory, name);
        match found.map_err(|e| e.in_inode(dir))? {
            Some(inode) => self.named(dir, inode),
            None => Err(Error::new(ErrorKind::NotFound, "no such file").in_inode(dir)),
        }
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        Ok(self.inode(inode)?.metadata(&self.volume.superblock))
    }

    fn file_attributes(&self, inode: InodeNumber) -> Result<FileAttributes> {
        Ok(self.inode(inode)?.file_attributes())
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let inode = self.readable(inode)?;
        contents::read(&self.volume, &inode, offset, buf)
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        directory::entries(&self.volume, self.directory(dir)?, cookie)
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        let found = self.inode(inode)?;
        if found.is(FileType::Symlink) {
            return symlink::target(&self.volume, &found).map_err(|e| e.in_inode(inode));
        }
        Err(Error::new(ErrorKind::Invalid, "not a symlink").in_inode(inode))
    }

    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.inode(inode)?;
        attribute::get(&self.volume, &found, name).map_err(|e| e.in_inode(inode))
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        let found = self.inode(inode)?;
        attribute::list(&self.volume, &found).map_err(|e| e.in_inode(inode))
    }

    fn statistics(&self) -> Result<Statistics> {
        if let Some(statistics) = self.statistics.get() {
            return Ok(*statistics);
        }
        let statistics = statistics(&self.volume, self.is_replayed)?;
        Ok(*self.statistics.get_or_init(|| statistics))
    }

    fn free_ranges(&self) -> Result<FreeRanges<'_>> {
        if self.is_replayed {
            let reason = "the free space is known only after a kernel has replayed the log";
            return Err(unsupported(reason).with_hint("mount the filesystem once"));
        }
        Ok(free_ranges(&self.volume))
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        let inode = self.readable(inode)?;
        Ok(Box::new(contents::FileExtents::new(
            &self.volume,
            inode,
            offset,
        )))
    }

    fn will_need_metadata(&self, inodes: &[InodeNumber]) {
        inode_table::will_need(&self.volume, inodes.iter().map(|inode| inode.0));
    }

    fn will_need(&self, inode: InodeNumber, offset: u64, len_bytes: u64) {
        if let Ok(inode) = self.readable(inode) {
            contents::will_need(&self.volume, &inode, offset, len_bytes);
        }
    }
}
