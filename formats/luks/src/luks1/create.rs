//! The creation of LUKS1 headers, which QEMU reads in files and in qcow2 images.

use std::time::{Duration, Instant};

use diskfs_block::{Error, ErrorKind, Result};
use zeroize::Zeroizing;

use super::SECTOR_BYTES;
use super::keyblock::RawKeyblock;
use super::phdr::{NewPhdr, from_bytes};
use crate::af::AntiForensic;
use crate::cipher_spec::CipherSpec;
use crate::digest::Digest;
use crate::format::Random;
use crate::hash::Hash;
use crate::header::Header;
use crate::kdf::{Kdf, Pbkdf2};
use crate::key::{Secret, VolumeKey};
use crate::keyslot::{Area, Keyslot};
use crate::problem::Problem;

/// The number of stripes of a key (`LUKS_STRIPES`).
pub(super) const STRIPES: u32 = 4000;

/// The alignment of the key slots' areas and of the data, as in QEMU and `cryptsetup`
/// (`LUKS_ALIGN_KEYSLOTS`).
const ALIGN_BYTES: u64 = 4096;

/// The smallest number of rounds for a key slot and for the digest, as in QEMU and `cryptsetup`.
const ITERATIONS_MIN: u32 = 1000;

/// The largest number of PBKDF2 rounds for one key slot: eight of them are within the default
/// limits for unlocking.
const ROUNDS_MAX: u32 = 1 << 25;

/// The part of the time of a key slot that the digest takes, as in QEMU.
const DIGEST_PART: u32 = 8;

/// The time that one measurement takes at least.
const MEASURED: Duration = Duration::from_millis(10);

/// The number of measurements, the fastest of which counts: other processes may use the processor.
const MEASUREMENTS: usize = 3;

/// The options of a new LUKS1 header. Use `..Default::default()` for the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Luks1Options {
    /// The name of the cipher: `aes`, `serpent` or `twofish`.
    pub cipher: String,
    /// The mode with its vectors: `xts-plain64`, `cbc-essiv:sha256`.
    pub mode: String,
    /// The hash function of the key derivation: `sha256`.
    pub hash: String,
    /// The length of the volume key: the key length of the cipher, twice that with XTS.
    pub key_bytes: usize,
    /// The rounds of PBKDF2 for the key slot: at least 1000.
    pub iterations: u32,
    /// The rounds of PBKDF2 for the digest of the volume key: at least 1000.
    pub digest_iterations: u32,
    /// The UUID, in its text form.
    pub uuid: String,
}

/// A new LUKS1 header with its first key slot.
#[derive(Debug)]
pub struct NewLuks1 {
    /// The bytes of the header and of all key slots, up to the data.
    pub bytes: Vec<u8>,
    /// The parsed header, which [`Unlocked`](crate::Unlocked) takes.
    pub header: Header,
    /// The volume key.
    pub volume_key: VolumeKey,
}

impl Default for Luks1Options {
    /// Returns the options of QEMU's default cipher, with the smallest costs and without a UUID.
    fn default() -> Self {
        Self {
            cipher: "aes".to_owned(),
            mode: "xts-plain64".to_owned(),
            hash: "sha256".to_owned(),
            key_bytes: 64,
            iterations: ITERATIONS_MIN,
            digest_iterations: ITERATIONS_MIN,
            uuid: String::new(),
        }
    }
}

impl Luks1Options {
    /// Sets the costs so that trying a passphrase takes about `time` on this machine, and an eighth
    /// of that for the digest. The costs are never below 1000 rounds, and have an upper bound that
    /// keeps eight key slots within the default [`Limits`](crate::Limits).
    ///
    /// # Errors
    /// `Unsupported` for an unknown hash.
    pub fn timed(mut self, time: Duration) -> Result<Self> {
        let hash = Hash::parse(&self.hash).map_err(|problem| problem.to_error())?;
        self.iterations = timed_iterations(time, hash, self.key_bytes);
        let max = iterations_max(self.key_bytes, hash);
        let digest = iterations_in(time, hash, DIGEST_BYTES, max);
        self.digest_iterations = (digest / DIGEST_PART).clamp(ITERATIONS_MIN, max);
        Ok(self)
    }

