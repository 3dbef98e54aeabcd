//! One volume of a disk.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_ext4::UuidChange;
use diskfs_fat::CodePage;
use diskfs_volume::Partition;
use diskfs_volume::lvm::LogicalVolume;

use super::content::{Content, ContentClass, LUKS};
use super::driver::{self, WriteOptions};
use super::fallback::{Fallback, FallbackOfDisk, Kept, Wanted};
use super::filesystem_size;
use super::guest_disk::GuestDisk;
use super::luks::{self, Detached, Lock};
use super::lvm::Group;
use super::md::MdArray;
use super::place::Place;
use crate::{Error, ErrorKind, Filesystem, Result, WritableFilesystem};

/// A part of a disk that may hold a filesystem: a partition, a logical volume, an array, the inside of
/// an encrypted volume, or the whole disk.
#[derive(Debug, Clone)]
pub struct Volume {
    name: String,
    image_path: PathBuf,
    /// Which of the machine's disks it is on, from 0; `None` for what may be on several.
    disk_index: Option<usize>,
    place: Place,
    size_bytes: u64,
    content: OnceLock<Option<Content>>,
    /// Once it was tried to unlock it.
    lock: Option<Lock>,
    /// Of short names on FAT; `None` when nobody said it.
    code_page: Option<CodePage>,
    detached_header: Option<Arc<Detached>>,
    fallback: Option<FallbackOfDisk>,
    /// What that opened.
    kept: Kept,
}

