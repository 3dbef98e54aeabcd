//! The identity of a guest: its instance ID, hostname and keys.

use std::path::PathBuf;

use clap::Args;
use diskfs::{Error, ErrorKind, Result};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::input;

/// The options that make the metadata.
#[derive(Debug, Args)]
pub(super) struct IdentityArgs {
    /// The instance ID [default: a hash of the contents]
    #[arg(long, value_name = "ID")]
    pub(super) instance_id: Option<String>,

    /// The hostname of the guest
    #[arg(long, value_name = "NAME")]
    pub(super) hostname: Option<String>,

    /// A file with SSH public keys for the default user; can be repeated
    #[arg(long, value_name = "FILE")]
    ssh_key: Vec<PathBuf>,
}

impl IdentityArgs {
    /// Returns the public keys of all files.
    pub(super) fn keys(&self) -> Result<Vec<String>> {
        let mut keys = Vec::new();
        for path in &self.ssh_key {
            let before = keys.len();
            let text = String::from_utf8(input::read(path)?);
            let text = text.map_err(|_| invalid_key("it is not text").in_file(path))?;
            let lines = text.lines().map(str::trim);
            for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
                if line.contains("PRIVATE KEY") {
                    let error = invalid_key("it is a private key").in_file(path);
                    return Err(error.with_hint("give the file that ends in .pub"));
                }
                if line.split_whitespace().count() < 2 {
                    return Err(invalid_key("expected a type and a key").in_file(path));
                }
                keys.push(line.to_owned());
            }
            if keys.len() == before {
                return Err(invalid_key("the file has no key").in_file(path));
            }
        }
        Ok(keys)
    }
}

fn invalid_key(what: &str) -> Error {
    Error::new(
        ErrorKind::Invalid,
        format!("invalid SSH public key: {what}"),
    )
}

/// Returns the keys as metadata lists them: by their numbers.
pub(super) fn numbered(keys: &[String]) -> Value {
    let pairs = keys.iter().enumerate();
    pairs.map(|(n, key)| (n.to_string(), key.clone())).collect()
}

/// Returns a UUID that is a hash of some parts.
pub(super) fn uuid_of(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let mut bytes = [0; 16];
    bytes
        .iter_mut()
        .zip(digest)
        .for_each(|(to, from)| *to = from);
    uuid::Builder::from_custom_bytes(bytes)
        .into_uuid()
        .to_string()
}

/// Returns metadata as JSON text.
pub(super) fn text(fields: Map<String, Value>) -> Vec<u8> {
    format!("{:#}\n", Value::Object(fields)).into_bytes()
}
