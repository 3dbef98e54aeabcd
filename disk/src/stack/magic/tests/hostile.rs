//! Any bytes must give a result, with few reads.

use std::sync::{Arc, OnceLock};

use diskfs_block::{Counting, Memory};
use proptest::prelude::*;

/// The size of the start of each image that is kept: it identifies all kinds but a few.
const KEPT_BYTES: usize = 192 << 10;

/// The limit on reads, more than any kind needs; that many take no noticeable time.
const MAX_READS: u64 = 400;

/// Returns the starts of the stored images.
fn images() -> &'static [Vec<u8>] {
    static IMAGES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let fixtures = diskfs_fixtures::all().iter();
        let kinds = fixtures.filter(|fixture| fixture.name.starts_with("kind-"));
        let beginning = |name: &str| {
            let mut bytes = std::fs::read(diskfs_fixtures::image(name).path()).unwrap();
            bytes.truncate(KEPT_BYTES);
            bytes
        };
        kinds
            .filter(|fixture| fixture.size_bytes <= 20 << 20)
            .map(|fixture| beginning(&fixture.name))
            .collect()
    })
}

fn exercise(bytes: Vec<u8>) {
    let device = Counting::new(Arc::new(Memory::new(bytes)));
    let _ = super::super::probe(&device).unwrap();
    let reads = device.counts().reads;
    assert!(reads <= MAX_READS, "{reads}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn changed_images_are_reported_without_harm(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_usize..6), 0..12),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = which.get(images()).clone();
        // Half of the changes are made to bytes that are not zero.
        let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
        for (place, value, kind) in changes {
            let at = match kind {
                0..3 if !used.is_empty() => *place.get(&used),
                _ => place.index(bytes.len()),
            };
            let value = if kind % 3 == 0 { 0xff } else { value };
            let end = (at + kind).min(bytes.len() - 1);
            bytes[at..=end].fill(value);
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        exercise(bytes);
    }

    #[test]
    fn headers_with_any_numbers_are_reported_without_harm(
        magic in prop::sample::select(vec![
            (0_usize, &b"\xeb\x52\x90NTFS    "[..]),
            (0, b"\xeb\x76\x90EXFAT   "),
            (512 + 32, b"1SFB"),
            (1024, b"H+\0\x04"),
            (1024, b"BD"),
            (0x52, b"FAT32   "),
            (32768, b"\0BEA01"),
            (65536, b"\x01\x16\x19\x70\0\0\0\x01"),
        ]),
        numbers in prop::collection::vec((0_usize..512, prop_oneof![Just(u32::MAX), 0_u32..64, any::<u32>()]), 0..40),
    ) {
        let mut bytes = vec![0; KEPT_BYTES];
        let start = magic.0 / 512 * 512;
        for (at, number) in numbers {
            bytes[start + at..start + at + 4].copy_from_slice(&number.to_le_bytes());
        }
        bytes[510..512].copy_from_slice(b"\x55\xaa");
        bytes[magic.0..magic.0 + magic.1.len()].copy_from_slice(magic.1);
        exercise(bytes);
    }
}
