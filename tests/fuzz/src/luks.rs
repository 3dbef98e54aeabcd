//! LUKS volumes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use diskfs_block::{BlockRead, BlockWrite, Overlay, Result};
use diskfs_image::{Decrypt, Unlock};
use diskfs_luks::{
    FormatOptions, Header, Key, KeyslotGuard, Limits, Luks1Details, Luks1Keyslots, Luks1Options,
    NewKdf, NewKeyslot, Secret, Unlocked, VolumeKey,
};
use sha2::{Digest, Sha256};

use crate::Sparse;
use crate::random::Random;
use crate::volume::read_some;

/// The limits of unlocking, low enough to finish at once with any header.
const LIMITS: Limits = Limits {
    argon2_memory_bytes: 1 << 20,
    argon2_work_bytes: 4 << 20,
    pbkdf2_rounds: 8000,
};

/// The maximum size of the changes to a mutated image in memory: two headers.
const SEALED_BYTES: u64 = 4 << 20;

/// The maximum size of a header whose checksum is corrected.
const SEALED_HEADER_BYTES: u64 = 1 << 20;

/// The offsets of headers to seal: the first copy, the second copy of the seeds, and one more.
const COPIES: [u64; 3] = [0, 0x4000, 0x8000];

/// The volume key that the digest of [`seeds`] belongs to.
const KEY: [u8; 64] = {
    let mut key = [7; 64];
    key[32] = 9;
    key
};

/// Reads a header with corrected checksums, which mutations never hit, and unlocks it.
pub(crate) fn volume(device: &Arc<dyn BlockRead>) {
    let sealed = Arc::new(Overlay::in_memory(Arc::clone(device), SEALED_BYTES));
    for copy in COPIES {
        // Structures that are outside of the device or invalid cannot be sealed.
        let _ = seal(&*sealed, copy);
    }
    let disk: Arc<dyn BlockRead> = Arc::<Overlay>::clone(&sealed);
    let _ = Luks1Details::read(&*disk);
    let Ok(Some(header)) = Header::read(&*disk) else {
        return;
    };
    let _ = (header.problem(), header.is_detached(), header.sector_size());
    let _ = (header.uuid(), header.label(), header.cipher());
    let _ = header.keyslots().count();
    let keys = [
        Key::Passphrase(passphrase()),
        Key::Volume(Secret::new(KEY.to_vec())),
    ];
    for key in keys {
        if let Ok(key) = header.unlock(&*disk, &key, &LIMITS) {
            if let Ok(plain) = Unlocked::new(Arc::clone(&disk), &header, &key) {
                read_some(&plain);
            }
            change_keys(&*sealed, &key);
        }
    }
}

/// The passphrase of the seeds.
fn passphrase() -> Secret {
    Secret::new(b"secret".to_vec())
}

/// Adds a key to a LUKS1 header, and removes keys.
fn change_keys(device: &dyn BlockWrite, key: &VolumeKey) {
    let Ok(mut slots) = Luks1Keyslots::read(device) else {
        return;
    };
    let mut random = counting();
    let opened = slots.opened_by(&passphrase(), &LIMITS).unwrap_or_default();
    for (slot, guard) in [
        (None, KeyslotGuard::Careful),
        (Some(0), KeyslotGuard::Forced),
    ] {
        let new = NewKeyslot {
            passphrase: passphrase(),
            slot,
            time: Duration::ZERO,
        };
        let _ = slots.add(key, &new, guard, &mut random);
    }
    let _ = slots.remove(&opened, KeyslotGuard::Careful, &mut random);
    let active = slots.active();
    let _ = slots.check_removal(&active, 0, KeyslotGuard::Careful);
    let _ = slots.remove(&active, KeyslotGuard::Forced, &mut random);
}

/// Returns a source of bytes that are the same each time.
fn counting() -> impl FnMut(&mut [u8]) -> Result<()> {
    let mut random = Random::of_case(0, 0);
    move |bytes: &mut [u8]| {
        bytes.fill_with(|| u8::try_from(random.below(256)).unwrap_or(0));
        Ok(())
    }
}

