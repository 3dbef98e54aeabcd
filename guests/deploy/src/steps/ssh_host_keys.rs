//! The step `ssh-host-keys`.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};
use ssh_key::private::{EcdsaKeypair, Ed25519Keypair, KeypairData, RsaKeypair};
use ssh_key::{EcdsaCurve, LineEnding, PrivateKey};

use super::super::accounts;
use super::super::guest::Guest;
use super::sshd::config::Config;
use diskfs_disk::{Error, ErrorKind, Result};

const DIR: &str = "/etc/ssh";

/// The directory of dropbear's keys, which have a format of their own.
const DROPBEAR_DIR: &str = "/etc/dropbear";

/// The group that can read host keys on Red Hat.
const KEY_GROUP: &str = "ssh_keys";

/// The key length that `ssh-keygen` uses by default.
const RSA_BITS: usize = 3072;

/// The limit on the number of generated keys: `sshd_config` may name any number of them, and each
/// takes a second.
const MAX_KEYS: usize = 8;

/// The new state of the guest's SSH host keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SshHostKeys {
    /// Generates the missing keys.
    Generate,
    /// Generates all keys anew each time, so that no two guests of one image have the same.
    Regenerate,
    /// Removes the keys. Most guests generate new ones at the next boot.
    Remove,
}

/// A key algorithm, which is derived from the file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Rsa,
    Ecdsa,
    Ed25519,
}

impl SshHostKeys {
    pub(in super::super) fn apply(self, guest: &mut Guest) -> Result<()> {
        let age = OpenSshAge::of(guest)?;
        if age == OpenSshAge::OldDebian && self == Self::Regenerate {
            let reason = "cannot generate host keys: the guest's OpenSSH is older than 6.5, and \
                 cannot read the new key format";
            return Err(guest.invalid(reason));
        }
        if self != Self::Generate {
            remove(guest)?;
        }
        if self == Self::Remove {
            return Ok(());
        }
        let Some(config) = Config::read(guest)? else {
            guest.note(
                "no host keys were generated: the OpenSSH server is not installed in the guest",
            );
            return Ok(());
        };
        if age != OpenSshAge::New {
            guest.note(age.note());
            return Ok(());
        }
        let files = files(&config);
        if files.len() > MAX_KEYS {
            guest.note(format!(
                "sshd_config names {} host keys: only the first {MAX_KEYS} were considered",
                files.len()
            ));
        }
        for path in files.into_iter().take(MAX_KEYS) {
            if guest.stage.exists(&path)? {
                continue;
            }
            match Algorithm::of(&path) {
                Some(algorithm) => generate(guest, &path, algorithm)?,
                None => guest.note(format!(
                    "no host key was generated for {path}: the file name does not contain a key \
                     type"
                )),
            }
        }
        Ok(())
    }
}

impl Algorithm {
    fn of(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next()?;
        let all = [
            ("ed25519", Self::Ed25519),
            ("ecdsa", Self::Ecdsa),
            ("rsa", Self::Rsa),
        ];
        let mut all = all.into_iter();
        all.find_map(|(part, algorithm)| name.contains(part).then_some(algorithm))
    }

    fn keypair(self, random: &mut ChaCha20Rng) -> ssh_key::Result<KeypairData> {
        Ok(match self {
            Self::Ed25519 => Ed25519Keypair::random(random).into(),
            Self::Ecdsa => EcdsaKeypair::random(random, EcdsaCurve::NistP256)?.into(),
            Self::Rsa => RsaKeypair::random(random, RSA_BITS)?.into(),
        })
    }
}

/// Returns the key files that sshd reads: those that `sshd_config` names, or the default ones.
fn files(config: &Config) -> Vec<String> {
    let named = config.values("HostKey");
    if named.is_empty() {
        // The file does no harm for an sshd that does not support Ed25519 or has it disabled.
        return ["rsa", "ecdsa", "ed25519"]
            .map(|kind| format!("{DIR}/ssh_host_{kind}_key"))
            .into();
    }
    let named = named.into_iter().filter(|path| path.starts_with('/'));
    named.map(str::to_owned).collect()
}

