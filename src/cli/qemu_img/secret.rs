//! The keys of encrypted images: `--object secret,id=NAME,data=TEXT` and the like.

use std::fs::File;
use std::io::Read as _;

use base64ct::{Base64, Encoding};

use diskfs::Keys;
use diskfs::luks::{Key, Secret};

use super::failure::{Failure, Result};
use super::names::{Named, json_options};
use crate::cli::image_settings::split_options;

/// The maximum size of the file of a secret: that of a key file of `cryptsetup`.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// The types of objects that qemu-img has besides `secret`, and that images could need.
const OTHER_TYPES: [&str; 5] = [
    "authz-simple",
    "secret_keyring",
    "tls-creds-anon",
    "tls-creds-psk",
    "tls-creds-x509",
];

/// The secrets of a command line, by their identifiers.
pub(super) struct Secrets(Vec<(String, Secret)>);

impl Secrets {
    /// Parses the definitions of objects: lists of options, or objects of JSON.
    pub(super) fn parse(definitions: &[String]) -> Result<Self> {
        let mut secrets = Self(Vec::new());
        for definition in definitions {
            let (id, secret) = Definition::parse(definition)?.load()?;
            if secrets.find(&id).is_some() {
                let reason = format!(
                    "attempt to add duplicate property '{id}' to object (type 'container')"
                );
                return Err(Failure::new(reason));
            }
            secrets.0.push((id, secret));
        }
        Ok(secrets)
    }

    /// Returns the secret with this identifier.
    pub(super) fn find(&self, id: &str) -> Option<&Secret> {
        let found = self.0.iter().find(|(known, _)| known == id);
        found.map(|(_, secret)| secret)
    }

    /// Returns the key of an image, or the message if its secret is not defined; `None` if the image
    /// names no secret.
    pub(super) fn keys_of(&self, image: &Named) -> Option<std::result::Result<Keys, String>> {
        let id = image.secret.as_ref()?;
        let name = image.path.to_string_lossy();
        Some(match self.find(id) {
            Some(secret) => {
                let key = Key::Passphrase(secret.clone());
                Ok(Keys::default().with_volume(name, key))
            }
            None => Err(format!("No secret with id '{id}'")),
        })
    }
}

impl Secrets {
    /// Returns the keys of the backing files of an image, with their depth in the chain.
    ///
    /// # Errors
    /// If a secret is not defined.
    pub(super) fn backing_keys(&self, image: &Named) -> Result<Vec<(usize, Key)>> {
        let secrets = image.backing_secrets.iter();
        let key = |(depth, id): &(usize, String)| {
            let secret = self.find(id).ok_or_else(|| {
                let path = image.path.display();
                let reason = format!("No secret with id '{id}'");
                Failure::new(format!("Could not open '{path}': {reason}"))
            })?;
            Ok((*depth, Key::Passphrase(secret.clone())))
        };
        secrets.map(key).collect()
    }
}

/// The options of a secret.
#[derive(Default)]
struct Definition {
    id: Option<String>,
    data: Option<String>,
    file: Option<String>,
    is_base64: bool,
}

impl Definition {
    fn parse(text: &str) -> Result<Self> {
        let options = if text.starts_with('{') {
            json_options(text).map_err(Failure::new)?
        } else {
            let options = split_options(text).into_iter().enumerate();
            let option = |(at, option): (usize, String)| match option.split_once('=') {
                Some((name, value)) => (name.to_owned(), value.to_owned()),
                // The first option is the type.
                None if at == 0 => ("qom-type".to_owned(), option),
                None => (option, "on".to_owned()),
            };
            options.map(option).collect::<Vec<_>>()
        };
        let kind = options.iter().find(|(name, _)| name == "qom-type");
        check_type(kind.map(|(_, kind)| kind.as_str()))?;
        let mut definition = Self::default();
        let others = options.into_iter().filter(|(name, _)| name != "qom-type");
        for (name, value) in others {
            definition.take(&name, value)?;
        }
        Ok(definition)
    }

