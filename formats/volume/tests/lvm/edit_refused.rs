//! Changes that are refused before the first write.

use diskfs_block::{BlockRead, ErrorKind, Result};
use diskfs_volume::edit::NewSize;
use diskfs_volume::lvm::{GroupEditor, LvmId};

use crate::disk::{EXTENT, Machine, Pv, group_text, id, linear, volume_text};

/// Checks that a change of a group on these disks is refused, and writes nothing.
fn refused(
    disks: &[Vec<u8>],
    change: impl FnOnce(&mut GroupEditor) -> Result<()>,
    kind: ErrorKind,
    part: &str,
) {
    let machine = Machine::new(disks.to_vec());
    let error = machine.edit(&machine.groups[0], change).unwrap_err();
    assert!(error.reason().contains(part), "{part}: {error}");
    assert!(error.reason().contains("volume group vg"), "{error}");
    assert_eq!(error.kind(), kind, "{error}");
    for ((_, disk), before) in machine.disks.iter().zip(disks) {
        assert!(disk.to_vec() == *before, "{part}");
    }
}

fn extend(editor: &mut GroupEditor) -> Result<()> {
    editor.extend("root", NewSize::More(1)).map(drop)
}

fn root() -> String {
    volume_text("root", &[(1, &linear("pv0", 0))])
}

#[test]
fn marks_and_damage() {
    let text = group_text(1, &['a'], &root());
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from));
        vec![Pv::new('a', &text.replacen(from, to, 1)).bytes()]
    };
    let status = "\"RESIZEABLE\", \"READ\", \"WRITE\"";
    let marked = |mark: &str| changed(status, &format!("{status}, \"{mark}\""));
    let mut small = Pv::new('a', &text);
    small.areas[0].1 = 2048;
    let mut broken = Pv::new('a', &text);
    broken.areas.push((3 << 20, 64 << 10, 512, text.clone()));
    broken.areas.swap(0, 1);
    let mut broken = broken.bytes();
    broken[4096 + 100] ^= 1;
    let mut overlapping = Pv::new('a', &text);
    overlapping.areas[0].1 = 2 << 20;
    let mut cut = Pv::new('a', &text).bytes();
    cut.truncate(3 << 20);
    let unsupported = ErrorKind::Unsupported;
    let corrupt = ErrorKind::Corrupt;
    for (part, kind, disks) in [
        ("EXPORTED", unsupported, marked("EXPORTED")),
        ("CLUSTERED", unsupported, marked("CLUSTERED")),
        ("QUANTUM", unsupported, marked("QUANTUM")),
        ("read-only", unsupported, changed(", \"WRITE\"", "")),
        (
            "shared",
            unsupported,
            changed("extent_size", "lock_type = \"sanlock\" extent_size"),
        ),
        (
            "`seqno`",
            unsupported,
            changed("seqno = 1", "seqno = 4294967295"),
        ),
        ("no space left", unsupported, vec![small.bytes()]),
        (
            "missing",
            ErrorKind::NotFound,
            changed("[\"ALLOCATABLE\"]", "[\"MISSING\"]"),
        ),
        (
            "missing physical volume",
            ErrorKind::NotFound,
            vec![Pv::new('a', &group_text(1, &['a', 'b'], &root())).bytes()],
        ),
        ("checksum", corrupt, vec![broken]),
        ("overlaps", corrupt, vec![overlapping.bytes()]),
        ("has only", corrupt, vec![cut]),
        (
            "has only",
            corrupt,
            changed("pe_count = 40", "pe_count = 9223372036854775807"),
        ),
        (
            "marked LOCKED",
            unsupported,
            changed("\"VISIBLE\"", "\"VISIBLE\", \"LOCKED\""),
        ),
        (
            "no such logical volume",
            ErrorKind::NotFound,
            vec![Pv::new('a', &group_text(1, &['a'], "")).bytes()],
        ),
    ] {
        refused(&disks, extend, kind, part);
    }
}