/// Corrects the checksum of a LUKS2 header.
fn seal(device: &dyn BlockWrite, copy: u64) -> Result<()> {
    const CHECKSUM: std::ops::Range<usize> = 448..512;
    let mut start = [0; 512];
    device.read_at(copy, &mut start)?;
    let is_header = start.starts_with(b"LUKS\xba\xbe\0\x02") || start.starts_with(b"SKUL\xba\xbe");
    let len_bytes = u64::from_be_bytes(start[8..16].try_into().expect("eight bytes"));
    if !is_header || !(512..=SEALED_HEADER_BYTES).contains(&len_bytes) {
        return Ok(());
    }
    let mut header = vec![0; usize::try_from(len_bytes).unwrap_or(512)];
    device.read_at(copy, &mut header)?;
    header[CHECKSUM].fill(0);
    let mut sum = [0; 64];
    sum[..32].copy_from_slice(&Sha256::digest(&header));
    device.write_at(copy + CHECKSUM.start as u64, &sum)
}

/// Metadata with one key slot that no passphrase opens, and the digest of [`KEY`].
const METADATA: &str = r#"{
 "keyslots": {"0": {"type": "luks2", "key_size": 64,
  "af": {"type": "luks1", "stripes": 4000, "hash": "sha256"},
  "area": {"type": "raw", "offset": "32768", "size": "258048",
           "encryption": "aes-xts-plain64", "key_size": 64},
  "kdf": {"type": "argon2id", "time": 1, "memory": 32, "cpus": 1, "salt": "c2FsdHNhbHQ="}}},
 "tokens": {},
 "segments": {"0": {"type": "crypt", "offset": "294912", "size": "dynamic", "iv_tweak": "0",
  "encryption": "aes-xts-plain64", "sector_size": 4096}},
 "digests": {"0": {"type": "pbkdf2", "keyslots": ["0"], "segments": ["0"], "hash": "sha256",
  "iterations": 1, "salt": "c2FsdHNhbHQ=",
  "digest": "nPE1A0sKUwwVQ7H0M6XI8X7R0ssbe/LcDdQs61FB4bk="}},
 "config": {"json_size": "12288", "keyslots_size": "262144"}
}"#;

/// The UUID of the volumes that are made.
const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";

/// Returns a volume of each version, one without the first copy of the header, and some that a
/// passphrase opens.
pub(crate) fn seeds() -> Vec<(&'static str, Sparse)> {
    let mut lost = luks2();
    lost.write(0, &[0; 8]);
    vec![
        ("luks1", luks1()),
        ("luks2", luks2()),
        ("luks2, lost", lost),
        ("luks2, made", luks2_made()),
        (
            "luks1, cbc",
            luks1_made("aes", "cbc-essiv:sha256", "sha1", 16),
        ),
        (
            "luks1, aes-192",
            luks1_made("aes", "cbc-plain64", "sha256", 24),
        ),
        (
            "luks1, serpent",
            luks1_made("serpent", "xts-plain64", "sha512", 64),
        ),
        (
            "luks1, twofish",
            luks1_made("twofish", "cbc-essiv:sha256", "sha256", 32),
        ),
        (
            "luks1, plain",
            luks1_made("aes", "xts-plain", "ripemd160", 32),
        ),
    ]
}

/// Returns a LUKS1 volume of some sectors.
fn luks1_made(cipher: &str, mode: &str, hash: &str, key_bytes: usize) -> Sparse {
    let options = Luks1Options {
        cipher: cipher.to_owned(),
        mode: mode.to_owned(),
        hash: hash.to_owned(),
        key_bytes,
        uuid: UUID.to_owned(),
        ..Luks1Options::default()
    };
    let luks1 = options.create(&passphrase(), &mut counting());
    let bytes = luks1.expect("the options are valid").bytes;
    let mut disk = Sparse::zeroes(bytes.len() as u64 + (64 << 10));
    disk.write(0, &bytes);
    disk
}

/// Returns a LUKS2 volume of some sectors.
fn luks2_made() -> Sparse {
    const DATA_OFFSET_BYTES: u64 = 16 << 20;
    let empty = Arc::new(Sparse::zeroes(DATA_OFFSET_BYTES + (1 << 20)));
    let device = Overlay::in_memory(empty, 32 << 20);
    let options = FormatOptions {
        uuid: UUID.to_owned(),
        kdf: NewKdf::Pbkdf2 { iterations: 1000 },
        ..FormatOptions::default()
    };
    diskfs_luks::format(&device, &passphrase(), &options, &mut counting())
        .expect("the options are valid");
    Sparse::of(&device).expect("the device is in memory")
}

