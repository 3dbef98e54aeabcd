//! A crash at any write leaves the old table or the new one, and nothing but the table is written.

use std::sync::Arc;

use diskfs_block::{BlockWrite, Event, Faulty, Memory, Overlay, Result, WriteLog};
use diskfs_volume::edit::{
    Flag, MbrRole, NewPartition, NewSize, NewTable, PartitionType, TableEditor,
};
use diskfs_volume::{Partition, PartitionTable, SectorSize, read_table};

use crate::rig::{MIB, gpt, guid, largest, mbr, of_size};

fn bytes_of(size_bytes: u64) -> Vec<u8> {
    vec![0; usize::try_from(size_bytes).unwrap()]
}

/// Returns the bytes of a disk with partitions that `fill` adds one by one.
fn disk(new: NewTable, fill: &[NewPartition]) -> Vec<u8> {
    let disk = Memory::new(bytes_of(16 * MIB));
    let mut editor = TableEditor::create(&disk, new, None).unwrap();
    editor.write(&disk).unwrap();
    for (number, new) in (1..).zip(fill) {
        editor = TableEditor::read(&disk, None).unwrap();
        let new = NewPartition {
            guid: guid(number),
            ..new.clone()
        };
        editor.add(&new).unwrap();
        editor.write(&disk).unwrap();
    }
    disk.to_vec()
}

/// The contents of a table without warnings, which tell of a copy that was not written yet.
fn contents(table: PartitionTable) -> (String, Vec<Partition>) {
    (table.disk_id, table.partitions)
}

/// Makes a change, and checks the states that a crash can leave.
fn crashes(
    before: &[u8],
    change: impl Fn(&dyn BlockWrite) -> Result<()>,
) -> (usize, PartitionTable) {
    let base = Arc::new(Memory::new(before));
    let device = Faulty::new(Arc::new(Memory::new(before)), []);
    let old_table = read_table(&device).unwrap();
    let old = old_table.clone().map(contents);
    change(&device).unwrap();
    let new_table = read_table(&device).unwrap().unwrap();
    assert_eq!(new_table.warnings, [""; 0]);
    let new = Some(contents(new_table.clone()));
    let log = device.log();
    assert_eq!(log.events().last(), Some(&Event::Flush));
    if let Some(old) = &old_table {
        check_places(old, &log);
    }
    for state in log.states(1) {
        let left = Overlay::in_memory(base.clone(), MIB);
        state.replay(&left).unwrap();
        let found = read_table(&left).unwrap().map(contents);
        assert!(
            found == old || found == new,
            "{state}: {found:#?}\n{old:#?}\n{new:#?}"
        );
        // The change, or a repair, completes what the crash left.
        let mut editor = TableEditor::read(&left, None)
            .unwrap_or_else(|_| TableEditor::create(&left, mbr(), None).unwrap());
        if editor.repair().is_ok() {
            editor.write(&left).unwrap();
            let repaired = read_table(&left).unwrap().unwrap();
            assert_eq!(repaired.warnings, [""; 0], "{state}");
            assert_eq!(Some(contents(repaired)), found, "{state}");
        }
    }
    (log.events().len(), new_table)
}

/// Fails if a write touches a partition that the disk had before, except for extended ones.
fn check_places(old: &PartitionTable, log: &WriteLog) {
    for event in log.events() {
        let Event::Write { offset, bytes } = event else {
            assert_eq!(*event, Event::Flush);
            continue;
        };
        let end = offset + bytes.len() as u64;
        for p in old.partitions.iter().filter(|p| !p.is_extended()) {
            let apart = end <= p.start_bytes || *offset >= p.start_bytes + p.len_bytes;
            assert!(
                apart,
                "the write at {offset} changes partition {}",
                p.number
            );
        }
    }
}

fn edit(change: impl Fn(&mut TableEditor) -> Result<()>) -> impl Fn(&dyn BlockWrite) -> Result<()> {
    move |device| {
        let mut editor = TableEditor::read(device, None)?;
        change(&mut editor)?;
        editor.write(device)?;
        Ok(())
    }
}

#[test]
fn changes_of_a_gpt() {
    let before = disk(gpt(), &[of_size(3 * MIB), of_size(3 * MIB)]);
    let third = NewPartition {
        guid: guid(3),
        ..largest()
    };
    crashes(&before, edit(|e| e.add(&third).map(|_| ())));
    crashes(&before, edit(|e| e.delete(1)));
    crashes(&before, edit(|e| e.grow(2, NewSize::Largest).map(|_| ())));
    crashes(&before, edit(|e| e.set_name(2, "new")));
    crashes(
        &before,
        edit(|e| e.set_disk_id(diskfs_volume::edit::TableId::Guid(guid(9)))),
    );
    let (events, _) = crashes(&before, edit(|e| e.set_flag(2, Flag::NoAuto, true)));
    // Entries, header and flush of each copy.
    assert_eq!(events, 6);
}

#[test]
fn the_backup_moves_with_the_disk() {
    let before = disk(gpt(), &[of_size(3 * MIB), of_size(3 * MIB)]);
    for sectors in [1, 8, 31, 32, 33, 34, 100, 2048, 32768] {
        let mut grown = before.clone();
        grown.extend(vec![0; sectors * 512]);
        crashes(&grown, edit(TableEditor::move_backup));
        let (_, table) = crashes(&grown, edit(|e| e.grow(2, NewSize::Largest).map(|_| ())));
        let last = &table.partitions[1];
        let end = u64::try_from(grown.len()).unwrap() - 33 * 512;
        assert_eq!(last.start_bytes + last.len_bytes, end);
    }
}

