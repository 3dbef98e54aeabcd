//! The option for the passphrase of a new encrypted image.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;

use clap::Args;

use diskfs::luks::Secret;
use diskfs::{Error, ErrorKind, Result};

use super::key;

/// The option for the passphrase of a new image.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct NewKeyArgs {
    /// Encrypt the new image with LUKS: `ask`, `file:FILE` or `env:VARIABLE` gives the passphrase
    ///
    /// A qcow2 image then has encrypted data, and a raw image is a LUKS volume. `file:FILE` uses the
    /// whole contents of FILE (`-` for standard input), `ask` prompts on the terminal, twice, and
    /// `env:VARIABLE` reads an environment variable. Commands that read the image get the passphrase
    /// by --key.
    #[arg(long, value_name = "KEY")]
    encrypt: Option<NewKey>,

    /// The passphrase, once it was loaded: a process that has confined itself cannot open its file.
    #[arg(skip)]
    loaded: OnceLock<Secret>,
}

impl NewKeyArgs {
    /// Loads the passphrase, or returns `None` if the image is not encrypted.
    pub(crate) fn load(&self) -> Result<Option<Secret>> {
        let Some(new) = &self.encrypt else {
            return Ok(None);
        };
        if let Some(loaded) = self.loaded.get() {
            return Ok(Some(loaded.clone()));
        }
        let secret = new.load(&OF_NEW_IMAGE)?;
        Ok(Some(self.loaded.get_or_init(|| secret).clone()))
    }
}

/// The words with which a passphrase is asked for.
pub(super) struct Asking {
    /// The name of the passphrase in messages.
    pub(super) name: &'static str,
    /// The prompt.
    pub(super) prompt: &'static str,
    /// The option that gives the passphrase.
    pub(super) option: &'static str,
}

const OF_NEW_IMAGE: Asking = Asking {
    name: "the passphrase of the new image",
    prompt: "Passphrase of the new image: ",
    option: "--encrypt",
};

/// The source of a passphrase that belongs to one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NewKey {
    File(PathBuf),
    Variable(String),
    Ask,
}

impl FromStr for NewKey {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once(':') {
            None if text == "ask" => Ok(Self::Ask),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            Some(("env", variable)) if !variable.is_empty() => {
                Ok(Self::Variable(variable.to_owned()))
            }
            // The text itself could be a passphrase: the message does not repeat it.
            _ => Err("expected file:FILE, ask or env:VARIABLE".to_owned()),
        }
    }
}

impl NewKey {
    /// Loads a new passphrase, which is asked for twice.
    pub(super) fn load(&self, asking: &Asking) -> Result<Secret> {
        let bytes = match self {
            Self::File(path) => key::read(path)?,
            Self::Variable(variable) => key::variable(variable)?,
            Self::Ask => asked_twice(asking)?,
        };
        if bytes.is_empty() {
            let reason = format!("{} is empty", asking.name);
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        Ok(Secret::new(bytes))
    }

    /// Loads a passphrase that an image has. If a file ends with a newline, its contents without it
    /// are a second one.
    pub(super) fn load_known(&self, asking: &Asking) -> Result<Vec<Secret>> {
        Ok(match self {
            Self::File(path) => key::passphrases(key::read(path)?),
            Self::Variable(variable) => vec![Secret::new(key::variable(variable)?)],
            Self::Ask => vec![asked(asking, asking.prompt)?],
        })
    }
}

fn asked(asking: &Asking, prompt: &str) -> Result<Secret> {
    let option = asking.option;
    let hint = format!("give {option} file:FILE (- for standard input) or {option} env:VARIABLE");
    let text = key::ask(prompt, asking.name, &hint)?;
    Ok(Secret::new(text.into_bytes()))
}

/// Asks for a new passphrase twice.
fn asked_twice(asking: &Asking) -> Result<Vec<u8>> {
    let first = asked(asking, asking.prompt)?;
    let again = asked(asking, "The same passphrase again: ")?;
    if first != again {
        let reason = "the passphrases differ";
        return Err(Error::new(ErrorKind::Invalid, reason));
    }
    Ok(first.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_repeats_a_passphrase() {
        assert_eq!("ask".parse(), Ok(NewKey::Ask));
        assert_eq!("file:a:b".parse(), Ok(NewKey::File("a:b".into())));
        assert_eq!("env:KEY".parse(), Ok(NewKey::Variable("KEY".to_owned())));
        for wrong in ["", "secret", "key:secret", "file:", "env:"] {
            let message = wrong.parse::<NewKey>().unwrap_err();
            assert!(!message.contains("secret"), "{message}");
        }
    }
}
