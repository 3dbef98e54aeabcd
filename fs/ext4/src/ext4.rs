//! The public type of an opened filesystem.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use diskfs_block::BlockRead;
use diskfs_vfs::{
    DirEntries, Error, ErrorKind, FileAttributes, FileExtents, FileType, FreeRanges, FsRead, Holds,
    Identity, InodeNumber, Metadata, Result, Statistics,
};

use crate::allocator::free_ranges;
use crate::ambient::Ambient;
use crate::bytes::len_u64;
use crate::contents;
use crate::directory;
use crate::error::{InInode, Unsupported};
use crate::identity::identity;
use crate::inode::{Inode, InodeFlags, ROOT};
use crate::inode_table;
use crate::options::WriteOptions;
use crate::recovery::{Recovered, recover};
use crate::statistics::statistics;
use crate::superblock::{self, Superblock};
use crate::symlink;
use crate::volume::Volume;
use crate::xattr;

/// The maximum length of a directory entry's name, `EXT4_NAME_LEN`.
const NAME_MAX_BYTES: usize = 255;

/// The options for opening a filesystem.
#[derive(Debug, Clone)]
pub struct Options {
    /// The maximum memory for the caches of metadata, in bytes.
    pub cache_bytes: u64,
}

impl Default for Options {
    /// Returns a limit of 16 MiB: the metadata of a system's tree of some 20,000 files, and half of
    /// that again.
    fn default() -> Self {
        Self {
            cache_bytes: 16 << 20,
        }
    }
}

/// An ext2, ext3 or ext4 filesystem, opened for reading.
#[derive(Debug)]
pub struct Ext4 {
    volume: Volume,
    identity: Identity,
    statistics: OnceLock<Statistics>,
    /// The open files without a name, in a filesystem that is opened for writing.
    holds: Option<Arc<Holds<u32>>>,
}

impl Ext4 {
    /// Returns the identity in the first backup superblock of a device, for a device whose primary
    /// superblock is destroyed.
    ///
    /// Opening such a filesystem fails; the error names the backup that e2fsck can use.
    pub fn probe_backup(device: &dyn BlockRead) -> Option<Identity> {
        Superblock::backup(device).map(|superblock| identity(&superblock))
    }

    /// Returns true if the device contains an ext filesystem, judged by the magic of its
    /// superblock.
    ///
    /// # Errors
    /// Fails if the device cannot be read.
    pub fn probe(device: &dyn BlockRead) -> diskfs_block::Result<bool> {
        superblock::probe(device)
    }

    /// Opens the filesystem. Only the superblock is read, and the journal if it is not empty;
    /// everything else is read and checked when it is used.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the superblock is invalid, or the filesystem is larger than the
    /// device; [`ErrorKind::Unsupported`], with their names, for features that this driver cannot
    /// read.
    pub fn open(device: Arc<dyn BlockRead>, options: &Options) -> Result<Self> {
        let superblock = Superblock::read(&*device)?;
        let Recovered {
            device,
            view,
            superblock,
            fast_commits,
            notes,
        } = recover(device, superblock)?;
        let mut identity = identity(&superblock);
        identity.notes.extend(notes);
        let mut volume = Volume::new(device, superblock, options.cache_bytes);
        volume.fast_commits = fast_commits;
        volume.journal_view = view;
        Ok(Self {
            volume,
            identity,
            statistics: OnceLock::new(),
            holds: None,
        })
    }

    /// Returns the reader of a filesystem that is opened for writing.
    pub(crate) fn for_writing(
        device: Arc<dyn BlockRead>,
        superblock: Superblock,
        options: &WriteOptions,
        holds: Arc<Holds<u32>>,
    ) -> Self {
        let ambient = Ambient::new(options.fixed_time);
        Self {
            holds: Some(holds),
            identity: identity(&superblock),
            volume: Volume::writable(device, superblock, options.cache_bytes, ambient),
            statistics: OnceLock::new(),
        }
    }

    /// Adds notes to the identity, for users who check carefully.
    pub(crate) fn with_notes(mut self, notes: Vec<String>) -> Self {
        self.identity.notes.extend(notes);
        self
    }

    /// Returns the volume, which the crate's other modules read from.
    pub(crate) const fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Returns a file's inode. Inodes that are not files to the outside (the journal, attribute
    /// values) are not found.
    fn inode(&self, number: InodeNumber) -> Result<Arc<Inode>> {
        let first = self.volume.superblock.first_inode;
        let inode = match u32::try_from(number.0) {
            Ok(ours) if ours == ROOT || ours >= first => self.volume.inode(ours)?,
            _ => None,
        };
        inode
            .filter(|inode| inode.links != 0 || self.is_held(inode.number))
            .filter(|inode| !inode.has(InodeFlags::EA_INODE))
            .ok_or_else(|| no_such(number))
    }