impl Volume {
    pub(super) fn new(name: String, image_path: &Path, place: Place, size_bytes: u64) -> Self {
        Self {
            name,
            image_path: image_path.to_owned(),
            disk_index: None,
            place,
            size_bytes,
            content: OnceLock::new(),
            lock: None,
            code_page: None,
            detached_header: None,
            fallback: None,
            kept: Kept::default(),
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
        let place = Place::Rest(disk, start_bytes);
        Self::new(format!("@{start_bytes}"), image_path, place, size_bytes)
    }

    pub(super) fn partition(image: &Path, disk: GuestDisk, partition: &Partition) -> Self {
        let name = format!("p{}", partition.number);
        let place = Place::Partition(disk, partition.clone());
        Self::new(name, image, place, partition.len_bytes)
    }

    /// The same, on the machine's disk of that number from 0. Names on the first one are as if there
    /// were no other.
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

    /// The same, with short names on FAT in that code page, unless it was said before which.
    #[must_use]
    pub fn in_code_page(self, code_page: CodePage) -> Self {
        Self {
            code_page: self.code_page.or(Some(code_page)),
            ..self
        }
    }

    pub(super) fn with_fallback(self, fallback: FallbackOfDisk) -> Self {
        Self {
            fallback: Some(fallback),
            ..self
        }
    }

    /// Which of the machine's disks it is on, from 0, when it is a partition or a whole disk.
    pub fn disk_index(&self) -> Option<usize> {
        self.disk_index
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// The name to choose it by: `p1`, `vg0/root`, `md0`, `disk`, `disk2/p1`, `@1048576`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it begins on the disk; `None` for one that is put together of pieces.
    pub fn start_bytes(&self) -> Option<u64> {
        match &self.place {
            Place::Partition(_, partition) => Some(partition.start_bytes),
            Place::Rest(_, start_bytes) => Some(*start_bytes),
            Place::Logical(_) | Place::Array(_) | Place::Plain(_) => None,
        }
    }

    /// Whether it is a disk as a whole.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.place, Place::Rest(_, 0))
    }

    /// Its size.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the size of the disk that it is a partition of; `None` for any other volume.
    pub fn disk_bytes(&self) -> Option<u64> {
        match &self.place {
            Place::Partition(disk, _) => Some(disk.size_bytes()),
            _ => None,
        }
    }

    /// The entry of the partition table, when it is a partition.
    pub fn entry(&self) -> Option<&Partition> {
        let Place::Partition(_, partition) = &self.place else {
            return None;
        };
        Some(partition)
    }

    /// The group and what its metadata says of the volume, when it is a logical one.
    pub fn logical(&self) -> Option<(&Group, &LogicalVolume)> {
        let Place::Logical(logical) = &self.place else {
            return None;
        };
        Some((&logical.group, logical.volume()))
    }

    /// The array, when it is one of md.
    pub fn array(&self) -> Option<&MdArray> {
        let Place::Array(array) = &self.place else {
            return None;
        };
        Some(array)
    }

    /// What its LUKS header says, when it is encrypted with LUKS.
    ///
    /// # Errors
    /// `Corrupt` when the header can't be used; as [`device`](Self::device) and reading it.
    pub fn luks(&self) -> Result<Option<diskfs_luks::Header>> {
        luks::header(self).map_err(|e| self.in_image(e))
    }

    /// Whether it is encrypted and what is inside is listed beside it, as `NAME/luks`.
    pub fn is_unlocked(&self) -> bool {
        matches!(self.lock, Some(Lock::Opened))
    }

    pub(super) fn detached_header(&self) -> Option<&Arc<Detached>> {
        self.detached_header.as_ref()
    }

    /// Nothing on the volume tells then what it is: the header does.
    pub(super) fn set_detached_header(&mut self, header: Arc<Detached>) {
        self.content = OnceLock::from(Some(header.content()));
        self.detached_header = Some(header);
    }

    pub(super) fn set_lock(&mut self, lock: Lock) {
        self.lock = Some(lock);
    }

    /// Why it does not open, if that is known before: a partition past the end of the disk, a
    /// logical volume of which a piece is missing or that is of a type that is not read.
    pub fn problem(&self) -> Option<String> {
        self.place.problem()
    }

    /// The volume as a device.
    ///
    /// # Errors
    /// `Corrupt` for a partition that reaches past the end of the disk or overlaps another, and for
    /// a logical volume that makes no sense; `NotFound` when a physical volume is missing;
    /// `Unsupported` for a type of logical volume that is not read.
    pub fn device(&self) -> Result<Arc<dyn BlockRead>> {
        self.place.read().map_err(|e| self.in_image(e))
    }

    /// The volume as a device that can be written. What a fallback has opened to look at it is let go.
    ///
    /// # Errors
    /// As [`device`](Self::device); `ReadOnly` when the disk is open for reading only.
    pub fn writable_device(&self) -> Result<Arc<dyn BlockWrite>> {
        let device = self.place.write().map_err(|e| self.in_image(e))?;
        self.kept.forget();
        device.ok_or_else(|| {
            let reason = "the disk is open for reading only";
            self.in_image(Error::new(ErrorKind::ReadOnly, reason))
        })
    }

    /// What it holds, told from magic numbers; `None` for nothing that is known.
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

    /// Whether its filesystem is of a kind that is read, by a driver or by what stands in for one.
    ///
    /// # Errors
    /// As [`content`](Self::content).
    pub fn is_readable(&self) -> Result<bool> {
        let content = self.content()?;
        Ok(content.is_some_and(|content| content.is_readable() || self.falls_back(content)))
    }

    fn falls_back(&self, content: &Content) -> bool {
        let takes = |of_disk: &FallbackOfDisk| of_disk.fallback.takes(content.kind);
        content.class == ContentClass::Filesystem && self.fallback.as_ref().is_some_and(takes)
    }

    /// The kind of its filesystem, as `blkid` names it.
    ///
    /// # Errors
    /// As [`filesystem`](Self::filesystem) when there is none.
    pub fn filesystem_kind(&self) -> Result<&'static str> {
        Ok(self.known_content()?.kind)
    }

    /// Returns the size that its filesystem's superblock says, for the kinds of filesystems that can grow.
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

    /// Returns what another UUID of its filesystem changes besides it, for
    /// [`set_uuid`](diskfs_vfs::FsWrite::set_uuid).
    ///
    /// # Errors
    /// `Unsupported` where the UUID can't be changed; as [`content`](Self::content).
    pub fn uuid_change(&self) -> Result<UuidChange> {
        let kind = self.known_content()?.kind;
        if !matches!(kind, "ext2" | "ext3" | "ext4") {
            let reason = format!("the UUID of {kind} can't be changed");
            return Err(self.in_image(Error::new(ErrorKind::Unsupported, reason)));
        }
        diskfs_ext4::uuid_change(&*self.device()?).map_err(|e| self.in_image(e))
    }

    /// Opens its filesystem.
    ///
    /// # Errors
    /// `Unsupported`, with its name, for one that has no driver, and when there is none;
    /// `Corrupt`, `Io`.
    pub fn filesystem(&self) -> Result<Filesystem> {
        let content = self.known_content()?;
        let device = self.device()?;
        let native = driver::open(content, device.clone(), self.code_page.unwrap_or_default());
        let fs = self.or_fallback(content, native, |fallback, wanted| {
            self.kept.get_or(|| fallback.open(wanted, device))
        })?;
        tracing::info!(volume = self.name, kind = content.kind, "filesystem opened");
        Ok(Filesystem::new(fs, &self.image_path, &self.name))
    }

