//! Volumes that `format` creates, judged by `cryptsetup` and by our own reader.

mod tools;

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, ErrorKind, Memory};
use diskfs_fixtures::{pattern, require, run};
use diskfs_luks::{FormatOptions, Header, Key, Limits, NewKdf, Secret, Unlocked, format};
use tools::{PASSPHRASE, cryptsetup, path_text, read, try_encrypted, unlock, unlock_with};

const UUID: &str = "8d7d7c31-2f0e-4f5b-9a6e-0c1c5d1f0a11";

const FAST: NewKdf = NewKdf::Pbkdf2 { iterations: 1000 };

fn options(sector_bytes: u32, kdf: NewKdf) -> FormatOptions {
    FormatOptions {
        uuid: UUID.to_owned(),
        label: "secrets".to_owned(),
        sector_bytes,
        kdf,
        volume_key: None,
    }
}

/// Returns a device of 17 MiB with a new volume; the random bytes follow from `seed`.
fn formatted(options: &FormatOptions, seed: &str) -> Arc<Memory> {
    let device = Arc::new(Memory::new(pattern("old contents", 17 << 20)));
    let mut count = 0;
    let mut random = |buf: &mut [u8]| {
        count += 1;
        buf.copy_from_slice(&pattern(&format!("{seed} {count}"), buf.len()));
        Ok(())
    };
    let passphrase = Secret::new(PASSPHRASE.to_vec());
    format(&*device, &passphrase, options, &mut random).unwrap();
    device
}

fn save(device: &dyn BlockRead, path: &Path) {
    std::fs::write(path, read(device, 0, 17 << 20)).unwrap();
}

#[test]
fn cryptsetup_opens_a_new_volume() {
    if require("cryptsetup").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new.img");
    let argon2 = NewKdf::Argon2id {
        passes: 4,
        memory_kib: 4096,
        lanes: 2,
    };
    for (sector_bytes, kdf) in [(512, FAST), (4096, argon2)] {
        let options = options(sector_bytes, kdf);
        save(&*formatted(&options, "seed"), &path);
        let open = ["open", "--test-passphrase", path_text(&path)];
        cryptsetup(dir.path(), &open);
        let dump = run("cryptsetup", ["luksDump", path_text(&path)]).unwrap();
        let name = match kdf {
            NewKdf::Pbkdf2 { .. } => "pbkdf2",
            NewKdf::Argon2id { .. } => "argon2id",
        };
        for words in [
            UUID,
            "secrets",
            "cipher: aes-xts-plain64",
            "offset: 16777216 [bytes]",
            &format!("sector: {sector_bytes} [bytes]"),
            "AF stripes: 4000",
            "AF hash:    sha256",
            "Cipher key: 512 bits",
            "Keyslots area: \t16744448 [bytes]",
            &format!("PBKDF:      {name}"),
        ] {
            assert!(dump.contains(words), "{words:?} is missing in {dump}");
        }
        // Its library writes the header again, and accepts all of it.
        run("cryptsetup", ["config", "--label", "new", path_text(&path)]).unwrap();
        run("cryptsetup", ["repair", "--batch-mode", path_text(&path)]).unwrap();
    }
}

/// The metadata has the keys and the kinds of values of `cryptsetup`'s own.
#[test]
fn the_metadata_is_that_of_cryptsetup() {
    if require("cryptsetup").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new.img");
    let costs = ["--pbkdf-force-iterations", "4", "--pbkdf-memory", "4096"];
    let ours = NewKdf::Argon2id {
        passes: 4,
        memory_kib: 4096,
        lanes: 4,
    };
    let fast = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
    for (kdf, args) in [(FAST, &fast), (ours, &costs)] {
        save(&*formatted(&options(512, kdf), "seed"), &path);
        let size = ["--sector-size", "512", "--pbkdf-parallel", "4"];
        let theirs = tools::format(dir.path(), 17, &[&args[..], &size].concat());
        let shape = |path: &Path| {
            let dump = ["luksDump", "--dump-json-metadata", path_text(path)];
            let json = run("cryptsetup", dump).unwrap();
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            shape(&json)
        };
        assert_eq!(shape(&path), shape(&theirs));
    }
}

