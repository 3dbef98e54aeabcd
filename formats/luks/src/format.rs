//! The creation of LUKS2 volumes.

use diskfs_block::{BlockWrite, Error, Result};
use zeroize::Zeroizing;

use crate::af::AntiForensic;
use crate::cipher_spec::CipherSpec;
use crate::digest::Digest;
use crate::hash::Hash;
use crate::kdf::{Kdf, Pbkdf2, Variant};
use crate::key::{Secret, VolumeKey};
use crate::keyslot::{Area, Keyslot};
use crate::luks2::{AREA_OFFSET_BYTES, CIPHER, DATA_OFFSET_BYTES, HASH, NewHeader, STRIPES};
use crate::problem::Problem;

/// The length of the volume key: two keys of AES-256, as XTS needs them.
const KEY_BYTES: usize = 64;

/// The length of the salts of key derivation, as in `cryptsetup`.
const SALT_BYTES: usize = 32;

/// The rounds of the digest (`LUKS_MKD_ITERATIONS_MIN` of `cryptsetup`). The volume key is random,
/// so that more rounds would not protect it better.
const DIGEST_ITERATIONS: u32 = 1000;

/// The options of a new LUKS2 volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatOptions {
    /// The UUID, in its text form.
    pub uuid: String,
    /// The label, at most 47 bytes.
    pub label: String,
    /// The sector size of the encryption: 512 or 4096 bytes.
    pub sector_bytes: u32,
    /// The key derivation of the key slot.
    pub kdf: NewKdf,
    /// The volume key of 64 bytes; `None` for a random one. Whoever knows it can read the data,
    /// whatever the passphrase is.
    pub volume_key: Option<Secret>,
}

/// The key derivation of a new key slot, with its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewKdf {
    /// Argon2id (RFC 9106).
    Argon2id {
        /// The number of passes.
        passes: u32,
        /// The memory in KiB.
        memory_kib: u32,
        /// The number of lanes.
        lanes: u32,
    },
    /// PBKDF2 with HMAC-SHA-256 (RFC 8018).
    Pbkdf2 {
        /// The number of rounds.
        iterations: u32,
    },
}

impl Default for NewKdf {
    /// Returns Argon2id with 4 passes over 128 MiB in 4 lanes: more than the second recommendation
    /// of RFC 9106, and little enough for the initramfs of a guest with 512 MiB.
    fn default() -> Self {
        Self::Argon2id {
            passes: 4,
            memory_kib: 128 << 10,
            lanes: 4,
        }
    }
}

impl Default for FormatOptions {
    /// Returns the options without UUID and label, with sectors of 512 bytes.
    fn default() -> Self {
        Self {
            uuid: String::new(),
            label: String::new(),
            sector_bytes: 512,
            kdf: NewKdf::default(),
            volume_key: None,
        }
    }
}

/// The source of random bytes: it fills a buffer.
pub(crate) type Random<'a> = &'a mut dyn FnMut(&mut [u8]) -> Result<()>;

/// Creates a LUKS2 volume with one key slot, as `cryptsetup luksFormat` does: `aes-xts-plain64`
/// with a key of 512 bits, and the data from 16 MiB on. Returns the volume key.
///
/// `random` must return unpredictable bytes: the volume key comes from it, unless the options have
/// one. The same options, passphrase and random bytes always make the same header.
///
/// The first 16 MiB are overwritten; the data after them is not changed. A crash leaves a device
/// without a header, or a complete one.
///
/// # Errors
/// `Invalid` for options that are out of range, `NoSpace` for a device that is too small, and the
/// errors of the device and of `random`.
pub fn format(
    device: &dyn BlockWrite,
    passphrase: &Secret,
    options: &FormatOptions,
    random: Random<'_>,
) -> Result<VolumeKey> {
    let size_bytes = device.size_bytes();
    if size_bytes < DATA_OFFSET_BYTES.saturating_add(options.sector_bytes.into()) {
        let reason = format!("too small for a LUKS2 volume: {size_bytes} bytes, at least 17 MiB");
        return Err(Error::new(diskfs_block::ErrorKind::NoSpace, reason));
    }
    options.check()?;
    let new = New::make(passphrase, options, random)?;
    device.write_zeroes(0, DATA_OFFSET_BYTES)?;
    device.write_at(AREA_OFFSET_BYTES, &new.area)?;
    let [first, second] = &new.copies;
    for (offset, bytes) in [second, first] {
        device.flush()?;
        device.write_at(*offset, bytes)?;
    }
    device.flush()?;
    Ok(new.volume_key)
}

/// Returns the smallest size of a device whose data has this size.
pub fn device_bytes(data_bytes: u64) -> u64 {
    data_bytes.saturating_add(DATA_OFFSET_BYTES)
}

