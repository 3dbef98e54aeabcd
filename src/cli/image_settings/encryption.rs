//! The options for the encryption of a new image: those of the driver `luks`.

use std::time::Duration;

use diskfs::image::create::NewEncryption;
use diskfs::luks::{Luks1Options, Secret};
use diskfs::{Error, ErrorKind, Format, Result, new_encryption};

use super::ImageSettings;
use crate::cli::random;

/// The start of the names of the options.
const PREFIX: &str = "encrypt.";

/// The names of the options after their prefix, in QEMU's order.
pub(in super::super) const OPTIONS: [&str; 7] = [
    "key-secret",
    "cipher-alg",
    "cipher-mode",
    "ivgen-alg",
    "ivgen-hash-alg",
    "hash-alg",
    "iter-time",
];

/// Algorithms of QEMU that diskfs does not have.
const OTHER_ALGORITHMS: [&str; 8] = [
    "3des",
    "cast5-128",
    "ctr",
    "des",
    "ecb",
    "md5",
    "sm3",
    "sm4",
];

/// The time that trying a passphrase takes by default, as in QEMU.
pub(in super::super) const ITER_TIME_MS: u64 = 2000;

/// The settings of the encryption.
#[derive(Debug, Clone, Default)]
pub(super) struct Encryption {
    /// The names without their prefix, and the values.
    given: Vec<(String, String)>,
    /// The encryption with its key, once it was made.
    made: Option<NewEncryption>,
}

impl Encryption {
    /// Takes an option; returns false for one of another kind.
    pub(super) fn take(&mut self, name: &str, value: &str) -> bool {
        let known = name
            .strip_prefix(PREFIX)
            .filter(|name| *name == "format" || OPTIONS.contains(name));
        if let Some(name) = known {
            self.given.push((name.to_owned(), value.to_owned()));
        }
        known.is_some()
    }

    /// Returns the encryption of the new image, if it has one.
    ///
    /// # Errors
    /// If options for it were given, and no key.
    pub(super) fn made(&self) -> Result<Option<NewEncryption>> {
        if self.made.is_none() && !self.given.is_empty() {
            let reason = "missing passphrase of the encrypted image";
            let error = Error::new(ErrorKind::Invalid, reason);
            return Err(error.with_hint("give --encrypt ask or --encrypt file:FILE"));
        }
        Ok(self.made.clone())
    }

    /// Returns the value of an option, the last of which counts.
    fn value(&self, name: &str) -> Option<&str> {
        let mut given = self.given.iter().rev();
        let found = given.find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    fn options(&self) -> Result<Luks1Options> {
        let value = |name, default| self.value(name).unwrap_or(default);
        if value("format", "luks") != "luks" {
            let format = value("format", "luks").escape_debug();
            let reason = format!("option encrypt.format: unsupported format `{format}`");
            return Err(Error::new(ErrorKind::Unsupported, reason).with_hint("supported: luks"));
        }
        let (cipher, bits) = self.cipher()?;
        let mode = known("cipher-mode", value("cipher-mode", "xts"), &["xts", "cbc"])?;
        let vectors = ["plain", "plain64", "essiv"];
        let vectors = known("ivgen-alg", value("ivgen-alg", "plain64"), &vectors)?;
        let vectors = match vectors {
            "essiv" => format!("essiv:{}", self.hash("ivgen-hash-alg")?),
            other => other.to_owned(),
        };
        let key_bytes: usize = bits / 8;
        let options = Luks1Options {
            cipher: cipher.to_owned(),
            mode: format!("{mode}-{vectors}"),
            hash: self.hash("hash-alg")?.to_owned(),
            key_bytes: if mode == "xts" {
                key_bytes.saturating_mul(2)
            } else {
                key_bytes
            },
            uuid: random::uuid()?.to_string(),
            ..Luks1Options::default()
        };
        Ok(options)
    }

    /// Returns the name of the cipher, and the number of bits of its key.
    fn cipher(&self) -> Result<(&str, usize)> {
        let name = self.value("cipher-alg").unwrap_or("aes-256");
        let parts = name.split_once('-').and_then(|(cipher, bits)| {
            let cipher = ["aes", "serpent", "twofish"]
                .into_iter()
                .find(|known| *known == cipher)?;
            let bits = [128, 192, 256]
                .into_iter()
                .find(|known: &usize| known.to_string() == bits)?;
            Some((cipher, bits))
        });
        parts.ok_or_else(|| {
            let names = [
                "aes-128",
                "aes-192",
                "aes-256",
                "serpent-256",
                "twofish-256",
            ];
            refused("cipher-alg", name, &names)
        })
    }

    fn hash(&self, option: &str) -> Result<&str> {
        let name = self.value(option).unwrap_or("sha256");
        let names = ["sha1", "sha224", "sha256", "sha384", "sha512", "ripemd160"];
        known(option, name, &names)
    }

    fn time(&self) -> Result<Duration> {
        let text = self.value("iter-time");
        let time = text.map_or(Ok(ITER_TIME_MS), str::parse);
        time.map(Duration::from_millis).map_err(|_| {
            let text = text.unwrap_or_default().escape_debug();
            let reason = format!("option encrypt.iter-time: invalid number `{text}`");
            Error::new(ErrorKind::Invalid, reason)
        })
    }
}

impl ImageSettings {
    /// Returns the value of an option of the encryption.
    pub(in super::super) fn encryption_option(&self, name: &str) -> Option<&str> {
        self.encryption.value(name)
    }

