//! Hybrid MBRs, whose entries repeat partitions of the GPT.

use diskfs_fixtures::require;
use diskfs_volume::edit::NewSize;
use diskfs_volume::{TableKind, read_table};

use crate::rig::{MIB, Rig};

/// Makes a disk of which the MBR repeats partition 1.
fn hybrid() -> Option<Rig> {
    require("sgdisk")?;
    let rig = Rig::new(32 * MIB);
    rig.sgdisk(&["--new=1:2048:+5M", "--new=2:20480:+5M", "--hybrid=1"]);
    Some(rig)
}

/// Returns the start and length of an entry of the MBR.
fn entry(rig: &Rig, index: usize) -> [u32; 2] {
    let bytes = rig.bytes();
    let field = |at: usize| {
        let at = 446 + 16 * index + at;
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    };
    [field(8), field(12)]
}

#[test]
fn an_entry_follows_its_partition() {
    let Some(rig) = hybrid() else { return };
    assert_eq!(rig.table().kind, TableKind::HybridMbr);
    let before: Vec<[u32; 2]> = (0..4).map(|index| entry(&rig, index)).collect();
    let repeated = before.iter().position(|e| *e == [2048, 10240]).unwrap();
    rig.edit(|editor| editor.shrink(1, 3 * MIB)).unwrap();
    assert_eq!(entry(&rig, repeated), [2048, 6144]);
    rig.edit(|editor| editor.grow(1, NewSize::Bytes(5 * MIB)))
        .unwrap();
    assert_eq!(entry(&rig, repeated), [2048, 10240]);
    // A change of another partition changes nothing here.
    let sector = rig.bytes()[..512].to_vec();
    rig.edit(|editor| editor.delete(2)).unwrap();
    assert_eq!(rig.bytes()[..512], sector);
    // Without its partition the entry goes, too: it becomes a pure GPT.
    rig.edit(|editor| editor.delete(1)).unwrap();
    let table = rig.table();
    assert_eq!((table.kind, table.warnings.len()), (TableKind::Gpt, 0));
    assert!(rig.sgdisk(&["--verify"]).contains("No problems found"));
}

#[test]
fn an_entry_that_cannot_follow_refuses_the_change() {
    let Some(rig) = hybrid() else { return };
    // A second protective entry after it.
    let mut bytes = rig.bytes();
    let free = (0..4).find(|&index| entry(&rig, index)[1] == 0).unwrap();
    let at = 446 + 16 * free;
    bytes[at + 4] = 0xee;
    bytes[at + 8..at + 12].copy_from_slice(&12288_u32.to_le_bytes());
    bytes[at + 12..at + 16].copy_from_slice(&100_u32.to_le_bytes());
    std::fs::write(&rig.path, bytes).unwrap();
    let before = read_table(&rig.device()).unwrap();
    let error = rig
        .edit(|editor| editor.grow(1, NewSize::Bytes(6 * MIB)))
        .unwrap_err();
    assert!(error.to_string().contains("hybrid MBR"), "{error}");
    assert_eq!(read_table(&rig.device()).unwrap(), before);
}
