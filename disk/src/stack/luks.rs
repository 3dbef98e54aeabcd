//! Volumes encrypted with LUKS, and the keys that the caller gives.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use diskfs_block::{BlockRead, BlockWrite, Slice};
use diskfs_image::create::NewEncryption;
use diskfs_image::{Access, Decrypt, Description, FileOpener, Unlock};
use diskfs_luks::{Header, Key, Limits, NewLuks1, Unlocked, Version, VolumeKey};

use super::Volume;
use super::content::{Content, LUKS};
use super::place::VolumePlace;
use crate::{Error, Result};

/// Keys of encrypted volumes and images, each for one of them or for all.
///
/// [`DiskOptions::keys`](crate::DiskOptions::keys) takes them.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    given: Vec<(KeyTarget, Key)>,
    /// The headers of volumes whose header is stored elsewhere.
    headers: Vec<(String, Arc<DetachedHeader>)>,
    pub(super) limits: Limits,
    /// The volume keys of headers that were unlocked before: to derive a key again takes seconds.
    unlocked: Arc<Mutex<Vec<(Header, VolumeKey)>>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum KeyTarget {
    All,
    /// A volume as [`Disk::volume`](crate::Disk::volume) names it, or the file of an image.
    Named(String),
}

impl Keys {
    /// Adds a key that is tried on every encrypted volume and image.
    #[must_use]
    pub fn with_all(mut self, key: Key) -> Self {
        self.given.push((KeyTarget::All, key));
        self
    }

    /// Adds a key of one volume or image. A volume is named as for
    /// [`Disk::volume`](crate::Disk::volume): `p3`, `vg0/root`, a UUID. An image is named by its
    /// file name, its path as it is opened, or the UUID of its LUKS header.
    #[must_use]
    pub fn with_volume(mut self, name: impl Into<String>, key: Key) -> Self {
        self.given.push((KeyTarget::Named(name.into()), key));
        self
    }

    /// Adds a LUKS header that is not on its volume: a detached header, or the backup of a lost
    /// one. The volume is named as for [`with_volume`](Self::with_volume).
    ///
    /// # Errors
    /// `Invalid` if `device` does not start with a LUKS header; `Corrupt`, `Io`.
    pub fn with_header(
        mut self,
        name: impl Into<String>,
        device: Arc<dyn BlockRead>,
    ) -> Result<Self> {
        let header = Header::read(&*device)?;
        let none = || Error::new(crate::ErrorKind::Invalid, "missing LUKS header");
        let header = header.ok_or_else(none)?;
        let detached = Arc::new(DetachedHeader { device, header });
        self.headers.push((name.into(), detached));
        Ok(self)
    }

    /// Sets limits on the cost of deriving keys.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Returns the keys to try on a volume: its own first, then those for all.
    fn of(&self, volume: &Volume) -> Result<Vec<&Key>> {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for (whose, key) in &self.given {
            match whose {
                KeyTarget::All => others.push(key),
                KeyTarget::Named(name) if volume.has_name(name)? => own.push(key),
                KeyTarget::Named(_) => {}
            }
        }
        own.append(&mut others);
        Ok(own)
    }

    /// Returns the volume key of a header, which one of `keys` unlocks.
    fn volume_key(
        &self,
        header: &Header,
        slots: &dyn BlockRead,
        keys: &[&Key],
    ) -> diskfs_block::Result<VolumeKey> {
        let known = || self.unlocked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, key)) = known().iter().find(|(known, _)| known == header) {
            return Ok(key.clone());
        }
        let key = first_matching_key(header, slots, keys, &self.limits)?;
        known().push((header.clone(), key.clone()));
        Ok(key)
    }

    /// Returns the header of a volume that is stored elsewhere.
    fn header_of(&self, volume: &Volume) -> Result<Option<&Arc<DetachedHeader>>> {
        for (name, header) in &self.headers {
            if volume.has_name(name)? {
                return Ok(Some(header));
            }
        }
        Ok(None)
    }

    /// Returns the contents of a file at `path` that is a LUKS volume as a whole, which one of the
    /// keys unlocks.
    ///
    /// # Errors
    /// `Invalid` for a file that is not a LUKS volume; `Denied` if no key fits; `Unsupported`,
    /// `Corrupt`, `Io`.
    pub fn contents(&self, path: &Path, file: Arc<dyn BlockRead>) -> Result<Arc<dyn BlockRead>> {
        let (header, key) = self.key_of_file(path, &*file)?;
        Ok(Arc::new(Unlocked::new(file, &header, &key)?))
    }

    /// Returns the contents of a LUKS volume for writing, as [`contents`](Self::contents) for reading.
    ///
    /// # Errors
    /// As for [`contents`](Self::contents).
    pub fn writable_contents(
        &self,
        path: &Path,
        file: Arc<dyn BlockWrite>,
    ) -> Result<Arc<dyn BlockWrite>> {
        let (header, key) = self.key_of_file(path, &*file)?;
        Ok(Arc::new(Unlocked::new(file, &header, &key)?))
    }

    /// Returns the header and the volume key of a file that is a LUKS volume.
    fn key_of_file(&self, path: &Path, file: &dyn BlockRead) -> Result<(Header, VolumeKey)> {
        let header = Header::read(file)?.ok_or_else(|| {
            let reason = "the file is not a LUKS volume";
            Error::new(crate::ErrorKind::Invalid, reason).in_file(path)
        })?;
        let keys = self.of_image(path, &header);
        let key = self.volume_key(&header, file, &keys)?;
        Ok((header, key))
    }

    /// Returns the keys to try on the image at `path`: its own first, then those for all.
    pub(super) fn of_image(&self, path: &Path, header: &Header) -> Vec<&Key> {
        let is_own = |name: &str| {
            path.file_name().is_some_and(|file| file == name)
                || path.as_os_str() == name
                || header.uuid().eq_ignore_ascii_case(name)
        };
        let own = self.given.iter().filter(|(whose, _)| match whose {
            KeyTarget::All => false,
            KeyTarget::Named(name) => is_own(name),
        });
        let others = self
            .given
            .iter()
            .filter(|(whose, _)| *whose == KeyTarget::All);
        own.chain(others).map(|(_, key)| key).collect()
    }
}

