//! The context of jobs that run in the server's own process.

use std::path::Path;
use std::sync::Arc;

use diskfs_disk::{
    CancellationToken, Disk, DiskOptions, Error, ErrorKind, Fallback, Gate, Keys, Result,
};
use diskfs_luks::Key;
use diskfs_vm::tools::FilesystemTools;

use super::Watch;
use crate::job::{Access, JobContext, Progress, Source};

/// The options of a host for all of its jobs.
#[derive(Debug, Clone, Default)]
pub struct HostOptions {
    /// The files that images may name.
    pub gate: Gate,
    /// Opens filesystems that have no driver.
    pub fallback: Option<Arc<dyn Fallback>>,
    /// Makes and grows filesystems that diskfs does not make or grow itself.
    pub tools: Option<Arc<dyn FilesystemTools>>,
}

impl HostOptions {
    /// Returns the options for opening a disk.
    ///
    /// # Errors
    /// `Invalid` for an unknown format.
    pub fn disk_options(
        &self,
        source: &Source,
        access: Access,
        cancellation: &CancellationToken,
    ) -> Result<DiskOptions> {
        let mut options = Disk::options().backing(self.gate.clone());
        if let Some(format) = &source.format {
            let format = format.parse().map_err(|_| {
                let reason = format!("unknown image format `{format}`");
                Error::new(ErrorKind::Invalid, reason).in_file(&source.path)
            })?;
            options = options.format(format);
        }
        if let Some(passphrase) = &source.passphrase {
            options = options.keys(Keys::default().with_all(Key::passphrase(&passphrase.0)));
        }
        if let Some(fallback) = &self.fallback {
            options = options.fallback(Arc::clone(fallback));
        }
        options = options.cancellation(cancellation.clone());
        Ok(match access {
            Access::Read => options,
            Access::Write => options.read_only(false),
            Access::DryRun => options.dry_run(),
        })
    }
}

/// A context that opens images by their paths.
pub(super) struct HostContext<'a> {
    pub(super) options: &'a HostOptions,
    pub(super) watch: Watch,
}

impl JobContext for HostContext<'_> {
    fn open(&mut self, source: &Source, access: Access) -> Result<Disk> {
        let options = self
            .options
            .disk_options(source, access, &self.watch.cancellation)?;
        options.open(&source.path)
    }

    fn cancellation(&self) -> &CancellationToken {
        &self.watch.cancellation
    }

    fn progress(&mut self, progress: Progress) {
        (self.watch.progress)(progress);
    }

    fn tools(&self) -> Option<Arc<dyn FilesystemTools>> {
        self.options.tools.clone()
    }

    fn has_file(&self, path: &Path) -> bool {
        path.is_file()
    }
}
