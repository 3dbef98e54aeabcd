//! Encrypted volumes: LUKS, with the keys that the caller has.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_luks::{Header, Key, Limits, Unlocked, VolumeKey};

use super::place::Place;
use super::{Volume, choose};
use crate::{Error, Result};

/// The kind of content that is unlocked here.
pub(super) const KIND: &str = "crypto_LUKS";

/// Keys of encrypted volumes, each for one volume or for all of them.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    keys: Vec<(Whose, Key)>,
    limits: Limits,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Whose {
    All,
    /// A volume as [`Disk::volume`](crate::Disk::volume) takes it.
    Named(String),
}

impl Keys {
    /// Adds a key that is tried on every encrypted volume.
    #[must_use]
    pub fn with_all(mut self, key: Key) -> Self {
        self.keys.push((Whose::All, key));
        self
    }

    /// Adds a key of one volume, which is named as for [`Disk::volume`](crate::Disk::volume): `p3`,
    /// `vg0/root`, a UUID.
    #[must_use]
    pub fn with_volume(mut self, name: impl Into<String>, key: Key) -> Self {
        self.keys.push((Whose::Named(name.into()), key));
        self
    }

    /// Sets what deriving keys may cost.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The keys to try on a volume: its own before those for all.
    fn of(&self, volume: &Volume) -> Result<Vec<&Key>> {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for (whose, key) in &self.keys {
            match whose {
                Whose::All => others.push(key),
                Whose::Named(name) if choose::is_meant(volume, name)? => own.push(key),
                Whose::Named(_) => {}
            }
        }
        own.append(&mut others);
        Ok(own)
    }
}

/// What is inside an encrypted volume.
#[derive(Debug)]
pub(super) struct Plain {
    outer: Volume,
    header: Header,
    key: VolumeKey,
    /// One for all users: it keeps writers of one sector apart.
    device: OnceLock<Device>,
}

#[derive(Debug)]
enum Device {
    ReadOnly(Arc<Unlocked<dyn BlockRead>>),
    Writable(Arc<Unlocked<dyn BlockWrite>>),
}

impl Plain {
    pub(super) fn read(&self) -> diskfs_block::Result<Arc<dyn BlockRead>> {
        Ok(match self.device()? {
            Device::ReadOnly(device) => Arc::clone(device) as _,
            Device::Writable(device) => Arc::clone(device) as _,
        })
    }

    pub(super) fn write(&self) -> diskfs_block::Result<Option<Arc<dyn BlockWrite>>> {
        Ok(match self.device()? {
            // What is below says why.
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

/// The header of a volume that is encrypted; `None` for any other.
pub(super) fn header(volume: &Volume) -> Result<Option<Header>> {
    if volume.content()?.is_none_or(|content| content.kind != KIND) {
        return Ok(None);
    }
    Ok(Header::read(&*volume.device()?)?)
}

/// Unlocks those of `volumes` that are encrypted and have a key that fits; what is inside comes
/// back. Each of them remembers how it went.
pub(super) fn unlock<'a>(
    image: &Path,
    volumes: impl Iterator<Item = &'a mut Volume>,
    keys: &Keys,
) -> Vec<Volume> {
    let mut inside = Vec::new();
    for volume in volumes {
        match plain(image, volume, keys) {
            Ok(Some(plain)) => {
                inside.push(plain);
                volume.set_lock(Lock::Opened);
            }
            Ok(None) => {}
            Err(error) => volume.set_lock(Lock::Stuck(Arc::new(error))),
        }
    }
    inside
}

/// How unlocking a volume went.
#[derive(Debug, Clone)]
pub(super) enum Lock {
    /// What is inside is listed beside it.
    Opened,
    /// No key fitted, or the volume can't be unlocked with any.
    Stuck(Arc<Error>),
}

fn plain(image: &Path, volume: &Volume, keys: &Keys) -> Result<Option<Volume>> {
    if volume.problem().is_some() {
        return Ok(None);
    }
    let Some(kind) = volume.content()?.map(|content| content.kind) else {
        return Ok(None);
    };
    let keys_of = if kind == KIND {
        keys.of(volume)?
    } else {
        Vec::new()
    };
    if keys_of.is_empty() {
        return Ok(None);
    }
    let below = volume.device()?;
    let Some(header) = Header::read(&*below)? else {
        return Ok(None);
    };
    if header.is_detached() {
        let reason = "the LUKS header is of data on another device";
        return Err(Error::new(crate::ErrorKind::Unsupported, reason));
    }
    let key = first_that_fits(&header, &*below, &keys_of, &keys.limits)?;
    let size_bytes = Unlocked::new(below, &header, &key)?.size_bytes();
    let name = format!("{}/luks", volume.name());
    tracing::info!(volume = name, uuid = header.uuid(), "unlocked");
    let place = Place::Plain(Arc::new(Plain {
        outer: volume.clone(),
        header,
        key,
        device: OnceLock::new(),
    }));
    Ok(Some(Volume::new(name, image, place, size_bytes)))
}

fn first_that_fits(
    header: &Header,
    device: &dyn BlockRead,
    keys: &[&Key],
    limits: &Limits,
) -> Result<VolumeKey> {
    let mut last = None;
    for key in keys {
        match header.unlock(device, key, limits) {
            Ok(key) => return Ok(key),
            Err(error) => last = Some(error),
        }
    }
    let none = || diskfs_block::Error::invalid("there is no key");
    Err(last.unwrap_or_else(none).into())
}
