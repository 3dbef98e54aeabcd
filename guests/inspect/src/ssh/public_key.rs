//! Public keys, as OpenSSH writes them on a line (sshd(8), "`AUTHORIZED_KEYS` FILE FORMAT"; RFC 4253, section 6.6).

use base64ct::{Base64, Base64Unpadded, Encoding};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PublicKey {
    /// The algorithm, as `ssh-ed25519`.
    pub algorithm: String,
    /// Its size in bits, where the algorithm has several.
    pub bits: Option<u32>,
    /// Its fingerprint, as ssh-keygen(1) prints it: `SHA256:...`.
    pub fingerprint: String,
    /// What is said of it, as `ann@example`.
    pub comment: Option<String>,
}

impl PublicKey {
    /// Of a line without options.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (algorithm, rest) = line.split_once(char::is_whitespace)?;
        let rest = rest.trim_start();
        let (encoded, comment) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let blob = Base64::decode_vec(encoded).ok()?;
        // The blob says again which algorithm it is of.
        let (said, fields) = string(&blob)?;
        if said != algorithm.as_bytes() {
            return None;
        }
        let comment = comment.trim();
        Some(Self {
            algorithm: algorithm.to_owned(),
            bits: bits(algorithm, fields),
            fingerprint: format!(
                "SHA256:{}",
                Base64Unpadded::encode_string(&Sha256::digest(&blob))
            ),
            comment: (!comment.is_empty()).then(|| comment.to_owned()),
        })
    }
}

/// The options of a line, where it has some, and its key.
pub(super) fn with_options(line: &str) -> Option<(Option<&str>, PublicKey)> {
    if let Some(key) = PublicKey::parse(line) {
        return Some((None, key));
    }
    let end = end_of_options(line)?;
    let (options, rest) = line.split_at(end);
    Some((Some(options), PublicKey::parse(rest.trim_start())?))
}

/// Options end at the first blank outside of quotes.
fn end_of_options(line: &str) -> Option<usize> {
    let mut is_quoted = false;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match c {
            '"' if before != '\\' => is_quoted = !is_quoted,
            ' ' | '\t' if !is_quoted => return Some(at),
            _ => {}
        }
        before = c;
    }
    None
}

/// A string (RFC 4251, section 5), and what follows it.
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
    rest.split_at_checked(len)
}

fn bits(algorithm: &str, fields: &[u8]) -> Option<u32> {
    let integer = match algorithm {
        "ssh-rsa" => string(string(fields)?.1)?.0, // behind the exponent
        "ssh-dss" => string(fields)?.0,
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
            let key = PublicKey::parse(line.trim()).unwrap();
            let printed = keygen(&["-l"]);
            let ours = format!("{} {} a comment", key.bits.unwrap(), key.fingerprint);
            assert!(printed.starts_with(&ours), "{printed} {ours}");
        }
    }

    #[test]
    fn what_lies_is_no_key() {
        for line in [
            "",
            "ssh-rsa",
            "ssh-rsa AAAA",
            "ssh-rsa !!!!",
            "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIKtP8K7N0rDmyUdmzQbxRVFvOlEQ3kYT8oN3t0YbYB0t",
        ] {
            assert_eq!(PublicKey::parse(line), None, "{line}");
            assert_eq!(with_options(line), None, "{line}");
        }
    }
}
