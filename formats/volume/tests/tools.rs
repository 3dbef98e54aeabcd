//! Comparison with tools: tables that `sfdisk`, `fdisk` and `sgdisk` write are read as `sfdisk
//! --json`, `sgdisk --info` and `partx` (libblkid, a third implementation) read them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use diskfs_block::File;
use diskfs_fixtures::{require, run, run_with_input};
use diskfs_volume::{PartitionKind, PartitionTable, TableKind, read_table};
use serde_json::Value;

/// The properties of a partition that every tool reports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Row {
    number: u32,
    start: u64,
    sectors: u64,
    /// The type: a GUID in lower case, or the type byte as `0x83`.
    kind: String,
    uuid: String,
    name: String,
    active: bool,
    attributes: String,
}

/// A random number generator, so that each run makes the same disks (Steele et al., `SplitMix64`).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }

    fn guid(&mut self) -> String {
        let (a, b) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            a >> 32,
            a >> 16 & 0xffff,
            a & 0xfff,
            b >> 52,
            b & 0xffff_ffff_ffff
        )
    }
}

/// A sparse file as a disk, in a temporary directory.
struct Disk {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl Disk {
    fn new(size_bytes: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        std::fs::File::create(&path)
            .unwrap()
            .set_len(size_bytes)
            .unwrap();
        Self {
            _directory: directory,
            path,
        }
    }

    fn sfdisk(&self, script: &str) {
        let arguments = [
            "--quiet",
            "--no-tell-kernel",
            "--no-reread",
            "--wipe",
            "never",
        ];
        let arguments = arguments
            .map(Path::new)
            .into_iter()
            .chain([self.path.as_path()]);
        run_with_input("sfdisk", arguments, script).unwrap();
    }

    /// Runs `fdisk` for sectors of 4096 bytes. `sfdisk` of util-linux before 2.40 supports only the
    /// device's sector size; `fdisk` supports others, and reads the same scripts.
    fn fdisk_4096(&self, script: &str) {
        let file = self.path.with_extension("script");
        std::fs::write(&file, script).unwrap();
        let input = format!("I\n{}\nw\n", file.display());
        let arguments = ["-b", "4096", "--wipe", "never"].map(Path::new);
        let arguments = arguments.into_iter().chain([self.path.as_path()]);
        run_with_input("fdisk", arguments, &input).unwrap();
    }

    fn sgdisk(&self, arguments: &[&str]) -> String {
        let arguments = arguments.iter().map(Path::new).chain([self.path.as_path()]);
        run("sgdisk", arguments).unwrap()
    }

    /// Overwrites a part of the file.
    fn write(&self, offset: u64, bytes: &[u8]) {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(&self.path)
            .unwrap();
        file.write_all_at(bytes, offset).unwrap();
    }

    fn set_len(&self, size_bytes: u64) {
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(&self.path)
            .unwrap();
        file.set_len(size_bytes).unwrap();
    }

    fn len(&self) -> u64 {
        std::fs::metadata(&self.path).unwrap().len()
    }

