//! The filesystem opened for writing, as everybody else sees it.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use diskfs_block::BlockWrite;
use diskfs_clusters::{Again, Committer, Holds, ROOT};
use diskfs_vfs::{
    DirEntries, Error, ErrorKind, Fallocate, FileExtents, FsRead, FsWrite, Identity, InodeNumber,
    Metadata, NewAttributes, NewKind, Remains, RenameMode, Result, SetMetadata, SetXattr,
    Statistics, SyncFile,
};

use crate::writer::{Existing, Writer, attributes_of};

/// How a filesystem is opened for writing.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// How long a change may wait until it is made durable without anybody asking. `None`: until
    /// somebody asks, memory runs short, or the filesystem is closed.
    pub commit_interval: Option<Duration>,
}

impl Default for WriteOptions {
    /// 5 seconds.
    fn default() -> Self {
        Self {
            commit_interval: Some(Duration::from_secs(5)),
        }
    }
}

/// An exFAT filesystem, opened for writing.
///
/// Owners, groups and the permissions that exFAT has no room for are accepted and stay as they are, as
/// with the kernel's option `quiet`. Links, devices and extended attributes are `Unsupported`.
#[derive(Debug)]
pub struct WritableExfat {
    writer: Arc<RwLock<Writer>>,
    holds: Arc<Holds>,
    committer: Committer,
}

impl WritableExfat {
    /// Opens the filesystem.
    ///
    /// # Errors
    /// As [`Exfat::open`](crate::Exfat::open); `Unsupported` for two tables
    /// (`TexFAT`); `Corrupt` when a structure is damaged that reading can do without.
    pub fn open(device: Arc<dyn BlockWrite>, options: &WriteOptions) -> Result<Self> {
        let holds = Arc::new(Holds::default());
        let writer = Writer::open(device, Arc::clone(&holds))?;
        let writer = Arc::new(RwLock::new(writer));
        let committed = Arc::downgrade(&writer);
        let commit = move || {
            let Some(writer) = committed.upgrade() else {
                return Again::No;
            };
            let mut writer = writer.write().unwrap_or_else(PoisonError::into_inner);
            // What fails ends writing, and whoever writes next is told.
            let _ = writer.sync();
            Again::Yes
        };
        Ok(Self {
            committer: Committer::start("exfat-commit", options.commit_interval, commit)?,
            writer,
            holds,
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, Writer> {
        self.writer.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Writer> {
        self.writer.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Writer) -> Result<T>) -> Result<T> {
        self.write().change(change)
    }

    /// The same, committed once, when it is closed: room that changes give back is none before that.
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

impl Drop for WritableExfat {
    fn drop(&mut self) {
        if let Err(e) = self.finish() {
            tracing::error!("the filesystem could not be closed: {e}");
        }
    }
}

impl FsRead for WritableExfat {
    fn identity(&self) -> Identity {
        self.read().volume.identity()
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

fn unsupported<T>(what: &'static str) -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, what))
}

impl FsWrite for WritableExfat {
    fn create(
        &self,
        dir: InodeNumber,
        name: &[u8],
        kind: NewKind<'_>,
        _attributes: &NewAttributes,
    ) -> Result<InodeNumber> {
        let attributes = attributes_of(kind)?;
        self.change(|writer| writer.create(dir, name, attributes))
    }

    fn create_unnamed(
        &self,
        _dir: InodeNumber,
        _attributes: &NewAttributes,
    ) -> Result<InodeNumber> {
        unsupported("exFAT has no files without names")
    }

    fn link(&self, _inode: InodeNumber, _dir: InodeNumber, _name: &[u8]) -> Result<()> {
        unsupported("exFAT has no hard links")
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
        let existing = Existing::of(mode)?;
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
        unsupported("exFAT has no extended attributes")
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
