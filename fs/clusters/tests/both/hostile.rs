//! Tests with damaged filesystems: every call returns, without a panic or an endless loop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs_block::Memory;
use diskfs_fixtures::image;
use diskfs_vfs::ErrorKind;

use crate::common::{EXFAT_IMAGES, try_all};
use crate::kind::{FilesystemType, KINDS};

#[test]
fn nothing_to_read_is_refused() {
    for kind in &KINDS {
        for len in [0, 1, 511, 512, 513, 4096] {
            let opened = (kind.open)(Arc::new(Memory::new(vec![0; len])));
            let e = opened.err().unwrap();
            assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
        }
    }
}

fn random_damage(kind: &FilesystemType, images: [&str; 4]) {
    let rounds: u64 = std::env::var("DISKFS_MUTATIONS").map_or(150, |n| n.parse().unwrap());
    let seeds = images.map(|name| std::fs::read(image(name).path()).unwrap());
    let mut state = 1_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..rounds {
        let mut bytes = seeds[usize::try_from(round % 4).unwrap()].clone();
        for _ in 0..=next() % 12 {
            // Most structures are at the beginning.
            let limit =
                [512, 4096, 65_536, bytes.len() as u64][usize::try_from(next() % 4).unwrap()];
            let at = usize::try_from(next() % limit).unwrap();
            let value =
                [0, 0xff, 0xe5, 0x0f, (next() & 0xff) as u8][usize::try_from(next() % 5).unwrap()];
            bytes[at] = value;
        }
        let began = Instant::now();
        try_all(kind.open, kind.open_writable, bytes);
        assert!(began.elapsed() < Duration::from_secs(10), "round {round}");
    }
}

#[test]
fn random_damage_to_fat() {
    let images = ["fat12", "fat12-one-table", "fat16", "fat32-small"];
    random_damage(&KINDS[0], images);
}

#[test]
fn random_damage_to_exfat() {
    random_damage(&KINDS[1], EXFAT_IMAGES);
}
