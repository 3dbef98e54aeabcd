//! Comparison with `cryptsetup`: its headers open, its encrypted data is read correctly, and vice
//! versa.

#![allow(
    clippy::cast_possible_truncation,
    reason = "small numbers that the tests made themselves"
)]

mod tools;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, ErrorKind, File, Memory};
use diskfs_fixtures::{pattern, require, run};
use diskfs_luks::{Header, Key, Limits, Priority, Secret, Unlocked, Version};
use tools::{
    FAST, PASSPHRASE, cryptsetup, format, memory, path_text, read, try_encrypted, unlock,
    unlock_with, writable,
};

fn wrong() -> Key {
    Key::passphrase(b"wrong")
}

fn open_error(device: &dyn BlockRead, key: &Key) -> diskfs_block::Error {
    let header = Header::read(device).unwrap().unwrap();
    let limits = Limits::default();
    header.unlock(device, key, &limits).unwrap_err()
}

/// A kind of volume.
#[derive(Debug)]
struct Variant {
    version: Version,
    cipher: &'static str,
    key_bits: &'static str,
    hash: &'static str,
    sector_bytes: u32,
    kdf: &'static str,
    /// The options for the cost of the key derivation.
    cost: &'static [&'static str],
}

const ROUNDS: &[&str] = &["--pbkdf-force-iterations", "1000"];
const ONE_LANE: &[&str] = &[
    "--pbkdf-force-iterations",
    "4",
    "--pbkdf-memory",
    "4096",
    "--pbkdf-parallel",
    "1",
];
const FOUR_LANES: &[&str] = &[
    "--pbkdf-force-iterations",
    "4",
    "--pbkdf-memory",
    "4096",
    "--pbkdf-parallel",
    "4",
];

const fn luks1(cipher: &'static str, key_bits: &'static str, hash: &'static str) -> Variant {
    let variant = luks2(cipher, key_bits, hash, 512, ("pbkdf2", ROUNDS));
    Variant {
        version: Version::Luks1,
        ..variant
    }
}

