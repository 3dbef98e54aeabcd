//! The options for opening a disk.

use std::path::{Path, PathBuf};

use diskfs::luks::Key;
use diskfs::{Disk, DiskOptions, Error, Format, Gate, Keys, Result, Share};

/// The kind of access to a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    #[default]
    ReadOnly,
    /// Reading and writing.
    Write,
    /// Writing, with all changes in a qcow2 overlay at this path.
    Overlay(PathBuf),
    /// Writing into memory; the changes are discarded.
    DryRun,
}

/// The options for opening a disk, as the command line has them.
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// The kind of access.
    pub access: Access,
    /// The files that the image may refer to.
    pub gate: Gate,
    options: DiskOptions,
    keys: Option<Keys>,
}

impl SessionOptions {
    /// Returns the default options for a kind of access.
    pub fn with_access(access: Access) -> Self {
        Self {
            access,
            ..Self::default()
        }
    }

    /// Sets the format of the image by its name, which is probed otherwise.
    ///
    /// # Errors
    /// `Unsupported` for an unknown format.
    pub fn set_format(&mut self, name: &str) -> Result<()> {
        let format: Format = name.parse().map_err(Error::from)?;
        self.change(|options| options.format(format));
        Ok(())
    }

    /// Reads an internal snapshot of the image, by name or ID.
    pub fn set_snapshot(&mut self, name: &str) {
        self.change(|options| options.snapshot(name));
    }

    /// Opens the image even if a running machine uses it.
    pub fn force_share(&mut self) {
        self.change(|options| options.share(Share::Force));
    }

    /// Adds another disk of the same machine.
    pub fn add_disk(&mut self, path: &Path) {
        self.change(|options| options.add(path));
    }

    /// Adds a passphrase of one volume or image, or of all.
    pub fn add_passphrase(&mut self, volume: Option<&str>, passphrase: &[u8]) {
        let keys = self.keys.take().unwrap_or_default();
        let key = Key::passphrase(passphrase);
        self.keys = Some(match volume {
            Some(volume) => keys.with_volume(volume, key),
            None => keys.with_all(key),
        });
    }

    /// Opens the image at `path`.
    pub(crate) fn open(&self, path: &Path) -> Result<Disk> {
        let mut options = self.options.clone().backing(self.gate.clone());
        if let Some(keys) = &self.keys {
            options = options.keys(keys.clone());
        }
        let options = match &self.access {
            Access::ReadOnly => options.read_only(true),
            Access::Write => options.read_only(false),
            Access::Overlay(overlay) => options.overlay(overlay),
            Access::DryRun => options.dry_run(),
        };
        options.open(path)
    }

    fn change(&mut self, change: impl FnOnce(DiskOptions) -> DiskOptions) {
        self.options = change(std::mem::take(&mut self.options));
    }
}
