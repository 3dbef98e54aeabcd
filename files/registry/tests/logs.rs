//! Tests of hives that were not completely written, with their logs.

mod common;

use common::open;
use diskfs_block::{ErrorKind, Result};
use diskfs_registry::testing::{HiveBuilder, logs};
use diskfs_registry::{Recovery, Value};

/// Returns a hive after `step` changes. It grows with each.
fn state(step: u32) -> Vec<u8> {
    let mut builder = HiveBuilder::new();
    builder.sequence_number = 10;
    builder.dword("", "Step", step);
    for number in 0..step * 40 {
        builder.string(
            &format!(r"Key {number}"),
            "Name",
            "some text that takes its place",
        );
    }
    builder.build()
}

/// Returns a hive that is being written.
fn dirty(step: u32) -> Vec<u8> {
    let mut hive = state(step);
    logs::set_sequence_numbers(&mut hive, 11, 10);
    hive
}

/// Returns the step whose contents are read, and the result of the recovery.
fn read(primary: &[u8], logs: &[&[u8]]) -> Result<(u32, Recovery)> {
    let hive = open(primary, logs)?;
    let root = hive.root()?;
    let Some(Value::Dword(step)) = root.value("Step")? else {
        panic!("there is a step");
    };
    let keys = root.subkeys()?.collect::<Result<Vec<_>>>()?.len();
    assert_eq!(keys, step as usize * 40);
    Ok((step, hive.recovery()))
}

fn applied(entries: u32) -> Recovery {
    Recovery::Applied { entries }
}

fn entries(first: u32, steps: &[u32]) -> Vec<u8> {
    let hives: Vec<Vec<u8>> = steps.iter().map(|step| state(*step)).collect();
    let hives: Vec<&[u8]> = hives.iter().map(Vec::as_slice).collect();
    logs::new(first, &hives)
}

/// Builds a log as [`old`](logs::old) does, with the sequence numbers of a completed log.
fn vector(from: u32, to: u32) -> Vec<u8> {
    logs::old(&state(from), &state(to))
}

#[test]
fn a_clean_hive_needs_no_log() {
    let log = entries(10, &[1, 2]);
    assert_eq!(read(&state(1), &[&log]).unwrap(), (1, Recovery::Clean));
    assert_eq!(read(&dirty(1), &[]).unwrap(), (1, Recovery::Unrecovered));
    assert_eq!(
        read(&dirty(1), &[b"", &[0; 4096]]).unwrap(),
        (1, Recovery::Unrecovered)
    );
}

#[test]
fn entries_of_both_logs_are_applied_in_their_order() {
    let (first, second) = (entries(10, &[1, 2, 3]), entries(12, &[3, 4]));
    for logs in [[&*first, &*second], [&*second, &*first]] {
        assert_eq!(read(&dirty(1), &logs).unwrap(), (4, applied(3)));
    }
    assert_eq!(read(&dirty(1), &[&first]).unwrap(), (3, applied(2)));
    // A gap: the second log does not continue where the first one ends.
    let late = entries(13, &[3, 4]);
    assert_eq!(read(&dirty(1), &[&first, &late]).unwrap(), (3, applied(2)));
    // A log that was applied before the hive was last written.
    let early = entries(8, &[1, 3]);
    assert_eq!(read(&dirty(1), &[&early, &first]).unwrap(), (3, applied(2)));
    assert_eq!(
        read(&dirty(1), &[&early]).unwrap(),
        (1, Recovery::Unrecovered)
    );
}

#[test]
fn entries_end_with_the_first_that_is_broken() {
    let whole = entries(10, &[1, 2, 3]);
    let second = 512 + u32::from_le_bytes(whole[516..520].try_into().unwrap()) as usize;
    assert_eq!(&whole[second..second + 4], b"HvLE");
    for (at, steps) in [
        (second + 8, 2),
        (second + 30, 2),
        (second + 40, 2),
        (whole.len() - 600, 2),
        (540, 1),
    ] {
        let mut log = whole.clone();
        log[at] ^= 1;
        assert_eq!(read(&dirty(1), &[&log]).unwrap().0, steps, "{at}");
    }
    let mut other = whole.clone();
    // Entries with valid hashes, but of another number, or with a page past the end.
    for (at, value) in [
        (second + 12, 77_u8),
        (second + 43, 0x7f),
        (second + 4, 1),
        (second + 17, 1),
    ] {
        other.copy_from_slice(&whole);
        other[at] = value;
        logs::seal_entry(&mut other[second..]);
        assert_eq!(read(&dirty(1), &[&other]).unwrap(), (2, applied(1)), "{at}");
    }
    let cut = &whole[..whole.len() - 512];
    assert_eq!(read(&dirty(1), &[cut]).unwrap(), (2, applied(1)));
}

#[test]
fn a_broken_base_block_is_that_of_the_latest_log() {
    let mut broken = state(1);
    broken[36] ^= 0xff;
    let error = read(&broken, &[]).unwrap_err();
    assert_eq!(
        (error.kind(), error.offset()),
        (ErrorKind::Corrupt, Some(508))
    );
    let (first, second) = (entries(10, &[1, 2]), entries(20, &[1, 3]));
    assert_eq!(read(&broken, &[&second, &first]).unwrap(), (3, applied(1)));
    assert_eq!(read(&broken, &[&vector(1, 2)]).unwrap(), (2, applied(1)));
}

#[test]
fn a_dirty_vector_is_applied_where_the_times_agree() {
    let log = vector(1, 3);
    assert_eq!(read(&dirty(1), &[&log]).unwrap(), (3, applied(1)));
    assert_eq!(read(&dirty(1), &[b"", &log]).unwrap(), (3, applied(1)));
    let mut unfinished = log.clone();
    logs::set_sequence_numbers(&mut unfinished, 11, 10);
    let mut other_time = log.clone();
    other_time[12] ^= 1;
    logs::set_sequence_numbers(&mut other_time, 10, 10);
    let mut no_vector = log.clone();
    no_vector[512] = b'X';
    for log in [
        &unfinished,
        &other_time,
        &no_vector,
        &log[..log.len() - 512].to_vec(),
    ] {
        assert_eq!(read(&dirty(1), &[log]).unwrap(), (1, Recovery::Unrecovered));
    }
    // Windows 2000 used another file type for logs.
    let mut old = log.clone();
    old[28] = 2;
    logs::set_sequence_numbers(&mut old, 10, 10);
    assert_eq!(read(&dirty(1), &[&old]).unwrap(), (3, applied(1)));
}

#[test]
fn entries_go_before_remnants_of_old_logs() {
    let (old, new) = (vector(1, 2), entries(10, &[1, 3]));
    assert_eq!(read(&dirty(1), &[&old, &new]).unwrap(), (3, applied(1)));
}
