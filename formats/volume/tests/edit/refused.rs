//! Changes that are refused with a reason, before anything is written.

use diskfs_block::{ErrorKind, Faulty, Memory, Result};
use diskfs_volume::edit::{Flag, MbrRole, NewPartition, NewSize, TableEditor, TableId};
use std::sync::Arc;

use crate::rig::{MIB, editor_of, gpt, guid, largest, mbr, of_size};

/// Makes a change that must fail with this kind, and with a reason and a next step that contain
/// this text.
fn refused<T: std::fmt::Debug>(
    editor: &TableEditor,
    kind: ErrorKind,
    text: &str,
    change: impl FnOnce(&mut TableEditor) -> Result<T>,
) {
    let error = change(&mut editor.clone()).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

/// Starts a GPT with two partitions of 5 MiB on a disk of 16 MiB.
fn two_partitions() -> TableEditor {
    let mut editor = editor_of(16 * MIB, gpt());
    editor.add(&of_size(5 * MIB)).unwrap();
    let second = NewPartition {
        guid: guid(2),
        ..of_size(5 * MIB)
    };
    editor.add(&second).unwrap();
    editor
}

#[test]
fn additions_to_a_gpt() {
    let editor = two_partitions();
    let third = NewPartition {
        guid: guid(3),
        ..largest()
    };
    let add = |change: fn(&mut NewPartition)| {
        let mut new = third.clone();
        change(&mut new);
        move |editor: &mut TableEditor| editor.add(&new)
    };
    let e = &editor;
    refused(
        e,
        ErrorKind::Exists,
        "partition 1 has the GUID",
        add(|new| new.guid = guid(1)),
    );
    refused(
        e,
        ErrorKind::Exists,
        "partition 2 exists",
        add(|new| new.number = Some(2)),
    );
    refused(
        e,
        ErrorKind::Invalid,
        "entries 1 to 128",
        add(|new| new.number = Some(129)),
    );
    refused(
        e,
        ErrorKind::Invalid,
        "nil GUID",
        add(|new| new.guid = guid(0).min(diskfs_volume::Guid::NIL)),
    );
    refused(
        e,
        ErrorKind::Invalid,
        "LBA 2048 (byte 1048576) is not free",
        add(|new| new.start_bytes = Some(MIB)),
    );
    refused(
        e,
        ErrorKind::Invalid,
        "is not free",
        add(|new| new.start_bytes = Some(16 * MIB - 512)),
    );
    refused(
        e,
        ErrorKind::Invalid,
        "multiple of the sector size",
        add(|new| new.start_bytes = Some(11 * MIB + 1)),
    );
    refused(
        e,
        ErrorKind::Invalid,
        "size 0",
        add(|new| new.size_bytes = Some(0)),
    );
    refused(
        e,
        ErrorKind::NoSpace,
        "the largest one (LBA 22528 to 32734) has 10207",
        add(|new| new.size_bytes = Some(5 * MIB)),
    );
    refused(
        e,
        ErrorKind::NoSpace,
        "only 8159 sectors are free",
        add(|new| {
            new.start_bytes = Some(12 * MIB);
            new.size_bytes = Some(4 * MIB);
        }),
    );
    refused(
        e,
        ErrorKind::NoSpace,
        "largest one",
        add(|new| new.size_bytes = Some(u64::MAX)),
    );
}

#[test]
fn additions_that_a_gpt_cannot_store() {
    let editor = two_partitions();
    let third = NewPartition {
        guid: guid(3),
        ..largest()
    };
    let add = |change: fn(&mut NewPartition)| {
        let mut new = third.clone();
        change(&mut new);
        move |editor: &mut TableEditor| editor.add(&new)
    };
    let e = &editor;
    refused(
        e,
        ErrorKind::Invalid,
        "37 UTF-16 units",
        add(|new| new.name = "x".repeat(37)),
    );
    refused(
        e,
        ErrorKind::Invalid,
        "no flag `active`",
        add(|new| new.flags = vec![Flag::Active]),
    );
    refused(
        e,
        ErrorKind::Invalid,
        "no partitions of this type",
        add(|new| new.partition_type = 0x83.into()),
    );
    refused(
        e,
        ErrorKind::Invalid,
        "a GPT has no primary",
        add(|new| new.role = Some(MbrRole::Primary)),
    );
}

#[test]
fn changes_of_a_gpt() {
    let e = &two_partitions();
    refused(e, ErrorKind::NotFound, "the partitions are 1, 2", |e| {
        e.delete(3)
    });
    refused(
        e,
        ErrorKind::NoSpace,
        "only 0 sectors after LBA 12287",
        |e| e.grow(1, NewSize::More(1)),
    );
    refused(
        e,
        ErrorKind::Invalid,
        "has 10240 sectors already, more than 2048",
        |e| e.grow(1, NewSize::Bytes(MIB)),
    );
    refused(e, ErrorKind::Invalid, "fewer than", |e| {
        e.shrink(1, 6 * MIB)
    });
    refused(e, ErrorKind::Invalid, "size 0", |e| e.shrink(1, 0));
    refused(e, ErrorKind::Exists, "partition 1 has", |e| {
        e.set_guid(2, guid(1))
    });
    refused(e, ErrorKind::Invalid, "is a GUID", |e| {
        e.set_disk_id(TableId::Signature(1))
    });
}

#[test]
fn a_full_gpt() {
    let mut editor = editor_of(16 * MIB, gpt());
    for number in 1..=128 {
        let new = NewPartition {
            start_bytes: Some(MIB + number * 512),
            guid: guid(number),
            ..of_size(512)
        };
        editor.add(&new).unwrap();
    }
    let last = NewPartition {
        guid: guid(200),
        ..largest()
    };
    refused(&editor, ErrorKind::NoSpace, "all 128 entries", |e| {
        e.add(&last)
    });
    editor.delete(77).unwrap();
    assert_eq!(editor.add(&last).unwrap(), 77);
}

#[test]
fn changes_of_an_mbr() {
    let mut editor = editor_of(32 * MIB, mbr());
    let extended = NewPartition {
        partition_type: "extended".parse().unwrap(),
        ..of_size(10 * MIB)
    };
    let logical = NewPartition {
        role: Some(MbrRole::Logical),
        ..of_size(2 * MIB)
    };
    refused(&editor, ErrorKind::Invalid, "no extended partition", |e| {
        e.add(&logical)
    });
    editor.add(&extended).unwrap();
    editor.add(&logical).unwrap();
    let e = &editor;
    refused(e, ErrorKind::Exists, "extended partition already", |e| {
        e.add(&extended)
    });
    refused(e, ErrorKind::Invalid, "contains 1 logical", |e| e.delete(1));
    refused(e, ErrorKind::Invalid, "is an extended partition", |e| {
        e.set_type(1, 0x83.into())
    });
    refused(e, ErrorKind::Invalid, "is an extended partition", |e| {
        e.set_type(5, 5.into())
    });
    refused(
        e,
        ErrorKind::Invalid,
        "a logical partition or its record",
        |e| e.shrink(1, 2 * MIB),
    );
    refused(e, ErrorKind::Invalid, "boot from a logical", |e| {
        e.set_flag(5, Flag::Active, true)
    });
    refused(e, ErrorKind::Invalid, "no flag `hidden`", |e| {
        e.set_flag(1, Flag::Hidden, true)
    });
    refused(e, ErrorKind::Invalid, "have no names", |e| {
        e.set_name(1, "x")
    });
    refused(e, ErrorKind::Invalid, "no UUIDs", |e| {
        e.set_guid(1, guid(1))
    });
    refused(e, ErrorKind::Invalid, "no backup", TableEditor::move_backup);
    refused(e, ErrorKind::Invalid, "the next one is 6", |e| {
        e.add(&NewPartition {
            number: Some(9),
            ..logical.clone()
        })
    });
    refused(e, ErrorKind::NotFound, "the partitions are 1, 5", |e| {
        e.delete(6)
    });
    for _ in 0..3 {
        editor.add(&of_size(MIB)).unwrap();
    }
    let primary = NewPartition {
        role: Some(MbrRole::Primary),
        ..of_size(MIB)
    };
    refused(&editor, ErrorKind::NoSpace, "all four entries", |e| {
        e.add(&primary)
    });
    // Without a role, it becomes a logical one.
    assert_eq!(editor.add(&of_size(MIB)).unwrap(), 6);
}

#[test]
fn nothing_is_written_if_nothing_changes() {
    for new in [gpt(), mbr()] {
        let disk = Memory::new(vec![0; usize::try_from(16 * MIB).unwrap()]);
        let mut editor = TableEditor::create(&disk, new, None).unwrap();
        editor.add(&of_size(MIB)).unwrap();
        editor.write(&disk).unwrap();
        let device = Faulty::new(Arc::new(disk), []);
        let mut editor = TableEditor::read(&device, None).unwrap();
        editor.set_type(1, "linux".parse().unwrap()).unwrap();
        editor.grow(1, NewSize::Bytes(MIB)).unwrap();
        let _ = editor.repair();
        let _ = editor.move_backup();
        assert!(!editor.write(&device).unwrap());
        assert_eq!(device.logged(), 0);
    }
}
