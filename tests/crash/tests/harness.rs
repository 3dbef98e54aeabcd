//! A test of the harness with the kernel, which is assumed to be correct: any problem found there
//! is one of the harness.

use diskfs_crash::exhaustive::{Found, Search, Sequence, States};
use diskfs_crash::feature_set::{FeatureSet, SETS};
use diskfs_crash::layer::Layer;
use diskfs_crash::session::Session;
use diskfs_crash::soak::{Flushes, Round};
use diskfs_fixtures::{have, require, require_root};

fn session(set: &str, seed: u64) -> Session {
    Session {
        set: FeatureSet::named(set).unwrap(),
        layer: Layer::Raw,
        seed,
        operations: 300,
        only: None,
        points: 5,
    }
}

#[test]
fn nothing_is_wrong_with_the_kernel() {
    if require_root().is_none() || require("e2fsck").is_none() {
        return;
    }
    for set in ["default", "1k-blocks", "128-byte-inodes"] {
        let session = session(set, 3);
        if let Err(error) = session.run_on_kernel() {
            panic!("{set}: {error:#}");
        }
    }
}

#[test]
fn a_filesystem_has_the_block_size_of_its_set() {
    if require_root().is_none() || require("mke2fs").is_none() {
        return;
    }
    let directory = diskfs_crash::image::directory().unwrap();
    for set in SETS {
        let fresh = diskfs_crash::image::make_filesystem(set, directory.path()).unwrap();
        // `s_log_block_size` of the superblock.
        let log = u32::from_le_bytes(fresh[1024 + 24..][..4].try_into().unwrap());
        assert_eq!(set.block_bytes().unwrap(), 1024 << log, "{}", set.name);
    }
}

#[test]
fn the_same_seed_makes_the_same_operations() {
    let directory = diskfs_crash::image::directory().unwrap();
    let operations = |seed| {
        let session = session("1k-blocks", seed);
        let fresh = diskfs_crash::image::make_filesystem(&session.set, directory.path()).unwrap();
        session.operations(&fresh).unwrap()
    };
    let first = operations(1);
    assert_eq!(first.len(), 300);
    assert_eq!(first, operations(1));
    assert_ne!(first, operations(2));
}

fn search(set: &str, layer: Layer) -> Search {
    Search::new(FeatureSet::named(set).unwrap(), layer, 500).unwrap()
}

/// `diskfs-crash exhaustive` has longer sequences, and all types of filesystems.
#[test]
fn no_crash_in_a_sequence_of_one_element_breaks_a_promise() {
    if require("mke2fs").is_none() || require("qemu-img").is_none() {
        return;
    }
    let cluster_size = 4096;
    for layer in [Layer::Raw, Layer::Qcow2 { cluster_size }] {
        let search = search("1k-blocks", layer);
        let mut all = Found::default();
        for sequence in Sequence::all(1) {
            match search.run(&sequence, States::All) {
                Ok(found) => all += found,
                Err(error) => panic!("{error:#}"),
            }
        }
        assert!(all.states > 10_000 && all.examined > 10, "{all:?}");
    }
}

#[test]
fn a_device_that_ignores_flushes_is_found_out() {
    if require("mke2fs").is_none() {
        return;
    }
    let search = search("1k-blocks", Layer::Raw).with_lying_flushes();
    let names = ["append", "fsync"].map(str::to_owned);
    let sequence = Sequence::parse(&names).unwrap();
    let error = format!("{:#}", search.run(&sequence, States::All).unwrap_err());
    assert!(error.contains("--sequence=append,fsync"), "{error}");
}

fn round(seed: u64, flushes: Flushes) -> Round {
    Round {
        seed,
        queues: 3,
        requests: 30,
        flushes,
    }
}

/// Seeds whose images have a data file, a backing file, bitmaps and lazy refcounts.
#[test]
fn a_soak_finds_nothing_wrong_with_qcow2() {
    if !have(&["qemu-img", "qemu-io"]) {
        return;
    }
    for seed in 1..=6 {
        let soaked = round(seed, Flushes::Done).run();
        let soaked = soaked.unwrap_or_else(|error| panic!("{error:#}"));
        assert!(soaked.states > 0, "{soaked:?}");
    }
}

#[test]
fn a_soak_finds_out_a_device_that_ignores_flushes() {
    if !have(&["qemu-img", "qemu-io"]) {
        return;
    }
    for (one_in, rounds) in [(1, 3), (4, 12)] {
        let found = (1..=rounds).find_map(|seed| {
            let flushes = Flushes::OneDropped(one_in);
            round(seed, flushes).run().err()
        });
        let error = found.unwrap_or_else(|| panic!("1 of {one_in} flushes dropped, not found"));
        let error = format!("{error:#}");
        assert!(error.contains("crash after request"), "{error}");
    }
}
