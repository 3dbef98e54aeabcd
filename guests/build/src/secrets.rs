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

/// The keys of one encrypted volume.
#[derive(Debug)]
pub(crate) struct VolumeSecrets {
    pub(crate) passphrase: Secret,
    pub(crate) volume_key: Option<Secret>,
}

/// Loads the keys of all encrypted volumes, by the key of their slot in the plan.
///
/// # Errors
/// `Invalid` for a volume without a key; the errors of reading files.
pub(crate) fn load(
    slots: &[Slot],
    given: &[(String, Secret)],
    directory: &Path,
) -> Result<BTreeMap<String, VolumeSecrets>> {
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

fn load_one(
    luks: &LuksSlot,
    key: &str,
    given: &[(String, Secret)],
    directory: &Path,
) -> Result<VolumeSecrets> {
    let name = &luks.plan.name;
    let option = given
        .iter()
        .find(|(volume, _)| volume == name || volume == "all");
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
