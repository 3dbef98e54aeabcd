//! The keys that sshd shows who it is with.

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

/// Where dropbear has its keys, in files of its own form.
const DROPBEAR_DIR: &str = "/etc/dropbear";

/// The group that Red Hat lets read them.
const KEY_GROUP: &str = "ssh_keys";

/// As long as `ssh-keygen` makes them.
const RSA_BITS: usize = 3072;

/// More keys than an sshd has: its settings may name any number, and each takes a second to be made.
const MAX_KEYS: usize = 8;

/// What is done with the keys of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SshHostKeys {
    /// Those that are missing are made.
    Generate,
    /// All are made anew, each time: so that no two guests of one image have the same.
    Regenerate,
    /// They are removed: most guests make others when they start.
    Remove,
}

/// A kind of key, by what is in the name of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Rsa,
    Ecdsa,
    Ed25519,
}

impl SshHostKeys {
    pub(in super::super) fn apply(self, guest: &mut Guest) -> Result<()> {
        let age = Age::of(guest)?;
        if age == Age::OldDebian && self == Self::Regenerate {
            let reason = "its OpenSSH is older than 6.5, and reads keys of another form only";
            return Err(guest.invalid(reason));
        }
        if self != Self::Generate {
            remove(guest)?;
        }
        if self == Self::Remove {
            return Ok(());
        }
        let Some(config) = Config::read(guest)? else {
            guest.note("the guest has no sshd of OpenSSH: no key is made");
            return Ok(());
        };
        if age != Age::New {
            guest.note(age.note());
            return Ok(());
        }
        let files = files(&config);
        if files.len() > MAX_KEYS {
            guest.note(format!(
                "sshd has {} keys: the first {MAX_KEYS} are made",
                files.len()
            ));
        }
        for path in files.into_iter().take(MAX_KEYS) {
            if guest.stage.exists(&path)? {
                continue;
            }
            match Algorithm::of(&path) {
                Some(algorithm) => generate(guest, &path, algorithm)?,
                None => guest.note(format!("no key is made for {path}: its name says no kind")),
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

/// The files that sshd reads: those that its settings name, or else the usual ones.
fn files(config: &Config) -> Vec<String> {
    let named = config.values("HostKey");
    if named.is_empty() {
        // On one that is older than Ed25519, or has it switched off, the file does not hurt.
        return ["rsa", "ecdsa", "ed25519"]
            .map(|kind| format!("{DIR}/ssh_host_{kind}_key"))
            .into();
    }
    let named = named.into_iter().filter(|path| path.starts_with('/'));
    named.map(str::to_owned).collect()
}

/// Whether its OpenSSH is at least 6.5, which is the first to read keys in OpenSSH's own form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    New,
    /// Red Hat before 7, whose sshd makes missing keys when it starts.
    OldRedHat,
    /// Debian before 8, Ubuntu before 14.04, where nothing does.
    OldDebian,
}

impl Age {
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
            Self::OldRedHat => "no key is made: its OpenSSH reads another form, and makes its own",
            Self::New | Self::OldDebian => "no key is made: its OpenSSH reads another form only",
        }
    }
}

/// The 6 of 6.10.
fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

fn generate(guest: &mut Guest, path: &str, algorithm: Algorithm) -> Result<()> {
    let failed = |error: ssh_key::Error| {
        Error::new(
            ErrorKind::Unsupported,
            format!("no key can be made: {error}"),
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

/// Removes the keys of OpenSSH and dropbear, and the certificates of the former, which would not fit others.
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
