//! Labels of BSD, Sun and SGI and Apple's map: tables that tools write are read as `partx`
//! (libblkid) reads them, and any bytes with correct checksums are handled.

use std::path::{Path, PathBuf};

use diskfs_block::{BlockRead, File, Memory};
use diskfs_fixtures::{require, run, run_with_input};
use diskfs_volume::{Partition, PartitionTable, TableKind, read_table};
use proptest::prelude::*;

const DISK_BYTES: u64 = 64 << 20;

/// A sparse file as a disk, in a temporary directory.
struct Disk {
    directory: tempfile::TempDir,
}

impl Disk {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disk = Self { directory };
        let file = std::fs::File::create(disk.path()).unwrap();
        file.set_len(DISK_BYTES).unwrap();
        disk
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("disk")
    }

    fn sfdisk(script: &str) -> Self {
        let disk = Self::new();
        let words = [
            "--quiet",
            "--no-reread",
            "--no-tell-kernel",
            "--wipe",
            "never",
        ];
        let words = words.map(PathBuf::from).into_iter().chain([disk.path()]);
        run_with_input("sfdisk", words, script).unwrap();
        disk
    }

    fn fdisk(self, commands: &str) -> Self {
        let words = ["--wipe", "never"].map(PathBuf::from);
        run_with_input("fdisk", words.into_iter().chain([self.path()]), commands).unwrap();
        self
    }

    fn table(&self) -> PartitionTable {
        read_table(&File::open(self.path()).unwrap())
            .unwrap()
            .unwrap()
    }

    /// Returns the number, first sector and length of each partition according to `partx`.
    fn partx(&self) -> Vec<(u32, u64, u64)> {
        let words = ["--show", "--noheadings", "--output", "NR,START,SECTORS"].map(Path::new);
        let path = self.path();
        let told = run("partx", words.into_iter().chain([path.as_path()])).unwrap();
        let row = |line: &str| {
            let mut numbers = line
                .split_ascii_whitespace()
                .map(|word| word.parse().unwrap());
            let mut next = || numbers.next().unwrap();
            (u32::try_from(next()).unwrap(), next(), next())
        };
        told.lines().map(row).collect()
    }
}

fn rows(table: &PartitionTable) -> Vec<(u32, u64, u64)> {
    let row = |p: &Partition| (p.number, p.start_bytes / 512, p.len_bytes / 512);
    table.partitions.iter().map(row).collect()
}

/// Checks that only containers have problems, and that all other partitions open.
fn check(disk: &Disk, kind: TableKind) -> PartitionTable {
    let table = disk.table();
    assert_eq!(table.kind, kind);
    let mut ours = rows(&table);
    if kind == TableKind::Sun {
        ours.retain(|(number, ..)| *number != 3); // The whole disk, which the kernel shows.
    }
    assert_eq!(ours, disk.partx(), "{table:?}");
    assert_eq!(table.warnings, [""; 0]);
    for partition in &table.partitions {
        assert_eq!(partition.problem, None, "{partition:?}");
    }
    table
}

#[test]
fn sun_labels_are_read_as_partx_reads_them() {
    if require("sfdisk").and(require("partx")).is_none() {
        return;
    }
    let disk = Disk::sfdisk(
        "label: sun\n1 : start=0, size=32130, type=2\n2 : start=32130, size=16065, type=3\n3 : start=0, size=128520, type=5\n8 : start=48195, size=16065, type=83\n",
    );
    let table = check(&disk, TableKind::Sun);
    let types: Vec<_> = table.partitions.iter().map(Partition::type_name).collect();
    assert_eq!(
        types,
        ["SunOS root", "SunOS swap", "Whole disk", "Linux native"]
    );
    let whole: Vec<_> = table
        .partitions
        .iter()
        .map(Partition::is_extended)
        .collect();
    assert_eq!(whole, [false, false, true, false]);
}

#[test]
fn sgi_volume_headers_are_read_as_partx_reads_them() {
    if require("sfdisk").and(require("partx")).is_none() {
        return;
    }
    let disk = Disk::new().fdisk("G\nn\n1\n\n+20M\nn\n2\n\n\nw\n");
    let table = check(&disk, TableKind::Sgi);
    assert!(table.partitions.len() >= 3, "{table:?}");
}