#[test]
fn volumes_that_must_not_change() {
    let with = |logical: &str| vec![Pv::new('a', &group_text(1, &['a'], logical)).bytes()];
    let other = |name: &str, extents: u64, segment: &str| {
        let letter = name.chars().next().unwrap();
        volume_text(name, &[(extents, segment)]).replace(&id('L'), &id(letter))
    };
    let unsupported = ErrorKind::Unsupported;
    let two = root() + &other("home", 2, &linear("pv0", 0));
    refused(&with(&two), extend, ErrorKind::Corrupt, "shares extents");
    let far = root() + &other("home", 2, &linear("pv0", 39));
    refused(&with(&far), extend, ErrorKind::Corrupt, "past its 40");
    let huge = root() + &other("home", 1 << 62, &linear("pv0", 1));
    refused(&with(&huge), extend, ErrorKind::Corrupt, "home");
    let unknown = root() + &other("home", 2, "type = \"quantum\" places = [\"pv0\", 3]");
    refused(&with(&unknown), extend, unsupported, "type `quantum`");
    let below = root() + &other("home", 1, &linear("root", 0));
    refused(&with(&below), extend, unsupported, "is used by home");
    let home = |editor: &mut GroupEditor| editor.extend("home", NewSize::Largest).map(drop);
    refused(&with(&below), home, unsupported, "cannot be changed here");
    let zero = |editor: &mut GroupEditor| editor.reduce("root", 0).map(drop);
    refused(&with(&root()), zero, ErrorKind::Invalid, "to nothing");
    let full = |editor: &mut GroupEditor| {
        editor
            .extend("root", NewSize::Bytes(40 * EXTENT + 1))
            .map(drop)
    };
    refused(&with(&root()), full, ErrorKind::NoSpace, "are needed");
    let endless =
        |editor: &mut GroupEditor| editor.extend("root", NewSize::More(u64::MAX)).map(drop);
    refused(&with(&root()), endless, ErrorKind::Invalid, "invalid size");
    let none = LvmId::parse(&id('z')).unwrap();
    let no_pv = |editor: &mut GroupEditor| editor.grow_physical_volume(&none).map(drop);
    refused(
        &with(&root()),
        no_pv,
        ErrorKind::NotFound,
        "no such physical volume",
    );
    // A change that fails later keeps those before it out, too.
    let late = |editor: &mut GroupEditor| {
        editor.extend("root", NewSize::More(1))?;
        zero(editor)
    };
    refused(&with(&root()), late, ErrorKind::Invalid, "to nothing");
}

#[test]
fn a_bootloader_area_after_the_extents() {
    let text = group_text(1, &['a'], &root());
    let text = text.replace("pe_count = 40", "pe_count = 40 ba_start = 7500 ba_size = 8");
    let grow = |editor: &mut GroupEditor| editor.grow_physical_volumes().map(drop);
    let disks = [Pv::new('a', &text).bytes()];
    refused(&disks, grow, ErrorKind::Unsupported, "bootloader area");
}

#[test]
fn unknown_values_and_other_volumes_are_kept() {
    let kept = "policy { name = \"smq\" weight = 1.5 marks = [] } tags = [\"a b\", \"c\\\"d\"]";
    let logical = root().replacen("flags = []", &format!("flags = [] {kept}"), 1)
        + &volume_text("tail", &[(1, &linear("pv0", 5))]).replace(&id('L'), &id('t'));
    let text = group_text(1, &['a'], &logical);
    let machine = Machine::new([Pv::new('a', &text).bytes()]);
    let before = machine.open("tail").unwrap().size_bytes();
    let group = &machine.groups[0];
    // Four extents follow, then there is one of another volume.
    assert!(
        machine
            .edit(group, |e| e
                .extend("root", NewSize::Bytes(9 * EXTENT))
                .map(drop))
            .unwrap()
    );
    let disk = machine.disks[0].1.to_vec();
    let found = String::from_utf8_lossy(&disk[4096..1 << 20]).into_owned();
    for part in [
        "weight = 1.5\n",
        "marks = []\n",
        "tags = [\"a b\", \"c\\\"d\"]\n",
        "device = \"/dev/sda\"\n",
        "segment_count = 2\n",
        "stripes = [\"pv0\", 6]\n",
        "start_extent = 5\nextent_count = 4\n",
    ] {
        assert!(found.contains(part), "{part}: {found}");
    }
    let after = Machine::new([disk]);
    assert_eq!(after.groups[0].seqno, 2);
    assert_eq!(after.open("tail").unwrap().size_bytes(), before);
    // A segment with tags of its own is not made longer.
    let tagged = root().replacen("extent_count", "tags = [\"x\"] extent_count", 1);
    let machine = Machine::new([Pv::new('a', &group_text(1, &['a'], &tagged)).bytes()]);
    machine.edit(&machine.groups[0], extend).unwrap();
    let disk = machine.disks[0].1.to_vec();
    assert!(String::from_utf8_lossy(&disk).contains("segment_count = 2\n"));
}
