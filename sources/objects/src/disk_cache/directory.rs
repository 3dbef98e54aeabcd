//! The directory of the blocks.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use diskfs_block::{Error, ErrorKind, Result};

/// The bits of a mode that let others write.
const OTHERS_WRITE: u32 = 0o022;

/// A directory for blocks of objects, which outlive the process, and a limit on their size.
#[derive(Debug, Clone)]
pub struct DiskCache {
    directory: PathBuf,
    limit_bytes: u64,
}

impl DiskCache {
    /// Opens the directory, which is created if it is missing. Several processes may use it.
    /// `limit_bytes` is kept approximately: up to a sixteenth more may be stored at times.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] if the directory is another user's, or others may write to it: they
    /// could replace blocks. [`ErrorKind::Io`] if it cannot be created.
    pub fn open(directory: &Path, limit_bytes: u64) -> Result<Self> {
        let in_directory = |e| Error::from(e).in_file(directory);
        let mut builder = DirBuilder::new();
        let created = builder.recursive(true).mode(0o700).create(directory);
        created.map_err(in_directory)?;
        let found = fs::metadata(directory).map_err(in_directory)?;
        if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & OTHERS_WRITE != 0 {
            let reason = "others may write to the cache of blocks, and could replace them";
            return Err(Error::new(ErrorKind::Denied, reason)
                .in_file(directory)
                .with_hint("use a directory of your own, with mode 700"));
        }
        Ok(Self {
            directory: directory.to_owned(),
            limit_bytes,
        })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }
}
