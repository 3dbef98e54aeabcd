//! The filesystem opened for writing, with its public interface.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use diskfs_block::BlockWrite;
use diskfs_vfs::{
    DirEntries, Error, ErrorKind, Fallocate, FileExtents, FsRead, FsWrite, Holds, Identity,
    InodeNumber, Metadata, NewAttributes, NewKind, Remains, RenameMode, Result, SetMetadata,
    SetXattr, Statistics, SyncFile, Timestamp,
};

use crate::committer::{Committer, ThreadControl};
use crate::format::Format;
use crate::numbers::ROOT;
use crate::writer::{Existing, Writer};

/// Options for opening a filesystem for writing.
#[derive(Debug, Clone)]
pub struct WriteOptions<N> {
    /// The longest time until a change is made durable without a request. `None`: until a caller
    /// requests it, memory runs short, or the filesystem is closed.
    pub commit_interval: Option<Duration>,
    /// The time of all changes, for reproducible filesystems; `None` for the present time.
    pub fixed_time: Option<Timestamp>,
    /// The options for decoding names: FAT's code page; nothing on exFAT.
    pub names: N,
}

impl<N: Default> Default for WriteOptions<N> {
    /// Returns options that commit every 5 seconds.
    fn default() -> Self {
        Self {
            commit_interval: Some(Duration::from_secs(5)),
            fixed_time: None,
            names: N::default(),
        }
    }
}

/// A FAT or exFAT filesystem, opened for writing.
///
/// Changes of owner, group and permissions that the filesystem cannot store are accepted and
/// ignored, as with the kernel's mount option `quiet`. Links, devices and extended attributes are
/// `Unsupported`.
#[derive(Debug)]
pub struct Writable<F: Format> {
    writer: Arc<RwLock<Writer<F>>>,
    holds: Arc<Holds>,
    committer: Committer,
}

