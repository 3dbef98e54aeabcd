//! From an image to its filesystems: the only place that knows every driver.

mod choose;
mod content;
mod driver;
mod fallback;
mod filesystem_size;
mod guest_disk;
mod lost_ext;
mod lost_luks;
mod luks;
mod lvm;
mod magic;
mod md;
mod mkfs;
mod names;
mod options;
mod overlay;
mod place;
mod probe;
mod transaction;
mod volume;
mod volumes;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use diskfs_block::{BlockRead, Overlay};
use diskfs_image::{Description, Image, WritableImage};
use diskfs_volume::{PartitionTable, read_table};

pub use content::{Content, ContentClass};
pub use diskfs_ext4::UuidChange;
pub use driver::{Commits, RootReserve, WriteOptions};
use fallback::FallbackOfDisk;
pub use fallback::{DiskId, Fallback, Wanted};
pub use luks::Keys;
pub use lvm::{Group, LvmId, NewIds};
pub use md::MdArray;
pub use mkfs::{CodePage, ExfatOptions, FatKind, FatOptions, NewFilesystem, SwapOptions};
pub use options::DiskOptions;
pub use volume::Volume;

use crate::cancellation::Cancellable;
use crate::{Error, ErrorKind, Filesystem, Result, WritableFilesystem};
use guest_disk::GuestDisk;
use options::Settings;
use volumes::Volumes;

/// A virtual machine's disk: an image, the volumes on it, and their filesystems.
///
/// Everything is read when it is asked for and not before: opening a disk reads the image's header,
/// [`volumes`](Self::volumes) the partition table, and a filesystem is opened when its files are
/// wanted.
#[derive(Debug)]
pub struct Disk {
    image: Opened,
    path: PathBuf,
    table: OnceLock<Option<PartitionTable>>,
    settings: Settings,
    id: DiskId,
    volumes: OnceLock<Volumes>,
    /// The machine's other disks.
    further: Vec<Disk>,
}

/// What an image is open for.
#[derive(Debug)]
enum Opened {
    ReadOnly(Image),
    Writable(WritableImage),
    /// Changes go into memory and are forgotten.
    DryRun(Image, Arc<Overlay>),
}

