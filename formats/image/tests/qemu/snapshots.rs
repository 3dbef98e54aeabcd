//! Internal snapshots, taken, applied and deleted alternately by QEMU and by us.

use std::path::Path;

use diskfs_image::{Image, OpenOptions, snapshots};

use crate::encryption::{SECRET, options};
use crate::model::is_clean;
use crate::tools::{Random, converted, have_qemu, number, run};

const SIZE_BYTES: u64 = 3 << 20;

/// Returns the disk's bytes as we read them.
fn ours(dir: &Path, snapshot: Option<&str>) -> Vec<u8> {
    let options = OpenOptions {
        snapshot: snapshot.map(str::to_owned),
        ..options()
    };
    let image = Image::open(&dir.join("disk.qcow2"), &options).unwrap();
    let mut bytes = vec![0; usize::try_from(image.device().size_bytes()).unwrap()];
    image.device().read_at(0, &mut bytes).unwrap();
    bytes
}

fn qemus(dir: &Path, snapshot: Option<&str>) -> Vec<u8> {
    let extra = snapshot.map(|name| ["-l".to_owned(), format!("snapshot.name={name}")]);
    let extra: Vec<&str> = extra.iter().flatten().map(String::as_str).collect();
    converted(dir, "disk.qcow2", &extra).unwrap()
}

fn scribble(dir: &Path, r: &mut Random) {
    let mut words = vec!["-f".to_owned(), "qcow2".to_owned()];
    for _ in 0..6 {
        let verb = r.one_of(&[
            "write -P 0x11",
            "write -P 0x22",
            "write -z",
            "discard",
            "write -c",
        ]);
        let at = r.below(SIZE_BYTES / 65536) * 65536;
        words.extend(["-c".to_owned(), format!("{verb} {at} 64k")]);
        let at = r.below(SIZE_BYTES / 512 - 64) * 512;
        words.extend([
            "-c".to_owned(),
            format!("write -P {} {at} 16k", r.below(255)),
        ]);
    }
    words.push("disk.qcow2".to_owned());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    crate::tools::try_run(dir, "qemu-io", &words);
}

/// Ranges that are reported as shared by two states are equal, and a new snapshot shares
/// everything.
fn sharing_is_equality(dir: &Path, states: &[(Option<&str>, &Vec<u8>)]) {
    const PIECE: usize = 4096;
    let open = |snapshot: Option<&str>| {
        let options = OpenOptions {
            snapshot: snapshot.map(str::to_owned),
            ..options()
        };
        Image::open(&dir.join("disk.qcow2"), &options).unwrap()
    };
    let images: Vec<Image> = states.iter().map(|(name, _)| open(*name)).collect();
    for (image, (name, bytes)) in images.iter().zip(states) {
        for (other, (other_name, other_bytes)) in images.iter().zip(states) {
            for at in (0..bytes.len()).step_by(PIECE) {
                let shared = image.shares(other, at as u64, PIECE as u64).unwrap();
                let range = at..at + PIECE;
                let is_same = bytes[range.clone()] == other_bytes[range];
                assert!(is_same || !shared, "{name:?}, {other_name:?}: {at}");
                assert!(shared || name != other_name, "{name:?}: {at}");
            }
        }
    }
    let size = images[0].device().size_bytes();
    assert!(images[0].shares(&images[0], size, 1).is_err());
}

/// Creates an image with these options of `qemu-img create`.
pub(crate) fn one_image(seed: u64, options_text: &str) {
    let mut r = Random::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    run(
        dir,
        "qemu-img",
        &["create", "-q", "-f", "raw", "base.raw", "2M"],
    );
    let backing: &[&str] = r.one_of(&[&[], &["-b", "base.raw", "-F", "raw"]]);
    let create = ["create", "-q", "-f", "qcow2", "--object", SECRET];
    let create = [&create[..], &["-o", options_text]].concat();
    let words = [&create[..], backing, &["disk.qcow2", "3M"]].concat();
    run(dir, "qemu-img", &words);
    let path = dir.join("disk.qcow2");
    let mut known: Vec<(String, Vec<u8>)> = Vec::new();
    for step in 0..10_u64 {
        scribble(dir, &mut r);
        let by_us = !r.one_in(3);
        let name = format!("s{step}");
        let choice = r.below(4);
        let some = known
            .len()
            .checked_sub(1)
            .map(|last| r.below(last as u64 + 1));
        let some = some.and_then(|index| usize::try_from(index).ok());
        match (choice, some) {
            (0, Some(index)) => {
                let (name, bytes) = known[index].clone();
                if by_us {
                    snapshots::apply(&path, &name, &options()).unwrap();
                } else {
                    run(dir, "qemu-img", &["snapshot", "-a", &name, "disk.qcow2"]);
                }
                assert!(
                    qemus(dir, None) == bytes,
                    "seed {seed}, step {step}: applied"
                );
            }
            (1, Some(index)) => {
                let (name, _) = known.remove(index);
                if by_us {
                    snapshots::delete(&path, &name, &options()).unwrap();
                } else {
                    run(dir, "qemu-img", &["snapshot", "-d", &name, "disk.qcow2"]);
                }
            }
            _ => {
                let bytes = qemus(dir, None);
                if by_us {
                    snapshots::create(&path, &name, &options()).unwrap();
                } else {
                    run(dir, "qemu-img", &["snapshot", "-c", &name, "disk.qcow2"]);
                }
                known.push((name, bytes));
            }
        }
        is_clean(dir, "disk.qcow2");
        let listed = snapshots::list(&path, &options()).unwrap();
        let listed: Vec<_> = listed.iter().map(|snapshot| &snapshot.name).collect();
        let expected: Vec<_> = known.iter().map(|(name, _)| name).collect();
        assert_eq!(listed, expected, "seed {seed}, step {step}");
        assert!(
            ours(dir, None) == qemus(dir, None),
            "seed {seed}, step {step}"
        );
        let mut states: Vec<_> = known
            .iter()
            .map(|(name, bytes)| (Some(&**name), bytes))
            .collect();
        let current = ours(dir, None);
        states.push((None, &current));
        sharing_is_equality(dir, &states);
        for (name, bytes) in &known {
            assert!(
                ours(dir, Some(name)) == *bytes,
                "seed {seed}, step {step}: {name}"
            );
            assert!(
                qemus(dir, Some(name)) == *bytes,
                "seed {seed}, step {step}: {name}, QEMU"
            );
        }
    }
}

#[test]
fn snapshots_in_turns_with_qemu() {
    if !have_qemu() {
        return;
    }
    let seed = number("DISKFS_QEMU_SEED", 4000);
    let rounds = number("DISKFS_QEMU_ROUNDS", 40).div_ceil(20);
    for round in 0..rounds {
        let options = Random::new(seed + round).one_of(&[
            "cluster_size=64k",
            "cluster_size=64k,extended_l2=on",
            "cluster_size=512",
            "cluster_size=4k,refcount_bits=64",
            "cluster_size=64k,refcount_bits=8,lazy_refcounts=on",
            "cluster_size=2M",
        ]);
        one_image(seed + round, options);
    }
}
