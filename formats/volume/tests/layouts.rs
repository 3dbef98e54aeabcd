//! Tables that no tool makes: unusual sizes, and every kind of damage.

mod disk;

use std::sync::Arc;

use disk::{Gpt, mbr, memory, put_entry, put_record, seal};
use diskfs_block::{BlockRead, ErrorKind, Memory};
use diskfs_volume::{PartitionTable, Problem, SectorSize, TableKind, read_table, read_table_with};

fn table(disk: &[u8]) -> PartitionTable {
    read_table(&memory(disk)).unwrap().unwrap()
}

/// Returns the number, start and length of each partition, in sectors of the table's size.
fn rows(table: &PartitionTable) -> Vec<(u32, u64, u64)> {
    let sector = u64::from(table.sector_size);
    table
        .partitions
        .iter()
        .map(|p| (p.number, p.start_bytes / sector, p.len_bytes / sector))
        .collect()
}

fn assert_warns(table: &PartitionTable, words: &str) {
    assert!(
        table.warnings.iter().any(|w| w.contains(words)),
        "{words:?} not in {:#?}",
        table.warnings
    );
}

fn gpt() -> Gpt {
    Gpt::new(512, 2048).with(1, 34, 99).with(3, 200, 200)
}

#[test]
fn gpt_of_every_legal_shape() {
    for sector in [512, 4096] {
        for entry_bytes in [128, 256, 512, 1024, 2048, 4096] {
            for entries in [1, 4, 128, 129] {
                for header_bytes in [92, 96, 512] {
                    let first = 2 + u64::from(entry_bytes * entries).div_ceil(sector as u64);
                    let disk = Gpt {
                        header_bytes,
                        entry_bytes,
                        entries,
                        ..Gpt::new(sector, 3000)
                    }
                    .with(entries, first, first + 9)
                    .disk();
                    let t = table(&disk);
                    assert_eq!(t.kind, TableKind::Gpt);
                    assert_eq!(t.sector_size as usize, sector);
                    assert_eq!(rows(&t), [(entries, first, 10)]);
                    assert_eq!(t.partitions[0].name(), Some("p"));
                    assert!(t.warnings.is_empty(), "{:?}", t.warnings);
                }
            }
        }
    }
}

#[test]
fn gpt_without_partitions() {
    let t = table(&Gpt::new(512, 100).disk());
    assert_eq!(
        (t.kind, t.partitions.len(), t.warnings.len()),
        (TableKind::Gpt, 0, 0)
    );
    assert_eq!(t.disk_id, "000000d1-0000-0000-0000-000000000000");
}

#[test]
fn a_whole_sector_of_header_is_checksummed() {
    let mut disk = Gpt {
        header_bytes: 512,
        ..gpt()
    }
    .disk();
    disk[512 + 500] = 1;
    assert_warns(
        &table(&disk),
        "the primary GPT at LBA 1 has a wrong checksum",
    );
}

/// Every meaningful byte of the primary header is changed, one bit at a time.
#[test]
fn any_bit_of_the_primary_header_sends_to_the_backup() {
    let good = table(&gpt().disk());
    for bit in 0..92 * 8 {
        let mut disk = gpt().disk();
        disk[512 + bit / 8] ^= 1 << (bit % 8);
        let t = table(&disk);
        assert_eq!(t.partitions, good.partitions, "bit {bit}");
        assert_eq!(t.disk_id, good.disk_id, "bit {bit}");
        assert_warns(&t, "; the backup at LBA 2047 is used");
    }
}

#[test]
fn any_bit_of_the_primary_entries_sends_to_the_backup() {
    let good = table(&gpt().disk());
    for bit in (0..128 * 128 * 8).step_by(61) {
        let mut disk = gpt().disk();
        disk[1024 + bit / 8] ^= 1 << (bit % 8);
        let t = table(&disk);
        assert_eq!(t.partitions, good.partitions, "bit {bit}");
        assert_warns(&t, "wrong checksum of its entries");
    }
}

#[test]
fn a_broken_backup_is_told_and_not_used() {
    let good = table(&gpt().disk());
    for at in [2047 * 512, 2047 * 512 + 40, (2047 - 32) * 512 + 5] {
        let mut disk = gpt().disk();
        disk[at] ^= 1;
        let t = table(&disk);
        assert_eq!(t.partitions, good.partitions);
        assert_warns(&t, "the backup GPT at LBA 2047");
        assert_warns(&t, "the primary is used");
    }
}

