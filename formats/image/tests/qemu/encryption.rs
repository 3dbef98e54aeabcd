//! Encrypted images, written alternately by QEMU and by us. `diskfs-luks` provides the ciphers;
//! these tests check which bytes are encrypted, and with which sector number.

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Error, ErrorKind, Result};
use diskfs_image::{Decrypt, Image, OpenOptions, Unlock};
use diskfs_luks::{Header, Key, Limits, Unlocked, VolumeKey};

use crate::case::{Backing, Case, DataFile};
use crate::model::{is_clean, open};
use crate::tools::{have_qemu, number, run, try_run};
use crate::{matrix, overlays, random_writes, snapshots};

/// The passphrase of all encrypted test images, in QEMU's syntax.
pub(crate) const SECRET: &str = "secret,id=key,data=correct horse";
/// The options of `qemu-img create` for an encrypted image.
pub(crate) const ENCRYPTED: &str =
    "encrypt.format=luks,encrypt.key-secret=key,encrypt.iter-time=10";

/// An unlocker with the same passphrase for every image.
#[derive(Debug)]
struct Passphrase(&'static [u8]);

#[derive(Debug)]
struct Opened {
    header: Header,
    key: VolumeKey,
}

impl Unlock for Passphrase {
    fn unlock(&self, _path: &Path, header: &dyn BlockRead) -> Result<Option<Arc<dyn Decrypt>>> {
        let parsed = Header::read(header)?.ok_or_else(|| Error::corrupt("no LUKS header"))?;
        let key = parsed.unlock(header, &Key::passphrase(self.0), &Limits::default())?;
        Ok(Some(Arc::new(Opened {
            header: parsed,
            key,
        })))
    }
}

impl Decrypt for Opened {
    fn reader(&self, file: Arc<dyn BlockRead>) -> Result<Arc<dyn BlockRead>> {
        Ok(Arc::new(Unlocked::in_place(file, &self.header, &self.key)?))
    }

    fn writer(&self, file: Arc<dyn BlockWrite>) -> Result<Arc<dyn BlockWrite>> {
        Ok(Arc::new(Unlocked::in_place(file, &self.header, &self.key)?))
    }
}

/// Returns options with the passphrase for encrypted images.
pub(crate) fn options() -> OpenOptions {
    OpenOptions {
        unlock: Some(Arc::new(Passphrase(b"correct horse"))),
        ..OpenOptions::default()
    }
}

/// Returns QEMU's image options for an image in `dir` with encrypted images in its chain; `None`
/// for others.
fn image_options(dir: &Path, image: &str) -> Option<String> {
    let mut options = format!("driver=qcow2,file.filename={image}");
    let (mut name, mut prefix, mut found) = (image.to_owned(), String::new(), false);
    while let Ok(bytes) = std::fs::read(dir.join(&name)) {
        if !bytes.starts_with(b"QFI\xfb") {
            break;
        }
        let be32 = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        if be32(32) == 2 {
            found = true;
            options = format!("{options},{prefix}encrypt.key-secret=key");
        }
        let (at, len) = (be32(12), be32(16));
        if at == 0 {
            break;
        }
        name = String::from_utf8(bytes[at..at + len].to_vec()).unwrap();
        prefix.push_str("backing.");
    }
    found.then_some(options)
}

/// Returns the arguments, with the passphrase where they name an encrypted image.
pub(crate) fn with_keys(dir: &Path, program: &str, args: &[&str]) -> Vec<String> {
    let owned = || args.iter().map(|&arg| arg.to_owned()).collect();
    let is_other = !["qemu-img", "qemu-io"].contains(&program)
        || matches!(args.first(), Some(&("create" | "rebase" | "info")));
    let encrypted = args.iter().find_map(|arg| image_options(dir, arg));
    if is_other || encrypted.is_none() {
        return owned();
    }
    let mut words: Vec<String> = Vec::new();
    let mut rest = args.iter();
    if program == "qemu-img" {
        words.extend(rest.next().map(|&command| command.to_owned()));
    }
    words.extend(["--object", SECRET, "--image-opts"].map(str::to_owned));
    while let Some(&word) = rest.next() {
        match image_options(dir, word) {
            Some(options) => words.push(options),
            None if word == "-f" => drop(rest.next()),
            None => words.push(word.to_owned()),
        }
    }
    words
}

fn cases() -> Vec<Case> {
    let plain = Case {
        encrypted: true,
        ..Case::plain()
    };
    let cases = [
        plain,
        Case {
            version: 2,
            snapshots: 1,
            ..plain
        },
        Case {
            cluster_size: 512,
            backing: Backing::RawShorter,
            snapshots: 2,
            ..plain
        },
        Case {
            extended_l2: true,
            backing: Backing::Qcow2,
            zstd: true,
            ..plain
        },
        Case {
            data_file: DataFile::External,
            ..plain
        },
        Case {
            preallocation: "metadata",
            cluster_size: 4096,
            ..plain
        },
    ];
    let numbered = (1..).zip(cases);
    numbered.map(|(seed, case)| Case { seed, ..case }).collect()
}

/// Returns an encrypted variant of a case.
fn random_cases() -> impl Iterator<Item = Case> {
    let rounds = number("DISKFS_QEMU_ROUNDS", 0);
    let seed = number("DISKFS_QEMU_SEED", 9000);
    (seed..seed + rounds / 4).map(|seed| Case {
        encrypted: true,
        ..Case::random(seed)
    })
}

/// QEMU benchmarks the machine for each new image, so each image serves both tests.
#[test]
fn they_are_read_and_written() {
    if !have_qemu() {
        return;
    }
    for case in cases().into_iter().chain(random_cases()) {
        let dir = tempfile::tempdir().unwrap();
        let result = std::panic::catch_unwind(|| {
            case.make(dir.path());
            matrix::read_and_check(dir.path(), &case);
            random_writes::write_and_check(dir.path(), &case, 40);
        });
        if result.is_err() {
            let kept = dir.keep();
            panic!("{case:?} in {}", kept.display());
        }
    }
}

#[test]
fn they_have_snapshots() {
    if !have_qemu() {
        return;
    }
    snapshots::one_image(4100, &format!("cluster_size=64k,{ENCRYPTED}"));
}

#[test]
fn they_are_in_chains() {
    if !have_qemu() {
        return;
    }
    overlays::one_chain(7100, &["top.qcow2"]);
    overlays::one_chain(7101, &["a.qcow2"]);
    overlays::one_chain(7102, &["b.qcow2", "other.qcow2"]);
}

/// Creates a small image with some data.
fn small(dir: &Path) {
    let create = [
        "create", "-q", "-f", "qcow2", "--object", SECRET, "-o", ENCRYPTED,
    ];
    run(
        dir,
        "qemu-img",
        &[&create[..], &["disk.qcow2", "1M"]].concat(),
    );
    run(dir, "qemu-io", &["-c", "write -P 7 0 128k", "disk.qcow2"]);
}

#[test]
fn nothing_is_read_without_the_key() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    small(dir);
    let path = dir.join("disk.qcow2");
    let before = std::fs::read(&path).unwrap();
    let locked = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(
            error.to_string().contains("--key disk.qcow2:ask"),
            "{error}"
        );
    };
    let image = Image::open(&path, &OpenOptions::default()).unwrap();
    let told = image
        .description()
        .qcow2
        .as_ref()
        .unwrap()
        .encryption
        .unwrap();
    assert!(!told.is_unlocked && told.header_len_bytes > 4096);
    locked(image.device().read_at(0, &mut [0; 512]).unwrap_err());
    // Unallocated clusters are not encrypted.
    image.device().read_at(512 << 10, &mut [7; 512]).unwrap();
    assert_eq!(image.map().count(), 2);
    assert!(image.check().unwrap().unwrap().is_clean());
    drop(image);
    let image = Image::open_writable(&path, &OpenOptions::default()).unwrap();
    for at in [0, 512 << 10] {
        locked(image.device().write_at(at, &[1; 4096]).unwrap_err());
    }
    image.close().unwrap();
    assert!(std::fs::read(&path).unwrap() == before);

    let wrong = OpenOptions {
        unlock: Some(Arc::new(Passphrase(b"horse"))),
        ..OpenOptions::default()
    };
    let error = Image::open(&path, &wrong).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

