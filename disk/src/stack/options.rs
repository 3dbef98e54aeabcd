//! The options for opening a machine's disks.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Overlay};
use diskfs_image::{
    FileOpener, Format, Gate, Image, ImageSpec, OpenOptions, RemoteImages, Share, StaleBase,
    WritableImage,
};

use super::fallback::FallbackUse;
use super::{CodePage, Disk, Fallback, Keys, OpenedImage, overlay};
use crate::{CancellationToken, Error, ErrorKind, Result};

/// The limit on a dry run's changes. They are in memory, and a larger change does not suit a dry
/// run.
const DRY_RUN_MAX_BYTES: u64 = 1 << 30;

/// The builder of a [`Disk`]: how to open an image, its volumes, and the machine's other disks.
///
/// ```no_run
/// use diskfs_disk::{Disk, Gate, Keys};
///
/// // Reading, with a backing file in another directory.
/// let gate = Gate::default().allow("/var/lib/images");
/// let disk = Disk::options().snapshot("before").backing(gate).open("web1.qcow2")?;
///
/// // Writing, to the two disks of one machine.
/// let disk = Disk::options().read_only(false).add("data.qcow2").open("root.qcow2")?;
/// disk.close()?;
/// # Ok::<(), diskfs_disk::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct DiskOptions {
    image: OpenOptions,
    access: Access,
    settings: Settings,
    other_disks: Vec<ImageSource>,
}

/// The kind of access to the disk.
#[derive(Debug, Clone, Default)]
enum Access {
    #[default]
    ReadOnly,
    Write,
    /// Writing, into an overlay.
    Overlay(PathBuf),
    /// Writing, into memory.
    DryRun,
}

/// The storage of an image.
#[derive(Debug, Clone)]
pub(super) enum ImageSource {
    /// An image file of the host.
    File(ImageSpec),
    /// Storage that the caller implements, and the name that errors give it.
    Device(PathBuf, Storage),
}

impl ImageSource {
    fn file(path: PathBuf) -> Self {
        Self::File(ImageSpec {
            path,
            ..ImageSpec::default()
        })
    }
}

/// Storage that the caller implements.
#[derive(Debug, Clone)]
pub(super) enum Storage {
    ReadOnly(Arc<dyn BlockRead>),
    Writable(Arc<dyn BlockWrite>),
}

/// The settings of all volumes of a disk.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    pub(super) keys: Option<Keys>,
    pub(super) code_page: Option<CodePage>,
    pub(super) fallback: Option<Arc<dyn Fallback>>,
    pub(super) fallback_use: FallbackUse,
    pub(super) cancellation: Option<CancellationToken>,
    /// The opener of the disk's images; `None` opens them directly.
    pub(super) files: Option<Arc<dyn FileOpener>>,
}