    fn table(&self) -> PartitionTable {
        read_table(&File::open(&self.path).unwrap())
            .unwrap()
            .unwrap()
    }
}

/// Returns our reading of a table.
fn our_rows(table: &PartitionTable) -> Vec<Row> {
    let sector = u64::from(table.sector_size);
    let row = |p: &diskfs_volume::Partition| {
        let mut row = Row {
            number: p.number,
            start: p.start_bytes / sector,
            sectors: p.len_bytes / sector,
            uuid: p.uuid().unwrap_or_default(),
            name: p.name().unwrap_or_default().to_owned(),
            ..Row::default()
        };
        match &p.kind {
            PartitionKind::Gpt {
                type_guid,
                attributes,
                ..
            } => {
                row.kind = type_guid.to_string();
                row.attributes = attributes.to_string();
            }
            PartitionKind::Mbr {
                type_byte, active, ..
            } => {
                row.kind = format!("{type_byte:#x}");
                row.active = *active;
            }
            _ => unreachable!("a third kind of partition"),
        }
        row
    };
    table.partitions.iter().map(row).collect()
}

/// Returns the output of `sfdisk --json`, and the disk's id.
fn sfdisk_rows(disk: &Disk) -> (String, Vec<Row>) {
    let json = run("sfdisk", [Path::new("--json"), &disk.path]).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let table = &json["partitiontable"];
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let is_gpt = table["label"] == "gpt";
    let disk_id = text(&table["id"]).to_lowercase().replace("0x", "");
    let node = disk.path.to_str().unwrap();
    let row = |v: &Value| {
        let number = text(&v["node"])
            .strip_prefix(node)
            .unwrap()
            .parse()
            .unwrap();
        Row {
            number,
            start: v["start"].as_u64().unwrap(),
            sectors: v["size"].as_u64().unwrap(),
            kind: if is_gpt {
                text(&v["type"]).to_lowercase()
            } else {
                format!("0x{}", text(&v["type"]))
            },
            uuid: if is_gpt {
                text(&v["uuid"]).to_lowercase()
            } else {
                format!("{disk_id}-{number:02x}")
            },
            name: text(&v["name"]),
            active: v["bootable"] == true,
            attributes: text(&v["attrs"]),
        }
    };
    let rows = table["partitions"]
        .as_array()
        .map(|all| all.iter().map(row).collect());
    (disk_id, rows.unwrap_or_default())
}

/// Returns the output of `partx` in the same form; it has no named attributes.
fn partx_rows(disk: &Disk, sector_size: u32) -> Vec<Row> {
    let size = sector_size.to_string();
    let columns = "NR,START,SECTORS,TYPE,UUID,NAME,FLAGS";
    let arguments = ["--sector-size", &size, "-b", "-P", "-o", columns].map(Path::new);
    let out = run("partx", arguments.into_iter().chain([disk.path.as_path()])).unwrap();
    out.lines().map(partx_row).collect()
}

fn partx_row(line: &str) -> Row {
    let field = |name: &str| {
        let start = line.find(&format!("{name}=\"")).unwrap() + name.len() + 2;
        line[start..].split('"').next().unwrap()
    };
    Row {
        number: field("NR").parse().unwrap(),
        start: field("START").parse().unwrap(),
        sectors: field("SECTORS").parse().unwrap(),
        kind: field("TYPE").to_owned(),
        uuid: field("UUID").to_owned(),
        name: field("NAME").to_owned(),
        active: field("FLAGS") == "0x80",
        attributes: String::new(),
    }
}

fn without_attributes(rows: Vec<Row>) -> Vec<Row> {
    let strip = |row| Row {
        attributes: String::new(),
        ..row
    };
    rows.into_iter().map(strip).collect()
}

const TYPES: [(&str, &str); 6] = [
    ("c12a7328-f81f-11d2-ba4b-00a0c93ec93b", "EFI System"),
    ("21686148-6449-6e6f-744e-656564454649", "BIOS boot"),
    ("0fc63daf-8483-4772-8e79-3d69d8477de4", "Linux filesystem"),
    (
        "4f68bce3-e8cd-4db1-96e7-fbcaf984b709",
        "Linux root (x86-64)",
    ),
    (
        "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7",
        "Microsoft basic data",
    ),
    ("01234567-89ab-4cde-8f01-23456789abcd", "unknown"),
];

/// Returns an `sfdisk` script of a GPT with up to 12 partitions, with gaps in their numbers and in
/// any order on the disk.
fn gpt_script(random: &mut Random, sectors: u64) -> String {
    let mut script = format!(
        "label: gpt\nlabel-id: {}\nunit: sectors\nfirst-lba: 34\n\n",
        random.guid()
    );
    let count = random.below(12) + 1;
    let room = (sectors - 200) / count;
    let mut numbers: Vec<u64> = (1..=count).map(|n| n + random.below(3) * 20).collect();
    numbers.sort_unstable();
    numbers.dedup();
    for i in (1..numbers.len()).rev() {
        numbers.swap(i, usize::try_from(random.below(i as u64 + 1)).unwrap());
    }
    for (slot, number) in (0..).zip(numbers) {
        let start = 100 + slot * room + random.below(room / 2);
        let size = 1 + random.below(room / 2 - 1);
        let kind = random.pick(&TYPES).0;
        let name = random.pick(&[
            "",
            "root",
            "EFI system partition",
            "gr\u{fc}n \u{1f4be}",
            "x",
        ]);
        let attributes = random.pick(&["", "RequiredPartition", "LegacyBIOSBootable GUID:48,63"]);
        let uuid = random.guid();
        writeln!(
            script,
            "disk{number} : start={start}, size={size}, type={kind}, uuid={uuid}, \
             name=\"{name}\", attrs=\"{attributes}\""
        )
        .unwrap();
    }
    script
}

/// Returns an `sfdisk` script of an MBR with primary, extended and logical partitions.
fn mbr_script(random: &mut Random, sectors: u64) -> String {
    let id = random.next() & 0xffff_ffff | 1;
    let mut script = format!("label: dos\nlabel-id: {id:#010x}\nunit: sectors\nfirst-lba: 1\n\n");
    let types = ["83", "82", "7", "c", "8e", "fd", "ef"];
    let quarter = (sectors - 8) / 4;
    let extended = random.below(4) + 1;
    for number in 1..=4 {
        let start = 1 + (number - 1) * quarter;
        if number == extended {
            let kind = random.pick(&["5", "f", "85"]);
            writeln!(
                script,
                "disk{number} : start={start}, size={quarter}, type={kind}"
            )
            .unwrap();
        } else if random.below(3) > 0 {
            let size = 1 + random.below(quarter);
            let (kind, active) = (random.pick(&types), random.pick(&["", ", bootable"]));
            writeln!(
                script,
                "disk{number} : start={start}, size={size}, type={kind}{active}"
            )
            .unwrap();
        }
    }
    let logical = random.below(9);
    let room = quarter / 10;
    for n in 0..logical {
        let start = 1 + (extended - 1) * quarter + n * room + 1 + random.below(room / 3);
        let size = 1 + random.below(room / 2);
        let kind = random.pick(&types);
        writeln!(
            script,
            "disk{} : start={start}, size={size}, type={kind}",
            n + 5
        )
        .unwrap();
    }
    script
}

#[test]
fn random_gpts_are_read_as_the_tools_read_them() {
    if require("sfdisk").and(require("partx")).is_none() {
        return;
    }
    for seed in 0..12 {
        let disk = Disk::new(64 << 20);
        disk.sfdisk(&gpt_script(&mut Random(seed), 131_072));
        let table = disk.table();
        let (disk_id, theirs) = sfdisk_rows(&disk);
        assert_eq!((table.kind, table.sector_size), (TableKind::Gpt, 512));
        assert_eq!(
            (&table.disk_id, our_rows(&table)),
            (&disk_id, theirs),
            "seed {seed}"
        );
        assert_eq!(
            without_attributes(our_rows(&table)),
            gpt_partx_rows(&disk, 512)
        );
        assert!(table.warnings.is_empty(), "{:?}", table.warnings);
    }
}

/// Returns the output of `partx` for a GPT, in sectors of `sector_size`. It prints the attributes
/// as flags; a GPT has no active partition.
fn gpt_partx_rows(disk: &Disk, sector_size: u32) -> Vec<Row> {
    let mut rows = partx_rows(disk, sector_size);
    // `partx` counts in units of 512 bytes, whatever sector size it is given.
    let scale = u64::from(sector_size / 512);
    for row in &mut rows {
        row.active = false;
        row.start /= scale;
        row.sectors /= scale;
    }
    rows
}

#[test]
fn random_mbrs_are_read_as_the_tools_read_them() {
    if require("sfdisk").and(require("partx")).is_none() {
        return;
    }
    let mut logical = 0;
    for seed in 0..12 {
        let disk = Disk::new(64 << 20);
        disk.sfdisk(&mbr_script(&mut Random(seed), 131_072));
        let table = disk.table();
        let (disk_id, theirs) = sfdisk_rows(&disk);
        assert_eq!((table.kind, table.sector_size), (TableKind::Mbr, 512));
        assert_eq!(
            (&table.disk_id, our_rows(&table)),
            (&disk_id, theirs),
            "seed {seed}"
        );
        assert_eq!(
            our_rows(&table),
            mbr_partx_rows(&disk, &table),
            "seed {seed}"
        );
        assert!(table.warnings.is_empty(), "{:?}", table.warnings);
        logical += table.partitions.iter().filter(|p| p.number > 4).count();
    }
    assert!(logical > 25);
}

/// Returns the output of `partx` for an MBR, with the length of extended partitions corrected:
/// `partx` prints two sectors, like the kernel.
fn mbr_partx_rows(disk: &Disk, table: &PartitionTable) -> Vec<Row> {
    let mut rows = partx_rows(disk, table.sector_size);
    for (row, p) in rows.iter_mut().zip(&table.partitions) {
        if p.is_extended() {
            row.sectors = p.len_bytes / u64::from(table.sector_size);
        }
    }
    rows
}

#[test]
fn tables_of_4096_byte_sectors_are_read_as_the_tools_read_them() {
    if require("fdisk").and(require("partx")).is_none() {
        return;
    }
    for seed in 100..106 {
        let disk = Disk::new(64 << 20);
        disk.fdisk_4096(&gpt_script(&mut Random(seed), 16_384));
        let table = disk.table();
        assert_eq!((table.kind, table.sector_size), (TableKind::Gpt, 4096));
        assert_eq!(
            without_attributes(our_rows(&table)),
            gpt_partx_rows(&disk, 4096)
        );
        assert!(!table.partitions.is_empty());
        assert!(table.warnings.is_empty(), "{:?}", table.warnings);
        // Without the primary GPT, too.
        disk.write(4096, &[0; 4096]);
        assert_eq!(disk.table().partitions, table.partitions);
    }
}

#[test]
fn types_have_the_names_that_fdisk_gives_them() {
    if require("sfdisk").is_none() {
        return;
    }
    for (guid, name) in TYPES {
        let disk = Disk::new(4 << 20);
        disk.sfdisk(&format!("label: gpt\nsize=100, type={guid}\n"));
        assert_eq!(disk.table().partitions[0].type_name(), name);
        let theirs = run(
            "sfdisk",
            [
                Path::new("-l"),
                "-q".as_ref(),
                "-o".as_ref(),
                "Type".as_ref(),
                &disk.path,
            ],
        )
        .unwrap();
        assert!(theirs.contains(name), "{theirs}");
    }
}

#[test]
fn sgdisk_tells_the_same_of_each_partition() {
    if require("sgdisk").is_none() {
        return;
    }
    let disk = Disk::new(32 << 20);
    disk.sgdisk(&[
        "--clear",
        "--new=1:2048:+1M",
        "--typecode=1:ef00",
        "--change-name=1:ESP",
        "--new=9:0:+3M",
        "--typecode=9:8304",
        "--attributes=9:set:2",
        "--attributes=9:set:59",
    ]);
    let table = disk.table();
    assert_eq!(table.partitions.len(), 2);
    for row in our_rows(&table) {
        let info = disk.sgdisk(&[&format!("--info={}", row.number)]);
        let after = |key: &str| {
            let rest = info
                .split(key)
                .nth(1)
                .unwrap_or_else(|| panic!("{key} in {info}"));
            rest.split_whitespace().next().unwrap().to_lowercase()
        };
        assert_eq!(after("Partition GUID code: "), row.kind);
        assert_eq!(after("Partition unique GUID: "), row.uuid);
        assert_eq!(after("First sector: "), row.start.to_string());
        assert_eq!(after("Partition size: "), row.sectors.to_string());
        assert!(info.contains(&format!("Partition name: '{}'", row.name)));
    }
    let PartitionKind::Gpt { attributes, .. } = &table.partitions[1].kind else {
        panic!("no GPT");
    };
    let flags = format!("Attribute flags: {:016X}", attributes.0);
    assert!(disk.sgdisk(&["--info=9"]).contains(&flags));
}

#[test]
fn a_table_of_any_number_of_entries() {
    if require("sgdisk").is_none() {
        return;
    }
    for entries in ["4", "32", "128", "256", "1024"] {
        let disk = Disk::new(32 << 20);
        disk.sgdisk(&[&format!("--resize-table={entries}"), "--new=4:4096:8191"]);
        let table = disk.table();
        assert_eq!(table.partitions[0].number, 4);
        assert!(table.warnings.is_empty(), "{:?}", table.warnings);
    }
}

#[test]
fn broken_and_moved_copies_give_the_same_partitions() {
    if require("sgdisk").is_none() {
        return;
    }
    let disk = Disk::new(32 << 20);
    disk.sgdisk(&["--new=1:2048:4095", "--new=2:8192:9000"]);
    let good = disk.table();
    let end = disk.len();
    for (offset, word) in [(512, "LBA 1"), (1024, "LBA 1"), (end - 512, "LBA 65535")] {
        let broken = Disk::new(end);
        std::fs::copy(&disk.path, &broken.path).unwrap();
        broken.write(offset, &[0xff; 512]);
        let table = broken.table();
        assert_eq!(table.partitions, good.partitions, "{offset}");
        assert!(table.warnings[0].contains(word), "{:?}", table.warnings);
    }
    disk.set_len(40 << 20);
    let grown = disk.table();
    assert_eq!(grown.partitions, good.partitions);
    assert!(
        grown.warnings[0].contains("the disk grew"),
        "{:?}",
        grown.warnings
    );
    disk.sgdisk(&["--move-second-header"]);
    assert_eq!(disk.table(), good);
}

#[test]
fn a_hybrid_mbr_by_sgdisk() {
    if require("sgdisk").is_none() {
        return;
    }
    let disk = Disk::new(32 << 20);
    disk.sgdisk(&["--new=1:2048:4095", "--new=2:8192:9000"]);
    let pure = disk.table();
    disk.sgdisk(&["--hybrid=1:2"]);
    let hybrid = disk.table();
    assert_eq!(
        (pure.kind, hybrid.kind),
        (TableKind::Gpt, TableKind::HybridMbr)
    );
    assert_eq!(pure.partitions, hybrid.partitions);
    assert!(
        hybrid.warnings[0].contains("LBA 8192, 809 sectors"),
        "{:?}",
        hybrid.warnings
    );
}

/// Builds a disk that was converted from GPT to MBR by a tool that keeps the GPT's headers.
#[test]
fn a_leftover_gpt_is_no_table() {
    if require("sfdisk").is_none() {
        return;
    }
    let disk = Disk::new(32 << 20);
    disk.sfdisk("label: gpt\nstart=2048, size=100\n");
    disk.write(0, &[0; 512]);
    disk.write(446 + 4, &[0x83, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0]);
    disk.write(510, &[0x55, 0xaa]);
    let table = disk.table();
    assert_eq!(
        (table.kind, table.partitions[0].start_bytes),
        (TableKind::Mbr, 7 * 512)
    );
    assert!(table.warnings[0].contains("leftover"));
}

#[test]
fn filesystems_on_the_whole_disk_have_no_table() {
    let makers: [(&str, &[&str]); 4] = [
        ("mkfs.fat", &["-F", "12"]),
        ("mkfs.fat", &["-F", "32"]),
        ("mke2fs", &["-q", "-t", "ext4", "-F"]),
        ("mke2fs", &["-q", "-t", "ext2", "-F", "-b", "1024"]),
    ];
    for (program, arguments) in makers {
        if require(program).is_none() {
            return;
        }
        let disk = Disk::new(40 << 20);
        let arguments = arguments.iter().map(Path::new).chain([disk.path.as_path()]);
        run(program, arguments).unwrap();
        let table = read_table(&File::open(&disk.path).unwrap()).unwrap();
        assert_eq!(table, None, "{program}");
    }
}
