//! What a server serves.

use std::sync::Arc;

use diskfs_vfs::{
    DirEntry, Error, ErrorKind, FsWrite, InodeNumber, Metadata, NewAttributes, NewKind, Result,
};

use super::area::BulkArea;
use super::programs::Running;
use crate::protocol::{About, Greeting, MountRequest, Program};

/// Who mounts filesystems.
pub trait Machine: Sync {
    /// What it is.
    fn about(&self) -> About {
        About {
            agent: env!("CARGO_PKG_VERSION").into(),
            ..About::default()
        }
    }

    /// Hears what the host says first.
    fn wake(&self, _greeting: &Greeting) {}

    /// The area that the host sees, too, if there is one: contents go through it rather than through the
    /// stream.
    fn area(&self) -> Option<&dyn BulkArea> {
        None
    }

    /// Mounts a filesystem. To unmount it is [`FsWrite::close`].
    ///
    /// # Errors
    /// `NotFound` without such a device; `Unsupported` for a kind that it doesn't know; what else
    /// mounting meets.
    fn mount(&self, request: &MountRequest) -> Result<Arc<dyn Served>>;

    /// Shows a directory at a second place.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`; `Unsupported` by a machine that has no places.
    fn bind(&self, _from: &Location<'_>, _to: &Location<'_>) -> Result<()> {
        Err(no_programs())
    }

    /// Starts a program with this root directory.
    ///
    /// # Errors
    /// `NotFound` without the program, `Denied` when it is none, `Unsupported` when it is one of
    /// another architecture, or by a machine that runs none.
    fn start(&self, _root: &Location<'_>, _program: &Program) -> Result<Arc<dyn Running>> {
        Err(no_programs())
    }

    /// Sets the network up, for programs.
    ///
    /// # Errors
    /// `Unsupported` by a machine that has none; what setting it up meets.
    fn connect(&self) -> Result<()> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "this machine has no network",
        ))
    }

    /// Ends all programs and starts no more, so that the filesystems can be unmounted; what was
    /// [bound](Self::bind) is gone, too.
    fn end_programs(&self) {}
}

fn no_programs() -> Error {
    Error::new(ErrorKind::Unsupported, "this machine runs no programs")
}

/// A directory of a filesystem that a machine has mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location<'a> {
    /// Where the filesystem is mounted.
    pub mounted_at: &'a str,
    /// The directory of it that is a system's root.
    pub root: &'a [u8],
    /// The path below that, which symlinks don't leave.
    pub path: &'a [u8],
}

/// An entry of a directory, with its metadata if that could be had.
pub type Listed = (DirEntry, Option<Metadata>);

/// The entries of a directory with their metadata; ends after the first error.
pub type ListedEntries<'a> = Box<dyn Iterator<Item = Result<Listed>> + Send + 'a>;

/// A filesystem that is served. What a request asks for in one go may be done in one go.
pub trait Served: FsWrite {
    /// Where its machine has it mounted, if it is anywhere.
    fn mounted_at(&self) -> Option<&str> {
        None
    }

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
