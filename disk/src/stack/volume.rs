//! A volume of a disk.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_ext4::UuidChange;
use diskfs_fat::CodePage;
use diskfs_volume::Partition;
use diskfs_volume::lvm::LogicalVolume;

use super::content::{Content, ContentClass, LUKS};
use super::fallback::{CachedFilesystem, FallbackOfDisk};
use super::filesystem_size;
use super::guest_disk::GuestDisk;
use super::luks::{self, DetachedHeader, UnlockOutcome};
use super::lvm::Group;
use super::md::MdArray;
use super::place::VolumePlace;
use crate::{Error, ErrorKind, Result};

/// A part of a disk that may hold a filesystem: a partition, a logical volume, an array, the
/// decrypted inside of an encrypted volume, or the whole disk.
#[derive(Debug, Clone)]
pub struct Volume {
    name: String,
    image_path: PathBuf,
    /// The index of its disk among the machine's, from 0; `None` for a volume that may span
    /// several.
    disk_index: Option<usize>,
    place: VolumePlace,
    size_bytes: u64,
    content: OnceLock<Option<Content>>,
    /// The outcome of unlocking it; `None` if that was not tried.
    unlock_outcome: Option<UnlockOutcome>,
    /// The code page of short names on FAT; `None` if it was not set.
    code_page: Option<CodePage>,
    detached_header: Option<Arc<DetachedHeader>>,
    pub(super) fallback: Option<FallbackOfDisk>,
    /// The volumes of the machine, for a filesystem that spans several. They have none themselves.
    beside: Arc<[Volume]>,
    /// The filesystem that a driver opened which does not write.
    pub(super) by_driver: CachedFilesystem,
    /// The filesystem that the fallback opened.
    pub(super) by_fallback: CachedFilesystem,
}

impl Volume {
    pub(super) fn new(
        name: String,
        image_path: &Path,
        place: VolumePlace,
        size_bytes: u64,
    ) -> Self {
        Self {
            name,
            image_path: image_path.to_owned(),
            disk_index: None,
            place,
            size_bytes,
            content: OnceLock::new(),
            unlock_outcome: None,
            code_page: None,
            detached_header: None,
            fallback: None,
            beside: Arc::default(),
            by_driver: CachedFilesystem::default(),
            by_fallback: CachedFilesystem::default(),
        }
    }

    pub(super) fn whole(image_path: &Path, disk: GuestDisk) -> Self {
        Self {
            name: "disk".to_owned(),
            ..Self::at(image_path, disk, 0)
        }
    }

    pub(super) fn at(image_path: &Path, disk: GuestDisk, start_bytes: u64) -> Self {
        let size_bytes = disk.size_bytes().saturating_sub(start_bytes);
        let place = VolumePlace::Rest(disk, start_bytes);
        Self::new(format!("@{start_bytes}"), image_path, place, size_bytes)
    }

    pub(super) fn partition(image: &Path, disk: GuestDisk, partition: &Partition) -> Self {
        let name = format!("p{}", partition.number);
        let place = VolumePlace::Partition(disk, partition.clone());
        Self::new(name, image, place, partition.len_bytes)
    }

    /// Sets the index of its disk among the machine's, from 0. Names on the first disk are the same
    /// as on a single disk.
    pub(super) fn on_disk(self, index: usize) -> Self {
        let nth = index.saturating_add(1);
        let name = match (index, self.name.as_str()) {
            (0, _) => self.name,
            (_, "disk") => format!("disk{nth}"),
            (_, name) => format!("disk{nth}/{name}"),
        };
        Self {
            name,
            disk_index: Some(index),
            ..self
        }
    }

    /// Sets the code page of short names on FAT, unless it was set before.
    #[must_use]
    pub fn in_code_page(self, code_page: CodePage) -> Self {
        Self {
            code_page: self.code_page.or(Some(code_page)),
            ..self
        }
    }

    /// Returns the code page of short names on FAT.
    pub(super) fn code_page(&self) -> CodePage {
        self.code_page.unwrap_or_default()
    }

    pub(super) fn image_path(&self) -> &Path {
        &self.image_path
    }

    /// Sets the volumes of the machine, among which a filesystem finds its other devices.
    pub(super) fn set_beside(&mut self, beside: Arc<[Volume]>) {
        self.beside = beside;
    }

    pub(super) fn beside(&self) -> &[Volume] {
        &self.beside
    }

    pub(super) fn with_fallback(self, fallback: FallbackOfDisk) -> Self {
        Self {
            fallback: Some(fallback),
            ..self
        }
    }

