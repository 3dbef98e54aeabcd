//! Keys that are added to LUKS1 headers and removed from them, judged by `cryptsetup`, and power
//! cuts at every moment of that.

mod tools;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use diskfs_block::{BlockWrite, Crash, ErrorKind, Event, Fate, Faulty, Memory, Result};
use diskfs_fixtures::{pattern, require, run};
use diskfs_luks::{
    Header, Key, KeyslotGuard, Limits, Luks1Keyslots, Luks1Options, NewKeyslot, Secret, VolumeKey,
};
use tools::{PASSPHRASE, path_text};

const CAREFUL: KeyslotGuard = KeyslotGuard::Careful;
const FORCED: KeyslotGuard = KeyslotGuard::Forced;

fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes().to_vec())
}

fn new_key(text: &str, slot: Option<u32>) -> NewKeyslot {
    NewKeyslot {
        passphrase: secret(text),
        slot,
        time: Duration::ZERO,
    }
}

/// Returns random bytes that are the same for each call with the same seed.
fn random(seed: &str) -> impl FnMut(&mut [u8]) -> Result<()> {
    let (seed, mut count) = (seed.to_owned(), 0);
    move |buf: &mut [u8]| {
        count += 1;
        buf.copy_from_slice(&pattern(&format!("{seed} {count}"), buf.len()));
        Ok(())
    }
}

/// Returns a header with the key `correct horse` in slot 0, and a little data.
fn volume() -> Vec<u8> {
    let options = Luks1Options {
        uuid: "1ddd9b30-40c4-4b6a-8aed-009712ee14a6".to_owned(),
        ..Luks1Options::default()
    };
    let passphrase = Secret::new(PASSPHRASE.to_vec());
    let new = options.create(&passphrase, &mut random("volume")).unwrap();
    [new.bytes, pattern("data", 4096)].concat()
}

fn opens(device: &dyn BlockWrite, text: &str) -> Result<VolumeKey> {
    let header = Header::read(device)?.unwrap();
    let key = Key::passphrase(text.as_bytes());
    header.unlock(device, &key, &Limits::default())
}

fn volume_key(device: &dyn BlockWrite) -> VolumeKey {
    opens(device, "correct horse").unwrap()
}

fn add(device: &dyn BlockWrite, text: &str, slot: Option<u32>, guard: KeyslotGuard) -> Result<u32> {
    let key = volume_key(&Memory::new(volume()));
    let mut slots = Luks1Keyslots::read(device)?;
    slots.add(&key, &new_key(text, slot), guard, &mut random(text))
}

fn remove(device: &dyn BlockWrite, slots: &[u32], guard: KeyslotGuard) -> Result<()> {
    Luks1Keyslots::read(device)?.remove(slots, guard, &mut random("noise"))
}

fn active(device: &dyn BlockWrite) -> Vec<u32> {
    Luks1Keyslots::read(device).unwrap().active()
}

#[test]
fn keys_are_added_and_removed() {
    let before = volume();
    let device = Memory::new(before.clone());
    assert_eq!(add(&device, "second", None, CAREFUL).unwrap(), 1);
    assert_eq!(add(&device, "last", Some(7), CAREFUL).unwrap(), 7);
    assert_eq!(add(&device, "second", Some(6), CAREFUL).unwrap(), 6);
    for text in ["correct horse", "second", "last"] {
        assert_eq!(opens(&device, text).unwrap(), volume_key(&device), "{text}");
    }
    let slots = Luks1Keyslots::read(&device).unwrap();
    let opened = |text| slots.opened_by(&secret(text), &Limits::default()).unwrap();
    assert_eq!(opened("second"), [1, 6]);
    assert_eq!(opened("third"), [0_u32; 0]);
    remove(&device, &[1, 6], CAREFUL).unwrap();
    assert_eq!(
        opens(&device, "second").unwrap_err().kind(),
        ErrorKind::Denied
    );
    assert_eq!(active(&device), [0, 7]);
    remove(&device, &[0], CAREFUL).unwrap();
    assert!(opens(&device, "last").is_ok());
    let after = device.to_vec();
    assert!(after[after.len() - 4096..] == before[before.len() - 4096..]);
    // Neither the key material nor the salt of a removed key is left.
    let material = &before[4096..4096 + 256_000];
    assert!(
        material
            .chunks(512)
            .all(|piece| !after.windows(512).step_by(512).any(|it| it == piece))
    );
    assert_eq!(after[208 + 4..208 + 40], [0; 36]);
}