#[test]
fn a_backup_that_differs_is_told() {
    let mut disk = gpt().disk();
    let other = gpt().with(2, 300, 310).disk();
    disk[512 * 1024..].copy_from_slice(&other[512 * 1024..]);
    let t = table(&disk);
    assert_eq!(rows(&t).len(), 2);
    assert_warns(
        &t,
        "the backup GPT at LBA 2047 differs from the primary, which is used",
    );
}

#[test]
fn both_copies_broken_is_corrupt_and_says_why() {
    let mut disk = gpt().disk();
    disk[512 + 60] ^= 1;
    disk[2047 * 512 + 13] = 0xff;
    let e = read_table(&memory(&disk)).unwrap_err();
    assert_eq!((e.kind(), e.offset()), (ErrorKind::Corrupt, Some(512)));
    assert!(
        e.reason()
            .contains("the primary GPT at LBA 1 has a wrong checksum"),
        "{e}"
    );
    assert!(
        e.reason()
            .contains("the backup gives its own size as 65372 bytes"),
        "{e}"
    );
}

#[test]
fn the_primary_is_gone_altogether() {
    for sector in [512, 4096] {
        let mut disk = Gpt::new(sector, 300).with(7, 100, 110).disk();
        disk[512..sector * 34].fill(0);
        let t = table(&disk);
        assert_eq!(t.sector_size as usize, sector);
        assert_eq!(rows(&t), [(7, 100, 11)]);
        assert_warns(
            &t,
            "has no signature `EFI PART`; the backup at LBA 299 is used",
        );
    }
}

#[test]
fn a_grown_disk_has_its_backup_in_the_middle() {
    let mut disk = gpt().disk();
    disk.resize(disk.len() + 1_000_000, 0);
    let t = table(&disk);
    assert_eq!(rows(&t).len(), 2);
    assert_warns(&t, "the disk grew after it was partitioned");
    // If only the entries are broken, the header still gives the location of the backup.
    disk[1024] ^= 1;
    let t = table(&disk);
    assert_eq!(rows(&t).len(), 2);
    assert_warns(&t, "the backup at LBA 2047 is used");
}

#[test]
fn a_cut_disk_keeps_the_partitions_that_are_there() {
    let mut disk = gpt().disk();
    disk.truncate(150 * 512);
    let t = table(&disk);
    assert_eq!(rows(&t), [(1, 34, 66), (3, 200, 1)]);
    assert_eq!(t.partitions[0].problem, None);
    assert_eq!(t.partitions[1].problem, Some(Problem::OutOfRange));
    assert_warns(
        &t,
        "the backup GPT at LBA 2047 is past the end of the disk (last LBA 149)",
    );
    assert_warns(
        &t,
        "partition 3 (LBA 200 to 200) extends past the end of the disk (150 sectors)",
    );
    let device: Arc<dyn BlockRead> = Arc::new(memory(&disk));
    assert_eq!(
        t.partitions[0]
            .open(Arc::clone(&device))
            .unwrap()
            .size_bytes(),
        66 * 512
    );
    let e = t.partitions[1].open(device).unwrap_err();
    assert_eq!(
        (e.kind(), e.offset()),
        (ErrorKind::OutOfBounds, Some(200 * 512))
    );
}

#[test]
fn overlaps_do_not_open_by_mistake() {
    let disk = gpt().with(2, 90, 120).disk();
    let t = table(&disk);
    assert_warns(
        &t,
        "partitions 1 (LBA 34 to 99) and 2 (LBA 90 to 120) overlap",
    );
    let device: Arc<dyn BlockRead> = Arc::new(memory(&disk));
    let e = t.partitions[1].open(Arc::clone(&device)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt);
    assert_eq!(
        e.to_string(),
        "partition 2 overlaps partition 1 (at byte 0xb400); use --offset 46080 to read it anyway"
    );
    assert!(
        t.partitions[1]
            .open_despite_overlap(Arc::clone(&device))
            .is_ok()
    );
    assert!(t.partitions[2].open(device).is_ok());
}