    /// Returns true if an option of the encryption is given.
    pub(in super::super) fn is_encrypted(&self) -> bool {
        !self.encryption.given.is_empty()
    }

    /// Returns the time that trying a passphrase takes.
    ///
    /// # Errors
    /// `Invalid` for an option that is not a number.
    pub(in super::super) fn iter_time(&self) -> Result<Duration> {
        self.encryption.time()
    }

    /// Encrypts an image that is only measured, if an option of the encryption is given: with a key
    /// that costs nothing, because the size does not depend on it.
    ///
    /// # Errors
    /// As for [`encrypt`](Self::encrypt).
    pub(in super::super) fn encrypt_to_measure(&mut self) -> Result<()> {
        if self.is_encrypted() {
            let options = self.encryption.options()?;
            self.encrypt_by(&options, &Secret::new(b"measured".to_vec()))?;
        }
        Ok(())
    }

    /// Removes the options of an encryption that is not LUKS, which qemu-img ignores when it measures
    /// an image.
    ///
    /// # Errors
    /// `Invalid` for an option that expects a number.
    pub(in super::super) fn keep_only_luks(&mut self) -> Result<()> {
        self.iter_time()?;
        if self.encryption.value("format") != Some("luks") {
            self.encryption = Encryption::default();
        }
        Ok(())
    }

    /// Encrypts the new image with a passphrase. Deriving the key takes as long as trying a
    /// passphrase will.
    ///
    /// # Errors
    /// `Invalid` and `Unsupported` for the options; those of the host's random numbers.
    pub(in super::super) fn encrypt(&mut self, passphrase: &Secret) -> Result<()> {
        let options = self.encryption.options()?.timed(self.iter_time()?)?;
        self.encrypt_by(&options, passphrase)
    }

    fn encrypt_by(&mut self, options: &Luks1Options, passphrase: &Secret) -> Result<()> {
        let mut random = |buf: &mut [u8]| Ok(random::fill(buf)?);
        let new = options.create(passphrase, &mut random)?;
        self.encryption.made = Some(new_encryption(new));
        Ok(())
    }

    /// Refuses a key that is an object of QEMU.
    ///
    /// # Errors
    /// `Invalid` for the option `encrypt.key-secret`.
    pub(in super::super) fn refuse_objects(&self) -> Result<()> {
        if self.encryption_option("key-secret").is_none() {
            return Ok(());
        }
        let reason = "option encrypt.key-secret: diskfs has no objects";
        let error = Error::new(ErrorKind::Invalid, reason);
        Err(error.with_hint("give --encrypt ask or --encrypt file:FILE"))
    }

    /// Encrypts the new image if a passphrase is given; otherwise no option of the encryption may
    /// be.
    ///
    /// # Errors
    /// As for [`encrypt`](Self::encrypt).
    pub(in super::super) fn encrypt_with(
        &mut self,
        passphrase: Option<&Secret>,
        format: Format,
    ) -> Result<()> {
        self.refuse_objects()?;
        match passphrase {
            Some(passphrase) if matches!(format, Format::Raw | Format::Qcow2) => {
                self.encrypt(passphrase)
            }
            Some(_) => Err(not_encrypted(format)),
            None => Ok(()),
        }
    }
}

/// Returns the error for a format without encryption.
pub(super) fn not_encrypted(format: Format) -> Error {
    let reason = format!("encryption is not supported for {format} images");
    Error::new(ErrorKind::Unsupported, reason).with_hint("raw and qcow2 images have it")
}

/// Returns the name if it is one of `names`.
fn known<'a>(option: &str, name: &'a str, names: &[&str]) -> Result<&'a str> {
    if names.contains(&name) {
        return Ok(name);
    }
    Err(refused(option, name, names))
}

fn refused(option: &str, name: &str, names: &[&str]) -> Error {
    let kind = if OTHER_ALGORITHMS.contains(&name) {
        ErrorKind::Unsupported
    } else {
        ErrorKind::Invalid
    };
    let known = names.join(", ");
    let name = name.escape_debug();
    let reason = format!("option encrypt.{option}: unsupported value `{name}`");
    Error::new(kind, reason).with_hint(format!("supported: {known}"))
}