impl<F: Format> Writable<F> {
    /// Opens the filesystem.
    ///
    /// # Errors
    /// Those of [`ReadOnly::open`](crate::ReadOnly::open); `Unsupported` or `Corrupt` if the
    /// filesystem can only be read.
    pub fn open(device: Arc<dyn BlockWrite>, options: &WriteOptions<F::Names>) -> Result<Self> {
        let holds = Arc::new(Holds::default());
        let mut writer = Writer::open(device, Arc::clone(&holds), &options.names)?;
        writer.fixed_time = options.fixed_time;
        let writer = Arc::new(RwLock::new(writer));
        let committed = Arc::downgrade(&writer);
        let commit = move || {
            let Some(writer) = committed.upgrade() else {
                return ThreadControl::No;
            };
            let mut writer = writer.write().unwrap_or_else(PoisonError::into_inner);
            // The error is ignored here: it stops writing, and the next change reports it.
            let _ = writer.sync();
            ThreadControl::Yes
        };
        let thread = format!("{}-commit", F::NAME.to_ascii_lowercase());
        Ok(Self {
            committer: Committer::start(&thread, options.commit_interval, commit)?,
            writer,
            holds,
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, Writer<F>> {
        self.writer.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Writer<F>> {
        self.writer.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Writer<F>) -> Result<T>) -> Result<T> {
        self.write().change(change)
    }

    /// Commits all changes together, when the filesystem is closed. Until then, space that they
    /// free is not allocated again.
    #[must_use]
    pub fn with_one_commit(self) -> Self {
        self.write().commit_once();
        self
    }

    fn finish(&self) -> Result<()> {
        self.committer.stop();
        self.write().close()
    }
}

impl<F: Format> Drop for Writable<F> {
    fn drop(&mut self) {
        if let Err(e) = self.finish() {
            tracing::error!("cannot close the filesystem: {e}");
        }
    }
}

impl<F: Format> FsRead for Writable<F> {
    fn identity(&self) -> Identity {
        F::identity(&self.read().volume)
    }

    fn root(&self) -> InodeNumber {
        ROOT
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.read().volume.lookup(dir, name)
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        self.read().volume.metadata(inode)
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.read().volume.read_at(inode, offset, buf)
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        let entries = self.read().volume.read_dir(dir, cookie)?;
        Ok(Box::new(entries.into_iter().map(Ok)))
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        self.read().volume.no_link(inode)
    }

    fn xattr(&self, inode: InodeNumber, _name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.metadata(inode).map(|_| None)
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        self.metadata(inode).map(|_| Vec::new())
    }

    fn statistics(&self) -> Result<Statistics> {
        let writer = self.read();
        let free = writer.free_clusters()?;
        Ok(writer.volume.statistics(free))
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        let extents = self.read().volume.extents_of(inode, offset)?;
        Ok(Box::new(extents.into_iter().map(Ok)))
    }

    fn will_need(&self, inode: InodeNumber, offset: u64, len_bytes: u64) {
        self.read().volume.will_need(inode, offset, len_bytes);
    }
}

fn unsupported<F: Format, T>(what: &str) -> Result<T> {
    let reason = format!("{what} are not supported on {}", F::NAME);
    Err(Error::new(ErrorKind::Unsupported, reason))
}

impl<F: Format> FsWrite for Writable<F> {
    fn create(
        &self,
        dir: InodeNumber,
        name: &[u8],
        kind: NewKind<'_>,
        _attributes: &NewAttributes,
    ) -> Result<InodeNumber> {
        let is_directory = match kind {
            NewKind::Regular => false,
            NewKind::Directory => true,
            NewKind::Symlink(_) => return unsupported::<F, _>("symbolic links"),
            _ => return unsupported::<F, _>("device nodes, FIFOs and sockets"),
        };
        self.change(|writer| writer.create(dir, name, is_directory))
    }

    fn create_unnamed(
        &self,
        _dir: InodeNumber,
        _attributes: &NewAttributes,
    ) -> Result<InodeNumber> {
        unsupported::<F, _>("files without names")
    }

    fn link(&self, _inode: InodeNumber, _dir: InodeNumber, _name: &[u8]) -> Result<()> {
        unsupported::<F, _>("hard links")
    }

    fn unlink(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.change(|writer| writer.unlink(dir, name))
    }

    fn rmdir(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.change(|writer| writer.rmdir(dir, name))
    }

    fn rename(
        &self,
        dir: InodeNumber,
        name: &[u8],
        to_dir: InodeNumber,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        let existing = Existing::of(mode, F::NAME)?;
        self.change(|writer| writer.rename((dir, name), (to_dir, to_name), existing))
    }

    fn write_at(&self, inode: InodeNumber, offset: u64, data: &[u8]) -> Result<usize> {
        self.change(|writer| writer.write_at(inode, offset, data))
    }

    fn set_len(&self, inode: InodeNumber, size_bytes: u64) -> Result<()> {
        self.change(|writer| writer.set_len(inode, size_bytes))
    }

    fn fallocate(
        &self,
        inode: InodeNumber,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    ) -> Result<()> {
        self.change(|writer| writer.fallocate(inode, offset, len_bytes, what))
    }

    fn set_metadata(&self, inode: InodeNumber, change: &SetMetadata) -> Result<()> {
        self.change(|writer| writer.set_metadata(inode, change))
    }

    fn set_xattr(
        &self,
        _inode: InodeNumber,
        _name: &[u8],
        _value: &[u8],
        _how: SetXattr,
    ) -> Result<()> {
        unsupported::<F, _>("extended attributes")
    }

    fn remove_xattr(&self, _inode: InodeNumber, _name: &[u8]) -> Result<()> {
        Err(ErrorKind::NoAttribute.into())
    }

    fn hold(&self, inode: InodeNumber) {
        self.holds.add(inode);
    }

    fn release(&self, inode: InodeNumber) -> Result<()> {
        if self.holds.remove(inode) {
            return self.write().release(inode);
        }
        Ok(())
    }

    fn sync_file(&self, _inode: InodeNumber, _what: SyncFile) -> Result<()> {
        self.write().sync()
    }

    fn sync(&self) -> Result<()> {
        self.write().sync()
    }

    fn close(&self) -> Result<()> {
        self.finish()
    }

    fn abandon(&self) -> Result<Remains> {
        self.committer.stop();
        Ok(self.write().abandon())
    }
}