impl Unlock for Keys {
    fn unlock(
        &self,
        path: &Path,
        header: &dyn BlockRead,
    ) -> diskfs_block::Result<Option<Arc<dyn Decrypt>>> {
        let parsed = header_of_image(header)?;
        let keys = self.of_image(path, &parsed);
        if keys.is_empty() {
            return Ok(None);
        }
        let key = first_matching_key(&parsed, header, &keys, &self.limits)?;
        tracing::info!(image = %path.display(), uuid = parsed.uuid(), "unlocked");
        Ok(Some(Arc::new(ImageKey {
            header: parsed,
            key,
        })))
    }
}

/// Reads the LUKS header of an image, which occupies the whole device.
pub(super) fn header_of_image(device: &dyn BlockRead) -> diskfs_block::Result<Header> {
    let reason = "missing LUKS header in an encrypted image";
    let header = Header::read(device)?.ok_or_else(|| diskfs_block::Error::corrupt(reason))?;
    match header.version() {
        Version::Luks1 => Ok(header),
        // QEMU supports only LUKS1, and the meaning of LUKS2 segments in an image is undefined.
        other => {
            let reason = format!("LUKS{} inside of an image is not supported", other.number());
            Err(diskfs_block::Error::unsupported(reason))
        }
    }
}

/// Returns the LUKS header of an image, if its data is encrypted.
pub(super) fn of_image(image: &Description, files: &dyn FileOpener) -> Result<Option<Header>> {
    let encryption = image.qcow2.as_ref().and_then(|qcow2| qcow2.encryption);
    let Some(encryption) = encryption else {
        return Ok(None);
    };
    let header = files.open(&image.path, Access::Read).and_then(|file| {
        let (start, len) = (encryption.header_offset_bytes, encryption.header_len_bytes);
        header_of_image(&Slice::new(Arc::new(file), start, len)?)
    });
    header
        .map(Some)
        .map_err(|e| Error::from(e).in_file(&image.path))
}

/// The key of an image's own data.
#[derive(Debug)]
struct ImageKey {
    header: Header,
    key: VolumeKey,
}

impl Decrypt for ImageKey {
    fn reader(&self, file: Arc<dyn BlockRead>) -> diskfs_block::Result<Arc<dyn BlockRead>> {
        Ok(Arc::new(Unlocked::in_place(file, &self.header, &self.key)?))
    }

    fn writer(&self, file: Arc<dyn BlockWrite>) -> diskfs_block::Result<Arc<dyn BlockWrite>> {
        Ok(Arc::new(Unlocked::in_place(file, &self.header, &self.key)?))
    }
}

/// Returns the encryption of a new image with this header.
pub fn new_encryption(new: NewLuks1) -> NewEncryption {
    NewEncryption {
        header: new.bytes.into(),
        key: Arc::new(ImageKey {
            header: new.header,
            key: new.volume_key,
        }),
    }
}

/// The decrypted inside of an encrypted volume.
#[derive(Debug)]
pub(super) struct UnlockedVolume {
    outer: Volume,
    header: Header,
    key: VolumeKey,
    /// The device, shared by all users: it serialises writers of one sector.
    device: OnceLock<Device>,
}

#[derive(Debug)]
enum Device {
    ReadOnly(Arc<Unlocked<dyn BlockRead>>),
    Writable(Arc<Unlocked<dyn BlockWrite>>),
}

impl UnlockedVolume {
    /// Returns the encrypted volume.
    pub(super) fn outer(&self) -> &Volume {
        &self.outer
    }