/// Replaces what is random or depends on the machine: salts, digests, rounds and processors.
fn shape(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| {
                let is_random = ["salt", "digest", "iterations", "cpus"].contains(&name.as_str());
                let value = if is_random && !value.is_object() {
                    Value::Null
                } else {
                    shape(value)
                };
                (name.clone(), value)
            });
            Value::Object(members.collect())
        }
        other => other.clone(),
    }
}

#[test]
fn our_reader_opens_a_new_volume() {
    let device = formatted(&options(4096, FAST), "seed");
    let header = Header::read(&*device).unwrap().unwrap();
    assert!(header.warnings().is_empty());
    assert_eq!((header.uuid(), header.label()), (UUID, "secrets"));
    let volume = unlock(&device);
    assert_eq!(volume.size_bytes(), 1 << 20);
    volume.write_at(5000, b"written").unwrap();
    assert_eq!(read(&unlock(&device), 5000, 7), b"written");
    let wrong = header.unlock(&*device, &Key::passphrase(b"wrong"), &Limits::default());
    assert_eq!(wrong.unwrap_err().kind(), ErrorKind::Denied);
}

#[test]
fn cryptsetup_decrypts_a_new_volume() {
    if require("cryptsetup").is_none() {
        return;
    }
    // The header of another volume is replaced by ours with the same key: its data is ours.
    let dir = tempfile::tempdir().unwrap();
    let plain = pattern("plain", 1 << 20);
    let path = try_encrypted(dir.path(), &plain, &tools::FAST).unwrap();
    let theirs = tools::memory(&path);
    let header = Header::read(&*theirs).unwrap().unwrap();
    let passphrase = Key::passphrase(PASSPHRASE);
    let key = header
        .unlock(&*theirs, &passphrase, &Limits::default())
        .unwrap();
    let options = FormatOptions {
        volume_key: Some(Secret::new(key.as_bytes().to_vec())),
        ..options(header.sector_size().unwrap(), FAST)
    };
    let ours = formatted(&options, "seed");
    let volume: Unlocked<Memory> =
        unlock_with(&ours, &Key::Volume(Secret::new(key.as_bytes().to_vec())));
    volume.write_at(0, &plain).unwrap();
    let encrypted = read(&*ours, 16 << 20, 1 << 20);
    assert!(encrypted == read(&*theirs, 16 << 20, 1 << 20));
}

#[test]
fn the_same_random_bytes_make_the_same_volume() {
    let options = options(512, FAST);
    let bytes = |seed| read(&*formatted(&options, seed), 0, 17 << 20);
    assert!(bytes("a") == bytes("a"));
    assert!(bytes("a") != bytes("b"));
}

#[test]
fn invalid_options_change_nothing() {
    let passphrase = Secret::new(PASSPHRASE.to_vec());
    let good = options(512, FAST);
    for (size, kind, options) in [
        (16 << 20, ErrorKind::NoSpace, good.clone()),
        (17 << 20, ErrorKind::Invalid, options(1024, FAST)),
        (
            17 << 20,
            ErrorKind::Invalid,
            options(512, NewKdf::Pbkdf2 { iterations: 1 }),
        ),
        (
            17 << 20,
            ErrorKind::Invalid,
            FormatOptions {
                volume_key: Some(Secret::new(vec![1; 32])),
                ..good.clone()
            },
        ),
        (
            17 << 20,
            ErrorKind::Invalid,
            FormatOptions {
                label: "x".repeat(48),
                ..good.clone()
            },
        ),
    ] {
        let device = Memory::new(vec![7; size]);
        let error = format(&device, &passphrase, &options, &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(read(&device, 0, size).iter().all(|byte| *byte == 7));
    }
}