#[test]
fn refused_changes_write_nothing() {
    let before = volume();
    let device = Memory::new(before.clone());
    let check = |done: Result<()>, kind, bytes: &[u8]| {
        let error = done.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(device.to_vec() == bytes, "{error}");
    };
    let add_to = |text, slot| add(&device, text, slot, CAREFUL).map(drop);
    check(add_to("x", Some(0)), ErrorKind::Exists, &before);
    check(add_to("x", Some(8)), ErrorKind::Invalid, &before);
    check(add_to("", None), ErrorKind::Invalid, &before);
    check(remove(&device, &[0], CAREFUL), ErrorKind::Denied, &before);
    check(remove(&device, &[3], CAREFUL), ErrorKind::NotFound, &before);
    check(remove(&device, &[9], FORCED), ErrorKind::Invalid, &before);
    for _ in 0..7 {
        add_to("x", None).unwrap();
    }
    let full = device.to_vec();
    check(add_to("y", None), ErrorKind::NoSpace, &full);
    let all = [0, 1, 2, 3, 4, 5, 6, 7];
    check(remove(&device, &all, CAREFUL), ErrorKind::Denied, &full);

    let none = Memory::new(vec![0; 8192]);
    assert_eq!(
        add(&none, "x", None, CAREFUL).unwrap_err().kind(),
        ErrorKind::Invalid
    );
}

/// Slots whose area is that of another slot, the header or the data.
#[test]
fn no_area_overlaps_another() {
    let put = |bytes: &mut [u8], slot: usize, sector: u32| {
        let at = 208 + 48 * slot + 40;
        bytes[at..at + 4].copy_from_slice(&sector.to_be_bytes());
    };
    for sector in [0, 1, 8, 9, 507, 4040, 4000, u32::MAX] {
        let mut bytes = volume();
        put(&mut bytes, 1, sector);
        let device = Memory::new(bytes.clone());
        let error = add(&device, "x", None, CAREFUL).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{sector}: {error}");
        assert!(device.to_vec() == bytes);
    }
    // The area of another slot is not overwritten by one that is erased.
    let device = Memory::new(volume());
    add(&device, "x", None, CAREFUL).unwrap();
    let mut bytes = device.to_vec();
    put(&mut bytes, 1, 8);
    let device = Memory::new(bytes);
    remove(&device, &[1], CAREFUL).unwrap();
    assert!(opens(&device, "correct horse").is_ok());
    assert_eq!(active(&device), [0]);
}

#[test]
fn a_luks2_volume_is_refused_by_name() {
    let device = Memory::new(vec![0; 17 << 20]);
    let options = diskfs_luks::FormatOptions {
        uuid: "1ddd9b30-40c4-4b6a-8aed-009712ee14a6".to_owned(),
        kdf: diskfs_luks::NewKdf::Pbkdf2 { iterations: 1000 },
        ..Default::default()
    };
    diskfs_luks::format(&device, &secret("x"), &options, &mut random("2")).unwrap();
    let error = Luks1Keyslots::read(&device).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("LUKS2"), "{error}");
}

#[test]
fn cryptsetup_agrees() {
    if require("cryptsetup").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let save = |name: &str, bytes: &[u8]| std::fs::write(at(name), bytes).unwrap();
    for key in ["correct horse", "second", "third"] {
        save(key, key.as_bytes());
    }
    let opens_slot = |key: &str, slot: &str| {
        let (key, image) = (at(key), at("image"));
        let words = [
            "open",
            "--test-passphrase",
            "--key-slot",
            slot,
            "--key-file",
        ];
        let words = [&words[..], &[path_text(&key), path_text(&image)]].concat();
        run("cryptsetup", words).is_ok()
    };
    let device = Memory::new(volume());
    add(&device, "second", Some(6), CAREFUL).unwrap();
    save("image", &device.to_vec());
    assert!(opens_slot("correct horse", "0") && opens_slot("second", "6"));
    assert!(!opens_slot("second", "0"));

    let (key, image, new) = (at("second"), at("image"), at("third"));
    let words = [
        "luksAddKey",
        "--batch-mode",
        "--pbkdf-force-iterations",
        "1000",
    ];
    let words = [
        &words[..],
        &["--key-file", path_text(&key), path_text(&image)],
    ]
    .concat();
    run("cryptsetup", [&words[..], &[path_text(&new)]].concat()).unwrap();
    let device = Memory::new(std::fs::read(at("image")).unwrap());
    let slots = Luks1Keyslots::read(&device).unwrap();
    let opened = slots.opened_by(&secret("third"), &Limits::default());
    assert_eq!(opened.unwrap(), [1]);
    remove(&device, &[0, 6], CAREFUL).unwrap();
    save("image", &device.to_vec());
    assert!(opens_slot("third", "1") && !opens_slot("second", "6"));
    check_dump(&at("image"), 1);
    add(&device, "second", Some(1), FORCED).unwrap();
    save("image", &device.to_vec());
    assert!(opens_slot("second", "1") && !opens_slot("third", "1"));
    check_dump(&at("image"), 1);
}

