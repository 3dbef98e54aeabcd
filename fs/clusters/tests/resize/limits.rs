//! The limits of the types, and what is refused before anything is written.

use std::ops::ControlFlow;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Memory};
use diskfs_clusters::resize::ResizeOptions;
use diskfs_fat::FatKind;
use diskfs_vfs::ErrorKind;

use crate::common::tree;
use crate::forms::{FORMS, Form, Random, extend, fill};

/// Returns a filled filesystem on a device of `device_kib`.
fn filled(form: Form, size_kib: u64, device_kib: u64) -> Arc<Memory> {
    let memory = Arc::new(Memory::new(vec![
        0;
        usize::try_from(size_kib << 10).unwrap()
    ]));
    form.format(&*memory).unwrap();
    fill(form, memory.clone(), &mut Random(5), 50);
    let mut bytes = memory.to_vec();
    extend(&mut bytes, device_kib << 10);
    Arc::new(Memory::new(bytes))
}

fn features(memory: &Memory, form: Form) -> Vec<String> {
    form.open(memory.to_vec()).unwrap().identity().features
}

#[test]
fn a_type_grows_to_its_maximum() {
    let cases = [
        (FORMS[0].0, 200, 9000, "FAT12", 4068),
        (FORMS[3].0, 2400, 60_000, "FAT16", 65_508),
    ];
    for (form, small, large, name, clusters) in cases {
        let memory = filled(form, small, large);
        let device: Arc<dyn BlockWrite> = memory.clone();
        let resized = form.resize(&device, large << 10).unwrap();
        assert!(resized.new_bytes < large << 10, "{resized:?}");
        assert_eq!(features(&memory, form), [name]);
        let fs = form.open(memory.to_vec()).unwrap();
        assert_eq!(fs.statistics().unwrap().blocks, clusters);
        let bytes = memory.to_vec();
        let len = usize::try_from(resized.new_bytes).unwrap();
        form.judge(&bytes[..len], name);
        let again = form.resize(&device, large << 10).unwrap();
        assert_eq!(again.old_bytes, again.new_bytes);
        assert!(memory.to_vec() == bytes);
    }
}

#[test]
fn a_type_does_not_shrink_below_its_minimum() {
    for (form, small) in [(FORMS[3].0, 2400), (FORMS[5].0, 34_000)] {
        let memory = filled(form, small, small);
        let device: Arc<dyn BlockWrite> = memory.clone();
        let before = memory.to_vec();
        let e = form.resize(&device, (small << 10) * 8 / 10).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Invalid, "{e}");
        assert!(memory.to_vec() == before);
    }
}

#[test]
fn a_small_fat32_grows_across_the_limit_of_fat16() {
    let form = Form {
        fat: Some(FatKind::Fat32),
        cluster_bytes: 512,
        sector_bytes: 512,
    };
    let memory = filled(form, 31_000, 36_000);
    let expected = tree(&*form.open(memory.to_vec()).unwrap());
    let device: Arc<dyn BlockWrite> = memory.clone();
    let resized = form.resize(&device, 36_000 << 10).unwrap();
    assert_eq!(resized.new_bytes, 36_000 << 10);
    assert_eq!(form.judge(&memory.to_vec(), "grown"), expected);
}

/// Changes bytes of an image, and fails unless growing it is refused and changes nothing.
fn refused(form: Form, options: &ResizeOptions, kind: ErrorKind, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = filled(form, 4000, 9000).to_vec();
    change(&mut bytes);
    let memory = Arc::new(Memory::new(bytes.clone()));
    let device: Arc<dyn BlockWrite> = memory.clone();
    let progress = &mut |_| ControlFlow::Continue(());
    let resized = match form.fat {
        Some(_) => diskfs_fat::resize(&device, options, progress),
        None => diskfs_exfat::resize(&device, options, progress),
    };
    let e = resized.unwrap_err();
    assert_eq!(e.kind(), kind, "{form:?}: {e}");
    assert!(memory.to_vec() == bytes, "{form:?}: {e}");
}