/// An unlocker of encrypted images that uses no cipher: encrypted data is read as it is. Headers
/// are parsed, and unlocking is tried.
#[derive(Debug)]
pub(crate) struct NoCipher;

impl Unlock for NoCipher {
    fn unlock(&self, _path: &Path, header: &dyn BlockRead) -> Result<Option<Arc<dyn Decrypt>>> {
        if let Ok(Some(parsed)) = Header::read(header) {
            let _ = parsed.unlock(header, &Key::passphrase(b"secret"), &LIMITS);
        }
        Ok(Some(Arc::new(Self)))
    }
}

impl Decrypt for NoCipher {
    fn reader(&self, file: Arc<dyn BlockRead>) -> Result<Arc<dyn BlockRead>> {
        Ok(file)
    }

    fn writer(&self, file: Arc<dyn BlockWrite>) -> Result<Arc<dyn BlockWrite>> {
        Ok(file)
    }
}

fn luks1() -> Sparse {
    let mut disk = Sparse::zeroes(1 << 20);
    disk.write(0, b"LUKS\xba\xbe\0\x01aes");
    disk.write(40, b"xts-plain64");
    disk.write(72, b"sha256");
    // The first sector of the data, the key length, and the iterations of the digest.
    disk.write(104, &1024_u32.to_be_bytes());
    disk.write(108, &64_u32.to_be_bytes());
    disk.write(164, &1_u32.to_be_bytes());
    // Key slot 0: active, its iterations, its first sector, its stripes.
    disk.write(208, &0x00ac_71f3_u32.to_be_bytes());
    disk.write(212, &1_u32.to_be_bytes());
    disk.write(248, &8_u32.to_be_bytes());
    disk.write(252, &4000_u32.to_be_bytes());
    disk
}

/// Builds both copies of a LUKS2 header. [`seal`] sets the checksums.
fn luks2() -> Sparse {
    const COPY_BYTES: u64 = 0x4000;
    let mut disk = Sparse::zeroes(1 << 20);
    for (copy, magic) in [
        (0, b"LUKS\xba\xbe\0\x02"),
        (COPY_BYTES, b"SKUL\xba\xbe\0\x02"),
    ] {
        disk.write(copy, magic);
        disk.write(copy + 8, &COPY_BYTES.to_be_bytes());
        disk.write(copy + 72, b"sha256");
        disk.write(copy + 256, &copy.to_be_bytes());
        disk.write(copy + 4096, METADATA.as_bytes());
    }
    disk
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The passphrase opens the volumes that are made, and only those.
    #[test]
    fn the_passphrase_opens_what_was_made() {
        for (name, image) in seeds() {
            let device: Arc<dyn BlockRead> = Arc::new(image);
            let sealed = Overlay::in_memory(device, SEALED_BYTES);
            for copy in COPIES {
                let _ = seal(&sealed, copy);
            }
            let header = Header::read(&sealed).unwrap().unwrap();
            let opened = header.unlock(&sealed, &Key::Passphrase(passphrase()), &LIMITS);
            let is_made = !["luks1", "luks2", "luks2, lost"].contains(&name);
            assert_eq!(opened.is_ok(), is_made, "{name}: {opened:?}");
        }
    }

    /// Otherwise the target would never get past the digest.
    #[test]
    fn the_seed_is_unlocked() {
        let device: Arc<dyn BlockRead> = Arc::new(luks2());
        let sealed = Arc::new(Overlay::in_memory(device, SEALED_BYTES));
        for copy in COPIES {
            seal(&*sealed, copy).unwrap();
        }
        let header = Header::read(&*sealed).unwrap().unwrap();
        let key = Key::Volume(Secret::new(KEY.to_vec()));
        let key = header.unlock(&*sealed, &key, &LIMITS).unwrap();
        let plain = Unlocked::new(sealed, &header, &key).unwrap();
        assert_eq!(plain.size_bytes(), (1 << 20) - 294_912);
    }
}