/// The age of the guest's OpenSSH. Version 6.5 is the first that reads keys in OpenSSH's own
/// format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenSshAge {
    New,
    /// Red Hat before 7, whose sshd generates missing keys at start.
    OldRedHat,
    /// Debian before 8 and Ubuntu before 14.04, where nothing generates missing keys.
    OldDebian,
}

impl OpenSshAge {
    fn of(guest: &Guest) -> Result<Self> {
        let text = guest.stage.text("/etc/redhat-release")?.unwrap_or_default();
        let mut words = text
            .split_whitespace()
            .skip_while(|word| *word != "release");
        let is_fedora = text.starts_with("Fedora");
        if !is_fedora && words.nth(1).and_then(major).is_some_and(|major| major < 7) {
            return Ok(Self::OldRedHat);
        }
        let release = guest.release();
        let first = match release.id.as_str() {
            "debian" => 8,
            "ubuntu" => 14,
            _ => 0,
        };
        let is_old = major(&release.version_id).is_some_and(|major| major < first);
        Ok(if is_old { Self::OldDebian } else { Self::New })
    }

    fn note(self) -> &'static str {
        match self {
            Self::OldRedHat => {
                "no host keys were generated: the guest's old OpenSSH reads another format, and \
                 generates its own keys"
            }
            Self::New | Self::OldDebian => {
                "no host keys were generated: the guest's old OpenSSH cannot read the new key \
                 format"
            }
        }
    }
}

/// Returns the major version: 6 for 6.10.
fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

fn generate(guest: &mut Guest, path: &str, algorithm: Algorithm) -> Result<()> {
    let failed = |error: ssh_key::Error| {
        Error::new(
            ErrorKind::Unsupported,
            format!("cannot generate a host key: {error}"),
        )
    };
    let mut random = ChaCha20Rng::from_seed(guest.random()?);
    let pair = algorithm.keypair(&mut random).map_err(failed)?;
    let key = PrivateKey::new(pair, "").map_err(failed)?;
    let private = key.to_openssh(LineEnding::LF).map_err(failed)?;
    let public = key.public_key().to_openssh().map_err(failed)?;
    let (permissions, gid) = match accounts::gid_of(&guest.stage, KEY_GROUP)? {
        Some(gid) => (0o640, gid),
        None => (0o600, 0),
    };
    guest.stage.write_with(path, &private, permissions)?;
    guest.stage.set_owner(path, 0, gid)?;
    let public_path = format!("{path}.pub");
    guest
        .stage
        .write_with(&public_path, &format!("{}\n", public.trim_end()), 0o644)
}

/// Removes the keys of OpenSSH and dropbear, and OpenSSH's host certificates, which would not match
/// new keys.
fn remove(guest: &mut Guest) -> Result<()> {
    let is_key = |name: &str| {
        let end = name
            .strip_prefix("ssh_host_")
            .map(|rest| rest.split_once("_key"));
        matches!(end.flatten(), Some((_, "" | ".pub" | "-cert.pub")))
    };
    let is_of_dropbear = |name: &str| name.starts_with("dropbear_") && name.ends_with("_host_key");
    remove_in(guest, DIR, is_key)?;
    remove_in(guest, DROPBEAR_DIR, is_of_dropbear)?;
    let named = Config::read(guest)?;
    let named = named.iter().flat_map(|config| config.values("HostKey"));
    let named: Vec<String> = named.map(str::to_owned).collect();
    for path in named.iter().filter(|path| Algorithm::of(path).is_some()) {
        if guest.stage.is_file(path)? {
            guest.stage.remove(path)?;
            guest.stage.remove(&format!("{path}.pub"))?;
        }
    }
    Ok(())
}

fn remove_in(guest: &mut Guest, dir: &str, is_key: impl Fn(&str) -> bool) -> Result<()> {
    if !guest.stage.is_dir(dir)? {
        return Ok(());
    }
    for name in guest.stage.names(dir)? {
        if is_key(&name) {
            guest.stage.remove(&format!("{dir}/{name}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