    /// Creates a header with one key slot, which `passphrase` opens, as QEMU does.
    ///
    /// `random` must return unpredictable bytes: the volume key comes from it.
    ///
    /// # Errors
    /// `Unsupported` for an unknown cipher, mode or hash; `Invalid` for other options that are out
    /// of range, and an empty passphrase; the errors of `random`.
    pub fn create(&self, passphrase: &Secret, random: Random<'_>) -> Result<NewLuks1> {
        let (cipher, hash) = self.check()?;
        if passphrase.as_bytes().is_empty() {
            return Err(Error::invalid("the passphrase is empty"));
        }
        let volume_key = Secret::new(random_bytes(random, self.key_bytes)?.to_vec());
        let digest = self.digest(&volume_key, hash, random)?;
        let anti_forensic = AntiForensic::new(self.key_bytes, STRIPES, hash);
        let anti_forensic = anti_forensic.map_err(|problem: Problem| problem.to_error())?;
        let mut salt = [0; SALT_BYTES];
        random(&mut salt)?;
        let keyslot = Keyslot {
            kdf: Kdf::Pbkdf2(Pbkdf2 {
                hash,
                iterations: self.iterations,
                salt: salt.to_vec(),
            }),
            anti_forensic,
            area: Area {
                offset_bytes: ALIGN_BYTES,
                cipher,
                key_bytes: self.key_bytes,
            },
        };
        let stripes = random_bytes(random, anti_forensic.split_bytes())?;
        let area = keyslot.seal(volume_key.as_bytes(), passphrase.as_bytes(), stripes)?;
        let slot_bytes = diskfs_block::len_of(&area).next_multiple_of(ALIGN_BYTES);
        let slot_at = |id: u64| slot_bytes.saturating_mul(id).saturating_add(ALIGN_BYTES);
        let mut keyblocks = [0, 1, 2, 3, 4, 5, 6, 7].map(|id| RawKeyblock::unused(slot_at(id)));
        if let Some(first) = keyblocks.first_mut() {
            first.enable(self.iterations, salt);
        }
        let new = NewPhdr {
            cipher: &self.cipher,
            mode: &self.mode,
            hash: &self.hash,
            payload_offset_bytes: slot_at(8),
            key_bytes: self.key_bytes,
            digest: &digest,
            uuid: &self.uuid,
            keyblocks,
        };
        let start = new.bytes().ok_or_else(invalid)?;
        let bytes = assembled(start, &area, slot_at(8))?;
        Ok(NewLuks1 {
            header: from_bytes(&bytes)?,
            bytes,
            volume_key: VolumeKey(volume_key),
        })
    }

    fn check(&self) -> Result<(CipherSpec, Hash)> {
        let problem = |problem: Problem| problem.to_error();
        let cipher = CipherSpec::parse(&format!("{}-{}", self.cipher, self.mode));
        let cipher = cipher.map_err(problem)?;
        let hash = Hash::parse(&self.hash).map_err(problem)?;
        let key_bytes = u64::try_from(self.key_bytes).unwrap_or(u64::MAX);
        cipher
            .check_key_bytes(key_bytes)
            .and_then(|_| cipher.with_key(&Zeroizing::new(vec![0; self.key_bytes])))
            .map_err(|problem| Error::invalid(problem.to_string()))?;
        let allowed = ITERATIONS_MIN..=iterations_max(self.key_bytes, hash);
        if !allowed.contains(&self.iterations) || !allowed.contains(&self.digest_iterations) {
            let max = allowed.end();
            let reason = format!("invalid iterations of PBKDF2: expected 1000 to {max}");
            return Err(Error::invalid(reason));
        }
        if self.uuid.is_empty() {
            return Err(invalid());
        }
        Ok((cipher, hash))
    }

    fn digest(&self, volume_key: &Secret, hash: Hash, random: Random<'_>) -> Result<Digest> {
        let mut salt = vec![0; SALT_BYTES];
        random(&mut salt)?;
        let mut value = vec![0; DIGEST_BYTES];
        let iterations = self.digest_iterations;
        hash.pbkdf2(volume_key.as_bytes(), &salt, iterations, &mut value);
        Ok(Digest {
            pbkdf2: Pbkdf2 {
                hash,
                iterations,
                salt,
            },
            value,
        })
    }
}

/// The length of the digest (`LUKS_DIGESTSIZE`).
const DIGEST_BYTES: usize = 20;

/// The length of the salts (`LUKS_SALTSIZE`).
pub(super) const SALT_BYTES: usize = 32;

fn invalid() -> Error {
    let reason = "invalid UUID or cipher of a LUKS volume: at most 39 and 31 bytes";
    Error::invalid(reason)
}

/// Returns the iterations for a key slot that takes about `time` to try on this machine, within the
/// limits of a slot.
pub(super) fn timed_iterations(time: Duration, hash: Hash, key_bytes: usize) -> u32 {
    let max = iterations_max(key_bytes, hash);
    iterations_in(time, hash, key_bytes, max).clamp(ITERATIONS_MIN, max)
}

