//! Each change leaves the same disk, byte by byte, as the same change by sfdisk.

use diskfs_block::{BlockRead, Result};
use diskfs_fixtures::require;
use diskfs_volume::edit::{
    Flag, MbrRole, NewPartition, NewSize, PartitionType, TableEditor, TableId,
};
use diskfs_volume::{SectorSize, read_table};

use crate::rig::{BLOCK_BYTES, MIB, Rig, block_of, gpt, guid, has_tools, largest, mbr, of_size};

type Change<'a> = &'a dyn Fn(&mut TableEditor) -> Result<()>;

/// Makes a change with our editor and with `sfdisk` on copies of the disk, compares the two, and
/// returns ours.
fn same_as_sfdisk(rig: &Rig, change: Change<'_>, arguments: &[&str], script: &str) -> Rig {
    let (ours, theirs) = (rig.copy(), rig.copy());
    ours.edit(change).unwrap();
    theirs.sfdisk(arguments, script);
    let what = format!("{arguments:?} {script}");
    assert_same(&ours, &theirs, &what);
    ours.check();
    ours
}

/// Fails at the first byte that differs.
fn assert_same(ours: &Rig, theirs: &Rig, what: &str) {
    let (a, b) = (ours.device(), theirs.device());
    assert_eq!(a.size_bytes(), b.size_bytes());
    for offset in (0..a.size_bytes()).step_by(BLOCK_BYTES) {
        let (a, b) = (block_of(&a, offset), block_of(&b, offset));
        if a == b {
            continue;
        }
        if let Some(at) = (0..a.len()).find(|&at| a[at] != b[at]) {
            let sector = at / 512 * 512;
            panic!(
                "{what}: byte {} ({} of its sector) differs:\n{:x?}\n{:x?}\n{:#?}\n{:#?}",
                offset + at as u64,
                at % 512,
                &a[sector..sector + 512],
                &b[sector..sector + 512],
                ours.table(),
                theirs.table(),
            );
        }
    }
}

fn typed(text: &str) -> PartitionType {
    text.parse().unwrap()
}

#[test]
fn a_gpt_is_changed_as_sfdisk_changes_it() {
    if !has_tools() {
        return;
    }
    let rig = Rig::new(64 * MIB);
    let new = Rig::new(64 * MIB);
    rig.create(gpt());
    let id = guid(0xdd);
    new.sfdisk(&[], &format!("label: gpt\nlabel-id: {id}\nfirst-lba: 34\n"));
    assert_same(&rig, &new, "a new GPT");
    rig.check();

    let add = |new: NewPartition| move |editor: &mut TableEditor| editor.add(&new).map(|_| ());
    let esp = NewPartition {
        partition_type: typed("esp"),
        name: "EFI system".to_owned(),
        flags: vec![Flag::Required, Flag::Bit(48)],
        ..of_size(10 * MIB)
    };
    let line = format!(
        "size=10MiB, type=uefi, name=\"EFI system\", uuid={}, attrs=\"RequiredPartition 48\"",
        guid(1)
    );
    let rig = same_as_sfdisk(&rig, &add(esp), &["--append"], &line);
    let home = NewPartition {
        number: Some(7),
        start_bytes: Some(20 * MIB),
        partition_type: typed("home"),
        guid: guid(7),
        ..of_size(5 * MIB)
    };
    let line = format!("disk7: start=20MiB, size=5MiB, type=H, uuid={}", guid(7));
    let rig = same_as_sfdisk(&rig, &add(home), &["--append"], &line);
    let rest = NewPartition {
        guid: guid(2),
        ..largest()
    };
    let line = format!("disk2: start=25MiB, size=+, uuid={}", guid(2));
    let rig = same_as_sfdisk(&rig, &add(rest), &["--append"], &line);

    let rig = same_as_sfdisk(
        &rig,
        &|editor| editor.grow(1, NewSize::Largest).map(|_| ()),
        &["-N1"],
        ",+",
    );
    let rig = same_as_sfdisk(
        &rig,
        &|editor| editor.shrink(2, 9 * MIB).map(|_| ()),
        &["-N2"],
        ",9MiB",
    );
    let rig = same_as_sfdisk(
        &rig,
        &|editor| editor.grow(2, NewSize::More(3 * MIB)).map(|_| ()),
        &["-N2"],
        ",12MiB",
    );
    let rig = same_as_sfdisk(
        &rig,
        &|editor| editor.set_type(2, typed("swap")),
        &["--part-type", "2", "S"],
        "",
    );
    let rig = same_as_sfdisk(
        &rig,
        &|editor| editor.set_name(2, "root & more"),
        &["--part-label", "2", "root & more"],
        "",
    );
    let new_id = guid(99).to_string();
    let rig = same_as_sfdisk(
        &rig,
        &|editor| editor.set_guid(2, guid(99)),
        &["--part-uuid", "2", &new_id],
        "",
    );
    let rig = same_as_sfdisk(
        &rig,
        &|editor| editor.set_disk_id(TableId::Guid(guid(99))),
        &["--disk-id", &new_id],
        "",
    );
    let rig = same_as_sfdisk(
        &rig,
        &|editor| {
            editor.set_flag(2, Flag::LegacyBoot, true)?;
            editor.set_flag(2, Flag::NoAuto, true)
        },
        &["--part-attrs", "2", "LegacyBIOSBootable,63"],
        "",
    );
    let rig = same_as_sfdisk(&rig, &|editor| editor.delete(1), &["--delete", "1"], "");
    assert_eq!(rig.table().partitions.len(), 2);
}

