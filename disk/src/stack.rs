//! The stack of layers from an image to its filesystems. Only this module knows every driver.

mod btrfs;
pub mod check;
mod choose;
mod content;
mod devices;
mod driver;
mod fallback;
mod filesystem_size;
mod grow;
mod guest_disk;
mod lost_ext;
mod lost_luks;
mod luks;
mod luks_keys;
mod lvm;
mod magic;
mod md;
mod mkfs;
mod names;
mod opening;
mod options;
mod overlay;
mod partitions;
mod place;
mod probe;
mod resize;
mod shrink;
mod transaction;
mod trim;
mod volume;
mod volume_groups;
mod volumes;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use diskfs_block::{BlockRead, Overlay};
use diskfs_image::{BackgroundCopy, Description, DirectOpener, Image, WritableImage};
use diskfs_volume::{PartitionTable, read_table};

pub use content::{Content, ContentClass};
pub use diskfs_ext4::UuidChange;
pub use driver::{Commits, RootReserve, WriteOptions};
use fallback::FallbackOfDisk;
pub use fallback::{DiskId, Fallback, FallbackRequest};
pub use grow::{NewSpace, Resized};
pub use luks::{Keys, new_encryption};
pub use luks_keys::{ChangedKeys, KeyChange, KeyProof, KeyRemoval};
pub use lvm::{Group, LvmId, NewIds};
pub use md::MdArray;
pub use mkfs::{
    CodePage, ExfatOptions, ExtKind, ExtOptions, FatKind, FatOptions, NewFilesystem, SwapOptions,
    TreeUsage, fitting_size,
};
pub use opening::ChosenDriver;
pub use options::DiskOptions;
pub use overlay::{OverlaidImage, create_overlay};
pub use resize::{
    ResizeLayer, ResizeProgress, ResizeReport, ResizeRequest, ResizeStep, ResizeTool, ResizeVolume,
    ShrinkTo, ToolUse,
};
pub use trim::FreeSpace;
pub use volume::Volume;

use crate::cancellation::Cancellable;
use crate::{Error, ErrorKind, Filesystem, Result, WritableFilesystem};
use guest_disk::GuestDisk;
use options::Settings;
use volumes::Volumes;

/// A virtual machine's disk: an image, the volumes on it, and their filesystems.
///
/// Data is read on demand: opening a disk reads the image's header, [`volumes`](Self::volumes)
/// reads the partition table, and a filesystem is opened when its files are accessed.
#[derive(Debug)]
pub struct Disk {
    image: OpenedImage,
    path: PathBuf,
    table: OnceLock<Option<PartitionTable>>,
    settings: Settings,
    id: DiskId,
    volumes: OnceLock<Volumes>,
    /// The other disks of the machine.
    other_disks: Vec<Disk>,
}

/// An open image, by the kind of access.
#[derive(Debug)]
enum OpenedImage {
    ReadOnly(Image),
    Writable(WritableImage),
    /// Changes are stored in memory and discarded.
    DryRun(Image, Arc<Overlay>),
    /// The copy of a disk whose changes are stored in memory and discarded.
    InMemory(Box<Description>, Arc<Overlay>),
}