/// Returns the largest number of iterations for a key of this length.
fn iterations_max(key_bytes: usize, hash: Hash) -> u32 {
    let pieces = key_bytes.div_ceil(hash.len_bytes().max(1)).max(1);
    let pieces = u32::try_from(pieces).unwrap_or(u32::MAX);
    ROUNDS_MAX.checked_div(pieces).unwrap_or(ITERATIONS_MIN)
}

/// Returns the number of iterations that this machine does in `time`.
fn iterations_in(time: Duration, hash: Hash, key_bytes: usize, max: u32) -> u32 {
    let mut key = Zeroizing::new(vec![0; key_bytes]);
    let mut took = |iterations| {
        let started = Instant::now();
        hash.pbkdf2(b"passphrase", &[7; SALT_BYTES], iterations, &mut key);
        started.elapsed()
    };
    let mut iterations = ITERATIONS_MIN;
    while iterations < max && took(iterations) < MEASURED {
        iterations = iterations.saturating_mul(2);
    }
    let fastest = (0..MEASUREMENTS).map(|_| took(iterations)).min();
    let fastest = fastest.unwrap_or(MEASURED).as_nanos().max(1);
    let scaled = u128::from(iterations).saturating_mul(time.as_nanos());
    let scaled = scaled.checked_div(fastest).unwrap_or(0);
    u32::try_from(scaled).unwrap_or(u32::MAX)
}

/// Returns the header with its first key slot, of the length up to the data.
fn assembled(mut start: Vec<u8>, area: &[u8], len_bytes: u64) -> Result<Vec<u8>> {
    let len = |bytes: u64| {
        usize::try_from(bytes).map_err(|_| Error::new(ErrorKind::NoSpace, "header too large"))
    };
    start.resize(len(ALIGN_BYTES)?, 0);
    start.extend_from_slice(area);
    start.resize(len(len_bytes)?, 0);
    debug_assert!(len_bytes.is_multiple_of(SECTOR_BYTES));
    Ok(start)
}

pub(super) fn random_bytes(random: Random<'_>, len: usize) -> Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; len]);
    random(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Limits};

    fn counting() -> impl FnMut(&mut [u8]) -> Result<()> {
        let mut next = 0_u8;
        move |buf: &mut [u8]| {
            for byte in buf {
                next = next.wrapping_mul(5).wrapping_add(7);
                *byte = next;
            }
            Ok(())
        }
    }

    fn options() -> Luks1Options {
        Luks1Options {
            uuid: "1ddd9b30-40c4-4b6a-8aed-009712ee14a6".to_owned(),
            ..Luks1Options::default()
        }
    }

    #[test]
    fn the_passphrase_opens_a_new_header() {
        let passphrase = Secret::new(b"correct horse".to_vec());
        let new = options().create(&passphrase, &mut counting()).unwrap();
        assert_eq!(new.bytes.len(), 2_068_480);
        let device = diskfs_block::Memory::new(new.bytes.clone());
        let header = Header::read(&device).unwrap().unwrap();
        let unlock = |text: &[u8]| {
            let key = Key::passphrase(text);
            header.unlock(&device, &key, &Limits::default())
        };
        assert_eq!(unlock(b"correct horse").unwrap(), new.volume_key);
        assert_eq!(unlock(b"horse").unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!(header.uuid(), options().uuid);
    }

    #[test]
    fn wrong_options_are_refused() {
        let refused = |change: &dyn Fn(&mut Luks1Options), kind| {
            let mut options = options();
            change(&mut options);
            let passphrase = Secret::new(b"x".to_vec());
            let error = options.create(&passphrase, &mut counting()).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        };
        refused(&|it| it.iterations = 999, ErrorKind::Invalid);
        refused(&|it| it.iterations = 1 << 25, ErrorKind::Invalid);
        refused(&|it| it.digest_iterations = 0, ErrorKind::Invalid);
        refused(&|it| it.key_bytes = 40, ErrorKind::Invalid);
        refused(&|it| it.uuid.clear(), ErrorKind::Invalid);
        refused(&|it| it.uuid = "x".repeat(40), ErrorKind::Invalid);
        refused(&|it| it.cipher = "rot13".to_owned(), ErrorKind::Unsupported);
        refused(&|it| it.hash = "md5".to_owned(), ErrorKind::Unsupported);
        let empty = options().create(&Secret::new(Vec::new()), &mut counting());
        assert_eq!(empty.unwrap_err().kind(), ErrorKind::Invalid);
    }

    #[test]
    fn costs_have_bounds() {
        let long = options().timed(Duration::from_hours(100)).unwrap();
        assert_eq!(long.iterations, 1 << 24);
        let short = options().timed(Duration::ZERO).unwrap();
        assert_eq!((short.iterations, short.digest_iterations), (1000, 1000));
    }
}