#[test]
fn apple_maps_are_read_as_partx_reads_them() {
    if require("parted").and(require("partx")).is_none() {
        return;
    }
    let disk = Disk::new();
    let path = disk.path();
    let words = "--script PATH mklabel mac mkpart one hfs 1MiB 20MiB mkpart two ext2 20MiB 40MiB name 2 first";
    let words = words.split(' ').map(|word| match word {
        "PATH" => path.as_os_str(),
        word => word.as_ref(),
    });
    run("parted", words).unwrap();
    let table = check(&disk, TableKind::Apple);
    let second = &table.partitions[1];
    assert_eq!(
        (second.name(), second.type_name()),
        (Some("first"), "Apple_HFS")
    );
    assert!(table.partitions[0].is_extended(), "the map itself");
}

#[test]
fn disklabels_in_slices_are_read_as_partx_reads_them() {
    if require("fdisk").and(require("partx")).is_none() {
        return;
    }
    for (kind, name) in [("a5", "FreeBSD"), ("a6", "OpenBSD"), ("a9", "NetBSD")] {
        let script = format!(
            "label: dos\nstart=2048, size=20480, type=83\nstart=22528, size=81920, type={kind}\n"
        );
        let disk = Disk::sfdisk(&script)
            .fdisk("b\ny\nn\na\n22544\n+10M\nn\nb\n50000\n+5M\nt\na\n7\nt\nb\n1\nw\n");
        let table = check(&disk, TableKind::Mbr);
        assert!(table.partitions.len() >= 4, "{name}: {table:?}");
        assert!(table.partitions[1].is_extended(), "{name}");
        assert_eq!(table.partitions[2].number, 5);
    }
}

/// FreeBSD's own programs count from the start of the slice.
#[test]
fn a_disklabel_of_freebsd_counts_from_its_slice() {
    if require("sfdisk").and(require("partx")).is_none() {
        return;
    }
    let disk = Disk::sfdisk("label: dos\nstart=2048, size=81920, type=a5\n");
    let parts = [(16, 1000, 7), (1016, 100, 1), (0, 81920, 0)];
    let mut bytes = std::fs::read(disk.path()).unwrap();
    bytes[2049 * 512..2050 * 512].copy_from_slice(&disklabel(&parts));
    std::fs::write(disk.path(), &bytes).unwrap();
    let table = check(&disk, TableKind::Mbr);
    assert_eq!(rows(&table)[1..], [(5, 2064, 1000), (6, 3064, 100)]);
}

#[test]
fn a_disklabel_on_a_whole_disk_is_read_as_partx_reads_it() {
    if require("fdisk").and(require("partx")).is_none() {
        return;
    }
    let mut disk = vec![0; 1 << 20];
    let parts = [(0, 100, 7), (100, 50, 1), (0, 2048, 0), (150, 1898, 7)];
    disk[512..1024].copy_from_slice(&disklabel(&parts));
    let on_disk = Disk::new();
    std::fs::write(on_disk.path(), &disk).unwrap();
    let table = on_disk.table();
    assert_eq!(table.kind, TableKind::Bsd);
    // `partx` numbers only the used entries; we number them by their letters.
    let places = |rows: Vec<(u32, u64, u64)>| rows.into_iter().map(|(_, start, len)| (start, len));
    let theirs: Vec<_> = places(on_disk.partx()).collect();
    assert_eq!(places(rows(&table)).collect::<Vec<_>>(), theirs);
    let numbers: Vec<u32> = table.partitions.iter().map(|p| p.number).collect();
    assert_eq!(numbers, [1, 2, 4]);
    assert_eq!(table.partitions[0].type_name(), "4.2BSD");
}

