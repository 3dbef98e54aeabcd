//! The keys of encrypted volumes, from the places that the plan and the options name.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use diskfs_disk::{Error, ErrorKind, Result};
use diskfs_luks::Secret;

use crate::plan::KeySource;
use crate::problem::{at, invalid};
use crate::slot::{Contents, LuksSlot, Slot};

/// The maximum size of a key file, which is that of `cryptsetup` (see its `--help`).
const MAX_FILE_BYTES: u64 = 8 << 20;

/// The name that stands for all encrypted volumes.
const ALL: &str = "all";

/// The keys of one encrypted volume.
#[derive(Debug)]
pub(crate) struct VolumeSecrets {
    pub(crate) passphrase: Secret,
    pub(crate) volume_key: Option<Secret>,
}

/// Loads the keys of all encrypted volumes, by the key of their slot in the plan.
///
/// # Errors
/// `Invalid` for a volume without a key, and for a given key without a volume; the errors of
/// reading files.
pub(crate) fn load(
    slots: &[Slot],
    given: &[(String, Secret)],
    directory: &Path,
) -> Result<BTreeMap<String, VolumeSecrets>> {
    refuse_unused(slots, given)?;
    let mut secrets = BTreeMap::new();
    for slot in slots.iter().flat_map(Slot::all) {
        if let Contents::Luks(luks) = &slot.contents {
            let key = format!("{}.luks", slot.key);
            let loaded = load_one(luks, &key, given, directory)?;
            secrets.insert(slot.key.clone(), loaded);
        }
    }
    Ok(secrets)
}

/// Fails if a given key is for none of the volumes: with a mistyped name, a volume would get
/// another key.
fn refuse_unused(slots: &[Slot], given: &[(String, Secret)]) -> Result<()> {
    let slots = slots.iter().flat_map(Slot::all);
    let names: Vec<&str> = slots
        .filter_map(|slot| match &slot.contents {
            Contents::Luks(luks) => Some(luks.plan.name.as_str()),
            _ => None,
        })
        .collect();
    let is_used = |name: &str| names.contains(&name) || (name == ALL && !names.is_empty());
    let Some((name, _)) = given.iter().find(|(name, _)| !is_used(name)) else {
        return Ok(());
    };
    if names.is_empty() {
        let reason = format!("the key for `{name}` is unused: the plan has no encrypted volume");
        let hint = "leave it out, or add `luks` to the plan";
        return Err(Error::new(ErrorKind::Invalid, reason).with_hint(hint));
    }
    let reason = format!("the key for `{name}` is unused: the plan has no such encrypted volume");
    let hint = format!("the encrypted volumes of the plan: {}", names.join(", "));
    Err(Error::new(ErrorKind::Invalid, reason).with_hint(hint))
}

fn load_one(
    luks: &LuksSlot,
    key: &str,
    given: &[(String, Secret)],
    directory: &Path,
) -> Result<VolumeSecrets> {
    let name = &luks.plan.name;
    let option = given
        .iter()
        .find(|(volume, _)| volume == name || volume == ALL);
    let passphrase = match (option, &luks.plan.key) {
        (Some((_, secret)), _) => secret.clone(),
        (None, Some(source)) => source
            .load(directory)
            .map_err(|e| at(&format!("{key}.key"), e))?,
        (None, None) => {
            let error = invalid(key, "missing key: the volume has no passphrase");
            let hint = format!("add `key` to the plan, or give --key {name}:file:FILE");
            return Err(error.with_hint(hint));
        }
    };
    let volume_key = luks.plan.volume_key.as_ref();
    let volume_key = volume_key.map(|source| source.load(directory)).transpose();
    Ok(VolumeSecrets {
        passphrase,
        volume_key: volume_key.map_err(|e| at(&format!("{key}.volume-key"), e))?,
    })
}

impl KeySource {
    fn load(&self, directory: &Path) -> Result<Secret> {
        let bytes = match self {
            Self::InClear(text) => text.clone().into_bytes(),
            Self::File(path) => {
                let path = directory.join(path);
                let in_file = |e: std::io::Error| Error::from(e).in_file(&path);
                let file = File::open(&path).map_err(in_file)?;
                let mut bytes = Vec::new();
                let mut limited = file.take(MAX_FILE_BYTES);
                limited.read_to_end(&mut bytes).map_err(in_file)?;
                bytes
            }
            Self::Env(name) => {
                let value = std::env::var_os(name).ok_or_else(|| {
                    let reason = format!("the environment variable {name} is not set");
                    Error::new(ErrorKind::NotFound, reason)
                })?;
                value.into_encoded_bytes()
            }
        };
        if bytes.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "the key is empty"));
        }
        Ok(Secret::new(bytes))
    }
}