#[test]
fn entries_that_make_no_sense_are_told() {
    let t = table(
        &gpt()
            .with(4, 500, 400)
            .with(5, u64::MAX - 1, u64::MAX)
            .with(6, 1, 1)
            .disk(),
    );
    assert_eq!(
        t.partitions.iter().map(|p| p.number).collect::<Vec<_>>(),
        [1, 3, 5, 6]
    );
    assert_warns(
        &t,
        "ignoring partition 4: its first LBA 500 is after its last LBA 400",
    );
    assert_eq!(t.partitions[2].problem, Some(Problem::OutOfRange));
    assert_warns(
        &t,
        "partition 6 (LBA 1 to 1) is not within the table's usable sectors (LBA 34 to",
    );
}

/// Changes both headers, and corrects their checksums.
fn patched(patch: impl Fn(&mut [u8])) -> Memory {
    let mut disk = gpt().disk();
    for lba in [1, 2047] {
        let header = &mut disk[lba * 512..lba * 512 + 512];
        patch(header);
        seal(header);
    }
    memory(&disk)
}

#[test]
fn limits_hold_behind_a_right_checksum() {
    let reason = |device: &Memory| read_table(device).unwrap_err().reason().to_owned();
    let entries = |n: u32| patched(move |h| h[80..84].copy_from_slice(&n.to_le_bytes()));
    assert!(reason(&entries(u32::MAX)).contains("gives 4294967295 entries of 128 bytes"));
    assert!(reason(&entries(0)).contains("gives 0 entries of 128 bytes"));
    assert!(reason(&entries(16384)).contains("entries at LBA 2, past the end of the disk"));
    for size in [0_u32, 64, 127, 129, 192, 8192, 1 << 31] {
        let device = patched(move |h| h[84..88].copy_from_slice(&size.to_le_bytes()));
        assert!(reason(&device).contains(&format!("the entry size as {size} bytes")));
    }
    let array_at = |lba: u64| patched(move |h| h[72..80].copy_from_slice(&lba.to_le_bytes()));
    assert!(reason(&array_at(u64::MAX)).contains("past the end of the disk"));
    assert!(reason(&array_at(1 << 60)).contains("past the end of the disk"));
    let usable = patched(|h| h[40..48].copy_from_slice(&5000_u64.to_le_bytes()));
    assert!(reason(&usable).contains("gives LBA 5000 to 2014 as usable"));
    let moved = patched(|h| h[24..32].copy_from_slice(&7_u64.to_le_bytes()));
    assert!(reason(&moved).contains("says that it is at LBA 7"));
}

#[test]
fn alternate_lba_may_say_anything() {
    for lba in [0, 1, 2, 2048, u64::MAX] {
        let mut disk = gpt().disk();
        let header = &mut disk[512..1024];
        header[32..40].copy_from_slice(&lba.to_le_bytes());
        seal(header);
        let t = table(&disk);
        assert_eq!(rows(&t).len(), 2, "{lba}");
        assert_warns(&t, "backup GPT");
    }
}

#[test]
fn another_revision_is_read_and_told() {
    let t = read_table(&patched(|h| h[10] = 2)).unwrap().unwrap();
    assert_warns(&t, "revision 0x00020000");
}

#[test]
fn a_gpt_without_its_protection_is_a_leftover() {
    let mut disk = gpt().disk();
    put_record(&mut disk, 0, &[(0x83, 100, 50)]);
    let t = table(&disk);
    assert_eq!((t.kind, rows(&t)), (TableKind::Mbr, vec![(1, 100, 50)]));
    assert_warns(&t, "but no protective MBR; ignoring it as a leftover");
    disk[..512].fill(0);
    assert!(read_table(&memory(&disk)).unwrap().is_none());
}

#[test]
fn a_protective_entry_without_sectors_protects() {
    let mut disk = gpt().disk();
    put_record(&mut disk, 0, &[(0xee, 1, 0)]);
    let t = table(&disk);
    assert_eq!((t.kind, rows(&t).len()), (TableKind::Gpt, 2));
    assert!(t.warnings.is_empty(), "{:?}", t.warnings);
}

#[test]
fn a_primary_without_entries_sends_to_the_backup() {
    let mut disk = gpt().disk();
    let header = &mut disk[512..1024];
    header[80..84].fill(0);
    header[88..92].fill(0);
    seal(header);
    let t = table(&disk);
    assert_eq!(rows(&t).len(), 2);
    assert_warns(&t, "gives 0 entries of 128 bytes");
}

#[test]
fn protection_without_a_gpt_is_told() {
    let t = table(&mbr(100, &[(0xee, 1, 99)]));
    assert_eq!((t.kind, rows(&t)), (TableKind::Mbr, vec![(1, 1, 99)]));
    assert_warns(&t, "the MBR protects a GPT, but the GPT is missing");
}

