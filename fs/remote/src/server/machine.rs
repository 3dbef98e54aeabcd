//! The interface of the machine that a server serves.

use std::sync::Arc;

use diskfs_vfs::{
    DirEntry, Error, ErrorKind, FsWrite, InodeNumber, Metadata, MountTree, NewAttributes, NewKind,
    Result,
};

use super::area::BulkArea;
use super::programs::Running;
use crate::protocol::{About, HostHello, MountRequest, Program};

/// A machine that mounts filesystems.
pub trait Machine: Sync {
    /// Returns a description of the agent and its machine.
    fn about(&self) -> About {
        About {
            agent: env!("CARGO_PKG_VERSION").into(),
            ..About::default()
        }
    }

    /// Receives the host's first frame.
    fn on_handshake(&self, _host_hello: &HostHello) {}

    /// Returns the area that the host sees, too, if there is one: contents go through it instead of
    /// the stream.
    fn area(&self) -> Option<&dyn BulkArea> {
        None
    }

    /// Mounts a filesystem. [`FsWrite::close`] unmounts it.
    ///
    /// # Errors
    /// Fails with `NotFound` if the device does not exist, with `Unsupported` if the kind is
    /// unknown, and with the error of mounting.
    fn mount(&self, request: &MountRequest) -> Result<Arc<dyn Served>>;

    /// Bind-mounts a directory at a second place.
    ///
    /// # Errors
    /// Fails with `NotFound` or `NotADirectory`, and with `Unsupported` if the machine has no file
    /// tree.
    fn bind(&self, _from: &Location<'_>, _to: &Location<'_>) -> Result<()> {
        Err(no_programs())
    }

    /// Starts a program with this root directory.
    ///
    /// # Errors
    /// Fails with `NotFound` if the program does not exist, with `Denied` if it is not executable,
    /// and with `Unsupported` if it is for another architecture or the machine does not run
    /// programs.
    fn start(&self, _root: &Location<'_>, _program: &Program) -> Result<Arc<dyn Running>> {
        Err(no_programs())
    }

    /// Sets up the network, for programs.
    ///
    /// # Errors
    /// Fails with `Unsupported` if the machine has none, and with the error of the setup.
    fn connect(&self) -> Result<()> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "this machine has no network",
        ))
    }

    /// Ends all programs and refuses new ones, so that the filesystems can be unmounted. [Bind
    /// mounts](Self::bind) are removed, too.
    fn end_programs(&self) {}
}

fn no_programs() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "running programs is not supported by this machine",
    )
}

/// A directory of a mounted filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location<'a> {
    /// The mount point of the filesystem.
    pub mounted_at: &'a str,
    /// The directory in the filesystem that is the system's root.
    pub root: &'a [u8],
    /// The path below that root; symlinks in it cannot leave the root.
    pub path: &'a [u8],
}

/// An entry of a directory, with its metadata if that could be read.
pub type Listed = (DirEntry, Option<Metadata>);

/// The entries of a directory with their metadata; the iterator ends after the first error.
pub type ListedEntries<'a> = Box<dyn Iterator<Item = Result<Listed>> + Send + 'a>;

impl Served for MountTree {}

/// A filesystem that is served. The methods combine calls that requests combine.
pub trait Served: FsWrite {
    /// Returns the mount point in the machine, if there is one.
    fn mounted_at(&self) -> Option<&str> {
        None
    }

    /// Performs [`lookup`](diskfs_vfs::FsRead::lookup) and returns the metadata.
    ///
    /// # Errors
    /// Fails for the same reasons as `lookup`.
    fn lookup_metadata(&self, dir: InodeNumber, name: &[u8]) -> Result<Metadata> {
        self.metadata(self.lookup(dir, name)?)
    }

    /// Performs [`create`](FsWrite::create) and returns the metadata.
    ///
    /// # Errors
    /// Fails for the same reasons as `create`.
    fn create_with_metadata(
        &self,
        dir: InodeNumber,
        name: &[u8],
        kind: NewKind<'_>,
        attributes: &NewAttributes,
    ) -> Result<Metadata> {
        self.metadata(self.create(dir, name, kind, attributes)?)
    }

    /// Performs [`read_dir`](diskfs_vfs::FsRead::read_dir) with the metadata of the entries; `.`
    /// and `..` come without.
    ///
    /// # Errors
    /// Fails for the same reasons as `read_dir`.
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
impl Served for diskfs_vfs::testing::WritableMemoryFs {
    // No kernel has it, but programs of a test must have a place.
    fn mounted_at(&self) -> Option<&str> {
        Some("/")
    }
}
