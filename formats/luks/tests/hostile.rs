//! Malicious headers: parsing ends in bounded time and memory, with an error at worst.

mod volume;

use std::sync::Arc;

use diskfs_block::{BlockRead, ErrorKind, Memory};
use diskfs_luks::{Header, Key, Limits, Secret, Unlocked};
use proptest::prelude::*;
use volume::{KEY, luks1, luks2, metadata};

/// The limits, so low that any header is processed at once.
const LIMITS: Limits = Limits {
    argon2_memory_bytes: 1 << 20,
    argon2_work_bytes: 8 << 20,
    pbkdf2_rounds: 10_000,
};

/// Opens a volume and uses all operations; returns the first error.
fn exercise(disk: Vec<u8>) -> diskfs_block::Result<()> {
    let device = Arc::new(Memory::new(disk));
    let Some(header) = Header::read(&*device)? else {
        return Ok(());
    };
    let _ = (
        header.keyslots().count(),
        header.problem(),
        header.is_detached(),
    );
    let passphrase = header.unlock(&*device, &Key::passphrase(b"x"), &LIMITS);
    let key = Key::Volume(Secret::new(KEY.to_vec()));
    let Ok(key) = header.unlock(&*device, &key, &LIMITS) else {
        return passphrase.map(drop);
    };
    let volume = Unlocked::new(device, &header, &key)?;
    let mut byte = [0];
    if let Some(last) = volume.size_bytes().checked_sub(1) {
        volume.read_at(last, &mut byte)?;
    }
    assert!(volume.read_at(volume.size_bytes(), &mut byte).is_err());
    passphrase.map(drop)
}

fn error(disk: Vec<u8>) -> (ErrorKind, String) {
    let e = exercise(disk).unwrap_err();
    (e.kind(), e.to_string())
}

