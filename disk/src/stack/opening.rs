//! The choice between a driver of diskfs and the fallback for the filesystem of a volume.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_vfs::{FsRead, FsWrite};

use super::btrfs;
use super::content::{Content, ContentClass};
use super::driver::{self, WriteOptions};
use super::fallback::{Fallback, FallbackOfDisk, FallbackRequest, FallbackUse};
use super::volume::Volume;
use crate::{Error, ErrorKind, Filesystem, Result, WritableFilesystem};

/// The driver that opens the filesystem of a volume for reading.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChosenDriver {
    /// The driver of diskfs.
    Native,
    /// The [`Fallback`](super::Fallback), for this reason.
    Fallback(String),
    /// No driver, for this reason: the filesystem can't be opened.
    None(String),
}

impl Volume {
    /// Opens its filesystem.
    ///
    /// # Errors
    /// `Unsupported` for a kind without a driver, with its name, and for a volume without a
    /// filesystem; `Corrupt`, `Io`.
    pub fn filesystem(&self) -> Result<Filesystem> {
        let content = self.known_content()?;
        let device = self.device()?;
        let native = || self.open_native(content, Arc::clone(&device));
        let fs = self.native_or_fallback(content, native, |fallback, wanted| {
            let open = || fallback.open(wanted, self.devices()?);
            self.by_fallback.get_or(open)
        })?;
        tracing::info!(
            volume = self.name(),
            kind = content.kind,
            "filesystem opened"
        );
        Ok(Filesystem::new(fs, self.image_path(), self.name()))
    }

    /// Opens its filesystem for writing.
    ///
    /// # Errors
    /// As [`filesystem`](Self::filesystem); `ReadOnly` if the disk is open read-only;
    /// `Unsupported` for a filesystem with a feature that can't be written, before any byte is
    /// changed.
    pub fn writable_filesystem(&self, options: &WriteOptions) -> Result<WritableFilesystem> {
        let content = self.known_content()?;
        let device = self.writable_device()?;
        let native = || {
            let device = Arc::clone(&device);
            driver::open_for_writing(content, device, *options, self.code_page())
        };
        let fs = self.native_or_fallback(content, native, |fallback, wanted| {
            fallback.open_for_writing(wanted, self.writable_devices()?)
        })?;
        tracing::info!(
            volume = self.name(),
            kind = content.kind,
            "opened for writing"
        );
        Ok(WritableFilesystem::new(fs, self.image_path(), self.name()))
    }

    /// Returns the driver that opens its filesystem for reading. The fallback is not started.
    ///
    /// # Errors
    /// As [`filesystem`](Self::filesystem), but a missing driver is no error.
    pub fn driver(&self) -> Result<ChosenDriver> {
        let content = self.known_content()?;
        let device = self.device()?;
        let reason = if self.avoids_drivers() {
            "the options choose it".to_owned()
        } else {
            let native = self.open_native(content, device);
            match self.unless_unsupported(content, native)? {
                Ok(_) => return Ok(ChosenDriver::Native),
                Err(unsupported) => unsupported.reason().clone(),
            }
        };
        Ok(if self.fallback_for(content).is_some() {
            ChosenDriver::Fallback(reason)
        } else {
            ChosenDriver::None(reason)
        })
    }

    /// Opens its filesystem with a driver, never with the fallback.
    pub(super) fn native_filesystem(&self) -> Result<Arc<dyn FsRead>> {
        let content = self.known_content()?;
        let native = self.open_native(content, self.device()?);
        self.unless_unsupported(content, native)?
    }

    /// Opens the filesystem with a driver, or returns `None` if its kind has no driver.
    fn open_native(
        &self,
        content: &Content,
        device: Arc<dyn BlockRead>,
    ) -> Option<diskfs_vfs::Result<Arc<dyn FsRead>>> {
        let open = || match content.kind {
            "btrfs" => Some(btrfs::open(self, device)),
            _ => driver::open(content, device, self.code_page()),
        };
        // Opening with a driver that also writes takes no time, and shows what was written.
        if content.is_writable() {
            return open();
        }
        if let Some(fs) = self.by_driver.get() {
            return Some(Ok(fs));
        }
        Some(open()?.inspect(|fs| self.by_driver.set(fs)))
    }

    /// Opens its filesystem for writing with a driver, never with the fallback.
    pub(super) fn native_writable_filesystem(
        &self,
        options: WriteOptions,
    ) -> Result<Arc<dyn FsWrite>> {
        let content = self.known_content()?;
        let device = self.writable_device()?;
        let native = driver::open_for_writing(content, device, options, self.code_page());
        self.unless_unsupported(content, native)?
    }

