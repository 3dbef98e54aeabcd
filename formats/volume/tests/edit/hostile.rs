//! Damaged and random tables: an edit succeeds or fails, and never panics.

use diskfs_block::Memory;
use diskfs_volume::edit::{Flag, NewPartition, NewSize, PartitionType, TableEditor};
use diskfs_volume::{SectorSize, read_table};
use proptest::prelude::*;

use crate::rig::{MIB, gpt, guid, largest, mbr, of_size};

/// Applies every change to a table, each on its own.
fn edit_all(disk: &[u8]) {
    let memory = Memory::new(disk);
    for size in [None, Some(SectorSize::B512), Some(SectorSize::B4096)] {
        let Ok(editor) = TableEditor::read(&memory, size) else {
            continue;
        };
        let _ = editor.free_space();
        for number in 0..10 {
            type Change<'a> = &'a dyn Fn(&mut TableEditor) -> diskfs_block::Result<()>;
            let new = NewPartition {
                guid: guid(99),
                ..largest()
            };
            let changes: [Change<'_>; 8] = [
                &|e| e.add(&new).map(|_| ()),
                &|e| e.delete(number),
                &|e| e.grow(number, NewSize::Largest).map(|_| ()),
                &|e| e.grow(number, NewSize::More(u64::MAX)).map(|_| ()),
                &|e| e.shrink(number, 512).map(|_| ()),
                &|e| e.set_type(number, PartitionType::LINUX),
                &|e| e.set_flag(number, Flag::Active, true),
                &TableEditor::repair,
            ];
            for change in changes {
                let mut edited = editor.clone();
                let left = Memory::new(disk);
                if change(&mut edited).is_ok() && edited.write(&left).is_ok() {
                    let _ = read_table(&left);
                }
            }
        }
    }
}

fn chain() -> Vec<u8> {
    let disk = Memory::new(vec![0; 4 << 20]);
    let mut editor = TableEditor::create(&disk, mbr(), None).unwrap();
    let extended = NewPartition {
        partition_type: "extended".parse().unwrap(),
        ..of_size(MIB)
    };
    editor.add(&extended).unwrap();
    for _ in 0..3 {
        editor
            .add(&NewPartition {
                role: Some(diskfs_volume::edit::MbrRole::Logical),
                ..of_size(1000)
            })
            .unwrap();
    }
    editor.write(&disk).unwrap();
    disk.to_vec()
}

fn with_gpt() -> Vec<u8> {
    let disk = Memory::new(vec![0; 1 << 18]);
    let mut editor = TableEditor::create(&disk, gpt(), None).unwrap();
    for number in 1..4 {
        let new = NewPartition {
            guid: guid(number),
            ..of_size(1 << 15)
        };
        editor.add(&new).unwrap();
    }
    editor.write(&disk).unwrap();
    disk.to_vec()
}

/// Corrects the checksums of the GPT's header at `at`, and of its entries.
fn seal(disk: &mut [u8], at: usize) {
    let field = |disk: &[u8], offset: usize| {
        let bytes = disk[at + offset..at + offset + 8].try_into().unwrap();
        u64::from_le_bytes(bytes)
    };
    let start = field(disk, 72).saturating_mul(512);
    let len = (field(disk, 80) & 0xffff_ffff).saturating_mul(field(disk, 84) & 0xffff_ffff);
    let range = usize::try_from(start)
        .ok()
        .zip(usize::try_from(start.saturating_add(len)).ok());
    if let Some(array) = range.and_then(|(start, end)| disk.get(start..end)) {
        let crc = crc32fast::hash(array);
        disk[at + 88..at + 92].copy_from_slice(&crc.to_le_bytes());
    }
    disk[at + 16..at + 20].fill(0);
    let crc = crc32fast::hash(&disk[at..at + 92]);
    disk[at + 16..at + 20].copy_from_slice(&crc.to_le_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_entries_of_boot_records(
        changes in prop::collection::vec((0_usize..6, 0_usize..66, any::<u8>()), 1..12),
    ) {
        let mut disk = chain();
        let records: Vec<usize> = (0..disk.len() / 512)
            .map(|sector| sector * 512)
            .filter(|at| disk[at + 510..at + 512] == [0x55, 0xaa])
            .collect();
        for (record, at, byte) in changes {
            let record = records[record % records.len()];
            disk[record + 446 + at] = byte;
        }
        edit_all(&disk);
    }

    #[test]
    fn any_headers_and_entries_of_a_gpt(
        changes in prop::collection::vec((0_usize..4, 0_usize..512, any::<u8>()), 1..12),
    ) {
        let mut disk = with_gpt();
        let last = disk.len() - 512;
        for (place, at, byte) in changes {
            let place = [512, 1024, last, last - 32 * 512][place];
            // Header fields from the LBAs on.
            let at = if place == 512 || place == last { 24 + at % 64 } else { at };
            disk[place + at] = byte;
        }
        seal(&mut disk, 512);
        seal(&mut disk, last);
        edit_all(&disk);
    }
}

#[test]
fn extreme_numbers() {
    for value in [
        0_u64,
        1,
        2,
        33,
        511,
        512,
        u64::MAX / 512,
        u64::MAX - 1,
        u64::MAX,
    ] {
        // LBAs, usable sectors, and the place of the entries.
        for field in [32, 40, 48, 72] {
            let mut disk = with_gpt();
            let last = disk.len() - 512;
            for header in [512, last] {
                disk[header + field..header + field + 8].copy_from_slice(&value.to_le_bytes());
                seal(&mut disk, header);
            }
            edit_all(&disk);
        }
        for field in [32, 40] {
            let mut disk = with_gpt();
            disk[1024 + field..1024 + field + 8].copy_from_slice(&value.to_le_bytes());
            seal(&mut disk, 512);
            edit_all(&disk);
        }
    }
}
