//! Partition tables with impossible claims.

use std::fs;
use std::path::Path;

use diskfs_fixtures::image;

use super::program::{Outcome, diskfs};

/// Changes a raw image's bytes at an offset.
pub(crate) fn patch(path: &Path, offset: usize, bytes: &[u8]) {
    let mut image = fs::read(path).expect("readable");
    image[offset..offset + bytes.len()].copy_from_slice(bytes);
    fs::write(path, image).expect("write the file");
}

fn info(path: &Path) -> Outcome {
    diskfs(["info".as_ref(), path.as_os_str()])
}

/// If both headers are unusable, only a protective MBR without a readable partition is left.
#[test]
fn a_table_without_a_usable_copy_is_told_of() {
    let image = image("gpt.raw");
    let end = usize::try_from(fs::metadata(image.path()).expect("there").len()).expect("small");
    for header in [512, end - 512] {
        patch(&image.path(), header + 16, &[1, 2, 3, 4]);
    }
    let outcome = info(&image.path());
    let text = outcome.stdout.clone() + &outcome.stderr;
    assert!(text.to_lowercase().contains("gpt"), "{outcome:#?}");
    assert!(diskfs(["ls".as_ref(), image.path().as_os_str()]).code != 0);
}

/// Counts and sizes of entries up to their maximum: the CRCs are then wrong, and no copy is usable.
#[test]
fn counts_of_entries_are_not_believed() {
    for (offset, value) in [
        (80, u32::MAX),
        (80, 1 << 31),
        (84, 0),
        (84, u32::MAX),
        (84, 1),
    ] {
        let image = image("gpt.raw");
        let end = usize::try_from(fs::metadata(image.path()).expect("there").len()).expect("small");
        for header in [512, end - 512] {
            patch(&image.path(), header + offset, &u32::to_le_bytes(value));
        }
        info(&image.path()).expect_message();
    }
}

/// The chain of extended boot records leads back to its start.
#[test]
fn a_chain_of_logical_partitions_ends() {
    let image = image("mbr-logical.raw");
    let bytes = fs::read(image.path()).expect("readable");
    // The extended partition begins at sector 6144; the second entries of its records form the
    // chain.
    let first = 6144 * 512;
    assert_eq!(bytes[first + 510..first + 512], [0x55, 0xaa]);
    let second = u32::from_le_bytes(bytes[first + 470..first + 474].try_into().expect("four"));
    assert!(second > 0);
    let second = first + usize::try_from(second).expect("small") * 512;
    // From the second record back to the second.
    let back = u32::try_from((second - first) / 512).expect("small");
    patch(&image.path(), second + 470, &back.to_le_bytes());
    let outcome = info(&image.path());
    outcome.expect_message();
    let text = outcome.stdout + &outcome.stderr;
    assert!(text.contains("has a loop"), "{text}");
}

#[test]
fn partitions_past_the_end_are_told_of() {
    let image = image("mbr-logical.raw");
    // The first primary entry: its length in sectors.
    patch(&image.path(), 446 + 12, &u32::MAX.to_le_bytes());
    let outcome = info(&image.path());
    let text = outcome.stdout.clone() + &outcome.stderr;
    assert!(
        text.contains("p1") || text.contains("partition 1"),
        "{outcome:#?}"
    );
    let ls = ["ls", "-p", "1", &image.path().display().to_string()].map(str::to_owned);
    assert!(diskfs(ls).code != 0);
}
