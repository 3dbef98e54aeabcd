//! The source of a copy: a file of the host, or of a filesystem.

use crate::{FileExtentKind, FsRead, InodeNumber, Metadata, Result};

/// A file that is copied.
pub(super) trait SourceFile {
    /// Returns the metadata, as stat(2) does.
    fn metadata(&self) -> &Metadata;

    /// Returns an identity that all names of one file share, and no other file has.
    fn id(&self) -> (u64, u64);

    /// Opens a regular file for reading: this inode, even if its name refers to another file by
    /// now.
    fn open(&self) -> Result<Box<dyn SourceData + '_>>;

    /// Returns the target of a symlink.
    fn link_target(&self) -> Result<Vec<u8>>;

    /// Returns the names of its extended attributes.
    fn xattr_names(&self) -> Result<Vec<Vec<u8>>>;

    /// Returns the value of an extended attribute; `None` if it has just been removed, or can't be
    /// read for lack of permission.
    fn xattr(&self, name: &[u8]) -> Result<Option<Vec<u8>>>;
}

/// The contents of a file that is copied.
pub(super) trait SourceData {
    /// Returns start and end of the next run of data from byte `at` on; `None` if there is no more
    /// data.
    fn next_run(&mut self, at: u64) -> Result<Option<(u64, u64)>>;

    /// Reads into `buffer` from byte `at` on; returns 0 at the end.
    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> Result<usize>;
}

/// A file of a filesystem.
#[derive(Debug, Clone)]
pub(super) struct GuestFile<'a> {
    pub(super) fs: &'a dyn FsRead,
    pub(super) metadata: Metadata,
}

impl GuestFile<'_> {
    fn inode(&self) -> InodeNumber {
        self.metadata.inode
    }
}

impl SourceFile for GuestFile<'_> {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn id(&self) -> (u64, u64) {
        (0, self.inode().0)
    }

    fn open(&self) -> Result<Box<dyn SourceData + '_>> {
        Ok(Box::new(GuestData(self)))
    }

    fn link_target(&self) -> Result<Vec<u8>> {
        self.fs.read_link(self.inode())
    }

    fn xattr_names(&self) -> Result<Vec<Vec<u8>>> {
        self.fs.list_xattrs(self.inode())
    }

    fn xattr(&self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.fs.xattr(self.inode(), name)
    }
}

struct GuestData<'a>(&'a GuestFile<'a>);

impl SourceData for GuestData<'_> {
    /// Does not keep an iterator open between two runs: the copy may write to the same filesystem.
    fn next_run(&mut self, at: u64) -> Result<Option<(u64, u64)>> {
        let size = self.0.metadata.size_bytes;
        if at >= size {
            return Ok(None);
        }
        let mut run: Option<(u64, u64)> = None;
        for extent in self.0.fs.extents_of(self.0.inode(), at)? {
            let extent = extent?;
            let start = extent.offset.max(at);
            let end = extent.offset.saturating_add(extent.len_bytes).min(size);
            if extent.kind == FileExtentKind::Hole || start >= end {
                continue;
            }
            match &mut run {
                Some((_, run_end)) if *run_end == start => *run_end = end,
                Some(_) => break,
                None => run = Some((start, end)),
            }
        }
        Ok(run)
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> Result<usize> {
        self.0.fs.read_at(self.0.inode(), at, buffer)
    }
}
