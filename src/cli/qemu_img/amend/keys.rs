//! The options of `qemu-img amend` for the keys of an encrypted image:
//! `encrypt.state=active,encrypt.new-secret=ID`, and without the prefix for a LUKS volume.

use std::time::Duration;

use diskfs::luks::{KeyslotGuard, NewKeyslot, Secret};
use diskfs::{KeyChange, KeyProof, KeyRemoval};

use super::super::failure::{Failure, Result};
use super::super::secret::Secrets;
use crate::cli::image_settings::{ENCRYPTION_OPTIONS, ITER_TIME_MS, options_in};

/// The start of the names of the options of a qcow2 image.
const PREFIX: &str = "encrypt.";

/// The options, as they were given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KeyOptions {
    state: Option<String>,
    keyslot: Option<String>,
    old_secret: Option<String>,
    new_secret: Option<String>,
    iter_time: Option<String>,
}

impl KeyOptions {
    /// Returns the options for keys in these lists, `None` without any, and a list of the other
    /// options. A LUKS volume has no others.
    pub(super) fn of(lists: &[String], is_luks: bool) -> Result<(Option<Self>, Vec<String>)> {
        let (mut found, mut others) = (None, Vec::new());
        for option in options_in(lists) {
            if is_luks || option.starts_with(PREFIX) {
                let (name, value) = option.split_once('=').unwrap_or((&option, "on"));
                let keys = found.get_or_insert_with(Self::default);
                keys.take(name, value, is_luks)?;
            } else {
                others.push(option.replace(',', ",,"));
            }
        }
        Ok((found, others))
    }

    fn take(&mut self, name: &str, value: &str, is_luks: bool) -> Result<()> {
        let known = match name.strip_prefix(PREFIX) {
            Some(known) if !is_luks => known,
            _ => name,
        };
        let place = match known {
            "state" => &mut self.state,
            "keyslot" => &mut self.keyslot,
            "old-secret" => &mut self.old_secret,
            "new-secret" => &mut self.new_secret,
            "iter-time" => &mut self.iter_time,
            _ => {
                let is_of_new = known == "format" || ENCRYPTION_OPTIONS.contains(&known);
                let reason = format!("Invalid parameter '{name}'");
                return Err(Failure::new(if is_of_new {
                    format!("{reason}: this option is only supported for image creation")
                } else {
                    reason
                }));
            }
        };
        *place = Some(value.to_owned());
        Ok(())
    }

    /// Returns the change, with the secrets that it names.
    pub(super) fn change(&self, secrets: &Secrets, force: bool) -> Result<KeyChange> {
        let change = match self.state.as_deref() {
            Some("active") => KeyChange {
                add: Some(self.new_key(secrets)?),
                ..KeyChange::default()
            },
            Some("inactive") => KeyChange {
                remove: Some(self.removal(secrets)?),
                ..KeyChange::default()
            },
            Some(other) => {
                let reason = format!("Parameter 'state' does not accept value '{other}'");
                return Err(Failure::new(reason));
            }
            None => return Err(Failure::new("Parameter 'state' is missing")),
        };
        Ok(KeyChange {
            proof: KeyProof::AnyKey,
            guard: if force {
                KeyslotGuard::Forced
            } else {
                KeyslotGuard::Careful
            },
            ..change
        })
    }

    fn new_key(&self, secrets: &Secrets) -> Result<NewKeyslot> {
        let Some(new) = &self.new_secret else {
            let reason = "'new-secret' is required to activate a keyslot";
            return Err(Failure::new(reason));
        };
        if self.old_secret.is_some() {
            let reason = "'old-secret' must not be given when activating keyslots";
            return Err(Failure::new(reason));
        }
        let iter_time = number("iter-time", self.iter_time.as_deref())?;
        Ok(NewKeyslot {
            passphrase: secret(secrets, new)?,
            slot: self.slot()?,
            time: Duration::from_millis(iter_time.unwrap_or(ITER_TIME_MS)),
        })
    }

    fn removal(&self, secrets: &Secrets) -> Result<KeyRemoval> {
        for (name, value) in [
            ("new-secret", &self.new_secret),
            ("iter-time", &self.iter_time),
        ] {
            if value.is_some() {
                let reason = format!("'{name}' must not be given when erasing keyslots");
                return Err(Failure::new(reason));
            }
        }
        let old = self.old_secret.as_deref();
        let passphrase = old.map(|id| secret(secrets, id)).transpose()?;
        match (self.slot()?, passphrase) {
            (Some(number), passphrase) => Ok(KeyRemoval::Slot { number, passphrase }),
            (None, Some(passphrase)) => Ok(KeyRemoval::Passphrases(vec![passphrase])),
            (None, None) => Err(Failure::new(
                "To erase keyslot(s), either explicit keyslot index or the password currently \
                 contained in them must be given",
            )),
        }
    }

    /// Returns the number of the key slot, if one is given.
    fn slot(&self) -> Result<Option<u32>> {
        let slot = number("keyslot", self.keyslot.as_deref())?;
        // A larger one is refused like any that a header does not have.
        Ok(slot.map(|slot| u32::try_from(slot).unwrap_or(u32::MAX)))
    }
}

fn number(name: &str, text: Option<&str>) -> Result<Option<u64>> {
    let parsed = text.map(str::parse).transpose();
    parsed.map_err(|_| Failure::new(format!("Parameter '{name}' expects a number")))
}

fn secret(secrets: &Secrets, id: &str) -> Result<Secret> {
    let found = secrets.find(id).cloned();
    found.ok_or_else(|| Failure::new(format!("No secret with id '{id}'")))
}