    /// Returns the index of its disk among the machine's, from 0, if it is a partition or a whole
    /// disk.
    pub fn disk_index(&self) -> Option<usize> {
        self.disk_index
    }

    pub(super) fn place(&self) -> &VolumePlace {
        &self.place
    }

    /// Returns the name of the volume in diskfs: `p1`, `vg0/root`, `md0`, `disk`, `disk2/p1`,
    /// `@1048576`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the byte of the disk at which it starts; `None` for a volume that is assembled from
    /// pieces.
    pub fn start_bytes(&self) -> Option<u64> {
        match &self.place {
            VolumePlace::Partition(_, partition) => Some(partition.start_bytes),
            VolumePlace::Rest(_, start_bytes) => Some(*start_bytes),
            VolumePlace::Logical(_) | VolumePlace::Array(_) | VolumePlace::Unlocked(_) => None,
        }
    }

    /// Returns true if it is a whole disk.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.place, VolumePlace::Rest(_, 0))
    }

    /// Returns its size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the size of the disk that it is a partition of; `None` for any other volume.
    pub fn disk_bytes(&self) -> Option<u64> {
        match &self.place {
            VolumePlace::Partition(disk, _) => Some(disk.size_bytes()),
            _ => None,
        }
    }

    /// Returns the entry of the partition table, if it is a partition.
    pub fn entry(&self) -> Option<&Partition> {
        let VolumePlace::Partition(_, partition) = &self.place else {
            return None;
        };
        Some(partition)
    }

    /// Returns the volume group and the volume's metadata, if it is a logical volume.
    pub fn logical(&self) -> Option<(&Group, &LogicalVolume)> {
        let VolumePlace::Logical(logical) = &self.place else {
            return None;
        };
        Some((&logical.group, logical.volume()))
    }

    /// Returns the array, if it is an md array.
    pub fn array(&self) -> Option<&MdArray> {
        let VolumePlace::Array(array) = &self.place else {
            return None;
        };
        Some(array)
    }

    /// Returns its LUKS header, if it is encrypted with LUKS.
    ///
    /// # Errors
    /// `Corrupt` for an invalid header; as [`device`](Self::device) and reading it.
    pub fn luks(&self) -> Result<Option<diskfs_luks::Header>> {
        luks::header(self).map_err(|e| self.in_image(e))
    }

    /// Returns true if it is encrypted and was unlocked: its inside is listed separately, as
    /// `NAME/luks`.
    pub fn is_unlocked(&self) -> bool {
        matches!(self.unlock_outcome, Some(UnlockOutcome::Unlocked))
    }

    pub(super) fn detached_header(&self) -> Option<&Arc<DetachedHeader>> {
        self.detached_header.as_ref()
    }

    /// Sets a detached LUKS header, which then determines the content: the volume itself has no
    /// signature.
    pub(super) fn set_detached_header(&mut self, header: Arc<DetachedHeader>) {
        self.content = OnceLock::from(Some(header.content()));
        self.detached_header = Some(header);
    }

    pub(super) fn set_unlock_outcome(&mut self, outcome: UnlockOutcome) {
        self.unlock_outcome = Some(outcome);
    }

    /// Returns the reason why it can't be opened, if that is known in advance: a partition past the
    /// end of the disk, a logical volume of an unsupported type or with a missing piece.
    pub fn problem(&self) -> Option<String> {
        self.place.problem()
    }

    /// Returns the volume as a device.
    ///
    /// # Errors
    /// `Corrupt` for a partition that extends past the end of the disk or overlaps another, and for
    /// a logical volume with invalid metadata; `NotFound` if a physical volume is missing;
    /// `Unsupported` for an unsupported type of logical volume.
    pub fn device(&self) -> Result<Arc<dyn BlockRead>> {
        self.place.read().map_err(|e| self.in_image(e))
    }

    /// Returns the volume as a device for writing. A filesystem that was cached for reading is
    /// dropped.
    ///
    /// # Errors
    /// As [`device`](Self::device); `ReadOnly` if the disk is open read-only.
    pub fn writable_device(&self) -> Result<Arc<dyn BlockWrite>> {
        let device = self.place.write().map_err(|e| self.in_image(e))?;
        self.by_driver.forget();
        self.by_fallback.forget();
        device.ok_or_else(|| {
            let reason = "the disk is open read-only";
            self.in_image(Error::new(ErrorKind::ReadOnly, reason))
        })
    }

    /// Returns the content of the volume, identified by magic numbers; `None` if it is unknown.
    ///
    /// # Errors
    /// As [`device`](Self::device) and reading it.
    pub fn content(&self) -> Result<Option<&Content>> {
        if self.content.get().is_none() {
            let found = Content::probe(&*self.device()?).map_err(|e| self.in_image(e))?;
            let _ = self.content.set(found); // Another thread has read the same bytes.
        }
        Ok(self.content.get().and_then(Option::as_ref))
    }

    /// Returns the same volume with its present content, after a filesystem was created on it.
    ///
    /// # Errors
    /// As [`content`](Self::content).
    pub fn refreshed(&self) -> Result<Self> {
        let fresh = Self {
            content: OnceLock::new(),
            by_driver: CachedFilesystem::default(),
            by_fallback: CachedFilesystem::default(),
            ..self.clone()
        };
        fresh.content()?;
        Ok(fresh)
    }

    /// Returns true if a driver or the fallback reads its kind of filesystem.
    ///
    /// # Errors
    /// As [`content`](Self::content).
    pub fn is_readable(&self) -> Result<bool> {
        let content = self.content()?;
        Ok(content
            .is_some_and(|content| content.is_readable() || self.fallback_for(content).is_some()))
    }

    /// Returns the kind of its filesystem, as `blkid` names it.
    ///
    /// # Errors
    /// As [`filesystem`](Self::filesystem) if the volume has no filesystem.
    pub fn filesystem_kind(&self) -> Result<&'static str> {
        Ok(self.known_content()?.kind)
    }

    /// Returns the size that its filesystem's superblock records, for the kinds of filesystems that
    /// can grow.
    ///
    /// # Errors
    /// As [`content`](Self::content).
    pub fn filesystem_bytes(&self) -> Result<Option<u64>> {
        let Some(content) = self.content()? else {
            return Ok(None);
        };
        let device = self.device()?;
        filesystem_size::filesystem_bytes(content.kind, &*device).map_err(|e| self.in_image(e))
    }

    /// Returns the other metadata that changes with the UUID of its filesystem, for
    /// [`set_uuid`](diskfs_vfs::FsWrite::set_uuid).
    ///
    /// # Errors
    /// `Unsupported` if the UUID can't be changed; as [`content`](Self::content).
    pub fn uuid_change(&self) -> Result<UuidChange> {
        let kind = self.known_content()?.kind;
        if !matches!(kind, "ext2" | "ext3" | "ext4") {
            let reason = format!("changing the UUID of {kind} is not supported");
            return Err(self.in_image(Error::new(ErrorKind::Unsupported, reason)));
        }
        diskfs_ext4::uuid_change(&*self.device()?).map_err(|e| self.in_image(e))
    }

    pub(super) fn known_content(&self) -> Result<&Content> {
        self.content()?.ok_or_else(|| {
            let reason = format!("volume {} holds no known filesystem", self.name);
            self.in_image(Error::new(ErrorKind::Unsupported, reason))
        })
    }

    pub(super) fn unsupported(&self, content: &Content) -> Error {
        let (name, kind) = (&self.name, content.kind);
        if kind == LUKS {
            return self.in_image(self.encrypted());
        }
        let reason = match content.class {
            // A driver that only reads was asked to write.
            ContentClass::Filesystem if content.is_readable() && !content.is_writable() => {
                format!("volume {name} holds {kind}: writing to {kind} is not supported")
            }
            ContentClass::Filesystem => {
                format!("volume {name} holds {kind}, which is not supported")
            }
            class => format!("volume {name} holds {kind} ({class}), not a filesystem"),
        };
        self.in_image(Error::new(ErrorKind::Unsupported, reason))
    }

    fn encrypted(&self) -> Error {
        let name = &self.name;
        let (kind, reason) = match &self.unlock_outcome {
            Some(UnlockOutcome::Unlocked) => {
                let reason = format!("volume {name} is encrypted; it is unlocked as {name}/luks");
                return Error::new(ErrorKind::Invalid, reason)
                    .with_hint(format!("use --volume {name}/luks"));
            }
            Some(UnlockOutcome::Failed(why)) => {
                (why.kind(), format!("volume {name} is encrypted: {why}"))
            }
            None => {
                let reason = format!("volume {name} is encrypted with LUKS, and no key was given");
                (ErrorKind::Denied, reason)
            }
        };
        let error = Error::new(kind, reason);
        match kind {
            ErrorKind::Denied => error.with_hint(format!("use --key {name}:ask")),
            _ => error,
        }
    }

    pub(super) fn in_image(&self, error: impl Into<Error>) -> Error {
        error.into().in_file(&self.image_path)
    }
}