    /// Opens its filesystem for writing.
    ///
    /// # Errors
    /// As [`filesystem`](Self::filesystem); `ReadOnly` when the disk is open for reading only;
    /// `Unsupported` for a filesystem with something that is not written, before a byte of it is
    /// changed.
    pub fn writable_filesystem(&self, options: &WriteOptions) -> Result<WritableFilesystem> {
        let content = self.known_content()?;
        let device = self.writable_device()?;
        let code_page = self.code_page.unwrap_or_default();
        let native = driver::open_for_writing(content, device.clone(), *options, code_page);
        let fs = self.or_fallback(content, native, |fallback, wanted| {
            fallback.open_for_writing(wanted, device)
        })?;
        tracing::info!(
            volume = self.name,
            kind = content.kind,
            "opened for writing"
        );
        Ok(WritableFilesystem::new(fs, &self.image_path, &self.name))
    }

    /// What the driver opened; what the fallback opens, when there is no driver or when it says
    /// *unsupported*, and nothing else.
    fn or_fallback<T>(
        &self,
        content: &Content,
        native: Option<diskfs_vfs::Result<T>>,
        open: impl FnOnce(&dyn Fallback, &Wanted<'_>) -> Result<T>,
    ) -> Result<T> {
        let unsupported = match native {
            Some(Ok(fs)) => return Ok(fs),
            Some(Err(e)) if e.kind() != diskfs_vfs::ErrorKind::Unsupported => {
                return Err(self.in_image(e));
            }
            Some(Err(e)) => self.in_image(e),
            None => self.unsupported(content),
        };
        let Some(FallbackOfDisk { fallback, disk }) = &self.fallback else {
            return Err(unsupported);
        };
        if !self.falls_back(content) {
            return Err(unsupported);
        }
        tracing::info!(volume = self.name, reason = %unsupported, "left to the fallback");
        let wanted = Wanted {
            volume: &self.name,
            kind: content.kind,
            disk: *disk,
        };
        let opened = open(&**fallback, &wanted);
        opened.map_err(|error| match error.kind() {
            ErrorKind::Unsupported => self.in_image(also(&unsupported, &error)),
            _ => self.in_image(error),
        })
    }

    fn known_content(&self) -> Result<&Content> {
        self.content()?.ok_or_else(|| {
            let reason = format!("volume {} holds no filesystem that is known", self.name);
            self.in_image(Error::new(ErrorKind::Unsupported, reason))
        })
    }

    fn unsupported(&self, content: &Content) -> Error {
        let (name, kind) = (&self.name, content.kind);
        if kind == LUKS {
            return self.in_image(self.encrypted());
        }
        let reason = match content.class {
            ContentClass::Filesystem => {
                format!("volume {name} holds {kind}, which has no driver")
            }
            class => format!("volume {name} holds {kind} ({class}), no filesystem that is read"),
        };
        self.in_image(Error::new(ErrorKind::Unsupported, reason))
    }

    fn encrypted(&self) -> Error {
        let name = &self.name;
        let (kind, reason) = match &self.lock {
            Some(Lock::Opened) => {
                let reason = format!("volume {name} is encrypted; what is inside is {name}/luks");
                return Error::new(ErrorKind::Invalid, reason)
                    .with_hint(format!("name it, as in --volume {name}/luks"));
            }
            Some(Lock::Stuck(why)) => (why.kind(), format!("volume {name} is encrypted: {why}")),
            None => {
                let reason =
                    format!("volume {name} is encrypted (LUKS), and there is no key for it");
                (ErrorKind::Denied, reason)
            }
        };
        let error = Error::new(kind, reason);
        match kind {
            ErrorKind::Denied => error.with_hint(format!("give its key, as in --key {name}:ask")),
            _ => error,
        }
    }

    pub(super) fn in_image(&self, error: impl Into<Error>) -> Error {
        error.into().in_file(&self.image_path)
    }
}

/// Why neither the driver nor what stands in for it opens a filesystem; the latter can be mended.
fn also(driver: &Error, fallback: &Error) -> Error {
    let reason = format!("{}; {}", driver.reason(), fallback.reason());
    let error = Error::new(ErrorKind::Unsupported, reason);
    match fallback.next_step() {
        Some(step) => error.with_hint(step),
        None => error,
    }
}