impl DiskOptions {
    /// Opens for reading only (`true`, the default), or for reading and writing. Writing locks the
    /// image against all other users; nothing is written before the caller's first write.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.access = if read_only {
            Access::ReadOnly
        } else {
            Access::Write
        };
        self
    }

    /// Opens for writing, with all changes in `overlay`: a qcow2 image over the disk's. The overlay
    /// is created if it is missing; else it must be one of this image, and is continued.
    pub fn overlay(mut self, overlay: impl Into<PathBuf>) -> Self {
        self.access = Access::Overlay(overlay.into());
        self
    }

    /// Lets the host write changes to its disk while more are made, so that little is left for the
    /// next sync: for many changes that are synced at their end.
    pub fn early_write_back(mut self, is_early: bool) -> Self {
        self.image.early_write_back = is_early;
        self
    }

    /// Opens for writing into memory: the changes are discarded, and [`Disk::changed_in_memory`]
    /// returns their size.
    pub fn dry_run(mut self) -> Self {
        self.access = Access::DryRun;
        self
    }

    /// Sets all options of images at once.
    pub fn image(mut self, options: OpenOptions) -> Self {
        self.image = options;
        self
    }

    /// Sets the format of the image, which is probed otherwise. An explicit format is not checked
    /// by probing: a raw image stays raw whatever its contents look like.
    pub fn format(mut self, format: Format) -> Self {
        self.image.format = Some(format);
        self
    }

    /// Reads an internal snapshot, by id or name, in place of the current state.
    pub fn snapshot(mut self, snapshot: impl Into<String>) -> Self {
        self.image.snapshot = Some(snapshot.into());
        self
    }

    /// Opens this disk of a package (OVA, OVF), by the name of its file or its identifier. A package
    /// with one disk needs no name.
    pub fn packaged_disk(mut self, name: impl Into<String>) -> Self {
        self.image.disk = Some(name.into());
        self
    }

    /// Sets which files the image may refer to: backing files and external data files.
    pub fn backing(mut self, gate: Gate) -> Self {
        self.image.gate = gate;
        self
    }

    /// Sets what opens the files of the image, in a process that can open none itself.
    pub fn files(mut self, files: Arc<dyn FileOpener>) -> Self {
        self.image.files = files;
        self
    }

    /// Sets what opens images on other machines (`nbd://HOST/NAME`, `https://HOST/NAME`). Without
    /// it, they are refused.
    pub fn remote(mut self, remote: Arc<dyn RemoteImages>) -> Self {
        self.image.remote = Some(remote);
        self
    }

    /// Sets who else may use the image at the same time.
    pub fn share(mut self, share: Share) -> Self {
        self.image.share = share;
        self
    }

    /// Sets what happens to an overlay whose backing file has changed.
    pub fn stale_base(mut self, stale_base: StaleBase) -> Self {
        self.image.stale_base = stale_base;
        self
    }

    /// Sets the keys of encrypted volumes, and of images whose own data is encrypted.
    pub fn keys(mut self, keys: Keys) -> Self {
        self.settings.keys = Some(keys);
        self
    }

    /// Sets the code page of short names on FAT, for all volumes.
    pub fn code_page(mut self, code_page: CodePage) -> Self {
        self.settings.code_page = Some(code_page);
        self
    }

    /// Sets the fallback, which opens the filesystems that have no driver.
    pub fn fallback(mut self, fallback: Arc<dyn Fallback>) -> Self {
        self.settings.fallback = Some(fallback);
        self
    }

    /// Opens every filesystem with the fallback, also those that a driver of diskfs supports.
    pub fn always_fallback(mut self) -> Self {
        self.settings.fallback_use = FallbackUse::Always;
        self
    }

    /// Sets the token that cancels all reads of the disk, unless it is open for writing.
    pub fn cancellation(mut self, token: CancellationToken) -> Self {
        self.settings.cancellation = Some(token);
        self
    }

    /// Adds another disk of the same machine. Its partitions are volumes called `disk2/p1` (then
    /// `disk3/p1`, ...); groups and arrays are assembled from all disks.
    #[expect(
        clippy::should_implement_trait,
        reason = "no operator adds a path to options"
    )]
    pub fn add(mut self, path: impl Into<PathBuf>) -> Self {
        self.other_disks.push(ImageSource::file(path.into()));
        self
    }

    /// Adds another disk like [`add`](Self::add), for an image as the user spells it:
    /// `data.qcow2,format=qcow2`.
    ///
    /// # Errors
    /// `Invalid` for an unknown option.
    pub fn add_spec(mut self, spec: impl AsRef<OsStr>) -> Result<Self> {
        let spec = ImageSpec::parse(spec.as_ref())?;
        self.other_disks.push(ImageSource::File(spec));
        Ok(self)
    }

    /// Adds another disk of the same machine that is in storage of the caller. Errors call it
    /// `name`.
    pub fn add_device(mut self, name: impl Into<PathBuf>, device: Arc<dyn BlockRead>) -> Self {
        let storage = Storage::ReadOnly(device);
        self.other_disks
            .push(ImageSource::Device(name.into(), storage));
        self
    }

    /// Adds another disk like [`add_device`](Self::add_device), for storage that can be written.
    pub fn add_writable_device(
        mut self,
        name: impl Into<PathBuf>,
        device: Arc<dyn BlockWrite>,
    ) -> Self {
        let storage = Storage::Writable(device);
        self.other_disks
            .push(ImageSource::Device(name.into(), storage));
        self
    }

    /// Opens the image at `path`.
    ///
    /// # Errors
    /// `NotFound`, `Denied`, `Corrupt`, `Unsupported`; `Locked` if a running machine writes to the
    /// image, or if the disk is opened for writing and any process uses the image; `ReadOnly` for
    /// writing to a snapshot; `Invalid` if the overlay's path has something other than an overlay
    /// of this image.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Disk> {
        self.open_source(&ImageSource::file(path.as_ref().to_owned()))
    }

    /// Opens an image as the user spells it: `disk.qcow2,snapshot=before`. Options in the spelling
    /// take precedence over these options.
    ///
    /// # Errors
    /// As [`open`](Self::open), and `Invalid` for an unknown option.
    pub fn open_spec(&self, spec: impl AsRef<OsStr>) -> Result<Disk> {
        self.open_source(&ImageSource::File(ImageSpec::parse(spec.as_ref())?))
    }

    /// Opens an image that is in storage of the caller: in memory, behind a network, inside another
    /// image. Such storage is not locked, and the image can't refer to other files, because it has
    /// no directory. Errors call it `name`.
    ///
    /// # Errors
    /// As [`open`](Self::open); `ReadOnly` for writing without [`dry_run`](Self::dry_run).
    pub fn open_device(
        &self,
        name: impl Into<PathBuf>,
        device: Arc<dyn BlockRead>,
    ) -> Result<Disk> {
        self.open_source(&ImageSource::Device(name.into(), Storage::ReadOnly(device)))
    }

    /// Opens an image like [`open_device`](Self::open_device), for storage that can be written.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_writable_device(
        &self,
        name: impl Into<PathBuf>,
        device: Arc<dyn BlockWrite>,
    ) -> Result<Disk> {
        self.open_source(&ImageSource::Device(name.into(), Storage::Writable(device)))
    }

    pub(super) fn open_source(&self, first: &ImageSource) -> Result<Disk> {
        if matches!(self.access, Access::Overlay(_)) && !self.other_disks.is_empty() {
            let reason = "an overlay can only be used with one image";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        let mut disk = self.open_one(first)?;
        for source in &self.other_disks {
            disk.other_disks.push(self.open_one(source)?);
        }
        Ok(disk)
    }

    fn open_one(&self, source: &ImageSource) -> Result<Disk> {
        let options = self.image_options();
        let (image, path) = match source {
            ImageSource::File(spec) => self.open_file(spec, &spec.options_over(&options))?,
            ImageSource::Device(name, storage) => {
                let opened = self.open_storage(name, storage, &options);
                let opened = opened.map_err(|e| e.in_file(name))?;
                (opened, name.clone())
            }
        };
        tracing::info!(image = %path.display(), access = ?self.access, "image opened");
        let settings = Settings {
            files: Some(options.files),
            ..self.settings.clone()
        };
        Ok(Disk::new(image, path, settings))
    }

    /// Returns the options of each image, with the keys that unlock it.
    fn image_options(&self) -> OpenOptions {
        let mut options = self.image.clone();
        if let Some(keys) = &self.settings.keys {
            options.unlock = Some(Arc::new(keys.clone()));
        }
        options
    }

    fn open_file(&self, spec: &ImageSpec, options: &OpenOptions) -> Result<(OpenedImage, PathBuf)> {
        let (path, shown) = (&spec.path, spec.shown_path());
        let in_file = |error| Error::from(error).in_file(&shown);
        let image = match &self.access {
            Access::ReadOnly => OpenedImage::ReadOnly(Image::open(path, options).map_err(in_file)?),
            Access::Write => {
                OpenedImage::Writable(WritableImage::open(path, options).map_err(in_file)?)
            }
            Access::DryRun => dry_run(Image::open(path, options).map_err(in_file)?),
            Access::Overlay(overlay) => {
                let image = overlay::open(path, overlay, options)?;
                return Ok((OpenedImage::Writable(image), overlay.clone()));
            }
        };
        Ok((image, shown))
    }

    fn open_storage(
        &self,
        name: &Path,
        storage: &Storage,
        options: &OpenOptions,
    ) -> Result<OpenedImage> {
        let reader = || match storage {
            Storage::ReadOnly(device) => Arc::clone(device),
            Storage::Writable(device) => Arc::clone(device) as Arc<dyn BlockRead>,
        };
        Ok(match (&self.access, storage) {
            (Access::ReadOnly, _) => {
                OpenedImage::ReadOnly(Image::from_named_device(name, reader(), options)?)
            }
            (Access::DryRun, _) => dry_run(Image::from_named_device(name, reader(), options)?),
            (Access::Write, Storage::Writable(device)) => {
                let device = Arc::clone(device);
                let image = WritableImage::from_named_device(name, device, options)?;
                OpenedImage::Writable(image)
            }
            (Access::Write, Storage::ReadOnly(_)) => {
                return Err(Error::new(ErrorKind::ReadOnly, "the device is read-only"));
            }
            (Access::Overlay(_), _) => {
                let reason =
                    "an overlay needs an image in a file, because it stores the file's name";
                return Err(Error::new(ErrorKind::Unsupported, reason));
            }
        })
    }
}

fn dry_run(image: Image) -> OpenedImage {
    let overlay = Arc::new(Overlay::in_memory(image.device(), DRY_RUN_MAX_BYTES));
    OpenedImage::DryRun(image, overlay)
}