/// Checks that one key slot is in use.
fn check_dump(image: &Path, slot: u32) {
    let dump = run("cryptsetup", ["luksDump", path_text(image)]).unwrap();
    let enabled: Vec<&str> = dump
        .lines()
        .filter(|line| line.contains("ENABLED"))
        .collect();
    assert_eq!(enabled, [format!("Key Slot {slot}: ENABLED")], "{dump}");
}

/// Every fate of up to a few writes: kept, lost, or torn where a sector ends.
fn fates(crash: Crash<'_>) -> Vec<Vec<Fate>> {
    let mut all = vec![Vec::new()];
    for event in crash.open() {
        let mut fates = vec![Fate::Kept, Fate::Lost];
        if let Event::Write { offset, bytes } = event {
            let first = 512 - offset % 512;
            let len = bytes.len() as u64;
            fates.extend(
                [first, len / 2 / 512 * 512 + first].map(|keep_bytes| Fate::Torn { keep_bytes }),
            );
            fates.retain(|fate| !matches!(fate, Fate::Torn { keep_bytes } if *keep_bytes >= len));
        }
        all = all
            .into_iter()
            .flat_map(|before| {
                fates
                    .iter()
                    .map(move |fate| [&before[..], &[*fate]].concat())
            })
            .collect();
    }
    all
}

/// A power cut at every moment of a change leaves a key that opens the volume, and other slots
/// alone.
fn cut(before: &[u8], change: &dyn Fn(&dyn BlockWrite), one_of: &[&str], always: &[&str]) {
    let device = Faulty::new(Arc::new(Memory::new(before.to_vec())), []);
    change(&device);
    let log = device.log();
    assert_eq!(log.events().last(), Some(&Event::Flush));
    let mut states = 0;
    for crash in log.crashes() {
        for fates in fates(crash) {
            let left = Memory::new(before.to_vec());
            crash.replay(&left, |index, _| fates[index]).unwrap();
            let key = volume_key(&Memory::new(volume()));
            let does_open = |text: &&&str| opens(&left, text).is_ok_and(|found| found == key);
            assert!(
                one_of.iter().any(|text| does_open(&text)),
                "{fates:?} {crash:?}"
            );
            assert!(
                always.iter().all(|text| does_open(&text)),
                "{fates:?} {crash:?}"
            );
            states += 1;
        }
    }
    assert!(states > 5, "{states}");
}

#[test]
fn a_power_cut_leaves_a_key() {
    let one = volume();
    for slot in [1, 6, 7] {
        let change = |device: &dyn BlockWrite| {
            add(device, "new", Some(slot), CAREFUL).unwrap();
        };
        cut(&one, &change, &["correct horse"], &["correct horse"]);
    }
    let device = Memory::new(one.clone());
    for slot in [3, 6] {
        add(&device, "new", Some(slot), CAREFUL).unwrap();
    }
    let remove_both = |device: &dyn BlockWrite| remove(device, &[3, 6], CAREFUL).unwrap();
    cut(
        &device.to_vec(),
        &remove_both,
        &["correct horse"],
        &["correct horse"],
    );
    // The only key is replaced by another one in the same slot.
    let replace = |device: &dyn BlockWrite| {
        add(device, "new", Some(0), FORCED).unwrap();
    };
    cut(&one, &replace, &["correct horse", "new"], &[]);
    // All slots are in use, so that the key itself is lost for a moment, but no other.
    let device = Memory::new(one);
    for _ in 0..7 {
        add(&device, "other", None, CAREFUL).unwrap();
    }
    cut(&device.to_vec(), &replace, &["other"], &["other"]);
}

/// An error at every write leaves the volume with a key, too.
#[test]
fn a_failed_write_leaves_a_key() {
    let before = volume();
    for nth in 0..12 {
        let fault = diskfs_block::Fault::PowerCut { nth };
        let memory = Arc::new(Memory::new(before.clone()));
        let device = Faulty::new(memory.clone(), [fault]);
        let done = add(&device, "new", Some(0), FORCED);
        let opened = ["correct horse", "new"].map(|text| opens(&*memory, text).is_ok());
        assert!(opened.contains(&true), "{nth}");
        if done.is_ok() {
            assert_eq!((opened, active(&*memory)), ([false, true], vec![0]));
            return;
        }
    }
    panic!("more writes than expected");
}
