//! From an image to its filesystems: the only place that knows every driver.

mod choose;
mod content;
mod driver;
mod magic;
mod volume;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use diskfs_block::BlockRead;
use diskfs_image::{Description, Image, ImageSpec, OpenOptions};
use diskfs_volume::{PartitionTable, read_table};

pub use content::{Content, ContentClass};
pub use volume::Volume;

use crate::{Error, ErrorKind, Filesystem, Result};

/// A virtual machine's disk: an image, the volumes on it, and their filesystems.
///
/// Everything is read when it is asked for and not before: opening a disk reads the image's header,
/// [`volumes`](Self::volumes) the partition table, and a filesystem is opened when its files are
/// wanted.
#[derive(Debug)]
pub struct Disk {
    image: Image,
    path: PathBuf,
    table: OnceLock<Option<PartitionTable>>,
    volumes: OnceLock<Vec<Volume>>,
}

impl Disk {
    /// Opens the image at `path`, read-only.
    ///
    /// # Errors
    /// `NotFound`, `Denied`, `Locked` when a running machine writes to it, `Corrupt`,
    /// `Unsupported`.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let path = path.as_ref();
        let image = Image::open(path, options).map_err(|e| Error::from(e).in_file(path))?;
        tracing::info!(image = %path.display(), "image opened");
        Ok(Self {
            image,
            path: path.to_owned(),
            table: OnceLock::new(),
            volumes: OnceLock::new(),
        })
    }

    /// Opens an image as the user spells it: `disk.qcow2,snapshot=before`. What the spelling says
    /// goes before what `options` say.
    ///
    /// # Errors
    /// As [`open`](Self::open), and `Invalid` for an option that there is not.
    pub fn open_spec(spec: impl AsRef<OsStr>, options: &OpenOptions) -> Result<Self> {
        let spec = ImageSpec::parse(spec.as_ref())?;
        Self::open(&spec.path, &spec.options_over(options))
    }

    /// The image's path, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the image says about itself: format, sizes, chain, snapshots.
    pub fn description(&self) -> &Description {
        self.image.description()
    }

    /// The image below.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// The guest's disk, as the guest sees it.
    pub fn device(&self) -> Arc<dyn BlockRead> {
        self.image.device()
    }

    /// The partition table; `None` without one.
    ///
    /// # Errors
    /// `Corrupt` when there is a GPT of which neither copy can be used.
    pub fn partition_table(&self) -> Result<Option<&PartitionTable>> {
        if self.table.get().is_none() {
            let table = read_table(&*self.device()).map_err(|e| self.in_image(e))?;
            let _ = self.table.set(table); // Another thread has read the same bytes.
        }
        Ok(self.table.get().and_then(Option::as_ref))
    }

    /// The volumes: the partitions, or the whole disk (`disk`) when it has none.
    ///
    /// # Errors
    /// As [`partition_table`](Self::partition_table).
    pub fn volumes(&self) -> Result<&[Volume]> {
        if self.volumes.get().is_none() {
            let table = self.partition_table()?;
            let partitions = table.map_or(&[][..], |table| table.partitions.as_slice());
            let volumes = match partitions {
                [] => vec![Volume::whole(&self.path, self.device())],
                some => some
                    .iter()
                    .filter(|partition| !partition.is_extended())
                    .map(|partition| Volume::partition(&self.path, self.device(), partition))
                    .collect(),
            };
            let _ = self.volumes.set(volumes);
        }
        Ok(self.volumes.get().map_or(&[], Vec::as_slice))
    }

    /// The volume of that name: `p1`, `disk`, a UUID, a label, a PARTUUID or a PARTLABEL. Bare, or
    /// as fstab(5) has it: `UUID=...`, `LABEL=...`. The whole disk is `disk` also beside a table.
    ///
    /// # Errors
    /// `NotFound`, with what there is; `Ambiguous` when several are called that.
    pub fn volume(&self, name: &str) -> Result<Volume> {
        choose::by_name(self, name)
    }

    /// What begins at a byte of the disk and goes on to its end, whatever a table says.
    ///
    /// # Errors
    /// `Invalid` for an offset past the end.
    pub fn volume_at(&self, offset_bytes: u64) -> Result<Volume> {
        let size_bytes = self.device().size_bytes();
        if offset_bytes >= size_bytes {
            let reason = format!("the disk ends at byte {size_bytes}, before {offset_bytes}");
            return Err(Error::new(ErrorKind::Invalid, reason).in_file(&self.path));
        }
        Ok(Volume::at(&self.path, self.device(), offset_bytes))
    }

    /// The filesystem that is meant when none is named: the only one, or the only one that holds an
    /// operating system.
    ///
    /// # Errors
    /// `Ambiguous`, with the choices; `NotFound` when there is none; `Unsupported` when the one
    /// that must be meant has no driver.
    pub fn filesystem(&self) -> Result<Filesystem> {
        choose::filesystem(self)
    }

    /// What is wrong with the image and its partition table, as sentences for the user. The table
    /// counts only once it has been read.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut image = Some(self.description());
        while let Some(description) = image {
            let path = description.path.display();
            warnings.extend(
                description
                    .warnings
                    .iter()
                    .map(|text| format!("{path}: {text}")),
            );
            image = description.backing.as_deref();
        }
        let path = self.path.display();
        if let Some(Some(table)) = self.table.get() {
            warnings.extend(table.warnings.iter().map(|text| format!("{path}: {text}")));
        }
        warnings
    }

    fn in_image(&self, error: impl Into<Error>) -> Error {
        error.into().in_file(&self.path)
    }
}