const fn luks2(
    cipher: &'static str,
    key_bits: &'static str,
    hash: &'static str,
    sector_bytes: u32,
    (kdf, cost): (&'static str, &'static [&'static str]),
) -> Variant {
    Variant {
        version: Version::Luks2,
        cipher,
        key_bits,
        hash,
        sector_bytes,
        kdf,
        cost,
    }
}

/// The variants to test: every version, cipher, mode, key length, hash, sector size and key
/// derivation that both tools support. Few kernels have Serpent and Twofish, and without them
/// cryptsetup has neither; QEMU always has them.
const VARIANTS: &[Variant] = &[
    luks1("aes-xts-plain64", "256", "sha256"),
    luks1("aes-xts-plain64", "512", "sha512"),
    luks1("aes-xts-plain", "512", "sha1"),
    luks1("aes-cbc-essiv:sha256", "128", "sha1"),
    luks1("aes-cbc-essiv:sha256", "192", "sha256"),
    luks1("aes-cbc-essiv:sha256", "256", "ripemd160"),
    luks1("aes-cbc-plain64", "256", "whirlpool"),
    luks1("aes-cbc-plain", "128", "sha256"),
    luks1("serpent-xts-plain64", "512", "sha256"),
    luks1("serpent-cbc-essiv:sha256", "256", "sha256"),
    luks1("twofish-xts-plain64", "256", "sha256"),
    luks1("twofish-cbc-plain64", "128", "sha256"),
    luks2("aes-xts-plain64", "512", "sha256", 512, ("pbkdf2", ROUNDS)),
    luks2("aes-xts-plain64", "512", "sha512", 1024, ("pbkdf2", ROUNDS)),
    luks2("aes-xts-plain64", "256", "sha1", 2048, ("pbkdf2", ROUNDS)),
    luks2("aes-xts-plain64", "512", "sha256", 4096, ("pbkdf2", ROUNDS)),
    luks2("aes-xts-plain", "512", "sha256", 4096, ("pbkdf2", ROUNDS)),
    luks2(
        "aes-cbc-essiv:sha256",
        "256",
        "sha256",
        512,
        ("pbkdf2", ROUNDS),
    ),
    luks2(
        "aes-cbc-essiv:sha256",
        "128",
        "sha256",
        4096,
        ("pbkdf2", ROUNDS),
    ),
    luks2("aes-cbc-plain64", "256", "sha256", 4096, ("pbkdf2", ROUNDS)),
    luks2(
        "serpent-xts-plain64",
        "512",
        "sha256",
        4096,
        ("pbkdf2", ROUNDS),
    ),
    luks2(
        "twofish-xts-plain64",
        "512",
        "sha256",
        4096,
        ("pbkdf2", ROUNDS),
    ),
    luks2(
        "aes-xts-plain64",
        "512",
        "sha256",
        512,
        ("argon2i", FOUR_LANES),
    ),
    luks2(
        "aes-xts-plain64",
        "512",
        "sha256",
        512,
        ("argon2id", ONE_LANE),
    ),
    luks2(
        "aes-xts-plain64",
        "512",
        "sha512",
        4096,
        ("argon2id", FOUR_LANES),
    ),
];

/// The number of variants that every kernel and every cryptsetup's library supports.
const EVERYWHERE: usize = 17;

impl Variant {
    /// Has `cryptsetup` encrypt `plain`, without device-mapper; returns `None` if it lacks the
    /// cipher or the hash.
    fn encrypt(&self, dir: &Path, plain: &[u8]) -> Option<PathBuf> {
        let sector_bytes = self.sector_bytes.to_string();
        let cipher = ["--cipher", self.cipher, "--key-size", self.key_bits];
        let sectors = ["--hash", self.hash, "--sector-size", &sector_bytes];
        let kdf = ["--pbkdf", self.kdf];
        let args = [&cipher[..], &sectors, &kdf, self.cost].concat();
        let path = try_encrypted(dir, plain, &args).ok()?;
        if self.version == Version::Luks1 {
            // The data is not encrypted again: only the header is converted.
            cryptsetup(dir, &["convert", "--type", "luks1", path_text(&path)]);
        }
        Some(path)
    }

    /// Compares the data of the volume with `plain`.
    ///
    /// # Panics
    /// If they differ.
    fn check(&self, path: &Path, plain: &[u8]) {
        let device = memory(path);
        let header = Header::read(&*device).unwrap().unwrap();
        let told = (header.version(), header.cipher(), header.sector_size());
        let expected = (self.version, self.cipher, Some(self.sector_bytes));
        assert_eq!(told, expected, "{self:?}");
        let kdfs: Vec<_> = header.keyslots().map(|slot| slot.kdf).collect();
        assert_eq!(kdfs, [self.kdf], "{self:?}");
        assert!(header.warnings().is_empty());
        let uuid = run("cryptsetup", ["luksUUID", path_text(path)]).unwrap();
        assert_eq!(header.uuid(), uuid.trim());

        let volume = unlock(&device);
        assert!(read(&volume, 0, plain.len()) == plain, "{self:?}");
        assert_eq!(read(&volume, 5001, 9000), plain[5001..14_001]);
        assert_eq!(read(&volume, 4095, 2), plain[4095..4097]);
        volume.write_at(300, b"written").unwrap();
        assert_eq!(read(&unlock(&device), 299, 9)[1..8], *b"written");
        let error = open_error(&*device, &wrong());
        assert_eq!(error.kind(), ErrorKind::Denied, "{self:?}");
    }
}

#[test]
fn every_variant_holds_what_was_encrypted() {
    if require("cryptsetup").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let plain = pattern("luks", 1 << 20);
    let mut known = 0;
    for variant in VARIANTS {
        let Some(path) = variant.encrypt(dir.path(), &plain) else {
            continue;
        };
        known += 1;
        variant.check(&path, &plain);
    }
    assert!(
        known >= EVERYWHERE,
        "cryptsetup supports only {known} variants"
    );
}

/// `cryptsetup` decrypts what we write: with its header in a file, it decrypts the data in place.
#[test]
fn cryptsetup_decrypts_what_is_written() {
    if require("cryptsetup").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut plain = pattern("before", 2 << 20);
    for sector in ["512", "4096"] {
        let header = dir.path().join(format!("header-{sector}"));
        let path = dir.path().join("data.img");
        std::fs::write(&path, &plain).unwrap();
        let detached = ["--header", path_text(&header)];
        let encrypt = [
            "reencrypt",
            "--encrypt",
            "--type",
            "luks2",
            "--sector-size",
            sector,
        ];
        let encrypt = [&encrypt[..], &FAST, &detached, &[path_text(&path)]].concat();
        cryptsetup(dir.path(), &encrypt);

        let head = File::open(&header).unwrap();
        let found = Header::read(&head).unwrap().unwrap();
        assert!(found.is_detached());
        let passphrase = Key::passphrase(PASSPHRASE);
        let key = found
            .unlock(&head, &passphrase, &Limits::default())
            .unwrap();
        let volume = Unlocked::new(writable(&path), &found, &key).unwrap();
        assert!(read(&volume, 0, plain.len()) == plain);
        for (offset, len) in [
            (0, 4096),
            (5000, 10),
            (9999, 20_001),
            (512 * 77, 512),
            (1 << 20, 700_000),
        ] {
            let new = pattern(&format!("{offset}"), len);
            volume.write_at(offset as u64, &new).unwrap();
            plain[offset..offset + len].copy_from_slice(&new);
        }
        volume.write_zeroes(4000, 5000).unwrap();
        plain[4000..9000].fill(0);
        volume.flush().unwrap();
        drop(volume);

        let decrypt = ["reencrypt", "--decrypt", "--force-offline-reencrypt"];
        cryptsetup(
            dir.path(),
            &[&decrypt[..], &detached, &[path_text(&path)]].concat(),
        );
        assert!(std::fs::read(&path).unwrap() == plain, "sector {sector}");
    }
}

#[test]
fn the_volume_key_itself() {
    if require("cryptsetup").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for version in ["luks1", "luks2"] {
        let path = format(dir.path(), 17, &[&["--type", version], &FAST[..]].concat());
        let key_path = dir.path().join(version);
        let dump = [
            "luksDump",
            "--dump-volume-key",
            "--volume-key-file",
            path_text(&key_path),
        ];
        cryptsetup(dir.path(), &[&dump[..], &[path_text(&path)]].concat());
        let bytes = std::fs::read(&key_path).unwrap();
        let device = memory(&path);
        let by_key = unlock_with(&device, &Key::Volume(Secret::new(bytes.clone())));
        by_key.write_at(12_345, b"written").unwrap();
        assert_eq!(read(&unlock(&device), 12_345, 7), b"written");
        for wrong in [vec![0; bytes.len()], bytes[1..].to_vec(), Vec::new()] {
            let e = open_error(&*device, &Key::Volume(Secret::new(wrong)));
            assert_eq!(e.kind(), ErrorKind::Denied);
        }
    }
}

#[test]
fn several_key_slots_and_their_priorities() {
    if require("cryptsetup").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = format(dir.path(), 17, &[&["--type", "luks2"], &FAST[..]].concat());
    let volume = path_text(&path);
    for name in ["second", "third"] {
        let new = dir.path().join(name);
        std::fs::write(&new, name).unwrap();
        cryptsetup(
            dir.path(),
            &[&["luksAddKey"], &FAST[..], &[volume, path_text(&new)]].concat(),
        );
    }
    let priority = |slot, priority| {
        let args = ["config", "--priority", priority, "--key-slot", slot, volume];
        run("cryptsetup", args).unwrap();
    };
    priority("1", "ignore");
    priority("2", "prefer");
    let device = memory(&path);
    let header = Header::read(&*device).unwrap().unwrap();
    let priorities: Vec<_> = header.keyslots().map(|slot| slot.priority).collect();
    assert_eq!(
        priorities,
        [Priority::Normal, Priority::Ignored, Priority::High]
    );
    unlock(&device);
    unlock_with(&device, &Key::passphrase(b"third"));
    let e = open_error(&*device, &Key::passphrase(b"second"));
    assert_eq!(e.kind(), ErrorKind::Denied);
}

#[test]
fn either_copy_of_a_header_is_enough() {
    if require("cryptsetup").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for metadata in ["16k", "64k", "1m"] {
        let args = [
            &["--type", "luks2", "--luks2-metadata-size", metadata],
            &FAST[..],
        ]
        .concat();
        let good = std::fs::read(format(dir.path(), 20, &args)).unwrap();
        let size = u64::from_be_bytes(good[8..16].try_into().unwrap()) as usize;
        for (broken, words) in [
            (0, "first copy is missing"),
            (100, "first copy has a wrong checksum"),
            (4100, "first copy has a wrong checksum"),
            (8, "first copy gives its size"),
            (size, "second copy is missing"),
            (size + 5000, "second copy has a wrong checksum"),
        ] {
            let mut bytes = good.clone();
            bytes[broken] ^= 0x55;
            let device = Arc::new(Memory::new(bytes));
            let header = Header::read(&*device).unwrap().unwrap();
            let warnings = header.warnings();
            assert_eq!(warnings.len(), 1, "{broken}: {warnings:?}");
            assert!(warnings[0].contains(words), "{words:?} not in {warnings:?}");
            unlock(&device);
        }
        let mut bytes = good.clone();
        bytes[100] ^= 1;
        bytes[size + 100] ^= 1;
        let e = Header::read(&Memory::new(bytes)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt);
    }
}

/// The newer copy is used, whichever it is.
#[test]
fn the_newest_copy_counts() {
    if require("cryptsetup").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = format(dir.path(), 17, &[&["--type", "luks2"], &FAST[..]].concat());
    let old = std::fs::read(&path).unwrap();
    run(
        "cryptsetup",
        ["config", "--label", "newer", path_text(&path)],
    )
    .unwrap();
    let new = std::fs::read(&path).unwrap();
    let size = u64::from_be_bytes(old[8..16].try_into().unwrap()) as usize;
    for (primary, secondary, words) in [
        (&old, &new, "first copy is older"),
        (&new, &old, "second copy is older"),
    ] {
        let mut bytes = new.clone();
        bytes[..size].copy_from_slice(&primary[..size]);
        bytes[size..2 * size].copy_from_slice(&secondary[size..2 * size]);
        let header = Header::read(&Memory::new(bytes)).unwrap().unwrap();
        assert_eq!(header.label(), "newer");
        assert!(
            header.warnings()[0].contains(words),
            "{:?}",
            header.warnings()
        );
    }
}

/// An interrupted reencryption is refused with its reason, before anything is decrypted.
#[test]
fn an_unfinished_reencryption_is_refused() {
    if require("cryptsetup").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = format(dir.path(), 40, &[&["--type", "luks2"], &FAST[..]].concat());
    let args = ["reencrypt", "--init-only", "--type", "luks2"];
    cryptsetup(
        dir.path(),
        &[&args[..], &FAST, &[path_text(&path)]].concat(),
    );
    let device = memory(&path);
    let e = open_error(&*device, &Key::passphrase(PASSPHRASE));
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("reencryption"), "{e}");
}