impl Disk {
    /// Opens the image at `path` read-only, with the default options.
    ///
    /// # Errors
    /// As [`DiskOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::options().open(path)
    }

    /// Returns the options for opening a disk. The default is read-only access to a single image.
    pub fn options() -> DiskOptions {
        DiskOptions::default()
    }

    fn new(image: OpenedImage, path: PathBuf, settings: Settings) -> Self {
        Self {
            image,
            path,
            table: OnceLock::new(),
            settings,
            id: DiskId::new(),
            volumes: OnceLock::new(),
            other_disks: Vec::new(),
        }
    }

    /// Returns the machine's other disks, in the order in which they were added.
    pub fn other_disks(&self) -> &[Self] {
        &self.other_disks
    }

    /// Returns the image's path as it was given, or the overlay's path if there is an overlay.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the LUKS header of an image whose own data is encrypted. Returns `None` for other
    /// images, including those with encrypted volumes on them.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn image_luks(&self) -> Result<Option<diskfs_luks::Header>> {
        let files = self.settings.files.as_deref();
        luks::of_image(self.description(), files.unwrap_or(&DirectOpener))
    }

    /// Returns the facts that the image records: format, sizes, backing chain, snapshots.
    pub fn description(&self) -> &Description {
        match &self.image {
            OpenedImage::ReadOnly(image) | OpenedImage::DryRun(image, _) => image.description(),
            OpenedImage::Writable(image) => image.description(),
            OpenedImage::InMemory(description, _) => description,
        }
    }

    /// Returns the image, unless it is open for writing.
    pub fn image(&self) -> Option<&Image> {
        match &self.image {
            OpenedImage::ReadOnly(image) | OpenedImage::DryRun(image, _) => Some(image),
            OpenedImage::Writable(_) | OpenedImage::InMemory(..) => None,
        }
    }

    /// Returns the disk of the backing file, without the changes of this image. The keys, the code
    /// page and the fallback are those of this disk. Returns `None` if there is no backing file, or
    /// if the disk is open for writing.
    pub fn backing(&self) -> Option<Self> {
        let backing = self.image()?.backing()?;
        let path = backing.description().path.clone();
        let settings = self.settings.clone();
        Some(Self::new(OpenedImage::ReadOnly(backing), path, settings))
    }

    /// Returns the number of bytes that a dry run has changed so far, in blocks of 4 KiB; `None`
    /// without a dry run.
    pub fn changed_in_memory(&self) -> Option<u64> {
        match &self.image {
            OpenedImage::DryRun(_, overlay) | OpenedImage::InMemory(_, overlay) => {
                let own: u64 = overlay.changed().map(|range| range.len_bytes).sum();
                let others = self.other_disks.iter().filter_map(Self::changed_in_memory);
                Some(others.fold(own, u64::saturating_add))
            }
            OpenedImage::ReadOnly(_) | OpenedImage::Writable(_) => None,
        }
    }

    /// Returns the disk's contents as the guest sees them.
    pub fn device(&self) -> Arc<dyn BlockRead> {
        self.guest_disk().read()
    }

    fn guest_disk(&self) -> GuestDisk {
        match &self.image {
            OpenedImage::ReadOnly(image) => {
                GuestDisk::ReadOnly(self.until_cancelled(image.device()))
            }
            OpenedImage::Writable(image) => GuestDisk::Writable(image.device()),
            OpenedImage::DryRun(_, overlay) | OpenedImage::InMemory(_, overlay) => {
                GuestDisk::Writable(overlay.clone())
            }
        }
    }

    fn until_cancelled(&self, device: Arc<dyn BlockRead>) -> Arc<dyn BlockRead> {
        match &self.settings.cancellation {
            Some(token) => Arc::new(Cancellable::new(device, token.clone())),
            None => device,
        }
    }

    /// Prepares a copy of everything that the disk needs of the backing file into its overlay.
    ///
    /// # Errors
    /// `ReadOnly` unless the disk is open for writing; `Unsupported` unless the image is qcow2
    /// without internal snapshots.
    pub fn background_copy(&self) -> Result<BackgroundCopy> {
        match &self.image {
            OpenedImage::Writable(image) => Ok(image.background_copy()?),
            _ => Err(Error::new(
                ErrorKind::ReadOnly,
                "the disk is not open for writing",
            )),
        }
    }

    /// Ends writing. When it returns, all data is durable and the image is in a clean state. Close
    /// the filesystems of the disk first.
    ///
    /// # Errors
    /// `Io`, `NoSpace`: then it is unknown which of the last writes are durable.
    pub fn close(self) -> Result<()> {
        // Arrays that were written are marked clean, on all their disks, when their last user drops
        // them.
        drop(self.volumes);
        let closed = match self.image {
            OpenedImage::Writable(image) => image
                .close()
                .map_err(|e| Error::from(e).in_file(&self.path)),
            OpenedImage::ReadOnly(_) | OpenedImage::DryRun(..) | OpenedImage::InMemory(..) => {
                Ok(())
            }
        };
        let others = self.other_disks.into_iter().map(Self::close);
        others.fold(closed, Result::and)
    }

    /// Returns the partition table; `None` without one.
    ///
    /// # Errors
    /// `Corrupt` for a GPT of which neither copy is valid.
    pub fn partition_table(&self) -> Result<Option<&PartitionTable>> {
        if self.table.get().is_none() {
            let table = read_table(&*self.device()).map_err(|e| self.in_image(e))?;
            let _ = self.table.set(table); // Another thread has read the same bytes.
        }
        Ok(self.table.get().and_then(Option::as_ref))
    }

    /// Applies the settings of the disk to one of its volumes.
    fn with_settings(&self, volume: Volume) -> Volume {
        let volume = match self.settings.code_page {
            Some(code_page) => volume.in_code_page(code_page),
            None => volume,
        };
        match self.settings.fallback.clone() {
            Some(fallback) => volume.with_fallback(FallbackOfDisk {
                fallback,
                used: self.settings.fallback_use,
                disk: self.id,
            }),
            None => volume,
        }
    }

    /// Returns the volumes, in this order:
    ///
    /// * the partitions, or the whole disk (`disk`) if there is no partition table,
    /// * the md arrays (`md0`),
    /// * the decrypted insides of encrypted volumes that have a key (`p3/luks`),
    /// * the logical volumes of the volume groups on all of these,
    ///
    /// and then the volumes that are inside of those.
    ///
    /// # Errors
    /// As [`partition_table`](Self::partition_table).
    pub fn volumes(&self) -> Result<&[Volume]> {
        Ok(&self.find_volumes()?.all)
    }

    /// Returns the volume groups, sorted by name.
    ///
    /// # Errors
    /// As [`volumes`](Self::volumes).
    pub fn groups(&self) -> Result<&[Arc<Group>]> {
        Ok(&self.find_volumes()?.groups)
    }

    /// Returns the md arrays, sorted by name.
    ///
    /// # Errors
    /// As [`volumes`](Self::volumes).
    pub fn arrays(&self) -> Result<&[Arc<MdArray>]> {
        Ok(&self.find_volumes()?.arrays)
    }

    /// Returns true if a volume is a member of an array or a volume group, which are listed
    /// separately, or a further device of a btrfs filesystem.
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
        let beside: Arc<[Volume]> = found.all.clone().into();
        for volume in &mut found.all {
            volume.set_beside(Arc::clone(&beside));
        }
        // Another thread may have read the same bytes in the meantime.
        Ok(self.volumes.get_or_init(|| found))
    }

    /// Returns the volume with this name: `p1`, `vg0/root`, `disk`, a UUID, a label, a PARTUUID or
    /// a PARTLABEL. The name can also have the form of fstab(5): `UUID=...`, `LABEL=...`,
    /// `/dev/mapper/vg0-root`. `disk` always means the whole disk, even if it has a partition
    /// table.
    ///
    /// # Errors
    /// `NotFound`, with the names of the volumes; `Ambiguous` if several match.
    pub fn volume(&self, name: &str) -> Result<Volume> {
        choose::by_name(self, name)
    }

    /// Returns a volume from a byte of the disk to its end, whatever the partition table says.
    ///
    /// # Errors
    /// `Invalid` for an offset past the end.
    pub fn volume_at(&self, offset_bytes: u64) -> Result<Volume> {
        let size_bytes = self.device().size_bytes();
        if offset_bytes >= size_bytes {
            let reason =
                format!("the disk ends at byte {size_bytes}, before offset {offset_bytes}");
            return Err(Error::new(ErrorKind::Invalid, reason).in_file(&self.path));
        }
        let volume = Volume::at(&self.path, self.guest_disk(), offset_bytes);
        Ok(self.with_settings(volume))
    }

    /// Returns the whole disk as a volume, whatever the partition table says.
    fn whole(&self) -> Volume {
        self.with_settings(Volume::whole(&self.path, self.guest_disk()))
    }

    /// Returns the volume to use if none is named: the one with [`filesystem`](Self::filesystem).
    ///
    /// # Errors
    /// As [`filesystem`](Self::filesystem).
    pub fn default_volume(&self) -> Result<Volume> {
        choose::volume(self)
    }

    /// Returns the filesystem to use if none is named: the only one, or the only one that holds an
    /// operating system.
    ///
    /// # Errors
    /// `Ambiguous`, with the choices; `NotFound` if there is no filesystem; `Unsupported` if the
    /// only candidate has no driver.
    pub fn filesystem(&self) -> Result<Filesystem> {
        choose::filesystem(self)
    }

    /// Returns the filesystem to use if none is named, opened for writing.
    ///
    /// # Errors
    /// As [`filesystem`](Self::filesystem) and [`Volume::writable_filesystem`].
    pub fn writable_filesystem(&self, options: &WriteOptions) -> Result<WritableFilesystem> {
        choose::volume(self)?.writable_filesystem(options)
    }

    /// Returns the faults of the image, its partition table and its physical volumes, as sentences
    /// for the user. The faults of the table and the volumes are included only once these have been
    /// read.
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
        warnings.extend(self.other_disks.iter().flat_map(Self::warnings));
        warnings
    }

    fn in_image(&self, error: impl Into<Error>) -> Error {
        error.into().in_file(&self.path)
    }
}
