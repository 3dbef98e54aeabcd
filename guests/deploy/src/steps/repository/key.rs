//! The keys that verify the signatures of repositories.

use base64ct::{Base64, Encoding};

use super::super::super::guest::Guest;
use super::super::super::stage::above;
use super::Repository;
use diskfs_disk::{Error, Result};

/// The lines that enclose an ASCII-armored key (RFC 9580, section 6.2).
const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const END: &str = "-----END PGP PUBLIC KEY BLOCK-----";

/// The limit on the size of a key, which is larger than any real key.
const MAX_BYTES: usize = 1 << 20;

/// A public key in the form in which the plan gives it.
pub(super) struct Key {
    bytes: Vec<u8>,
    /// The name of the local file, if the key came from one.
    pub(super) file_name: Option<String>,
}

impl Key {
    pub(super) fn read(guest: &Guest, of: &Repository) -> Result<Option<Self>> {
        let key = match (&of.key, &of.key_file) {
            (Some(_), Some(_)) => {
                return Err(guest.invalid("expected at most one of key and key-file"));
            }
            (None, None) => return Ok(None),
            (Some(text), None) => Self {
                bytes: text.clone().into_bytes(),
                file_name: None,
            },
            (None, Some(file)) => {
                let name = file.file_name().and_then(|name| name.to_str());
                Self {
                    bytes: std::fs::read(file).map_err(|e| Error::from(e).in_file(file))?,
                    file_name: name.map(str::to_owned),
                }
            }
        };
        if of.unsigned {
            return Err(guest.invalid("`unsigned` and a key cannot be combined"));
        }
        if key.bytes.is_empty() || key.bytes.len() > MAX_BYTES {
            return Err(guest.invalid(format!(
                "invalid key of {}: expected 1 byte to 1 MiB",
                of.name
            )));
        }
        Ok(Some(key))
    }

    /// Returns an `OpenPGP` key in binary form, which every version of apt accepts.
    pub(super) fn binary(&self, guest: &Guest) -> Result<Vec<u8>> {
        // Data that begins with an OpenPGP packet (high bit set; RFC 9580, section 4.2) is already
        // binary.
        if self.bytes.first().is_some_and(|byte| byte & 0x80 != 0) {
            return Ok(self.bytes.clone());
        }
        let text = String::from_utf8_lossy(&self.bytes);
        let mut keys = Vec::new();
        for block in text.split(BEGIN).skip(1) {
            let body = block.split(END).next().unwrap_or_default();
            // An empty line ends the headers. A line that begins with `=` is a checksum.
            let lines = body.trim_start_matches(['\r', '\n']).lines().map(str::trim);
            let lines: Vec<&str> = lines.collect();
            let start = lines.iter().position(|line| line.is_empty());
            let has_head = lines.iter().any(|line| line.contains(": "));
            let from = if has_head {
                start.map_or(0, |at| at + 1)
            } else {
                0
            };
            let data = lines.iter().skip(from);
            let data = data.filter(|line| !line.is_empty() && !line.starts_with('='));
            let base64: String = data.copied().collect();
            let key = Base64::decode_vec(&base64).map_err(|_| wrong(guest))?;
            keys.extend(key);
        }
        if keys.first().is_none_or(|byte| byte & 0x80 == 0) {
            return Err(wrong(guest));
        }
        Ok(keys)
    }

    /// Returns an `OpenPGP` key in ASCII-armored form, which rpm requires.
    pub(super) fn armored(&self, guest: &Guest) -> Result<&[u8]> {
        if String::from_utf8_lossy(&self.bytes).contains(BEGIN) {
            return Ok(&self.bytes);
        }
        Err(wrong(guest).with_hint("export it in ASCII-armored form: `gpg --armor --export`"))
    }

    /// Returns the key in the form in which the plan gives it.
    pub(super) fn as_is(&self) -> &[u8] {
        &self.bytes
    }
}

/// Writes a key, readable for all, into the directory where the package manager looks for it.
pub(super) fn put(guest: &mut Guest, path: &str, bytes: Vec<u8>) -> Result<()> {
    guest.stage.make_dirs(above(path), 0o755)?;
    guest.stage.write(path, bytes)?;
    guest.stage.set_permissions(path, 0o644)
}

fn wrong(guest: &Guest) -> Error {
    guest.invalid("invalid key: expected an OpenPGP public key")
}