#[test]
fn in_a_hybrid_the_gpt_counts() {
    let mut disk = gpt().disk();
    put_entry(&mut disk, 0, 1, 0x83, 200, 1);
    let t = table(&disk);
    assert_eq!(
        (t.kind, rows(&t)),
        (TableKind::HybridMbr, vec![(1, 34, 66), (3, 200, 1)])
    );
    assert_warns(
        &t,
        "hybrid MBR: the GPT is used; the MBR also has 2 (type 0x83 Linux, LBA 200, 1 sectors)",
    );
}

#[test]
fn the_sector_size_can_be_given() {
    let disk = Gpt::new(4096, 100).with(1, 40, 50).disk();
    let wrong = read_table_with(&memory(&disk), SectorSize::B512)
        .unwrap()
        .unwrap();
    assert_eq!(wrong.kind, TableKind::Mbr);
    let right = read_table_with(&memory(&disk), SectorSize::B4096)
        .unwrap()
        .unwrap();
    assert_eq!(right.kind, TableKind::Gpt);
    let mut disk = vec![0; 4096 * 100];
    put_record(&mut disk, 0, &[(0x83, 10, 20), (0x0f, 50, 50)]);
    put_record(&mut disk, 50 * 8, &[(0x82, 1, 9)]);
    let t = read_table_with(&memory(&disk), SectorSize::B4096)
        .unwrap()
        .unwrap();
    assert_eq!(rows(&t), [(1, 10, 20), (2, 50, 50), (5, 51, 9)]);
    assert!(t.warnings.is_empty());
}

#[test]
fn logical_partitions_are_numbered_from_five() {
    for extended in [0x05, 0x0f, 0x85] {
        let mut disk = mbr(1000, &[(0x83, 1, 99), (extended, 100, 900)]);
        put_record(&mut disk, 100, &[(0x83, 1, 49), (0x05, 50, 100)]);
        put_record(&mut disk, 150, &[(0x82, 2, 98), (0x05, 200, 10)]);
        put_record(&mut disk, 300, &[(0x8e, 1, 9)]);
        let t = table(&disk);
        assert_eq!(
            rows(&t),
            [
                (1, 1, 99),
                (2, 100, 900),
                (5, 101, 49),
                (6, 152, 98),
                (7, 301, 9)
            ]
        );
        assert!(t.warnings.is_empty(), "{:?}", t.warnings);
        assert!(t.partitions[1].is_extended() && !t.partitions[2].is_extended());
        let uuids: Vec<_> = t.partitions.iter().map(|p| p.uuid().unwrap()).collect();
        assert_eq!(uuids[0], "cafe0001-01");
        assert_eq!(uuids[4], "cafe0001-07");
    }
}

#[test]
fn chains_end() {
    let container = [(0x05, 100, 900)];
    // A loop to the first record.
    let mut disk = mbr(1000, &container);
    put_record(&mut disk, 100, &[(0x83, 1, 9), (0x05, 10, 10)]);
    put_record(&mut disk, 110, &[(0x83, 1, 9), (0x05, 0, 10)]);
    let t = table(&disk);
    assert_eq!(rows(&t).len(), 3);
    assert_warns(&t, "in partition 1 ends at LBA 100: it has a loop");
    // A link past the end of the disk.
    let mut disk = mbr(1000, &container);
    put_record(&mut disk, 100, &[(0x83, 1, 9), (0x05, u32::MAX, 10)]);
    assert_warns(
        &table(&disk),
        "ends at LBA 4294967395: this is past the end of the disk",
    );
    // A link to a sector without a record.
    let mut disk = mbr(1000, &container);
    put_record(&mut disk, 100, &[(0x83, 1, 9), (0x05, 10, 10)]);
    assert_warns(
        &table(&disk),
        "ends at LBA 110: missing extended boot record",
    );
    // A chain longer than any system follows.
    let mut disk = mbr(2000, &[(0x05, 100, 1900)]);
    for n in 0..500 {
        put_record(
            &mut disk,
            100 + 2 * n,
            &[(0x83, 1, 1), (0x05, u32::try_from(2 * n + 2).unwrap(), 2)],
        );
    }
    let t = table(&disk);
    assert_eq!(t.partitions.last().unwrap().number, 260);
    assert_warns(&t, "it has more than 256 records");
}