/// Builds a label of partitions: first sector, length and type of each.
fn disklabel(parts: &[(u32, u32, u8)]) -> Vec<u8> {
    let mut label = vec![0; 512];
    label[0..4].copy_from_slice(&0x8256_4557_u32.to_le_bytes());
    label[40..44].copy_from_slice(&512_u32.to_le_bytes());
    label[132..136].copy_from_slice(&0x8256_4557_u32.to_le_bytes());
    label[138..140].copy_from_slice(&u16::try_from(parts.len()).unwrap().to_le_bytes());
    for (at, (start, len, fstype)) in (148..).step_by(16).zip(parts) {
        label[at..at + 4].copy_from_slice(&len.to_le_bytes());
        label[at + 4..at + 8].copy_from_slice(&start.to_le_bytes());
        label[at + 12] = *fstype;
    }
    let words = label.chunks_exact(2).take(74 + 8 * parts.len());
    let sum = words.fold(0, |sum, word| sum ^ u16::from_le_bytes([word[0], word[1]]));
    label[136..138].copy_from_slice(&sum.to_le_bytes());
    label
}

/// Reads the table, and every partition that opens.
fn exercise(disk: Vec<u8>) {
    let device: std::sync::Arc<dyn BlockRead> = std::sync::Arc::new(Memory::new(disk));
    let Ok(Some(table)) = read_table(&*device) else {
        return;
    };
    assert!(table.partitions.len() <= 300 && table.warnings.len() <= 300);
    for partition in &table.partitions {
        let opened = partition.open(std::sync::Arc::clone(&device));
        assert_eq!(opened.is_ok(), partition.problem.is_none(), "{partition:?}");
        let _ = (partition.type_name(), partition.uuid(), partition.name());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_disklabel(
        parts in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u8>()), 0..22),
        near in prop::collection::vec((0_u32..100, 0_u32..100, 0_u8..3), 0..8),
        slice in any::<[u8; 8]>(),
        kind in prop_oneof![Just(0xa5_u8), Just(0xa6), Just(0xa9)],
    ) {
        for parts in [parts, near] {
            let mut disk = vec![0; 100 * 512];
            disk[512..1024].copy_from_slice(&disklabel(&parts));
            exercise(disk.clone());
            disk[510..512].copy_from_slice(&[0x55, 0xaa]);
            disk[446 + 4] = kind;
            disk[446 + 12..446 + 16].copy_from_slice(&100_u32.to_le_bytes());
            exercise(disk.clone());
            disk[446 + 8..446 + 16].copy_from_slice(&slice);
            exercise(disk);
        }
    }

    #[test]
    fn any_sun_label(bytes in prop::collection::vec(any::<u8>(), 512)) {
        let mut disk = vec![0; 100 * 512];
        disk[..512].copy_from_slice(&bytes);
        disk[508..512].copy_from_slice(b"\xda\xbe\0\0");
        let words = disk[..512].chunks_exact(2);
        let sum = words.fold(0, |sum, word| sum ^ u16::from_be_bytes([word[0], word[1]]));
        disk[510..512].copy_from_slice(&sum.to_be_bytes());
        exercise(disk);
    }

    #[test]
    fn any_sgi_header(bytes in prop::collection::vec(any::<u8>(), 512)) {
        let mut disk = vec![0; 100 * 512];
        disk[..512].copy_from_slice(&bytes);
        disk[..4].copy_from_slice(b"\x0b\xe5\xa9\x41");
        disk[504..512].fill(0);
        let words = disk[..512].chunks_exact(4);
        let sum = words.fold(0_u32, |sum, word| {
            sum.wrapping_add(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
        });
        disk[504..508].copy_from_slice(&sum.wrapping_neg().to_be_bytes());
        exercise(disk);
    }

    #[test]
    fn any_apple_map(
        block_bytes in prop_oneof![Just(512_u16), Just(2048), any::<u16>()],
        entries in prop::collection::vec(any::<[u8; 12]>(), 0..20),
    ) {
        let mut disk = vec![0; 100 * 512];
        disk[..2].copy_from_slice(b"ER");
        disk[2..4].copy_from_slice(&block_bytes.to_be_bytes());
        let size = usize::from(block_bytes);
        for (at, entry) in (size..).step_by(size.max(1)).zip(&entries) {
            if at + 80 <= disk.len() {
                disk[at..at + 4].copy_from_slice(b"PM\0\0");
                disk[at + 4..at + 16].copy_from_slice(entry);
            }
        }
        exercise(disk);
    }
}