impl FormatOptions {
    fn check(&self) -> Result<()> {
        if !matches!(self.sector_bytes, 512 | 4096) {
            let reason = format!(
                "invalid sector size {}: expected 512 or 4096",
                self.sector_bytes
            );
            return Err(Error::invalid(reason));
        }
        if let Some(key) = &self.volume_key
            && key.as_bytes().len() != KEY_BYTES
        {
            let len = key.as_bytes().len();
            let reason = format!("invalid volume key: {len} bytes, expected {KEY_BYTES}");
            return Err(Error::invalid(reason));
        }
        if self.uuid.is_empty() || self.uuid.len() > 39 || self.label.len() > 47 {
            let reason = "invalid UUID or label of a LUKS2 volume: a label has at most 47 bytes";
            return Err(Error::invalid(reason));
        }
        self.kdf.check()
    }
}

impl NewKdf {
    /// Checks the costs against the limits of `cryptsetup`.
    fn check(self) -> Result<()> {
        let is_valid = match self {
            Self::Argon2id {
                passes,
                memory_kib,
                lanes,
            } => passes >= 1 && (32..=4 << 20).contains(&memory_kib) && (1..=4).contains(&lanes),
            Self::Pbkdf2 { iterations } => iterations >= 1000,
        };
        if is_valid {
            return Ok(());
        }
        Err(Error::invalid(
            "invalid cost of key derivation: Argon2 needs 32 KiB to 4 GiB, a pass or more and 1 \
             to 4 lanes, PBKDF2 at least 1000 iterations",
        ))
    }

    fn with_salt(self, salt: Vec<u8>) -> Result<Kdf> {
        Ok(match self {
            Self::Argon2id {
                passes,
                memory_kib,
                lanes,
            } => Kdf::Argon2 {
                variant: Variant::Id,
                passes,
                memory_kib,
                lanes,
                salt,
            },
            Self::Pbkdf2 { iterations } => Kdf::Pbkdf2(Pbkdf2 {
                hash: sha256()?,
                iterations,
                salt,
            }),
        })
    }
}

fn sha256() -> Result<Hash> {
    Hash::parse(HASH).map_err(|problem| problem.to_error())
}

/// The parts of a new volume, before anything is written.
struct New {
    volume_key: VolumeKey,
    area: Zeroizing<Vec<u8>>,
    copies: [(u64, Vec<u8>); 2],
}

impl New {
    fn make(passphrase: &Secret, options: &FormatOptions, random: Random<'_>) -> Result<Self> {
        let problem = |problem: Problem| problem.to_error();
        let volume_key = match &options.volume_key {
            Some(key) => key.clone(),
            None => Secret::new(bytes(random, KEY_BYTES)?.to_vec()),
        };
        let anti_forensic = AntiForensic::new(KEY_BYTES, STRIPES, sha256()?).map_err(problem)?;
        let keyslot = Keyslot {
            kdf: options.kdf.with_salt(bytes(random, SALT_BYTES)?.to_vec())?,
            anti_forensic,
            area: Area {
                offset_bytes: AREA_OFFSET_BYTES,
                cipher: CipherSpec::parse(CIPHER).map_err(problem)?,
                key_bytes: KEY_BYTES,
            },
        };
        let stripes = bytes(random, anti_forensic.split_bytes())?;
        let digest = digest(&volume_key, bytes(random, SALT_BYTES)?.to_vec())?;
        let mut salts = [[0; 64]; 2];
        salts.iter_mut().try_for_each(|salt| random(salt))?;
        let header = NewHeader {
            uuid: &options.uuid,
            label: &options.label,
            salts,
            key_bytes: KEY_BYTES,
            sector_bytes: options.sector_bytes,
            kdf: &keyslot.kdf,
            digest: &digest,
        };
        let copies = header
            .copies()
            .ok_or_else(|| Error::invalid("the LUKS2 header is too large"))?;
        Ok(Self {
            area: keyslot.seal(volume_key.as_bytes(), passphrase.as_bytes(), stripes)?,
            volume_key: VolumeKey(volume_key),
            copies,
        })
    }
}

fn digest(volume_key: &Secret, salt: Vec<u8>) -> Result<Digest> {
    let hash = sha256()?;
    let pbkdf2 = Pbkdf2 {
        hash,
        iterations: DIGEST_ITERATIONS,
        salt,
    };
    let mut value = vec![0; hash.len_bytes()];
    hash.pbkdf2(
        volume_key.as_bytes(),
        &pbkdf2.salt,
        pbkdf2.iterations,
        &mut value,
    );
    Ok(Digest { pbkdf2, value })
}

fn bytes(random: Random<'_>, len: usize) -> Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; len]);
    random(&mut bytes)?;
    Ok(bytes)
}