#[test]
fn logical_partitions_outside_their_container_are_told() {
    let mut disk = mbr(1000, &[(0x05, 100, 100)]);
    put_record(&mut disk, 100, &[(0x83, 1, 500)]);
    let t = table(&disk);
    assert_eq!(t.partitions[1].problem, None);
    assert_warns(
        &t,
        "logical partition 5 (LBA 101, 500 sectors) is not within the extended partition 1",
    );
}

#[test]
fn garbage_in_the_last_entries_of_a_record_is_passed_over() {
    let mut disk = mbr(1000, &[(0x05, 100, 900)]);
    put_record(
        &mut disk,
        100,
        &[(0x83, 1, 9), (0, 0, 0), (0x83, 3000, 5), (0x83, 20, 5)],
    );
    assert_eq!(
        rows(&table(&disk)),
        [(1, 100, 900), (5, 101, 9), (6, 120, 5)]
    );
}

#[test]
fn mbr_entries_out_of_range_and_on_each_other() {
    let t = table(&mbr(
        1000,
        &[
            (0x83, 1, 100),
            (0x83, 50, 10),
            (0x83, 900, 101),
            (0x83, 0, 0),
        ],
    ));
    let problems: Vec<_> = t.partitions.iter().map(|p| p.problem).collect();
    assert_eq!(
        problems,
        [
            Some(Problem::Overlaps { other: 2 }),
            Some(Problem::Overlaps { other: 1 }),
            Some(Problem::OutOfRange)
        ]
    );
    assert_eq!(t.warnings.len(), 2);
}

/// The table of `xorriso -isohybrid`: type 0 from the first sector on, and the ESP within it.
#[test]
fn isohybrid_is_listed_with_its_overlap() {
    let mut disk = mbr(2000, &[(0x00, 64, 1900), (0xef, 200, 100)]);
    disk[446] = 0x80;
    let t = table(&disk);
    assert_eq!(rows(&t), [(1, 64, 1900), (2, 200, 100)]);
    assert_eq!(t.partitions[0].type_name(), "Empty");
    assert_warns(
        &t,
        "partitions 1 (LBA 64 to 1963) and 2 (LBA 200 to 299) overlap",
    );
}

#[test]
fn an_empty_mbr_is_a_table() {
    let mut disk = mbr(10, &[]);
    disk[440..444].fill(0);
    let t = table(&disk);
    assert_eq!(
        (t.kind, t.disk_id.as_str(), t.partitions.len()),
        (TableKind::Mbr, "", 0)
    );
}

#[test]
fn a_filesystem_on_the_whole_disk_is_no_table() {
    let none = |disk: &[u8]| read_table(&memory(disk)).unwrap().is_none();
    assert!(none(&[]));
    assert!(none(&[0; 511]));
    assert!(none(&[0; 4096]));
    // FAT according to the specification; its boot code would be taken for a partition.
    let mut fat = mbr(100, &[(0x83, 1, 50)]);
    fat[..3].copy_from_slice(&[0xeb, 0x3c, 0x90]);
    assert!(
        !none(&fat),
        "a boot loader's jump over an empty parameter block"
    );
    fat[11..22].copy_from_slice(&[0, 2, 4, 1, 0, 2, 0, 2, 100, 0, 0xf8]);
    assert!(none(&fat));
    for name in [b"NTFS    ", b"EXFAT   "] {
        let mut disk = mbr(100, &[(0x83, 1, 50)]);
        disk[..3].copy_from_slice(&[0xeb, 0x52, 0x90]);
        disk[3..11].copy_from_slice(name);
        assert!(none(&disk));
    }
    // Boot code in place of the flags.
    let mut disk = mbr(100, &[(0x83, 1, 50)]);
    disk[446 + 16] = 0x21;
    assert!(none(&disk));
}

/// Read errors of the device are not faults of the table.
#[test]
fn what_the_device_says_is_passed_on() {
    #[derive(Debug)]
    struct Broken;
    impl BlockRead for Broken {
        fn size_bytes(&self) -> u64 {
            1 << 30
        }
        fn read_at(&self, offset: u64, _: &mut [u8]) -> diskfs_block::Result<()> {
            Err(diskfs_block::Error::new(ErrorKind::Io, "broken").at(offset))
        }
    }
    assert_eq!(read_table(&Broken).unwrap_err().kind(), ErrorKind::Io);
}
