//! Several changes as one.

use crate::{Error, ErrorKind, Result, WritableFilesystem};

use super::{Commits, Volume, WriteOptions};

impl Volume {
    /// Opens the filesystem for writing, makes all changes of `change` in one transaction, and closes it: after an error or
    /// a crash none of them is on the disk, after `Ok` all of them are durable.
    ///
    /// One transaction holds what the filesystem's journal has room for: nearly all of it, at most 64 MiB of metadata.
    ///
    /// # Errors
    /// Those of `change`; `NoSpace` for more than one transaction holds; `Unsupported` for a filesystem without a journal,
    /// before `change` is called; else as [`writable_filesystem`](Self::writable_filesystem) and
    /// [`WritableFilesystem::close`].
    pub fn transaction<T>(
        &self,
        options: &WriteOptions,
        change: impl FnOnce(&WritableFilesystem) -> Result<T>,
    ) -> Result<T> {
        let options = WriteOptions {
            commits: Commits::Once,
            ..*options
        };
        let fs = self.writable_filesystem(&options)?;
        if fs.as_fs().is_in_parts() {
            let reason = format!(
                "{}: no journal, so that changes can't be made as one",
                fs.volume()
            );
            let error = Error::new(ErrorKind::Unsupported, reason).in_file(fs.image_path());
            return Err(
                error.with_hint("open the filesystem for writing, and change it step by step")
            );
        }
        let done = change(&fs).and_then(|value| fs.close().map(|()| value));
        done.inspect_err(|_| {
            if let Err(error) = fs.abandon() {
                tracing::warn!(%error, "changes were not dropped");
            }
        })
    }
}
