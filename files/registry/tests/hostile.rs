//! Tests with invalid hives: every call returns in bounded time, without a panic.

mod common;

use common::{all_sorts, open};
use diskfs_block::{ErrorKind, Result};
use diskfs_registry::testing::{HiveBuilder, Leaf, logs};
use diskfs_registry::{DataType, Key};
use proptest::prelude::*;

/// The maximum number of keys and values in a walk. No hive here has as many.
const MAX_STEPS: usize = 2000;

/// Makes all read calls on a hive, and returns the number of its keys.
fn exercise(bytes: &[u8], logs: &[&[u8]]) -> Result<usize> {
    let hive = open(bytes, logs)?;
    let root = hive.root()?;
    let _ = root.subkey(r"Values\x\Many\Key 3");
    let _ = root.subkey(r"Ünïcode\Ключ");
    let mut keys = 0;
    walk(&root, &mut keys)?;
    Ok(keys)
}

fn walk(key: &Key<'_>, keys: &mut usize) -> Result<()> {
    *keys += 1;
    assert!(*keys < MAX_STEPS, "a walk comes to an end");
    let _ = (key.name(), key.class_name(), key.security_descriptor());
    for value in key.values()?.take(100) {
        let _ = value.and_then(|value| value.value());
    }
    for subkey in key.subkeys()? {
        walk(&subkey?, keys)?;
    }
    Ok(())
}

fn small() -> Vec<u8> {
    let mut builder = HiveBuilder::new();
    builder.leaf_len = 2;
    builder
        .string(r"Alpha\Bravo", "name", "text")
        .string(r"Alpha\Charlie", "", "text")
        .key("Delta")
        .class("Echo", "class")
        .value("Echo", "big", DataType::BINARY, &vec![1; 17_000]);
    builder.build()
}

/// Returns the offset of the contents of a key's cell.
fn node(hive: &[u8], name: &str) -> usize {
    let found = hive
        .windows(name.len())
        .rposition(|bytes| bytes == name.as_bytes());
    found.unwrap() - 76
}

fn with(hive: &[u8], at: usize, number: u32) -> Vec<u8> {
    let mut hive = hive.to_vec();
    hive[at..at + 4].copy_from_slice(&number.to_le_bytes());
    hive
}

fn number(hive: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(hive[at..at + 4].try_into().unwrap())
}

#[test]
fn each_byte_may_be_another() {
    let hive = small();
    assert_eq!(exercise(&hive, &[]).unwrap(), 6);
    let mut other = hive.clone();
    for at in (0..512).chain(4096..hive.len()) {
        if hive[at] == 1 && at > 512 && hive[at - 1] == 1 && hive[at + 1] == 1 {
            continue;
        }
        for value in [!hive[at], hive[at] ^ 1, hive[at] ^ 0x80, 0] {
            other[at] = value;
            if at < 508 {
                logs::set_sequence_numbers(&mut other, 1, 1);
                other[at] = value;
            }
            let _ = exercise(&other, &[]);
        }
        other[..512].copy_from_slice(&hive[..512]);
        other[at] = hive[at];
    }
}

#[test]
fn a_hive_may_end_anywhere() {
    let hive = small();
    for len in (0..hive.len()).step_by(61) {
        let _ = exercise(&hive[..len], &[]);
    }
}

#[test]
fn sizes_and_offsets_that_cannot_be_are_reported() {
    let hive = small();
    let (root, key) = (node(&hive, "ROOT"), node(&hive, "Delta"));
    let list = number(&hive, root + 28) as usize + 4096 + 4;
    for (at, value) in [
        // Cells that are free, too small, too large, past the end, unaligned or of offset -1.
        (key - 4, 0),
        (key - 4, 88),
        (key - 4, 0u32.wrapping_sub(4)),
        (key - 4, 0u32.wrapping_sub(40)),
        (key - 4, 0x8000_0000),
        (key - 4, 0u32.wrapping_sub(1 << 20)),
        (root + 28, 0x7fff_fff8),
        (root + 28, 4),
        (root + 28, 0xffff_fff8),
        // Lengths of names, and counts.
        (key + 72, 0xffff),
        (root + 36, 0x7fff_ffff),
        (list + 4, number(&hive, list + 8)),
    ] {
        let mut other = with(&hive, at, value);
        if at == root + 36 {
            other = with(&other, root + 40, number(&hive, root + 28));
        }
        let error = exercise(&other, &[]).expect_err(&format!("{at} {value:#x}"));
        let kinds = [ErrorKind::Corrupt, ErrorKind::Unsupported];
        assert!(kinds.contains(&error.kind()), "{at} {value:#x}: {error}");
    }
}

#[test]
fn no_walk_goes_round() {
    let hive = small();
    let root = node(&hive, "ROOT");
    let root_cell = u32::try_from(root - 4 - 4096).unwrap();
    let inner = node(&hive, "Bravo");
    let outer = node(&hive, "Alpha");
    // Bravo has the same subkeys as the root, then the same as Alpha.
    for from in [root, outer] {
        let other = with(&hive, inner + 28, number(&hive, from + 28));
        let other = with(&other, inner + 20, 1);
        let error = exercise(&other, &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
    // The root is listed below Bravo, and names Bravo as its parent.
    let leaf = number(&hive, outer + 28) as usize + 4096 + 4;
    let other = with(&hive, leaf + 4, root_cell);
    let other = with(&other, root + 16, number(&hive, inner + 16));
    assert_eq!(
        exercise(&other, &[]).unwrap_err().kind(),
        ErrorKind::Corrupt
    );
    // An index root that contains itself.
    let list = number(&hive, root + 28);
    let other = with(&hive, list as usize + 4096 + 8, list);
    assert_eq!(
        exercise(&other, &[]).unwrap_err().kind(),
        ErrorKind::Corrupt
    );
}

#[test]
fn deeper_than_any_is_reported() {
    let path = vec!["k"; 513].join("\\");
    let mut builder = HiveBuilder::new();
    builder.key(&path);
    let error = exercise(&builder.build(), &[]).unwrap_err();
    assert!(error.to_string().contains("levels deep"), "{error}");
    let mut builder = HiveBuilder::new();
    builder.key(&path[2..]);
    assert_eq!(exercise(&builder.build(), &[]).unwrap(), 513);
}

fn steps() -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let mut before = small();
    let mut builder = HiveBuilder::new();
    builder.string(r"Alpha\Bravo", "name", "other text");
    let after = builder.build();
    let (old, new) = (logs::old(&before, &after), logs::new(1, &[&before, &after]));
    logs::set_sequence_numbers(&mut before, 2, 1);
    (before, old, new)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn anything_may_stand_anywhere(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 1..6)) {
        let mut hive = small();
        for (at, value) in changes {
            let at = 4096 + at.index((hive.len() - 4096) / 4) * 4;
            hive[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let _ = exercise(&hive, &[]);
    }

    #[test]
    fn logs_may_say_anything(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 1..4)) {
        let (hive, mut old, mut new) = steps();
        for (at, value) in changes {
            for log in [&mut old, &mut new] {
                let at = at.index(256.min(log.len() / 4)) * 4;
                log[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
        }
        logs::set_sequence_numbers(&mut old, 2, 2);
        logs::set_sequence_numbers(&mut new, 1, 1);
        logs::seal_entry(&mut new[512..]);
        let _ = exercise(&hive, &[&old]);
        let _ = exercise(&hive, &[&new]);
    }
}

#[test]
fn a_list_of_everything_is_read_once() {
    let hive = all_sorts(Leaf::Index, 9, 300).build();
    assert_eq!(exercise(&hive, &[]).unwrap(), 308);
}
