//! Against `cryptsetup`: headers that it writes open, and data that it encrypts is read, and the
//! other way round.

#![allow(
    clippy::cast_possible_truncation,
    reason = "small numbers that the tests made themselves"
)]

mod tools;

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, ErrorKind, File, Memory};
use diskfs_fixtures::{pattern, require, run};
use diskfs_luks::{Header, Key, Limits, Priority, Secret, Unlocked, Version};
use tools::{
    FAST, PASSPHRASE, cryptsetup, encrypted, format, key_file, memory, path_text, read, unlock,
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

/// Every cipher, mode and hash that both know: the key slot opens only if the cipher, its vectors and
/// the splitter are right, for its area is encrypted as the data is.
#[test]
fn luks1_of_every_cipher() {
    if require("cryptsetup").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let ciphers = [
        ("aes-xts-plain64", "256", "sha256"),
        ("aes-xts-plain64", "512", "sha512"),
        ("aes-xts-plain", "512", "sha1"),
        ("aes-cbc-essiv:sha256", "128", "sha1"),
        ("aes-cbc-essiv:sha256", "192", "sha256"),
        ("aes-cbc-essiv:sha256", "256", "ripemd160"),
        ("aes-cbc-plain64", "256", "whirlpool"),
        ("aes-cbc-plain", "128", "sha256"),
        ("serpent-xts-plain64", "512", "sha256"),
        ("serpent-cbc-essiv:sha256", "256", "sha256"),
        ("twofish-xts-plain64", "256", "sha256"),
        ("twofish-cbc-plain64", "128", "sha256"),
    ];
    let mut known = 0;
    for (cipher, bits, hash) in ciphers {
        let args = [
            "--type",
            "luks1",
            "--cipher",
            cipher,
            "--key-size",
            bits,
            "--hash",
            hash,
        ];
        let args = [&args[..], &FAST].concat();
        let Some(path) = try_format(dir.path(), &args) else {
            continue; // The kernel or the library below cryptsetup lacks it.
        };
        known += 1;
        let device = memory(&path);
        let header = Header::read(&*device).unwrap().unwrap();
        assert_eq!(
            (header.version(), header.cipher()),
            (Version::Luks1, cipher)
        );
        let uuid = run("cryptsetup", ["luksUUID", path_text(&path)]).unwrap();
        assert_eq!(header.uuid(), uuid.trim());
        let plain = unlock(&device);
        // The data begins where cryptsetup says, and what is written comes back.
        let data = pattern(cipher, 70_000);
        plain.write_at(300, &data).unwrap();
        assert_eq!(
            read(&unlock(&device), 300, data.len()),
            data,
            "{cipher} {bits}"
        );
        assert_eq!(open_error(&*device, &wrong()).kind(), ErrorKind::Denied);
    }
    assert!(known >= 6, "cryptsetup knows only {known} of them");
}

fn try_format(dir: &std::path::Path, args: &[&str]) -> Option<std::path::PathBuf> {
    let path = dir.join("volume.img");
    std::fs::File::create(&path)
        .unwrap()
        .set_len(4 << 20)
        .unwrap();
    let key = key_file(dir);
    let common = ["--batch-mode", "--key-file", path_text(&key), "luksFormat"];
    run(
        "cryptsetup",
        [&common[..], args, &[path_text(&path)]].concat(),
    )
    .ok()?;
    Some(path)
}

#[test]
fn luks2_of_every_key_derivation() {
    if require("cryptsetup").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let argon = ["--pbkdf-force-iterations", "4", "--pbkdf-memory", "4096"];
    let one_lane = [&argon[..], &["--pbkdf-parallel", "1"]].concat();
    let four_lanes = [&argon[..], &["--pbkdf-parallel", "4"]].concat();
    for (kdf, hash, args) in [
        ("pbkdf2", "sha512", &FAST[2..]),
        ("argon2i", "sha256", &four_lanes),
        ("argon2id", "sha256", &one_lane),
        ("argon2id", "sha512", &four_lanes),
    ] {
        let all = ["--type", "luks2", "--pbkdf", kdf, "--hash", hash];
        let device = memory(&format(dir.path(), 17, &[&all[..], args].concat()));
        let header = Header::read(&*device).unwrap().unwrap();
        assert_eq!(header.version(), Version::Luks2);
        let slots: Vec<_> = header.keyslots().collect();
        assert_eq!((slots.len(), slots[0].kdf.as_str()), (1, kdf));
        assert!(header.warnings().is_empty());
        unlock(&device);
        assert_eq!(open_error(&*device, &wrong()).kind(), ErrorKind::Denied);
    }
}

/// `cryptsetup reencrypt` encrypts and decrypts data without device-mapper: all of it is compared,
/// in sectors of every size.
#[test]
fn data_that_cryptsetup_encrypted() {
    if require("cryptsetup").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let plain = pattern("luks2", 3 << 20);
    for (cipher, bits, sector) in [
        ("aes-xts-plain64", "512", "512"),
        ("aes-xts-plain64", "512", "1024"),
        ("aes-xts-plain64", "256", "2048"),
        ("aes-xts-plain64", "512", "4096"),
        ("aes-xts-plain", "512", "4096"),
        ("aes-cbc-essiv:sha256", "256", "512"),
        ("aes-cbc-essiv:sha256", "128", "4096"),
        ("aes-cbc-plain64", "256", "4096"),
    ] {
        let args = [
            "--cipher",
            cipher,
            "--key-size",
            bits,
            "--sector-size",
            sector,
        ];
        let path = encrypted(dir.path(), &plain, &args);
        let device = memory(&path);
        let header = Header::read(&*device).unwrap().unwrap();
        assert_eq!(header.sector_size(), Some(sector.parse().unwrap()));
        let volume = unlock(&device);
        assert!(
            read(&volume, 0, plain.len()) == plain,
            "{cipher} {bits} {sector}"
        );
        assert_eq!(read(&volume, 5001, 9000), plain[5001..14_001]);
        assert_eq!(read(&volume, 4095, 2), plain[4095..4097]);
    }
}

/// What we write, `cryptsetup` decrypts: with its header in a file, the decrypted data is where the
/// encrypted was.
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
            (0, "first copy is not there"),
            (100, "first copy has a wrong checksum"),
            (4100, "first copy has a wrong checksum"),
            (8, "first copy gives its size"),
            (size, "second copy is not there"),
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

/// A newer copy counts, whichever it is.
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

/// A reencryption that was begun and not ended is refused by name, before anything is decrypted.
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
