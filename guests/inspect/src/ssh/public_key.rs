//! The facts about a public key that ssh-keygen(1) prints.

use base64ct::{Base64Unpadded, Encoding};
use diskfs_etc::authorized_keys::Key;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PublicKey {
    /// The algorithm: `ssh-ed25519`.
    pub algorithm: String,
    /// The size in bits, for algorithms with several sizes.
    pub bits: Option<u32>,
    /// The fingerprint, as ssh-keygen(1) prints it: `SHA256:...`.
    pub fingerprint: String,
    /// The comment: `ann@example`.
    pub comment: Option<String>,
}

impl PublicKey {
    /// Describes a key.
    pub(super) fn of(key: &Key<'_>) -> Self {
        Self {
            algorithm: key.algorithm.to_owned(),
            bits: bits(key),
            fingerprint: format!(
                "SHA256:{}",
                Base64Unpadded::encode_string(&Sha256::digest(&key.blob))
            ),
            comment: (!key.comment.is_empty()).then(|| key.comment.to_owned()),
        }
    }
}

fn bits(key: &Key<'_>) -> Option<u32> {
    let integer = match key.algorithm {
        "ssh-rsa" => key.fields().nth(1)?, // after the exponent
        "ssh-dss" => key.fields().next()?,
        "ecdsa-sha2-nistp256"
        | "sk-ecdsa-sha2-nistp256@openssh.com"
        | "ssh-ed25519"
        | "sk-ssh-ed25519@openssh.com" => return Some(256),
        "ecdsa-sha2-nistp384" => return Some(384),
        "ecdsa-sha2-nistp521" => return Some(521),
        _ => return None,
    };
    let first = integer.iter().position(|byte| *byte != 0)?;
    let digits = integer.get(first..)?;
    let (high, rest) = digits.split_first()?;
    let rest = u32::try_from(rest.len()).ok()?.checked_mul(8)?;
    rest.checked_add(8 - high.leading_zeros())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn fingerprints_are_those_of_ssh_keygen() {
        if diskfs_fixtures::require("ssh-keygen").is_none() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        for (kind, bits) in [("ed25519", 256), ("ecdsa", 384), ("rsa", 2048)] {
            let path = dir.path().join(kind);
            let keygen = |words: &[&str]| {
                let output = Command::new("ssh-keygen")
                    .args(words)
                    .arg("-f")
                    .arg(&path)
                    .output();
                String::from_utf8(output.unwrap().stdout).unwrap()
            };
            keygen(&[
                "-q",
                "-N",
                "",
                "-C",
                "a comment",
                "-t",
                kind,
                "-b",
                &bits.to_string(),
            ]);
            let line = std::fs::read_to_string(path.with_extension("pub")).unwrap();
            let key = PublicKey::of(&Key::parse(line.trim()).unwrap());
            let printed = keygen(&["-l"]);
            let ours = format!("{} {} a comment", key.bits.unwrap(), key.fingerprint);
            assert!(printed.starts_with(&ours), "{printed} {ours}");
        }
    }
}
