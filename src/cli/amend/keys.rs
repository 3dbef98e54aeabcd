//! The options of `diskfs amend` for the keys of encrypted images.

use std::str::FromStr;

use clap::Args;

use diskfs::luks::{KeyslotGuard, NewKeyslot};
use diskfs::{ChangedKeys, Error, ErrorKind, KeyChange, KeyProof, KeyRemoval, Result};
use serde_json::{Value, json};

use super::super::image_settings::{ImageSettings, options_in};
use super::super::new_key::{Asking, NewKey};

const TO_ADD: Asking = Asking {
    name: "the new passphrase",
    prompt: "New passphrase: ",
    option: "--key-add",
};

const TO_REMOVE: Asking = Asking {
    name: "the passphrase to remove",
    prompt: "Passphrase to remove: ",
    option: "--key-remove",
};

/// The option that goes with a new key.
const ITER_TIME: &str = "encrypt.iter-time";

/// The options for a change of keys.
#[derive(Debug, Args)]
#[command(next_help_heading = "Key change options")]
pub(super) struct KeyChangeArgs {
    /// Add a passphrase: `ask`, `file:FILE` or `env:VARIABLE`
    ///
    /// The values are those of `diskfs create --encrypt`. To add a passphrase takes a key that
    /// opens the image: that of --key, or that of --key-remove. Trying the new passphrase takes
    /// about two seconds on this machine; `-o encrypt.iter-time=MS` sets another time.
    #[arg(long, value_name = "KEY")]
    key_add: Option<NewKey>,

    /// Remove all key slots that a passphrase opens, as KEY of --key-add; or `slot:N`
    ///
    /// `slot:N` removes the key slot with this number (0 to 7), and takes a key that is kept, by
    /// --key. `diskfs qemu-img info` lists the key slots. The last key is only removed with
    /// --force: nobody can read the data afterwards.
    #[arg(long, value_name = "KEY")]
    key_remove: Option<RemovedKey>,

    /// Add the passphrase to this key slot, 0 to 7, instead of the first that is not in use
    #[arg(long, value_name = "N", requires = "key_add")]
    key_slot: Option<u32>,

    /// Overwrite a key slot in use, remove the last key, or remove a key slot without another key
    #[arg(long)]
    force: bool,
}

/// The key to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RemovedKey {
    Passphrase(NewKey),
    Slot(u32),
}

impl FromStr for RemovedKey {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.strip_prefix("slot:") {
            Some(number) => {
                let number = number.parse().map(Self::Slot);
                number.map_err(|_| "expected a number after slot:".to_owned())
            }
            // The text itself could be a passphrase: the message does not repeat it.
            None => text
                .parse()
                .map(Self::Passphrase)
                .map_err(|_| "expected file:FILE, ask, env:VARIABLE or slot:N".to_owned()),
        }
    }
}

impl KeyChangeArgs {
    /// Returns true if keys are to be changed.
    pub(super) const fn are_given(&self) -> bool {
        self.key_add.is_some() || self.key_remove.is_some()
    }

    /// Returns the change. Asks for the passphrases that the user must enter.
    pub(super) fn change(&self, lists: &[String]) -> Result<KeyChange> {
        let is_other = |option: &String| option.split('=').next() != Some(ITER_TIME);
        if self.key_add.is_none() && !lists.is_empty() || options_in(lists).any(|it| is_other(&it))
        {
            let reason = "cannot change the keys together with other properties";
            return Err(Error::new(ErrorKind::Invalid, reason).with_hint("use two commands"));
        }
        let time = ImageSettings::of(lists)?.iter_time()?;
        let remove = self.removal()?;
        let proof = match &remove {
            // A key that is added remains.
            Some(KeyRemoval::Slot { .. }) if !self.force && self.key_add.is_none() => {
                KeyProof::RemainingKey
            }
            _ => KeyProof::NotNeeded,
        };
        let add = match &self.key_add {
            None => None,
            Some(new) => Some(NewKeyslot {
                passphrase: new.load(&TO_ADD)?,
                slot: self.key_slot,
                time,
            }),
        };
        Ok(KeyChange {
            add,
            remove,
            proof,
            guard: if self.force {
                KeyslotGuard::Forced
            } else {
                KeyslotGuard::Careful
            },
        })
    }

    fn removal(&self) -> Result<Option<KeyRemoval>> {
        Ok(match &self.key_remove {
            None => None,
            Some(RemovedKey::Slot(number)) => Some(KeyRemoval::Slot {
                number: *number,
                passphrase: None,
            }),
            Some(RemovedKey::Passphrase(known)) => {
                Some(KeyRemoval::Passphrases(known.load_known(&TO_REMOVE)?))
            }
        })
    }
}

/// Returns the description of a change.
pub(super) fn document(changed: &ChangedKeys) -> Value {
    json!({
        "added": changed.added,
        "removed": changed.removed,
        "in_use": changed.in_use,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_to_remove_is_a_slot_or_a_passphrase() {
        assert_eq!("slot:3".parse(), Ok(RemovedKey::Slot(3)));
        let ask = RemovedKey::Passphrase(NewKey::Ask);
        assert_eq!("ask".parse(), Ok(ask));
        for wrong in ["secret", "slot:", "slot:secret", "file:"] {
            let message = wrong.parse::<RemovedKey>().unwrap_err();
            assert!(!message.contains("secret"), "{message}");
        }
    }
}