fn with(from: &str, to: &str) -> Vec<u8> {
    let json = metadata();
    assert!(json.contains(from), "{from}");
    luks2(&json.replacen(from, to, 1))
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn what_cannot_be_is_told() {
    use ErrorKind::{Corrupt, Denied, Unsupported};
    assert_eq!(error(luks2(&metadata())).0, Denied);
    let salt = r#""kdf": {"type": "pbkdf2", "hash": "sha256", "iterations": 1"#;
    let argon = |memory: u64, time: u64| {
        let kdf = format!(
            r#""kdf": {{"type": "argon2id", "time": {time}, "memory": {memory}, "cpus": 1"#
        );
        with(salt, &kdf)
    };
    for (disk, kind, words) in [
        // A key slot of 4 GiB, one without an end, one that overlaps the header, one that overlaps
        // the data.
        (
            with(r#""size": "258048""#, r#""size": "4294967296""#),
            Denied,
            "do not lie within the area",
        ),
        (
            with(
                r#""offset": "32768""#,
                r#""offset": "18446744073709551615""#,
            ),
            Denied,
            "do not lie",
        ),
        (
            with(r#""offset": "32768""#, r#""offset": "4096""#),
            Denied,
            "do not lie",
        ),
        (
            with(r#""offset": "32768""#, r#""offset": "294912""#),
            Denied,
            "do not lie",
        ),
        (
            with(r#""size": "258048""#, r#""size": "100""#),
            Denied,
            "has 100 bytes",
        ),
        (
            with(r#""keyslots_size": "262144""#, r#""keyslots_size": "9""#),
            Denied,
            "do not lie",
        ),
        (with("4000", "4294967295"), Denied, "stripes"),
        (with("4000", "0"), Denied, "stripes"),
        (
            with(r#""key_size": 64"#, r#""key_size": 4294967296"#),
            Denied,
            "key of 4294967296",
        ),
        (
            with(r#""key_size": 64"#, r#""key_size": 0"#),
            Denied,
            "key of 0",
        ),
        (
            with(r#""iterations": 1"#, r#""iterations": 4294967295"#),
            Denied,
            "rounds",
        ),
        (
            with(r#""iterations": 1"#, r#""iterations": 0"#),
            Denied,
            "no iterations",
        ),
        (
            argon(4_294_967_295, 1),
            Denied,
            "more than the limit of 1 MiB",
        ),
        (argon(1024, 4_294_967_295), Denied, "4294967295 passes"),
        (argon(0, 1), Denied, "must not be 0"),
        (argon(1, 1), Denied, "Argon2 cannot work"),
        (with("c2FsdHNhbHQ=", "*"), Denied, "base64"),
        // Faults in the data segment.
        (
            with(r#""iv_tweak": "0""#, r#""iv_tweak": "x""#),
            Corrupt,
            "number",
        ),
        (
            with(r#""sector_size": 512"#, r#""sector_size": 0"#),
            Corrupt,
            "sectors have 0",
        ),
        (
            with(r#""sector_size": 512"#, r#""sector_size": 8192"#),
            Corrupt,
            "sectors have 8192",
        ),
        (
            with(r#""offset": "294912""#, r#""offset": "5""#),
            Corrupt,
            "within a sector",
        ),
        (
            with(
                r#""offset": "294912""#,
                r#""offset": "18446744073709551104""#,
            ),
            Corrupt,
            "device ends",
        ),
        (
            with(r#""size": "dynamic""#, r#""size": "18446744073709551615""#),
            Corrupt,
            "device ends",
        ),
        (
            with(r#""type": "crypt""#, r#""type": "linear""#),
            Unsupported,
            "`linear`",
        ),
        (
            with(
                r#""sector_size": 512"#,
                r#""sector_size": 512, "integrity": {"type": "aead"}"#,
            ),
            Unsupported,
            "`aead`",
        ),
        (
            with(
                r#""json_size""#,
                r#""requirements": {"mandatory": ["tea"]}, "json_size""#,
            ),
            Unsupported,
            "`tea`",
        ),
        (
            with(
                r#""json_size""#,
                r#""requirements": {"mandatory": ["online-reencrypt-v2"]}, "json_size""#,
            ),
            Unsupported,
            "reencryption",
        ),
        (
            with(r#""segments": {"0""#, r#""segments": {"7""#),
            Corrupt,
            "no digest",
        ),
        (
            luks2(&metadata().replace("aes-xts", "rot13-xts")),
            Unsupported,
            "`rot13-xts-plain64`",
        ),
        (luks2("{"), Corrupt, "neither copy"),
        (luks2(&"[".repeat(8000)), Corrupt, "neither copy"),
    ] {
        let (found, text) = error(disk);
        assert!(
            found == kind && text.contains(words),
            "{kind:?} {words:?}: {found:?} {text}"
        );
    }
}

#[test]
fn an_empty_digest_fits_no_key() {
    let json = metadata();
    let start = json.find(r#""digest": ""#).unwrap() + 11;
    let end = start + json[start..].find('"').unwrap();
    let json = format!("{}{}", &json[..start], &json[end..]);
    let (kind, text) = error(luks2(&json));
    assert!(
        kind == ErrorKind::Corrupt && text.contains("digest has 0 bytes"),
        "{text}"
    );
}

#[test]
fn very_many_objects() {
    let slots: Vec<String> = (0..100_000).map(|id| format!("\"{id}\":{{}}")).collect();
    let json = format!(
        r#"{{"keyslots":{{{}}},"config":{{"keyslots_size":"0"}}}}"#,
        slots.join(",")
    );
    let (kind, text) = error(luks2(&json));
    assert!(
        kind == ErrorKind::Corrupt && text.contains("too many objects"),
        "{text}"
    );
}

#[test]
fn luks1_that_lies() {
    let field = |at: usize, value: u32| {
        let mut disk = luks1();
        disk[at..at + 4].copy_from_slice(&value.to_be_bytes());
        disk
    };
    assert_eq!(error(luks1()).0, ErrorKind::Denied);
    for (disk, kind, words) in [
        (
            field(108, u32::MAX),
            ErrorKind::Corrupt,
            "key of 4294967295",
        ),
        (field(164, 0), ErrorKind::Corrupt, "no iterations"),
        (field(164, u32::MAX), ErrorKind::Denied, "rounds"),
        (field(212, u32::MAX), ErrorKind::Denied, "rounds"),
        (
            field(248, 0),
            ErrorKind::Denied,
            "overlaps the header or the data",
        ),
        (
            field(248, u32::MAX),
            ErrorKind::Denied,
            "overlaps the header or the data",
        ),
        (
            field(248, 1000),
            ErrorKind::Denied,
            "overlaps the header or the data",
        ),
        (field(252, u32::MAX), ErrorKind::Denied, "stripes"),
        (field(208, 0xdead), ErrorKind::Denied, "no usable key slot"),
    ] {
        let (found, text) = error(disk);
        assert!(
            found == kind && text.contains(words),
            "{words:?}: {found:?} {text}"
        );
    }
    let mut cut = luks1();
    cut.truncate(300);
    assert_eq!(error(cut).0, ErrorKind::Corrupt);
    let mut newer = luks1();
    newer[7] = 3;
    assert_eq!(error(newer).0, ErrorKind::Unsupported);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_luks1(changes in prop::collection::vec((6_usize..592, any::<u8>()), 1..8)) {
        let mut disk = luks1();
        for (at, value) in changes {
            disk[at] = value;
        }
        let _ = exercise(disk);
    }

    /// Metadata with replaced bytes and a correct checksum.
    #[test]
    fn any_metadata(changes in prop::collection::vec((0_usize..1100, 32_u8..127), 1..6)) {
        let mut json = metadata().into_bytes();
        for (at, value) in changes {
            if let Some(byte) = json.get_mut(at) {
                *byte = value;
            }
        }
        let _ = exercise(luks2(std::str::from_utf8(&json).unwrap()));
    }
}