    pub(super) fn read(&self) -> diskfs_block::Result<Arc<dyn BlockRead>> {
        Ok(match self.device()? {
            Device::ReadOnly(device) => Arc::clone(device) as _,
            Device::Writable(device) => Arc::clone(device) as _,
        })
    }

    pub(super) fn write(&self) -> diskfs_block::Result<Option<Arc<dyn BlockWrite>>> {
        Ok(match self.device()? {
            // The layer below knows the reason.
            Device::ReadOnly(_) => return self.outer.place().write().map(|_| None),
            Device::Writable(device) => Some(Arc::clone(device) as _),
        })
    }

    fn device(&self) -> diskfs_block::Result<&Device> {
        if let Some(device) = self.device.get() {
            return Ok(device);
        }
        let place = self.outer.place();
        let device = if let Ok(Some(below)) = place.write() {
            Device::Writable(Arc::new(Unlocked::new(below, &self.header, &self.key)?))
        } else {
            let unlocked = Unlocked::new(place.read()?, &self.header, &self.key)?;
            Device::ReadOnly(Arc::new(unlocked))
        };
        Ok(self.device.get_or_init(|| device))
    }
}

/// A LUKS header that is not on its volume, and its key slots.
#[derive(Debug)]
pub(super) struct DetachedHeader {
    device: Arc<dyn BlockRead>,
    header: Header,
}

impl DetachedHeader {
    /// Returns the content that this header gives its volume.
    pub(super) fn content(&self) -> Content {
        Content::of_luks(&self.header)
    }
}

/// Returns the header of an encrypted volume; `None` for any other.
pub(super) fn header(volume: &Volume) -> Result<Option<Header>> {
    if let Some(detached) = volume.detached_header() {
        return Ok(Some(detached.header.clone()));
    }
    if volume.content()?.is_none_or(|content| content.kind != LUKS) {
        return Ok(None);
    }
    Ok(Header::read(&*volume.device()?)?)
}

/// Unlocks the encrypted volumes among `volumes` that have a key that fits, and returns their
/// insides. Each volume remembers the outcome.
pub(super) fn unlock<'a>(
    image: &Path,
    volumes: impl Iterator<Item = &'a mut Volume>,
    keys: &Keys,
) -> Vec<Volume> {
    let mut inside = Vec::new();
    for volume in volumes {
        if let Ok(Some(header)) = keys.header_of(volume) {
            volume.set_detached_header(Arc::clone(header));
        }
        match unlock_volume(image, volume, keys) {
            Ok(Some(unlocked)) => {
                inside.push(unlocked);
                volume.set_unlock_outcome(UnlockOutcome::Unlocked);
            }
            Ok(None) => {}
            Err(error) => volume.set_unlock_outcome(UnlockOutcome::Failed(Arc::new(error))),
        }
    }
    inside
}

/// The outcome of unlocking a volume.
#[derive(Debug, Clone)]
pub(super) enum UnlockOutcome {
    /// The decrypted inside is listed separately.
    Unlocked,
    /// No key fitted, or the volume can't be unlocked with any.
    Failed(Arc<Error>),
}

fn unlock_volume(image: &Path, volume: &Volume, keys: &Keys) -> Result<Option<Volume>> {
    if volume.problem().is_some() {
        return Ok(None);
    }
    let Some(kind) = volume.content()?.map(|content| content.kind) else {
        return Ok(None);
    };
    let keys_of = if kind == LUKS {
        keys.of(volume)?
    } else {
        Vec::new()
    };
    if keys_of.is_empty() {
        return Ok(None);
    }
    let below = volume.device()?;
    let detached = volume.detached_header();
    let slots = detached.map_or(&below, |detached| &detached.device);
    let Some(header) = header(volume)? else {
        return Ok(None);
    };
    if detached.is_none() && header.is_detached() {
        let reason = "the LUKS header belongs to data on another volume";
        return Err(Error::new(crate::ErrorKind::Unsupported, reason)
            .with_hint("name that volume, for example --luks-header p1:FILE"));
    }
    let key = keys.volume_key(&header, &**slots, &keys_of)?;
    let size_bytes = Unlocked::new(below, &header, &key)?.size_bytes();
    let name = format!("{}/luks", volume.name());
    tracing::info!(volume = name, uuid = header.uuid(), "unlocked");
    let place = VolumePlace::Unlocked(Arc::new(UnlockedVolume {
        outer: volume.clone(),
        header,
        key,
        device: OnceLock::new(),
    }));
    Ok(Some(Volume::new(name, image, place, size_bytes)))
}

pub(super) fn first_matching_key(
    header: &Header,
    device: &dyn BlockRead,
    keys: &[&Key],
    limits: &Limits,
) -> diskfs_block::Result<VolumeKey> {
    let mut last = None;
    for key in keys {
        match header.unlock(device, key, limits) {
            Ok(key) => return Ok(key),
            Err(error) => last = Some(error),
        }
    }
    let none = || diskfs_block::Error::invalid("no key was given");
    Err(last.unwrap_or_else(none))
}