/// No plain text reaches the file, and QEMU can read the image after a crash.
#[test]
fn what_is_written_is_encrypted() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    small(dir);
    let text = b"a text that nobody but who has the key may see";
    for (index, at) in [0_u64, 1000, 65536 - 10, 300_001, 900_000]
        .into_iter()
        .enumerate()
    {
        let image = open(dir, "disk.qcow2");
        image.device().write_at(at, text).unwrap();
        image.flush().unwrap();
        if index % 2 == 0 {
            image.close().unwrap();
        }
    }
    is_clean(dir, "disk.qcow2");
    let file = std::fs::read(dir.join("disk.qcow2")).unwrap();
    assert!(!file.windows(16).any(|window| window == &text[..16]));
    let disk = crate::tools::converted(dir, "disk.qcow2", &[]).unwrap();
    assert!(disk[300_001..].starts_with(text) && disk[1000..].starts_with(text));
    assert_eq!(disk[1000 + text.len()], 7);
    assert_eq!(disk[300_000], 0);
}

#[test]
fn headers_that_lie_are_refused() {
    if !have_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    small(dir);
    let path = dir.join("disk.qcow2");
    let good = std::fs::read(&path).unwrap();
    let pointer = 0x70;
    assert_eq!(good[pointer..pointer + 8], *b"\x05\x37\xbe\x77\0\0\0\x10");
    let refused = |at: usize, bytes: &[u8], kind: ErrorKind, text: &str| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        std::fs::write(&path, bad).unwrap();
        let error = Image::open(&path, &options()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    };
    let corrupt = ErrorKind::Corrupt;
    refused(32, &1_u32.to_be_bytes(), ErrorKind::Unsupported, "AES-CBC");
    refused(32, &0_u32.to_be_bytes(), corrupt, "is not encrypted");
    refused(32, &3_u32.to_be_bytes(), corrupt, "method 3");
    refused(
        pointer,
        b"\x05\x37\xbe\x78",
        corrupt,
        "missing encryption header",
    );
    refused(
        pointer + 4,
        &8_u32.to_be_bytes(),
        corrupt,
        "8 bytes, not 16",
    );
    let place = pointer + 8;
    refused(place, &0_u64.to_be_bytes(), corrupt, "start of a cluster");
    refused(place, &512_u64.to_be_bytes(), corrupt, "start of a cluster");
    refused(place, &(1_u64 << 40).to_be_bytes(), corrupt, "past the end");
    refused(place + 8, &u64::MAX.to_be_bytes(), corrupt, "past the end");
    refused(place + 8, &0_u64.to_be_bytes(), corrupt, "no LUKS header");
    let luks = u64::from_be_bytes(good[place..place + 8].try_into().unwrap());
    let luks = usize::try_from(luks).unwrap();
    refused(luks, b"XXXX", corrupt, "no LUKS header");
    refused(luks + 7, &[9], ErrorKind::Unsupported, "version 9");
    // The number of stripes of the first key slot: 4 GiB of them.
    refused(
        luks + 252,
        &u32::MAX.to_be_bytes(),
        ErrorKind::Denied,
        "stripes",
    );
    // An L2 table whose entry for the first cluster points to the key slots, so that the guest
    // would overwrite them.
    let mut bad = good.clone();
    let l1 = usize::try_from(u64::from_be_bytes(good[40..48].try_into().unwrap())).unwrap();
    let l2 = u64::from_be_bytes(good[l1..l1 + 8].try_into().unwrap()) & 0x00ff_ffff_ffff_fe00;
    let l2 = usize::try_from(l2).unwrap();
    let entry = (luks as u64 + 65536) | 1 << 63;
    bad[l2..l2 + 8].copy_from_slice(&entry.to_be_bytes());
    std::fs::write(&path, &bad).unwrap();
    let image = open(dir, "disk.qcow2");
    let error = image.device().write_at(0, &[1; 512]).unwrap_err();
    assert_eq!(error.kind(), corrupt, "{error}");
    drop(image);
    assert!(std::fs::read(&path).unwrap() == bad);
    // QEMU finds no error in the original image.
    std::fs::write(&path, good).unwrap();
    assert!(
        try_run(dir, "qemu-img", &["check", "disk.qcow2"])
            .status
            .success()
    );
}