    fn take(&mut self, name: &str, value: String) -> Result<()> {
        match (name, value.as_str()) {
            ("id", _) => self.id = Some(value),
            ("data", _) => self.data = Some(value),
            ("file", _) => self.file = Some(value),
            ("format", "raw") => self.is_base64 = false,
            ("format", "base64") => self.is_base64 = true,
            ("format", _) => {
                let reason = format!("Parameter 'format' does not accept value '{value}'");
                return Err(Failure::new(reason));
            }
            ("keyid" | "iv", _) => {
                let reason = format!(
                    "--object secret,{name}=: not supported by diskfs: a secret that is encrypted \
                     with another one"
                );
                return Err(Failure::new(reason));
            }
            _ => return Err(Failure::new(format!("Parameter '{name}' is unexpected"))),
        }
        Ok(())
    }

    /// Returns the identifier and the secret.
    fn load(self) -> Result<(String, Secret)> {
        let id = self
            .id
            .ok_or_else(|| Failure::new("Parameter 'id' is missing"))?;
        let bytes = match (self.data, self.file) {
            (Some(data), None) => data.into_bytes(),
            (None, Some(file)) => read(&file)
                .map_err(|error| Failure::new(format!("Unable to read {file}: {error}")))?,
            (Some(_), Some(_)) => {
                return Err(Failure::new("'file' and 'data' are mutually exclusive"));
            }
            (None, None) => return Err(Failure::new("Either 'file' or 'data' must be provided")),
        };
        let bytes = if self.is_base64 {
            decoded(&bytes)?
        } else {
            bytes
        };
        Ok((id, Secret::new(bytes)))
    }
}

/// Checks the type of an object.
fn check_type(kind: Option<&str>) -> Result<()> {
    let reason = match kind {
        Some("secret") => return Ok(()),
        Some(kind) if OTHER_TYPES.contains(&kind) => format!(
            "--object {kind}: not supported by diskfs, which has objects of the type secret"
        ),
        Some(kind) => format!("Parameter 'qom-type' does not accept value '{kind}'"),
        None => "Parameter 'qom-type' is missing".to_owned(),
    };
    Err(Failure::new(reason))
}

fn read(path: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = MAX_FILE_BYTES.saturating_add(1);
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > MAX_FILE_BYTES) {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Decodes base64, which may be wrapped in lines.
fn decoded(text: &[u8]) -> Result<Vec<u8>> {
    let joined = text.iter().filter(|byte| !matches!(byte, b'\n' | b'\r'));
    let joined: Vec<u8> = joined.copied().collect();
    let text = std::str::from_utf8(&joined).ok();
    let decoded = text.and_then(|text| Base64::decode_vec(text).ok());
    decoded.ok_or_else(|| Failure::new("Base64 data is not valid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(definition: &str) -> std::result::Result<(String, Vec<u8>), String> {
        let definition = Definition::parse(definition);
        let loaded = definition.and_then(Definition::load);
        let loaded = loaded.map(|(id, secret)| (id, secret.as_bytes().to_vec()));
        loaded.map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn secrets_are_parsed() {
        for (definition, bytes) in [
            ("secret,id=s,data=a,,b", "a,b"),
            ("secret,id=s,format=base64,data=aHVudGVyMg==", "hunter2"),
            (r#"{"qom-type":"secret","id":"s","data":"x=y"}"#, "x=y"),
            ("qom-type=secret,id=s,data=", ""),
        ] {
            let expected = ("s".to_owned(), bytes.as_bytes().to_vec());
            assert_eq!(loaded(definition), Ok(expected), "{definition}");
        }
        for (definition, reason) in [
            ("secret,data=x", "'id' is missing"),
            ("secret,id=s", "must be provided"),
            ("secret,id=s,data=x,file=y", "mutually exclusive"),
            ("secret,id=s,file=/nowhere", "Unable to read /nowhere"),
            (
                "secret,id=s,data=x,format=hex",
                "does not accept value 'hex'",
            ),
            ("secret,id=s,data=?,format=base64", "not valid"),
            ("secret,id=s,data=x,keyid=k", "not supported by diskfs"),
            ("secret,id=s,data=x,more=1", "'more' is unexpected"),
            ("nothing,id=s", "does not accept value 'nothing'"),
            ("tls-creds-x509,id=s", "not supported by diskfs"),
            ("{", "Could not parse"),
        ] {
            let said = loaded(definition).unwrap_err();
            assert!(said.contains(reason), "{definition}: {said}");
        }
    }
}