    /// Returns the filesystem of the driver, unless there is no driver or it failed with
    /// *unsupported*: then the fallback opens the filesystem.
    fn native_or_fallback<T>(
        &self,
        content: &Content,
        native: impl FnOnce() -> Option<diskfs_vfs::Result<T>>,
        open: impl FnOnce(&dyn Fallback, &FallbackRequest<'_>) -> Result<T>,
    ) -> Result<T> {
        let unsupported = if self.avoids_drivers() {
            None
        } else {
            match self.unless_unsupported(content, native())? {
                Ok(fs) => return Ok(fs),
                Err(unsupported) => Some(unsupported),
            }
        };
        let Some(FallbackOfDisk { fallback, disk, .. }) = self.fallback_for(content) else {
            return Err(unsupported.unwrap_or_else(|| self.only_fallback(content)));
        };
        let reason = unsupported.as_ref().map(tracing::field::display);
        tracing::info!(volume = self.name(), reason, "opening with the fallback");
        let wanted = FallbackRequest {
            volume: self.name(),
            kind: content.kind,
            disk: *disk,
            volumes_of_disk: self.fallback_volumes(),
        };
        open(&**fallback, &wanted).map_err(|error| match unsupported {
            Some(unsupported) if error.kind() == ErrorKind::Unsupported => {
                self.in_image(combined_error(&unsupported, &error))
            }
            _ => self.in_image(error),
        })
    }

    /// Returns the filesystem of the driver, or as the inner error the reason why the fallback may
    /// be tried.
    fn unless_unsupported<T>(
        &self,
        content: &Content,
        native: Option<diskfs_vfs::Result<T>>,
    ) -> Result<Result<T>> {
        match native {
            Some(Ok(fs)) => Ok(Ok(fs)),
            Some(Err(e)) if e.kind() == diskfs_vfs::ErrorKind::Unsupported => {
                Ok(Err(self.in_image(e)))
            }
            Some(Err(e)) => Err(self.in_image(e)),
            None => Ok(Err(self.unsupported(content))),
        }
    }

    /// Returns the error for a filesystem that only the fallback may open, which does not support
    /// it.
    fn only_fallback(&self, content: &Content) -> Error {
        let (name, kind) = (self.name(), content.kind);
        let reason = format!(
            "volume {name} holds {kind}, but no microVM can open it, and no other driver is allowed"
        );
        self.in_image(Error::new(ErrorKind::Unsupported, reason))
    }

    /// Returns true if the fallback opens all filesystems, also those that a driver supports.
    fn avoids_drivers(&self) -> bool {
        self.fallback
            .as_ref()
            .is_some_and(|of_disk| of_disk.used == FallbackUse::Always)
    }

    /// Returns the fallback, if it supports the filesystem.
    pub(super) fn fallback_for(&self, content: &Content) -> Option<&FallbackOfDisk> {
        let of_disk = self.fallback.as_ref()?;
        let is_filesystem = content.class == ContentClass::Filesystem;
        (is_filesystem && of_disk.fallback.supports(content.kind)).then_some(of_disk)
    }
}

/// Combines the errors of the driver and of the fallback. The next step is the fallback's, because
/// only its failure can be remedied.
fn combined_error(driver: &Error, fallback: &Error) -> Error {
    let reason = format!("{}; {}", driver.reason(), fallback.reason());
    let error = Error::new(ErrorKind::Unsupported, reason);
    match fallback.next_step() {
        Some(step) => error.with_hint(step),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::{AtomicU32, Ordering};

    use diskfs_block::BlockWrite;
    use diskfs_fixtures::{TempImage, image};
    use diskfs_vfs::testing::MemoryFs;

    use super::*;
    use crate::Disk;

    /// A fallback that supports everything, and counts what it opens.
    #[derive(Debug, Default)]
    struct Counting(AtomicU32);

    impl Fallback for Counting {
        fn supports(&self, _: &str) -> bool {
            true
        }

        fn open(
            &self,
            _: &FallbackRequest<'_>,
            _: Vec<Arc<dyn BlockRead>>,
        ) -> Result<Arc<dyn FsRead>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Arc::new(MemoryFs::new()))
        }

        fn open_for_writing(
            &self,
            _: &FallbackRequest<'_>,
            _: Vec<Arc<dyn BlockWrite>>,
        ) -> Result<Arc<dyn FsWrite>> {
            Err(Error::new(ErrorKind::Unsupported, "not in this test"))
        }
    }

    /// Opens the filesystem twice. Returns its driver, and how often the fallback opened it.
    fn opened(image: &TempImage, always: bool) -> (ChosenDriver, u32) {
        let counting = Arc::new(Counting::default());
        let mut options = Disk::options().fallback(Arc::clone(&counting) as _);
        if always {
            options = options.always_fallback();
        }
        let disk = options.open(image.path()).unwrap();
        let volume = disk.default_volume().unwrap();
        let driver = volume.driver().unwrap();
        volume.filesystem().unwrap();
        volume.filesystem().unwrap();
        (driver, counting.0.load(Ordering::Relaxed))
    }

    #[test]
    fn a_fallback_opens_what_a_driver_refuses_once() {
        let ext2 = image("ext2");
        assert_eq!(opened(&ext2, false), (ChosenDriver::Native, 0));
        // A bit of `s_feature_incompat` that no version of ext4 knows.
        let file = std::fs::File::options().write(true).open(ext2.path());
        file.unwrap()
            .write_all_at(&[0x80], 1024 + 0x60 + 3)
            .unwrap();
        let (driver, count) = opened(&ext2, false);
        assert!(matches!(driver, ChosenDriver::Fallback(_)), "{driver:?}");
        assert_eq!(count, 1);
    }

    #[test]
    fn a_forced_fallback_opens_what_a_driver_supports_once() {
        for name in ["xfs-default", "ext2"] {
            let image = image(name);
            assert_eq!(opened(&image, false), (ChosenDriver::Native, 0), "{name}");
            let (driver, count) = opened(&image, true);
            assert!(matches!(driver, ChosenDriver::Fallback(_)), "{driver:?}");
            assert_eq!(count, 1, "{name}");
        }
    }
}
