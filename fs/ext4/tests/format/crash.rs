//! Crashes while a filesystem is created: there is none, or a complete one.

use std::fs;
use std::sync::Arc;

use diskfs_block::{BlockRead, Faulty, Memory};
use diskfs_ext4::format;
use diskfs_fixtures::have;

use crate::common::e2fsck;
use crate::options::parse;

/// The number of bytes of the device.
const BYTES: usize = 5 << 20;
/// The place of the superblock's magic.
const MAGIC_AT: usize = 1024 + 56;
/// The place of the UUID.
const UUID_AT: usize = 1024 + 104;
/// The first bytes, which are wiped before anything else is written.
const WIPED_FIRST: usize = 4096;

fn has_magic(image: &[u8]) -> bool {
    image[MAGIC_AT..MAGIC_AT + 2] == [0x53, 0xef]
}

#[test]
fn a_crash_leaves_no_filesystem_or_a_complete_one() {
    if !have(&["e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    for args in [
        "-t ext4",
        "-t ext2 -b 1024",
        "-t ext4 -E nodiscard,lazy_itable_init=0",
    ] {
        let old = Memory::new(vec![0xa5; BYTES]);
        let mut options = parse("-t ext3 -b 1024");
        options.uuid = [7; 16];
        format(&old, &options).unwrap();
        let old = old.to_vec();
        let device = Faulty::new(Arc::new(Memory::new(old.clone())), []);
        format(&device, &parse(args)).unwrap();
        let log = device.log();
        let mut complete = 0;
        for state in log.states(1) {
            let image = Memory::new(old.clone());
            state.replay(&image).unwrap();
            let image = image.to_vec();
            if !has_magic(&image) {
                continue;
            }
            if image[UUID_AT..UUID_AT + 16] == [7; 16] {
                // Nothing else was written yet.
                let is_same = image[WIPED_FIRST..] == old[WIPED_FIRST..];
                assert!(is_same, "{args}, {state}");
                continue;
            }
            complete += 1;
            fs::write(&path, &image).unwrap();
            e2fsck(&path);
        }
        assert!(complete > 0, "{args}");
    }
}

#[test]
fn the_same_options_give_the_same_bytes() {
    for args in [
        "-t ext4 -L label",
        "-t ext3",
        "-t ext4 -O inline_data,casefold",
    ] {
        let made = || {
            let device = Memory::new(vec![0; BYTES]);
            format(&device, &parse(args)).unwrap();
            device.to_vec()
        };
        assert!(made() == made(), "{args}");
    }
}

#[test]
fn the_whole_device_is_used() {
    let device = Memory::new(vec![0; BYTES]);
    format(&device, &parse("-t ext2 -b 1024")).unwrap();
    let bytes = device.to_vec();
    let blocks = u32::from_le_bytes(bytes[1028..1032].try_into().unwrap());
    assert_eq!(u64::from(blocks) * 1024, device.size_bytes());
}