#[test]
fn a_disk_that_grew() {
    if !has_tools() {
        return;
    }
    let rig = Rig::new(64 * MIB);
    rig.sfdisk(&[], "label: gpt\nsize=10MiB\nsize=+\n");
    rig.set_len(80 * MIB);
    let (moved, theirs) = (rig.copy(), rig.copy());
    moved.edit(TableEditor::move_backup).unwrap();
    theirs.sgdisk(&["--move-second-header"]);
    moved.check();
    // sgdisk keeps the old header, which is free space now.
    let mut bytes = theirs.bytes();
    let old = usize::try_from(64 * MIB).unwrap() - 512;
    bytes[old..old + 512].fill(0);
    std::fs::write(&theirs.path, bytes).unwrap();
    assert_eq!(moved.table(), theirs.table());
    let grown = rig.copy();
    grown
        .edit(|editor| editor.grow(2, NewSize::Largest))
        .unwrap();
    grown.check();
    rig.sfdisk(&["-N2"], ",+");
    assert_eq!(grown.table(), rig.table());
}

#[test]
fn an_mbr_is_changed_as_sfdisk_changes_it() {
    if !has_tools() {
        return;
    }
    let rig = Rig::new(64 * MIB);
    let new = Rig::new(64 * MIB);
    rig.create(mbr());
    new.sfdisk(&[], "label: dos\nlabel-id: 0x1234abcd\n");
    assert_same(&rig, &new, "a new MBR");
    rig.check();

    let add = |new: NewPartition| move |editor: &mut TableEditor| editor.add(&new).map(|_| ());
    let boot = NewPartition {
        flags: vec![Flag::Active],
        ..of_size(5 * MIB)
    };
    let rig = same_as_sfdisk(&rig, &add(boot), &["--append"], "size=5MiB, bootable");
    let swap = NewPartition {
        partition_type: typed("swap"),
        ..of_size(3 * MIB)
    };
    let rig = same_as_sfdisk(&rig, &add(swap), &["--append"], "size=3MiB, type=82");
    let extended = NewPartition {
        partition_type: typed("extended"),
        ..of_size(30 * MIB)
    };
    let rig = same_as_sfdisk(&rig, &add(extended), &["--append"], "size=30MiB, type=5");
    let logical = |size: u64| NewPartition {
        role: Some(MbrRole::Logical),
        ..of_size(size)
    };
    let rig = same_as_sfdisk(&rig, &add(logical(4 * MIB)), &["-N5"], "size=4MiB");
    let rig = same_as_sfdisk(&rig, &add(logical(5 * MIB)), &["-N6"], "size=5MiB");
    let lvm = NewPartition {
        partition_type: typed("lvm"),
        ..logical(6 * MIB)
    };
    let rig = same_as_sfdisk(&rig, &add(lvm), &["-N7"], "size=6MiB, type=8e");
    // sfdisk leaves the link to a logical partition as it was; ours has the new size.
    for (size, line) in [(8, ",8MiB"), (7, ",7MiB")] {
        let theirs = rig.copy();
        theirs.sfdisk(&["-N7"], line);
        rig.edit(|editor| match size {
            8 => editor.grow(7, NewSize::Bytes(8 * MIB)),
            _ => editor.shrink(7, 7 * MIB),
        })
        .unwrap();
        rig.check();
        assert_eq!(rig.table(), theirs.table());
    }
    let rig = same_as_sfdisk(
        &rig,
        &|editor| editor.set_type(6, typed("0x07")),
        &["--part-type", "6", "7"],
        "",
    );
    let rig = same_as_sfdisk(
        &rig,
        &|editor| editor.set_flag(2, Flag::Active, true),
        &["--activate", "2"],
        "",
    );
    let rig = same_as_sfdisk(
        &rig,
        &|editor| editor.set_disk_id(TableId::Signature(0x99)),
        &["--disk-id", "0x99"],
        "",
    );
    let rig = same_as_sfdisk(
        &rig,
        &|editor| editor.grow(3, NewSize::Largest).map(|_| ()),
        &["-N3"],
        ",+",
    );
    let rig = same_as_sfdisk(&rig, &|editor| editor.delete(1), &["--delete", "1"], "");
    for number in ["6", "5"] {
        let expected = rig.copy();
        expected.sfdisk(&["--delete", number], "");
        rig.edit(|editor| editor.delete(number.parse().unwrap()))
            .unwrap();
        rig.check();
        assert_eq!(rig.table(), expected.table());
    }
}