#[test]
fn broken_copies_are_repaired() {
    let before = disk(gpt(), &[of_size(3 * MIB), of_size(3 * MIB)]);
    let len = before.len();
    let places = [512, 1024, len - 512, len - 33 * 512];
    for place in places {
        let mut broken = before.clone();
        broken[place] ^= 0xff;
        crashes(&broken, edit(TableEditor::repair));
        crashes(&broken, edit(|e| e.delete(1)));
        // On a disk that grew, the old backup may be the only valid copy.
        if place == 1024 {
            broken.extend(vec![0; 100 * 512]);
            crashes(&broken, edit(|e| e.delete(1)));
            crashes(&broken, edit(TableEditor::repair));
        }
    }
    // The backup is not there any more.
    let short = &before[..len - 4096];
    crashes(short, edit(TableEditor::repair));
    // A partition would be cut off.
    let full = disk(gpt(), &[largest()]);
    let device = Faulty::new(Arc::new(Memory::new(&full[..len - (2 << 20)])), []);
    let mut editor = TableEditor::read(&device, None).unwrap();
    editor.repair().unwrap();
    let error = editor.write(&device).unwrap_err().to_string();
    assert!(error.contains("partition 1 (LBA 2048 to 30719)"), "{error}");
    assert_eq!(device.logged(), 0);
}

#[test]
fn changes_of_an_mbr() {
    let extended = NewPartition {
        partition_type: "extended".parse().unwrap(),
        ..of_size(8 * MIB)
    };
    let logical = NewPartition {
        role: Some(MbrRole::Logical),
        ..of_size(MIB)
    };
    let three = [
        of_size(MIB),
        extended.clone(),
        logical.clone(),
        logical.clone(),
        logical.clone(),
    ];
    let before = disk(mbr(), &three);
    crashes(&before, edit(|e| e.add(&of_size(MIB)).map(|_| ())));
    crashes(&before, edit(|e| e.add(&logical).map(|_| ())));
    for number in [1, 5, 6, 7] {
        crashes(&before, edit(|e| e.delete(number)));
    }
    crashes(&before, edit(|e| e.set_type(6, PartitionType::from(0x82))));
    crashes(&before, edit(|e| e.shrink(6, MIB / 2).map(|_| ())));
    let grown = edit(|e: &mut TableEditor| e.grow(7, NewSize::Bytes(2 * MIB)).map(|_| ()));
    crashes(&before, grown);
    let one = disk(mbr(), &three[..1]);
    // The remains of an old chain must not appear in a new extended partition.
    let mut stale = one.clone();
    let at = usize::try_from(2 * MIB).unwrap();
    stale[at + 446 + 4] = 0x83;
    stale[at + 446 + 8] = 1;
    stale[at + 446 + 12] = 9;
    stale[at + 510..at + 512].copy_from_slice(&[0x55, 0xaa]);
    crashes(&stale, edit(|e| e.add(&extended).map(|_| ())));
}

#[test]
fn a_new_table() {
    let with_gpt = disk(gpt(), &[of_size(3 * MIB)]);
    let with_mbr = disk(mbr(), &[of_size(3 * MIB)]);
    let create = |new: NewTable| {
        move |device: &dyn BlockWrite| {
            let editor = TableEditor::create(device, new, Some(SectorSize::B512))?;
            editor.write(device).map(|_| ())
        }
    };
    let other = NewTable::Gpt { guid: guid(77) };
    for before in [&with_gpt, &with_mbr, &bytes_of(16 * MIB)] {
        for new in [other, mbr()] {
            crashes(before, create(new));
        }
    }
}

#[test]
fn an_extended_partition_without_a_record_is_empty() {
    let extended = NewPartition {
        partition_type: "extended".parse().unwrap(),
        ..of_size(8 * MIB)
    };
    let mut before = disk(mbr(), &[of_size(MIB), extended]);
    let at = usize::try_from(2 * MIB).unwrap();
    before[at..at + 512].fill(0xa5);
    // A change elsewhere leaves the sector as it is.
    let device = Memory::new(&before[..]);
    edit(|e| e.set_type(1, PartitionType::from(0x82)))(&device).unwrap();
    assert_eq!(device.to_vec()[at..at + 512], [0xa5; 512]);
    let logical = NewPartition {
        role: Some(MbrRole::Logical),
        ..of_size(MIB)
    };
    let add = |device: &dyn BlockWrite| {
        let mut editor = TableEditor::read(device, None)?;
        editor.add(&logical)?;
        editor.write(device).map(|_| ())
    };
    add(&device).unwrap();
    let table = read_table(&device).unwrap().unwrap();
    assert_eq!((table.partitions.len(), table.warnings.len()), (3, 0));
}

#[test]
fn a_gpt_whose_copies_would_overlap_is_refused() {
    let small = |sectors: usize| {
        let disk = Memory::new(vec![0; sectors * 512]);
        let editor = TableEditor::create(&disk, gpt(), None).unwrap();
        editor.write(&disk).unwrap();
        disk.to_vec()
    };
    let cut = &small(100)[..60 * 512];
    let device = Faulty::new(Arc::new(Memory::new(cut)), []);
    let error = TableEditor::read(&device, None).unwrap_err().to_string();
    assert!(error.contains("overlap the backup GPT"), "{error}");
}
