//! Damaged filesystems and records: every call returns, without a panic or an endless loop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs_block::{BlockWrite, Fate, Faulty, Memory};
use diskfs_fixtures::require;
use diskfs_vfs::ErrorKind;

use crate::common::fsck_says;
use crate::forms::{FORMS, Form, Random, fill};

fn filled(form: Form, smallest: u64) -> Vec<u8> {
    let memory = Arc::new(Memory::new(vec![
        0;
        usize::try_from(smallest << 10).unwrap()
    ]));
    form.format(&*memory).unwrap();
    fill(form, memory.clone(), &mut Random(9), 50);
    memory.to_vec()
}

fn damage(bytes: &mut [u8], random: &mut Random) {
    for _ in 0..=random.below(8) {
        let len = bytes.len() as u64;
        let limit = [512, 4096, 65_536, len][usize::try_from(random.below(4)).unwrap()];
        let at = usize::try_from(random.below(limit.min(len))).unwrap();
        let value = [0, 0xff, 0xe5, 0x80, random.byte()];
        bytes[at] = value[usize::try_from(random.below(5)).unwrap()];
    }
}

fn try_all(form: Form, bytes: Vec<u8>, target: u64) {
    let began = Instant::now();
    let device: Arc<dyn BlockWrite> = Arc::new(Memory::new(bytes));
    let _ = form.resize(&device, target);
    if let Ok(least) = form.minimum_size(&device) {
        let _ = form.resize(&device, least);
    }
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn random_damage() {
    let rounds: u64 = std::env::var("DISKFS_MUTATIONS").map_or(60, |n| n.parse().unwrap());
    let mut random = Random(31);
    for (form, smallest) in FORMS {
        if smallest > 10_000 {
            continue;
        }
        let seed = filled(form, smallest);
        for _ in 0..rounds {
            let mut bytes = seed.clone();
            damage(&mut bytes, &mut random);
            let target = bytes.len() * 3;
            bytes.resize(target, 0);
            try_all(form, bytes, target as u64);
        }
    }
}

/// Returns an image with the mark of a change that was interrupted.
fn marked(form: Form, smallest: u64) -> Vec<u8> {
    let mut before = filled(form, smallest);
    let target = before.len() * 3;
    before.resize(target, 0);
    let memory = Arc::new(Memory::new(before.clone()));
    let device = Arc::new(Faulty::new(memory, []));
    let below: Arc<dyn BlockWrite> = device.clone();
    form.resize(&below, target as u64).unwrap();
    let left = Memory::new(before);
    for event in device.log().events() {
        event.replay(&left, Fate::Kept).unwrap();
        if left.to_vec()[128..].starts_with(b"diskfs resizing\0") {
            break;
        }
    }
    left.to_vec()
}

/// Puts a checksum of the mark over what the test changed.
fn sign_mark(bytes: &mut [u8]) {
    let checksum = crc32c::crc32c(&bytes[148..176]);
    bytes[144..148].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn damaged_records_are_refused() {
    let mut random = Random(17);
    for nth in [0, 7, 8] {
        let (form, smallest) = FORMS[nth];
        let seed = marked(form, smallest);
        let len = seed.len() as u64;
        let last = u64::from_le_bytes(seed[152..160].try_into().unwrap());
        let last = usize::try_from(last).unwrap();
        // A flipped bit in the last piece.
        let mut bytes = seed.clone();
        bytes[last + 100] ^= 4;
        let device: Arc<dyn BlockWrite> = Arc::new(Memory::new(bytes));
        let e = form.resize(&device, len).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
        // More pieces than there are, and a piece outside of the device.
        for at in [148, 152] {
            let mut bytes = seed.clone();
            bytes[at..at + 4].fill(0xff);
            sign_mark(&mut bytes);
            let device: Arc<dyn BlockWrite> = Arc::new(Memory::new(bytes));
            let e = form.resize(&device, len).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
        }
        // Any entries, correctly signed.
        let piece_len = u32::from_le_bytes(seed[last + 20..last + 24].try_into().unwrap());
        let piece = last..last + usize::try_from(piece_len).unwrap();
        for _ in 0..200 {
            let mut bytes = seed.clone();
            for _ in 0..=random.below(6) {
                let at = 32 + usize::try_from(random.below(200)).unwrap();
                bytes[last + at] = random.byte();
            }
            let checksum = crc32c::crc32c(&bytes[piece.clone()][20..]);
            bytes[last + 16..last + 20].copy_from_slice(&checksum.to_le_bytes());
            try_all(form, bytes, len);
        }
    }
}

#[test]
fn other_programs_refuse_a_marked_filesystem() {
    for nth in [0, 3, 7, 8] {
        let (form, smallest) = FORMS[nth];
        let bytes = marked(form, smallest);
        let image = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(image.path(), &bytes).unwrap();
        if require(form.checker()).is_some() {
            let (is_clean, told) = fsck_says(form.checker(), image.path());
            assert!(!is_clean, "{form:?}: {told}");
        }
        if form.fat.is_some() && require("mdir").is_some() {
            let listed = diskfs_fixtures::command("mdir")
                .arg("-i")
                .args([image.path().as_os_str(), "::".as_ref()])
                .output()
                .unwrap();
            assert!(!listed.status.success(), "{form:?}: {listed:?}");
        }
        let e = form.open(bytes).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
        assert!(e.to_string().contains("repeat the same resize"), "{e}");
    }
}
