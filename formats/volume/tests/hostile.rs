//! Malicious tables: any bytes lead to a result, and listed partitions lie on the disk or cannot be
//! opened.

mod disk;

use std::sync::Arc;

use disk::{Gpt, mbr, put_record, seal};
use diskfs_block::{BlockRead, Memory};
use diskfs_volume::read_table;
use proptest::prelude::*;

/// Reads the table, and opens and reads every partition of it.
fn exercise(disk: Vec<u8>) {
    let size = disk.len() as u64;
    let device: Arc<dyn BlockRead> = Arc::new(Memory::new(disk));
    let Ok(Some(table)) = read_table(&*device) else {
        return;
    };
    assert!(table.warnings.len() <= 300);
    for p in &table.partitions {
        let inside = p
            .start_bytes
            .checked_add(p.len_bytes)
            .is_some_and(|end| end <= size);
        let opened = p.open(Arc::clone(&device));
        assert_eq!(opened.is_ok(), p.problem.is_none(), "{p:?}");
        assert_eq!(p.open_despite_overlap(Arc::clone(&device)).is_ok(), inside);
        if let Ok(slice) = opened {
            let mut byte = [0];
            slice.read_at(slice.size_bytes() - 1, &mut byte).unwrap();
        }
        let _ = (p.type_name(), p.uuid(), p.name());
    }
}

/// Returns a number that is more likely to cause faults than a random one.
fn interesting() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX - 1),
        Just(1 << 63),
        Just(1 << 55),
        Just(u64::from(u32::MAX)),
        0_u64..4096,
        any::<u64>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_bytes(mut disk in prop::collection::vec(any::<u8>(), 0..3000)) {
        if disk.len() >= 512 {
            disk[510..512].copy_from_slice(&[0x55, 0xaa]);
            for index in 0..4 {
                disk[446 + 16 * index] &= 0x80;
            }
        }
        exercise(disk);
    }

    /// Fields of a good header are replaced, and its checksum corrected.
    #[test]
    fn any_header(
        large in any::<bool>(),
        fields in prop::collection::vec((0_usize..11, interesting()), 1..4),
        partitions in prop::collection::vec((1_u32..128, interesting(), interesting()), 0..6),
        cut in 0_usize..100_000,
    ) {
        let sector = if large { 4096 } else { 512 };
        let mut gpt = Gpt::new(sector, 200);
        gpt.partitions = partitions;
        let mut disk = gpt.disk();
        for lba in [1, 199] {
            let header = &mut disk[lba * sector..(lba + 1) * sector];
            for &(field, value) in &fields {
                let at = 8 + 8 * field;
                header[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
            header[12..16].copy_from_slice(&92_u32.to_le_bytes());
            seal(header);
        }
        if cut % 3 == 0 {
            disk.truncate(cut);
        }
        exercise(disk);
    }

    /// Boot records all over the disk that point to random sectors.
    #[test]
    fn any_chain(
        first in prop::collection::vec((any::<u8>(), 0_u32..80, 0_u32..80), 4),
        records in prop::collection::vec(
            (1_usize..64, prop::collection::vec((prop_oneof![Just(0x05), Just(0x83)], 0_u32..80, 0_u32..80), 4)),
            0..40,
        ),
    ) {
        let mut disk = mbr(64, &first);
        put_record(&mut disk, 0, &[(0x0f, 1, 63)]);
        for (lba, entries) in records {
            put_record(&mut disk, lba, &entries);
        }
        exercise(disk);
    }
}