impl Disk {
    /// Opens the image at `path`, read-only, with the default options.
    ///
    /// # Errors
    /// As [`DiskOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::options().open(path)
    }

    /// Returns the options for opening a disk: read-only, and of this image alone, until they say otherwise.
    pub fn options() -> DiskOptions {
        DiskOptions::default()
    }

    fn new(image: Opened, path: PathBuf, settings: Settings) -> Self {
        Self {
            image,
            path,
            table: OnceLock::new(),
            settings,
            id: DiskId::new(),
            volumes: OnceLock::new(),
            further: Vec::new(),
        }
    }

    /// The machine's other disks, in the order in which they were added.
    pub fn further(&self) -> &[Self] {
        &self.further
    }

    /// The image's path, as it was given; the overlay's, when there is one.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The LUKS header of an image whose own data is encrypted; `None` for others, also when there
    /// are encrypted volumes on it.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn image_luks(&self) -> Result<Option<diskfs_luks::Header>> {
        luks::of_image(self.description())
    }

    /// What the image says about itself: format, sizes, chain, snapshots.
    pub fn description(&self) -> &Description {
        match &self.image {
            Opened::ReadOnly(image) | Opened::DryRun(image, _) => image.description(),
            Opened::Writable(image) => image.description(),
        }
    }

    /// The image below, unless it is open for writing.
    pub fn image(&self) -> Option<&Image> {
        match &self.image {
            Opened::ReadOnly(image) | Opened::DryRun(image, _) => Some(image),
            Opened::Writable(_) => None,
        }
    }

    /// The disk as it is in the image behind this one, whose changes are then left out; `None` without
    /// one, and for a disk that is open for writing. It has the keys, the code page and the fallback of this one.
    pub fn backing(&self) -> Option<Self> {
        let backing = self.image()?.backing()?;
        let path = backing.description().path.clone();
        let settings = self.settings.clone();
        Some(Self::new(Opened::ReadOnly(backing), path, settings))
    }

    /// How many bytes of the disk a dry run has changed so far, in blocks of 4 KiB; `None` when it
    /// is none.
    pub fn changed_in_memory(&self) -> Option<u64> {
        match &self.image {
            Opened::DryRun(_, overlay) => {
                let own: u64 = overlay.changed().map(|range| range.len_bytes).sum();
                let further = self.further.iter().filter_map(Self::changed_in_memory);
                Some(further.fold(own, u64::saturating_add))
            }
            Opened::ReadOnly(_) | Opened::Writable(_) => None,
        }
    }

    /// The guest's disk, as the guest sees it.
    pub fn device(&self) -> Arc<dyn BlockRead> {
        self.guest_disk().read()
    }

    fn guest_disk(&self) -> GuestDisk {
        match &self.image {
            Opened::ReadOnly(image) => GuestDisk::ReadOnly(self.until_cancelled(image.device())),
            Opened::Writable(image) => GuestDisk::Writable(image.device()),
            Opened::DryRun(_, overlay) => GuestDisk::Writable(overlay.clone()),
        }
    }

    fn until_cancelled(&self, device: Arc<dyn BlockRead>) -> Arc<dyn BlockRead> {
        match &self.settings.cancellation {
            Some(token) => Arc::new(Cancellable::new(device, token.clone())),
            None => device,
        }
    }

    /// Ends writing: what was written is durable when it returns, and the image is left as it should
    /// be. Close the filesystems of the disk before.
    ///
    /// # Errors
    /// `Io`, `NoSpace`: then nobody knows what of the last writes is durable.
    pub fn close(self) -> Result<()> {
        // Arrays that were written say so when nobody has them any more, on all their disks.
        drop(self.volumes);
        let closed = match self.image {
            Opened::Writable(image) => image
                .close()
                .map_err(|e| Error::from(e).in_file(&self.path)),
            Opened::ReadOnly(_) | Opened::DryRun(..) => Ok(()),
        };
        let further = self.further.into_iter().map(Self::close);
        further.fold(closed, Result::and)
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

    /// A volume of this disk, with what was set for all.
    fn with_settings(&self, volume: Volume) -> Volume {
        let volume = match self.settings.code_page {
            Some(code_page) => volume.in_code_page(code_page),
            None => volume,
        };
        match self.settings.fallback.clone() {
            Some(fallback) => volume.with_fallback(FallbackOfDisk {
                fallback,
                disk: self.id,
            }),
            None => volume,
        }
    }

    /// The volumes: the partitions, or the whole disk (`disk`) when it has none; then the arrays of
    /// md (`md0`), what is inside of encrypted ones that have a key (`p3/luks`), and the logical
    /// volumes of the groups on all of them; and what is in those.
    ///
    /// # Errors
    /// As [`partition_table`](Self::partition_table).
    pub fn volumes(&self) -> Result<&[Volume]> {
        Ok(&self.find_volumes()?.all)
    }

    /// The volume groups, in the order of their names.
    ///
    /// # Errors
    /// As [`volumes`](Self::volumes).
    pub fn groups(&self) -> Result<&[Arc<Group>]> {
        Ok(&self.find_volumes()?.groups)
    }

    /// The arrays of md, in the order of their names.
    ///
    /// # Errors
    /// As [`volumes`](Self::volumes).
    pub fn arrays(&self) -> Result<&[Arc<MdArray>]> {
        Ok(&self.find_volumes()?.arrays)
    }

    /// Whether a volume is a part of an array or of a group, which are listed beside it.
    ///
    /// # Errors
    /// As [`volumes`](Self::volumes).
    pub fn is_member(&self, volume: &Volume) -> Result<bool> {
        Ok(self.find_volumes()?.is_member(volume))
    }

    fn find_volumes(&self) -> Result<&Volumes> {
        if let Some(found) = self.volumes.get() {
            return Ok(found);
        }
        let mut found = Volumes::find(self, self.settings.keys.as_ref())?;
        let all = std::mem::take(&mut found.all).into_iter();
        found.all = all.map(|volume| self.with_settings(volume)).collect();
        // Another thread may have read the same bytes meanwhile.
        Ok(self.volumes.get_or_init(|| found))
    }

    /// The volume of that name: `p1`, `vg0/root`, `disk`, a UUID, a label, a PARTUUID or a PARTLABEL.
    /// Bare, or as fstab(5) has it: `UUID=...`, `LABEL=...`, `/dev/mapper/vg0-root`. The whole disk
    /// is `disk` also beside a table.
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
        let volume = Volume::at(&self.path, self.guest_disk(), offset_bytes);
        Ok(self.with_settings(volume))
    }

    /// All of the disk, whatever a table says.
    fn whole(&self) -> Volume {
        self.with_settings(Volume::whole(&self.path, self.guest_disk()))
    }

    /// The volume that is meant when none is named: the one with [`filesystem`](Self::filesystem).
    ///
    /// # Errors
    /// As that.
    pub fn meant_volume(&self) -> Result<Volume> {
        choose::volume(self)
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

    /// The same, opened for writing.
    ///
    /// # Errors
    /// As [`filesystem`](Self::filesystem) and [`Volume::writable_filesystem`].
    pub fn writable_filesystem(&self, options: &WriteOptions) -> Result<WritableFilesystem> {
        choose::volume(self)?.writable_filesystem(options)
    }

    /// What is wrong with the image, its partition table and its physical volumes, as sentences for
    /// the user. Table and volumes count only once they have been read.
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
        let volumes = self.volumes.get().map_or(&[][..], |found| &found.warnings);
        warnings.extend(volumes.iter().map(|text| format!("{path}: {text}")));
        warnings.extend(self.further.iter().flat_map(Self::warnings));
        warnings
    }

    fn in_image(&self, error: impl Into<Error>) -> Error {
        error.into().in_file(&self.path)
    }
}
