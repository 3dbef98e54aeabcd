//! Several changes in one transaction.

use crate::{Error, ErrorKind, Result, WritableFilesystem};

use super::{Commits, Volume, WriteOptions};

impl Volume {
    /// Opens the filesystem for writing, makes all changes of `change` in one transaction, and
    /// closes it. After an error or a crash none of the changes is on the disk; after `Ok` all of
    /// them are durable.
    ///
    /// The size of a transaction is limited by the filesystem's journal: nearly all of the journal,
    /// and at most 64 MiB of metadata.
    ///
    /// # Errors
    /// The errors of `change`; `NoSpace` if the changes exceed one transaction; `Unsupported` for a
    /// filesystem without a journal, before `change` is called; else as
    /// [`writable_filesystem`](Self::writable_filesystem) and [`WritableFilesystem::close`].
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
                "cannot make all changes in one transaction: {} has no journal",
                fs.volume()
            );
            let error = Error::new(ErrorKind::Unsupported, reason).in_file(fs.image_path());
            return Err(
                error.with_hint("open the filesystem for writing and make the changes one by one")
            );
        }
        let done = change(&fs).and_then(|value| fs.close().map(|()| value));
        done.inspect_err(|_| {
            if let Err(error) = fs.abandon() {
                tracing::warn!(%error, "could not drop the changes");
            }
        })
    }
}