#[test]
fn an_extended_partition_grows_for_its_logical_ones() {
    if !has_tools() {
        return;
    }
    let rig = Rig::new(64 * MIB);
    rig.create(mbr());
    let extended = NewPartition {
        partition_type: typed("extended"),
        ..of_size(6 * MIB)
    };
    rig.edit(|editor| editor.add(&extended)).unwrap();
    let logical = |size: u64| NewPartition {
        role: Some(MbrRole::Logical),
        ..of_size(size)
    };
    rig.edit(|editor| editor.add(&logical(4 * MIB))).unwrap();
    assert_eq!(rig.table().partitions[0].len_bytes, 6 * MIB);
    // The second one does not fit.
    assert_eq!(rig.edit(|editor| editor.add(&logical(4 * MIB))).unwrap(), 6);
    rig.check();
    assert_eq!(rig.table().partitions[0].len_bytes, 10 * MIB);
    let len = rig.edit(|editor| editor.grow(6, NewSize::Bytes(9 * MIB)));
    assert_eq!(len.unwrap(), 9 * MIB);
    rig.check();
    // The first one has its neighbour's record after it.
    assert!(
        rig.edit(|editor| editor.grow(5, NewSize::More(MIB + 512)))
            .is_err()
    );
    assert_eq!(
        rig.edit(|editor| editor.grow(5, NewSize::Largest)).unwrap(),
        4 * MIB
    );
    // Up to the next primary partition.
    let primary = NewPartition {
        start_bytes: Some(40 * MIB),
        ..of_size(MIB)
    };
    rig.edit(|editor| editor.add(&primary)).unwrap();
    rig.edit(|editor| editor.grow(6, NewSize::Largest)).unwrap();
    rig.check();
    let table = rig.table();
    let extended = &table.partitions[0];
    assert_eq!(extended.start_bytes + extended.len_bytes, 40 * MIB);
    assert!(rig.edit(|editor| editor.add(&logical(MIB))).is_err());
}

