//! Keys that repositories are signed with.

use base64ct::{Base64, Encoding};

use super::super::super::guest::Guest;
use super::super::super::stage::above;
use super::Repository;
use diskfs_disk::{Error, Result};

/// What keys in ASCII stand between (RFC 9580, section 6.2).
const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const END: &str = "-----END PGP PUBLIC KEY BLOCK-----";

/// More than any key has.
const MAX_BYTES: usize = 1 << 20;

/// A key, as it was given.
pub(super) struct Key {
    bytes: Vec<u8>,
    /// The name of the file that it came from.
    pub(super) file_name: Option<String>,
}

impl Key {
    pub(super) fn read(guest: &Guest, of: &Repository) -> Result<Option<Self>> {
        let key = match (&of.key, &of.key_file) {
            (Some(_), Some(_)) => return Err(guest.invalid("a key is either a text or a file")),
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
            return Err(guest.invalid("a repository is unsigned, or it has a key"));
        }
        if key.bytes.is_empty() || key.bytes.len() > MAX_BYTES {
            return Err(guest.invalid(format!("the key of {} is empty, or no key", of.name)));
        }
        Ok(Some(key))
    }

    /// The key of `OpenPGP` without its ASCII, as every apt takes it.
    pub(super) fn binary(&self, guest: &Guest) -> Result<Vec<u8>> {
        // What begins with a packet (the high bit, RFC 9580, section 4.2) is so already.
        if self.bytes.first().is_some_and(|byte| byte & 0x80 != 0) {
            return Ok(self.bytes.clone());
        }
        let text = String::from_utf8_lossy(&self.bytes);
        let mut keys = Vec::new();
        for block in text.split(BEGIN).skip(1) {
            let body = block.split(END).next().unwrap_or_default();
            // Headers end with an empty line; a line with `=` before it is a checksum.
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

    /// The key of `OpenPGP` in ASCII, as rpm takes it.
    pub(super) fn armored(&self, guest: &Guest) -> Result<&[u8]> {
        if String::from_utf8_lossy(&self.bytes).contains(BEGIN) {
            return Ok(&self.bytes);
        }
        Err(wrong(guest).with_hint("write it in ASCII: `gpg --armor --export`"))
    }

    /// As it was given.
    pub(super) fn as_is(&self) -> &[u8] {
        &self.bytes
    }
}

/// Puts a key where programs look for it, which all may read.
pub(super) fn put(guest: &mut Guest, path: &str, bytes: Vec<u8>) -> Result<()> {
    guest.stage.make_dirs(above(path), 0o755)?;
    guest.stage.write(path, bytes)?;
    guest.stage.set_permissions(path, 0o644)
}

fn wrong(guest: &Guest) -> Error {
    guest.invalid("the key is no public key of OpenPGP")
}