#[test]
fn what_is_refused_changes_nothing() {
    let [fat32, exfat] = [FORMS[7].0, FORMS[9].0];
    let grow = ResizeOptions::default();
    for form in [fat32, exfat] {
        let beyond = ResizeOptions {
            size_bytes: Some(9001 << 10),
            ..ResizeOptions::default()
        };
        refused(form, &beyond, ErrorKind::Invalid, |_| {});
        let smaller = ResizeOptions {
            size_bytes: Some(3000 << 10),
            ..ResizeOptions::default()
        };
        refused(form, &smaller, ErrorKind::Invalid, |_| {});
    }
    // Not cleanly unmounted.
    refused(fat32, &grow, ErrorKind::Corrupt, |bytes| bytes[65] |= 1);
    refused(exfat, &grow, ErrorKind::Corrupt, |bytes| bytes[106] |= 2);
    // The copies of the table are not kept in sync.
    refused(fat32, &grow, ErrorKind::Unsupported, |bytes| {
        bytes[40] |= 0x80;
    });
    // Two files that share their clusters: all entries of the first directory lead to its cluster.
    refused(fat32, &grow, ErrorKind::Corrupt, |bytes| {
        share_clusters(bytes);
    });
}

/// Makes a file of the root directory lead to the cluster of the root directory.
fn share_clusters(bytes: &mut [u8]) {
    let number = |at: usize, len: usize| {
        let bytes = bytes[at..at + len].iter().rev();
        bytes.fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte))
    };
    let root = (number(14, 2) + 2 * number(36, 4)) * 512;
    let entry = (root..).step_by(32).find(|at| {
        let attributes = bytes[at + 11];
        attributes != 0x0f && attributes & 8 == 0 && bytes[*at] != 0xe5
    });
    let entry = entry.unwrap();
    bytes[entry + 20..entry + 22].fill(0);
    bytes[entry + 26..entry + 28].copy_from_slice(&[2, 0]);
}

#[test]
fn a_cancelled_change_leaves_the_old_filesystem() {
    for form in [FORMS[7].0, FORMS[9].0] {
        let before = filled(form, 4000, 20_000);
        let expected = tree(&*form.open(before.to_vec()).unwrap());
        for stop in 0..100 {
            let memory = Arc::new(Memory::new(before.to_vec()));
            let device: Arc<dyn BlockWrite> = memory.clone();
            let mut steps = 0;
            let mut progress = |_| {
                steps += 1;
                if steps > stop {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            };
            let options = ResizeOptions::default();
            let resized = match form.fat {
                Some(_) => diskfs_fat::resize(&device, &options, &mut progress),
                None => diskfs_exfat::resize(&device, &options, &mut progress),
            };
            let Err(e) = resized else {
                assert!(stop > 0);
                break;
            };
            assert_eq!(e.kind(), ErrorKind::Cancelled, "{e}");
            let bytes = memory.to_vec();
            assert_eq!(form.judge(&bytes[..4000 << 10], "cancelled"), expected);
        }
    }
}

#[test]
fn the_place_on_the_disk_stays() {
    let memory = filled(FORMS[7].0, 4000, 20_000);
    let device: Arc<dyn BlockWrite> = memory.clone();
    FORMS[7].0.resize(&device, 20_000 << 10).unwrap();
    let mut bytes = [0; 4];
    memory.read_at(28, &mut bytes).unwrap();
    assert_eq!(u32::from_le_bytes(bytes), 2048);
    let backup = memory.to_vec();
    assert!(backup[..512] == backup[6 * 512..7 * 512]);
    let memory = filled(FORMS[9].0, 4000, 20_000);
    let device: Arc<dyn BlockWrite> = memory.clone();
    FORMS[9].0.resize(&device, 20_000 << 10).unwrap();
    memory.read_at(64, &mut bytes).unwrap();
    assert_eq!(u32::from_le_bytes(bytes), 2048);
    let backup = memory.to_vec();
    assert!(backup[..12 * 512] == backup[12 * 512..24 * 512]);
}