#[test]
fn disks_with_sectors_of_4096_bytes() {
    if require("partx").is_none() {
        return;
    }
    for new in [gpt(), mbr()] {
        let rig = Rig::new(64 * MIB);
        let device = rig.device();
        let mut editor = TableEditor::create(&device, new, Some(SectorSize::B4096)).unwrap();
        editor.add(&of_size(10 * MIB)).unwrap();
        editor.write(&device).unwrap();
        let mut editor = TableEditor::read(&device, Some(SectorSize::B4096)).unwrap();
        let more = NewPartition {
            guid: guid(2),
            ..of_size(5 * MIB)
        };
        editor.add(&more).unwrap();
        editor.grow(2, NewSize::Largest).unwrap();
        editor.write(&device).unwrap();
        let table = diskfs_volume::read_table_with(&device, SectorSize::B4096);
        let table = table.unwrap().unwrap();
        assert_eq!((table.sector_size, table.warnings.len()), (4096, 0));
        let arguments = ["--sector-size", "4096", "-b", "-g", "-o", "START,SECTORS"];
        let arguments = arguments.map(std::path::Path::new).into_iter();
        let out = diskfs_fixtures::run("partx", arguments.chain([rig.path.as_path()])).unwrap();
        let theirs: Vec<u64> = out.split_whitespace().map(|n| n.parse().unwrap()).collect();
        let ours: Vec<u64> = table
            .partitions
            .iter()
            .flat_map(|p| [p.start_bytes / 512, p.len_bytes / 512])
            .collect();
        assert_eq!(ours, theirs);
    }
}

#[test]
fn a_table_replaces_another_one() {
    if !has_tools() {
        return;
    }
    let rig = Rig::new(16 * MIB);
    rig.sfdisk(&[], "label: gpt\nsize=5MiB\nsize=5MiB\n");
    // The boot code is kept.
    let mut bytes = rig.bytes();
    bytes[..440].fill(0x90);
    std::fs::write(&rig.path, bytes).unwrap();
    rig.create(mbr());
    rig.check();
    rig.edit(|editor| editor.add(&largest())).unwrap();
    rig.check();
    rig.create(gpt());
    rig.check();
    assert_eq!(rig.bytes()[..440], [0x90; 440]);
    assert_eq!(rig.table().partitions, []);
    // A filesystem's boot sector is not kept.
    rig.set_len(0);
    rig.set_len(16 * MIB);
    diskfs_fixtures::run("mkfs.fat", [&rig.path]).unwrap();
    assert_eq!(read_table(&rig.device()).unwrap(), None);
    rig.create(mbr());
    rig.check();
}

#[test]
fn small_disks() {
    if !has_tools() {
        return;
    }
    // Without alignment.
    let rig = Rig::new(2 * MIB);
    rig.create(gpt());
    rig.edit(|editor| editor.add(&largest())).unwrap();
    rig.check();
    let table = rig.table();
    assert_eq!(table.partitions[0].start_bytes, 34 * 512);
    assert_eq!(table.partitions[0].len_bytes, 2 * MIB - 67 * 512);
    // The smallest GPT has one usable sector.
    let rig = Rig::new(68 * 512);
    rig.create(gpt());
    rig.edit(|editor| editor.add(&largest())).unwrap();
    assert_eq!(rig.table().partitions[0].len_bytes, 512);
    let device = diskfs_block::Memory::new(vec![0; 67 * 512]);
    assert!(TableEditor::create(&device, gpt(), None).is_err());
}

#[test]
fn a_disk_of_more_than_2_tib() {
    if !has_tools() {
        return;
    }
    let rig = Rig::new(3 << 40);
    let device = rig.device();
    let mut editor = TableEditor::create(&device, gpt(), None).unwrap();
    editor.add(&largest()).unwrap();
    editor.write(&device).unwrap();
    rig.check();
    assert!(rig.table().partitions[0].len_bytes > 2 << 40);
    let mut editor = TableEditor::create(&device, mbr(), None).unwrap();
    let error = editor.add(&of_size(5 << 39)).unwrap_err();
    assert!(error.to_string().contains("use a GPT"), "{error}");
    editor.add(&of_size(1 << 40)).unwrap();
    editor.grow(1, NewSize::Largest).unwrap();
    let error = editor.grow(1, NewSize::Bytes(5 << 39)).unwrap_err();
    assert!(error.to_string().contains("use a GPT"), "{error}");
    editor.write(&device).unwrap();
    rig.check();
    assert_eq!(rig.table().partitions[0].len_bytes, (2 << 40) - MIB);
}
