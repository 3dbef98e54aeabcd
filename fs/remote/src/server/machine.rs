//! What a server serves.

use std::sync::Arc;

use diskfs_vfs::{DirEntry, FsWrite, InodeNumber, Metadata, NewAttributes, NewKind, Result};

use crate::protocol::{About, MountRequest};

/// Who mounts filesystems.
pub trait Machine: Sync {
    /// What it is.
    fn about(&self) -> About {
        About {
            agent: env!("CARGO_PKG_VERSION").into(),
            ..About::default()
        }
    }

    /// Mounts a filesystem. To unmount it is [`FsWrite::close`].
    ///
    /// # Errors
    /// `NotFound` without such a device; `Unsupported` for a kind that it doesn't know; what else
    /// mounting meets.
    fn mount(&self, request: &MountRequest) -> Result<Arc<dyn Served>>;
}

/// An entry of a directory, with its metadata if that could be had.
pub type Listed = (DirEntry, Option<Metadata>);

/// The entries of a directory with their metadata; ends after the first error.
pub type ListedEntries<'a> = Box<dyn Iterator<Item = Result<Listed>> + Send + 'a>;

/// A filesystem that is served. What a request asks for in one go may be done in one go.
pub trait Served: FsWrite {
    /// [`lookup`](diskfs_vfs::FsRead::lookup) with the metadata.
    ///
    /// # Errors
    /// As that.
    fn find(&self, dir: InodeNumber, name: &[u8]) -> Result<Metadata> {
        self.metadata(self.lookup(dir, name)?)
    }

    /// [`create`](FsWrite::create) with the metadata.
    ///
    /// # Errors
    /// As that.
    fn make(
        &self,
        dir: InodeNumber,
        name: &[u8],
        kind: NewKind<'_>,
        attributes: &NewAttributes,
    ) -> Result<Metadata> {
        self.metadata(self.create(dir, name, kind, attributes)?)
    }

    /// [`read_dir`](diskfs_vfs::FsRead::read_dir) with the metadata; `.` and `..` come without.
    ///
    /// # Errors
    /// As that.
    fn list(&self, dir: InodeNumber, cookie: u64) -> Result<ListedEntries<'_>> {
        let entries = self.read_dir(dir, cookie)?;
        Ok(Box::new(entries.map(|entry| {
            let entry = entry?;
            let metadata = match entry.name.as_slice() {
                b"." | b".." => None,
                _ => self.metadata(entry.inode).ok(),
            };
            Ok((entry, metadata))
        })))
    }
}

#[cfg(any(test, feature = "testing"))]
impl Served for diskfs_vfs::testing::WritableMemoryFs {}
