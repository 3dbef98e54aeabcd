//! Disks as sparse files, and the tools that judge them.

use std::path::{Path, PathBuf};

use diskfs_block::{BlockRead, BlockWrite, File, Result};
use diskfs_fixtures::{require, run, run_with_input};
use diskfs_volume::edit::{NewPartition, NewTable, PartitionType, TableEditor};
use diskfs_volume::{Guid, PartitionTable, SectorSize, read_table};

pub(crate) const MIB: u64 = 1 << 20;

static ZEROES: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// The unit in which disks are copied and compared.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;

/// Reads the block at `offset`, which is shorter at the end of the disk.
pub(crate) fn block_of(device: &File, offset: u64) -> Vec<u8> {
    let left = usize::try_from(device.size_bytes() - offset).unwrap();
    let mut block = vec![0; left.min(BLOCK_BYTES)];
    device.read_at(offset, &mut block).unwrap();
    block
}

/// The tools that change and check tables.
pub(crate) fn has_tools() -> bool {
    ["sfdisk", "sgdisk", "parted"]
        .into_iter()
        .all(|tool| require(tool).is_some())
}

/// A sparse file as a disk, in a temporary directory.
pub(crate) struct Rig {
    _directory: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

impl Rig {
    pub(crate) fn new(size_bytes: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let rig = Self {
            _directory: directory,
            path,
        };
        std::fs::File::create(&rig.path).unwrap();
        rig.set_len(size_bytes);
        rig
    }

    /// Returns a disk with the same contents.
    pub(crate) fn copy(&self) -> Self {
        let (from, size_bytes) = (self.device(), self.device().size_bytes());
        let copy = Self::new(size_bytes);
        let to = copy.device();
        for offset in (0..size_bytes).step_by(BLOCK_BYTES) {
            let block = block_of(&from, offset);
            if block != ZEROES[..block.len()] {
                to.write_at(offset, &block).unwrap();
            }
        }
        copy
    }

    pub(crate) fn set_len(&self, size_bytes: u64) {
        let file = std::fs::OpenOptions::new().write(true).open(&self.path);
        file.unwrap().set_len(size_bytes).unwrap();
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }

    pub(crate) fn device(&self) -> File {
        File::open_read_write(&self.path).unwrap()
    }

    pub(crate) fn sfdisk(&self, arguments: &[&str], script: &str) -> String {
        let fixed = ["--quiet", "--no-tell-kernel", "--no-reread", "--wipe=never"];
        let options = fixed
            .iter()
            .chain(arguments.iter().take_while(|a| a.starts_with('-')));
        let rest = arguments
            .iter()
            .skip_while(|a| a.starts_with('-'))
            .map(Path::new);
        let arguments = options
            .map(Path::new)
            .chain([self.path.as_path()])
            .chain(rest);
        run_with_input("sfdisk", arguments, script).unwrap()
    }

    pub(crate) fn sgdisk(&self, arguments: &[&str]) -> String {
        let arguments = arguments.iter().map(Path::new).chain([self.path.as_path()]);
        run("sgdisk", arguments).unwrap()
    }

    pub(crate) fn create(&self, new: NewTable) {
        let device = self.device();
        let editor = TableEditor::create(&device, new, None).unwrap();
        assert!(editor.write(&device).unwrap());
    }

    /// Makes a change in an editor and writes it.
    pub(crate) fn edit<T>(&self, change: impl FnOnce(&mut TableEditor) -> Result<T>) -> Result<T> {
        let device = self.device();
        let mut editor = TableEditor::read(&device, None)?;
        let done = change(&mut editor)?;
        editor.write(&device)?;
        Ok(done)
    }

    pub(crate) fn table(&self) -> PartitionTable {
        read_table(&self.device()).unwrap().unwrap()
    }

    /// Checks the disk with all tools, which must agree with our reading.
    pub(crate) fn check(&self) {
        let table = self.table();
        assert_eq!(table.warnings, [""; 0]);
        let verified = run("sfdisk", [Path::new("--verify"), &self.path]).unwrap();
        assert!(verified.contains("No errors detected"), "{verified}");
        if table.disk_id.len() > 8 {
            let verified = self.sgdisk(&["--verify"]);
            assert!(verified.contains("No problems found"), "{verified}");
        }
        self.check_json(&table);
        self.check_parted(&table);
    }

    /// Compares the table with `sfdisk --json`.
    fn check_json(&self, table: &PartitionTable) {
        let json = run("sfdisk", [Path::new("--json"), &self.path]).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let rows = json["partitiontable"]["partitions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let theirs: Vec<(u64, u64, String)> = rows
            .iter()
            .map(|row| {
                let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
                let number = |key: &str| row[key].as_u64().unwrap() * 512;
                (number("start"), number("size"), text("name"))
            })
            .collect();
        let ours: Vec<(u64, u64, String)> = table
            .partitions
            .iter()
            .map(|p| {
                (
                    p.start_bytes,
                    p.len_bytes,
                    p.name().unwrap_or_default().to_owned(),
                )
            })
            .collect();
        assert_eq!(ours, theirs);
    }

    /// Compares the table with `parted -m print`.
    fn check_parted(&self, table: &PartitionTable) {
        let arguments = ["-s", "-m"]
            .map(Path::new)
            .into_iter()
            .chain([self.path.as_path()]);
        let arguments = arguments.chain(["unit", "B", "print"].map(Path::new));
        let out = run("parted", arguments).unwrap();
        let mut theirs: Vec<(u32, u64, u64)> = out
            .lines()
            .skip(2)
            .map(|line| {
                let mut fields = line.split(':');
                let number = fields.next().unwrap().parse().unwrap();
                let mut bytes = || {
                    fields
                        .next()
                        .unwrap()
                        .trim_end_matches('B')
                        .parse()
                        .unwrap()
                };
                let start: u64 = bytes();
                let end: u64 = bytes();
                (number, start, end + 1 - start)
            })
            .collect();
        theirs.sort_unstable();
        let ours: Vec<(u32, u64, u64)> = table
            .partitions
            .iter()
            .map(|p| (p.number, p.start_bytes, p.len_bytes))
            .collect();
        assert_eq!(ours, theirs, "{out}");
    }
}

/// Returns a GUID that is made of a number.
pub(crate) fn guid(number: u64) -> Guid {
    Guid::from_u128(0x1111_1111_2222_4333_8444_0000_0000_0000 + u128::from(number))
}

pub(crate) fn gpt() -> NewTable {
    NewTable::Gpt { guid: guid(0xdd) }
}

pub(crate) fn mbr() -> NewTable {
    NewTable::Mbr {
        signature: 0x1234_abcd,
    }
}

/// Returns a Linux partition in the largest free space.
pub(crate) fn largest() -> NewPartition {
    NewPartition {
        number: None,
        start_bytes: None,
        size_bytes: None,
        partition_type: PartitionType::LINUX,
        name: String::new(),
        guid: guid(1),
        flags: Vec::new(),
        role: None,
    }
}

/// Returns a Linux partition of `size_bytes`.
pub(crate) fn of_size(size_bytes: u64) -> NewPartition {
    NewPartition {
        size_bytes: Some(size_bytes),
        ..largest()
    }
}

/// Starts a table in memory.
pub(crate) fn editor_of(size_bytes: u64, new: NewTable) -> TableEditor {
    let disk = diskfs_block::Memory::new(vec![0; usize::try_from(size_bytes).unwrap()]);
    TableEditor::create(&disk, new, Some(SectorSize::B512)).unwrap()
}