    /// Checks that an inode which the directory `dir` refers to is a file. Deleting a file removes
    /// its last name first, so an unused inode here is damage, and not a deleted file.
    fn named(&self, dir: InodeNumber, inode: u32) -> Result<InodeNumber> {
        let number = InodeNumber(u64::from(inode));
        match self.inode(number) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let reason = format!("the entry refers to inode {inode}, which is not in use");
                Err(Error::new(ErrorKind::Corrupt, reason).in_inode(dir))
            }
            // Other errors in the inode are reported when it is read.
            _ => Ok(number),
        }
    }

    fn is_held(&self, inode: u32) -> bool {
        let holds = self.holds.as_ref();
        holds.is_some_and(|holds| holds.contains(inode))
    }

    fn directory(&self, number: InodeNumber) -> Result<Arc<Inode>> {
        let inode = self.inode(number)?;
        if inode.is(FileType::Directory) {
            return Ok(inode);
        }
        Err(Error::new(ErrorKind::NotADirectory, "not a directory").in_inode(number))
    }

    /// Returns a part of a directory's entries, in an order that stays the same when the directory
    /// is changed.
    pub(crate) fn batch(&self, dir: InodeNumber, cookie: u64) -> Result<directory::Batch> {
        directory::batch(&self.volume, &*self.directory(dir)?, cookie)
    }

    /// Returns an inode whose contents may be read.
    fn readable(&self, number: InodeNumber) -> Result<Arc<Inode>> {
        let inode = self.inode(number)?;
        match inode.file_type {
            Some(FileType::Regular) => {}
            Some(FileType::Directory) => {
                let e = Error::new(ErrorKind::IsADirectory, "is a directory");
                return Err(e.in_inode(number));
            }
            _ => {
                let e = Error::new(ErrorKind::Invalid, "not a regular file");
                return Err(e.in_inode(number));
            }
        }
        if inode.has(InodeFlags::ENCRYPT) {
            return Err(Unsupported::Encrypted).in_inode(inode.number);
        }
        Ok(inode)
    }
}

/// Returns the error for an inode that is not in use. The root inode is always in use.
fn no_such(number: InodeNumber) -> Error {
    let error = if number.0 == u64::from(ROOT) {
        Error::new(
            ErrorKind::Corrupt,
            "the root directory's inode is not in use",
        )
        .with_hint("run `e2fsck` on a copy")
    } else {
        Error::new(ErrorKind::NotFound, "no such inode")
    };
    error.in_inode(number)
}

impl FsRead for Ext4 {
    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn root(&self) -> InodeNumber {
        InodeNumber(u64::from(ROOT))
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let directory = self.directory(dir)?;
        if name.len() > NAME_MAX_BYTES {
            let e = Error::new(
                ErrorKind::NameTooLong,
                "the name is too long: at most 255 bytes",
            );
            return Err(e.in_inode(dir));
        }
        match directory::lookup(&self.volume, &directory, name)? {
            Some(inode) => self.named(dir, inode),
            None => Err(Error::new(ErrorKind::NotFound, "no such file").in_inode(dir)),
        }
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        let found = self.inode(inode)?;
        let mut metadata = found.metadata(&self.volume.superblock).ok_or_else(|| {
            let mode = "i_mode has an unknown file type";
            Error::new(ErrorKind::Corrupt, mode).in_inode(inode)
        })?;
        if metadata.file_type == FileType::Symlink && metadata.flags.encrypted {
            // The size is the length of what `read_link` returns.
            metadata.size_bytes = len_u64(symlink::target(&self.volume, &found)?.len());
        }
        Ok(metadata)
    }

    fn file_attributes(&self, inode: InodeNumber) -> Result<FileAttributes> {
        Ok(self.inode(inode)?.file_attributes())
    }

    fn time_granularity(&self) -> Duration {
        if self.volume.superblock.inode_size > 128 {
            Duration::from_nanos(1)
        } else {
            Duration::from_secs(1)
        }
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
            return symlink::target(&self.volume, &found);
        }
        Err(Error::new(ErrorKind::Invalid, "not a symlink").in_inode(inode))
    }

    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>> {
        xattr::get(&self.volume, &*self.inode(inode)?, name)
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        xattr::list(&self.volume, &*self.inode(inode)?)
    }

    fn statistics(&self) -> Result<Statistics> {
        if let Some(statistics) = self.statistics.get() {
            return Ok(*statistics);
        }
        let statistics = statistics(&self.volume)?;
        Ok(*self.statistics.get_or_init(|| statistics))
    }

    fn free_ranges(&self) -> Result<FreeRanges<'_>> {
        free_ranges(&self.volume)
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        let inode = self.readable(inode)?;
        Ok(Box::new(contents::extents(&self.volume, inode, offset)))
    }

    fn will_need_metadata(&self, inodes: &[InodeNumber]) {
        let numbers = inodes
            .iter()
            .filter_map(|inode| u32::try_from(inode.0).ok());
        inode_table::will_need(&self.volume, numbers);
    }

    fn will_need(&self, inode: InodeNumber, offset: u64, len_bytes: u64) {
        if let Ok(inode) = self.readable(inode) {
            contents::will_need(&self.volume, &inode, offset, len_bytes);
        }
    }
}
