//! The unlocked device: requests of any range, and many threads in one sector.

#![allow(
    clippy::cast_possible_truncation,
    reason = "small numbers that the tests made themselves"
)]

mod volume;

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, ErrorKind, Memory};
use diskfs_luks::{Header, Key, Limits, Secret, Unlocked};
use proptest::prelude::*;
use volume::{KEY, luks2, metadata};

fn open(disk: &Arc<Memory>) -> Unlocked<Memory> {
    let header = Header::read(&**disk).unwrap().unwrap();
    let key = Key::Volume(Secret::new(KEY.to_vec()));
    let key = header.unlock(&**disk, &key, &Limits::default()).unwrap();
    Unlocked::new(Arc::clone(disk), &header, &key).unwrap()
}

fn volume(cipher: &str, sector: u32) -> Arc<Memory> {
    let json = metadata()
        .replace(
            r#""sector_size": 512"#,
            &format!(r#""sector_size": {sector}"#),
        )
        .replace(
            "aes-xts-plain64\", \"sector",
            &format!("{cipher}\", \"sector"),
        );
    Arc::new(Memory::new(luks2(&json)))
}

/// Threads write neighbouring bytes, whole sectors and parts of them, while others read: no write
/// is lost, and no read returns bytes that were never written.
#[test]
fn many_threads_in_the_same_sectors() {
    const THREADS: u64 = 8;
    const PIECE: u64 = 700;
    for sector in [512, 4096] {
        let disk = volume("aes-xts-plain64", sector);
        let volume = open(&disk);
        volume.write_zeroes(0, 64 << 10).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let volume = &volume;
                scope.spawn(move || {
                    let at = thread * PIECE;
                    let mut seen = [0; PIECE as usize];
                    for round in 1..=60 {
                        volume.write_at(at, &[round; PIECE as usize]).unwrap();
                        volume.read_at(at, &mut seen).unwrap();
                        assert_eq!(seen, [round; PIECE as usize]);
                    }
                });
            }
        });
        let mut all = vec![0; (THREADS * PIECE) as usize];
        open(&disk).read_at(0, &mut all).unwrap();
        assert!(all.iter().all(|byte| *byte == 60), "sector {sector}");
    }
}

#[test]
fn bounds_and_discards() {
    let disk = volume("aes-xts-plain64", 4096);
    let volume = open(&disk);
    let size = volume.size_bytes();
    assert_eq!(size, (1 << 20) - 294_912);
    assert_eq!(volume.block_size(), 4096);
    let mut two = [0; 2];
    for e in [
        volume.read_at(size - 1, &mut two).unwrap_err(),
        volume.read_at(u64::MAX, &mut two).unwrap_err(),
        volume.write_at(size - 1, &two).unwrap_err(),
        volume.discard(size, 1).unwrap_err(),
    ] {
        assert_eq!(e.kind(), ErrorKind::OutOfBounds);
    }
    // The header does not allow discards: nothing changes.
    let before = disk.to_vec();
    volume.discard(0, size).unwrap();
    assert!(disk.to_vec() == before);
    assert!(volume.set_size(size + 1).is_err());
    volume.flush().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Reads and writes of any range behave as on plain bytes.
    #[test]
    fn as_memory(
        large in any::<bool>(),
        writes in prop::collection::vec((0_u64..40_000, 0_usize..9000, any::<u8>()), 1..12),
        reads in prop::collection::vec((0_u64..40_000, 0_usize..9000), 1..12),
    ) {
        let disk = volume("aes-xts-plain64", if large { 4096 } else { 512 });
        let volume = open(&disk);
        volume.write_zeroes(0, 64 << 10).unwrap();
        let model = Memory::new(vec![0; 64 << 10]);
        for (offset, len, byte) in writes {
            let bytes: Vec<u8> = (0..len).map(|i| byte.wrapping_add((i % 253) as u8)).collect();
            volume.write_at(offset, &bytes).unwrap();
            model.write_at(offset, &bytes).unwrap();
        }
        let again = open(&disk);
        for (offset, len) in reads {
            let (mut a, mut b) = (vec![0; len], vec![0; len]);
            again.read_at(offset, &mut a).unwrap();
            model.read_at(offset, &mut b).unwrap();
            prop_assert!(a == b);
        }
    }
}
