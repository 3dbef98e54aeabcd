//! A filesystem that is served read-only.

use std::sync::Arc;
use std::time::Duration;

use diskfs_remote::client::MountRequest;
use diskfs_remote::server::{Machine, Served};
use diskfs_vfs::{
    DirEntries, ErrorKind, Fallocate, FileAttributes, FileExtents, FreeRanges, FsRead, FsWrite,
    Identity, InodeNumber, Metadata, NewAttributes, NewKind, RenameMode, Result, SetMetadata,
    SetXattr, Statistics, SyncFile,
};

/// A machine with one filesystem, which is mounted already.
#[derive(Debug)]
pub(super) struct OneFilesystem(pub(super) Arc<dyn FsRead>);

impl Machine for OneFilesystem {
    fn mount(&self, _request: &MountRequest) -> Result<Arc<dyn Served>> {
        Ok(Arc::new(ReadOnly(Arc::clone(&self.0))))
    }
}

/// A filesystem that refuses every change.
#[derive(Debug)]
struct ReadOnly(Arc<dyn FsRead>);

impl Served for ReadOnly {}

impl FsRead for ReadOnly {
    fn identity(&self) -> Identity {
        self.0.identity()
    }

    fn root(&self) -> InodeNumber {
        self.0.root()
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.0.lookup(dir, name)
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        self.0.metadata(inode)
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.0.read_at(inode, offset, buf)
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        self.0.read_dir(dir, cookie)
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        self.0.read_link(inode)
    }

    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.0.xattr(inode, name)
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        self.0.list_xattrs(inode)
    }

    fn statistics(&self) -> Result<Statistics> {
        self.0.statistics()
    }

    fn statistics_at(&self, inode: InodeNumber) -> Result<Statistics> {
        self.0.statistics_at(inode)
    }

    fn free_ranges(&self) -> Result<FreeRanges<'_>> {
        self.0.free_ranges()
    }

    fn mount_of(&self, inode: InodeNumber) -> usize {
        self.0.mount_of(inode)
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        self.0.extents_of(inode, offset)
    }

    fn subvolume(&self, id: Option<u64>) -> Result<Vec<u8>> {
        self.0.subvolume(id)
    }

    fn has_aliases(&self) -> bool {
        self.0.has_aliases()
    }

    fn file_attributes(&self, inode: InodeNumber) -> Result<FileAttributes> {
        self.0.file_attributes(inode)
    }

    fn time_granularity(&self) -> Duration {
        self.0.time_granularity()
    }

    fn will_need_metadata(&self, inodes: &[InodeNumber]) {
        self.0.will_need_metadata(inodes);
    }

    fn will_need(&self, inode: InodeNumber, offset: u64, len_bytes: u64) {
        self.0.will_need(inode, offset, len_bytes);
    }
}

fn refused<T>() -> Result<T> {
    Err(ErrorKind::ReadOnly.into())
}

impl FsWrite for ReadOnly {
    fn create(
        &self,
        _dir: InodeNumber,
        _name: &[u8],
        _kind: NewKind<'_>,
        _attributes: &NewAttributes,
    ) -> Result<InodeNumber> {
        refused()
    }

    fn create_unnamed(
        &self,
        _dir: InodeNumber,
        _attributes: &NewAttributes,
    ) -> Result<InodeNumber> {
        refused()
    }

    fn link(&self, _inode: InodeNumber, _dir: InodeNumber, _name: &[u8]) -> Result<()> {
        refused()
    }

    fn unlink(&self, _dir: InodeNumber, _name: &[u8]) -> Result<()> {
        refused()
    }

    fn rmdir(&self, _dir: InodeNumber, _name: &[u8]) -> Result<()> {
        refused()
    }

    fn rename(
        &self,
        _dir: InodeNumber,
        _name: &[u8],
        _to_dir: InodeNumber,
        _to_name: &[u8],
        _mode: RenameMode,
    ) -> Result<()> {
        refused()
    }

    fn write_at(&self, _inode: InodeNumber, _offset: u64, _data: &[u8]) -> Result<usize> {
        refused()
    }

    fn set_len(&self, _inode: InodeNumber, _size_bytes: u64) -> Result<()> {
        refused()
    }

    fn fallocate(
        &self,
        _inode: InodeNumber,
        _offset: u64,
        _len_bytes: u64,
        _what: Fallocate,
    ) -> Result<()> {
        refused()
    }

    fn set_metadata(&self, _inode: InodeNumber, _change: &SetMetadata) -> Result<()> {
        refused()
    }

    fn set_xattr(
        &self,
        _inode: InodeNumber,
        _name: &[u8],
        _value: &[u8],
        _how: SetXattr,
    ) -> Result<()> {
        refused()
    }

    fn remove_xattr(&self, _inode: InodeNumber, _name: &[u8]) -> Result<()> {
        refused()
    }

    fn hold(&self, _inode: InodeNumber) {}

    fn release(&self, _inode: InodeNumber) -> Result<()> {
        Ok(())
    }

    fn sync_file(&self, _inode: InodeNumber, _what: SyncFile) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}
