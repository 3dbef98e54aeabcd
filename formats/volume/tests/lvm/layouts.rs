//! Groups that are built byte by byte: the location of their data, and their problems.

use diskfs_block::{BlockRead, BlockWrite, ErrorKind};
use diskfs_volume::lvm::PhysicalVolume;

use crate::disk::{EXTENT, Machine, PE_START, Pv, contents, group_text, linear, volume_text};

/// Builds one physical volume with the given logical ones.
fn one(logical: &str) -> Machine {
    Machine::new([Pv::new('a', &group_text(1, &['a'], logical)).bytes()])
}

fn kind_and_reason(machine: &Machine, name: &str) -> (ErrorKind, String) {
    let error = machine.open(name).map(drop).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn the_label_is_in_any_of_the_first_four_sectors() {
    let text = group_text(1, &['a'], "");
    for sector in 0..6 {
        let mut pv = Pv::new('a', &text);
        pv.sector = sector;
        let found = Machine::new([pv.bytes()]).groups.len();
        assert_eq!(found, usize::from(sector < 4), "sector {sector}");
    }
}

#[test]
fn a_broken_label_is_none() {
    let sound = Pv::new('a', &group_text(1, &['a'], "")).bytes();
    for byte in [512, 520, 528, 540, 560, 1000] {
        let mut disk = sound.clone();
        disk[byte] ^= 1;
        assert!(Machine::new([disk]).disks.is_empty(), "byte {byte}");
    }
}

#[test]
fn a_text_goes_on_at_the_start_of_its_area() {
    let text = group_text(1, &['a'], &volume_text("root", &[(3, &linear("pv0", 2))]));
    for at in [512, 600, 8192 - 700, 8192 - 1] {
        let mut pv = Pv::new('a', &text);
        pv.areas[0] = (4096, 8192, at, text.clone());
        let machine = Machine::new([pv.bytes()]);
        assert_eq!(machine.groups.len(), 1, "text at {at}");
        assert_eq!(machine.open("root").unwrap().size_bytes(), 3 * EXTENT);
    }
}

#[test]
fn the_newest_metadata_that_is_whole_counts() {
    let texts = [5, 7, 6].map(|seqno| group_text(seqno, &['a'], ""));
    let areas = |texts: &[String]| {
        let places = [4096, 3 << 20, 2 << 20];
        let areas = places.into_iter().zip(texts);
        areas
            .map(|(start, text)| (start, 1 << 19, 512, text.clone()))
            .collect::<Vec<_>>()
    };
    let mut pv = Pv::new('a', "");
    pv.areas = areas(&texts);
    let disk = pv.bytes();
    assert_eq!(Machine::new([disk.clone()]).groups[0].seqno, 7);
    // A byte of the newest text, and one of the header of its area.
    for byte in [(3 << 20) + 600, (3 << 20) + 30] {
        let mut broken = disk.clone();
        broken[byte] ^= 1;
        let machine = Machine::new([broken]);
        assert_eq!(machine.groups[0].seqno, 6, "byte {byte}");
        let warnings = &machine.disks[0].0.warnings;
        assert!(warnings[0].contains("wrong checksum"), "{warnings:?}");
    }
    // Of two disks, the one that was written last wins.
    let of = |letter, seqno| Pv::new(letter, &group_text(seqno, &['a', 'b'], "")).bytes();
    for seqnos in [(3, 4), (4, 3)] {
        let machine = Machine::new([of('a', seqnos.0), of('b', seqnos.1)]);
        assert_eq!(machine.groups.len(), 1);
        assert_eq!(machine.groups[0].seqno, 4);
    }
}

#[test]
fn metadata_past_the_end_of_a_cut_disk_is_told() {
    let mut disk = Pv::new('a', &group_text(1, &['a'], "")).bytes();
    disk.truncate(8192);
    let machine = Machine::new([disk]);
    assert!(machine.groups.len() == 1, "the text is within");
    let warnings = &machine.disks[0].0.warnings;
    assert!(warnings[0].contains("has only 8192"), "{warnings:?}");
}

#[test]
fn writes_go_where_reads_come_from() {
    let striped = "type = \"striped\" stripe_count = 2 stripe_size = 8 \
                   stripes = [ \"pv0\", 10, \"pv1\", 0 ]";
    let zero = "type = \"zero\"";
    let logical = volume_text(
        "root",
        &[
            (2, &linear("pv1", 30)),
            (4, striped),
            (1, zero),
            (3, &linear("pv0", 0)),
        ],
    );
    let text = group_text(1, &['a', 'b'], &logical);
    let machine = Machine::new(['a', 'b'].map(|letter| Pv::new(letter, &text).bytes()));
    let device = machine.open_writable("root").unwrap();
    let size = usize::try_from(device.size_bytes()).unwrap();
    assert_eq!(size as u64, 10 * EXTENT);
    let written: Vec<u8> = diskfs_fixtures::pattern("written", size);
    device.write_at(0, &written).unwrap();
    device.flush().unwrap();
    let extent = usize::try_from(EXTENT).unwrap();
    let mut expected = written.clone();
    expected[6 * extent..7 * extent].fill(0);
    assert!(contents(&device) == expected);
    // The location on the disks, according to the metadata.
    let [a, b] = [0, 1].map(|n: usize| machine.disks[n].1.to_vec());
    let at = |n: usize| usize::try_from(PE_START).unwrap() + n * extent;
    assert!(b[at(30)..][..2 * extent] == written[..2 * extent]);
    assert!(a[at(0)..][..3 * extent] == written[7 * extent..]);
    for chunk in 0..4 * extent / 4096 {
        let (disk, first) = if chunk % 2 == 0 {
            (&a, at(10))
        } else {
            (&b, at(0))
        };
        let there = &disk[first + chunk / 2 * 4096..][..4096];
        assert!(
            there == &written[2 * extent + chunk * 4096..][..4096],
            "{chunk}"
        );
    }
    // Unaligned ranges across every border.
    for (from, len) in [
        (0, 1),
        (2 * extent - 3, 9000),
        (6 * extent - 1, extent + 2),
        (size - 1, 1),
    ] {
        let mut bytes = vec![0; len];
        device.read_at(from as u64, &mut bytes).unwrap();
        assert!(bytes == expected[from..from + len], "{from} {len}");
    }
    device.write_zeroes(2 * EXTENT - 1, 4098).unwrap();
    expected[2 * extent - 1..][..4098].fill(0);
    assert!(contents(&device) == expected);
    assert!(device.read_at(size as u64, &mut [0]).is_err());
}

#[test]
fn volumes_that_do_not_open_say_why() {
    use ErrorKind::{Corrupt, Io, NotFound, OutOfBounds, Unsupported};
    let logical = [
        volume_text("vdo", &[(1, "type = \"vdo\" vdo_pool = \"pool\"")]),
        volume_text(
            "thin",
            &[(1, "type = \"thin\" thin_pool = \"one\" device_id = 1")],
        ),
        volume_text("past", &[(2, &linear("pv0", 39))]),
        volume_text("one", &[(4, &linear("pv0", 0))]),
        volume_text("two", &[(4, &linear("pv0", 3))]),
        volume_text("loop", &[(1, &linear("loop", 0))]),
        volume_text("nowhere", &[(1, &linear("pv9", 0))]),
        volume_text(
            "odd",
            &[(
                3,
                "type = \"striped\" stripe_count = 2 stripe_size = 8 \
                                   stripes = [ \"pv0\", 10, \"pv0\", 20 ]",
            )],
        ),
        volume_text(
            "count",
            &[(
                2,
                "type = \"striped\" stripe_count = 3 stripe_size = 8 \
                                     stripes = [ \"pv0\", 10, \"pv0\", 20 ]",
            )],
        ),
        volume_text("away", &[(1, &linear("pv1", 0))]),
        volume_text("inner", &[(2, &linear("away", 0))]),
    ]
    .concat();
    let text = group_text(1, &['a', 'b'], &logical);
    let machine = Machine::new([Pv::new('a', &text).bytes()]);
    for (name, kind, reason) in [
        (
            "vdo",
            Unsupported,
            "vg/vdo is of type `vdo`, which is not supported",
        ),
        ("thin", Corrupt, "needs `one`, which is not a pool"),
        ("past", Corrupt, "past its 40"),
        ("one", Corrupt, "shares extents of pv0 with two"),
        ("two", Corrupt, "shares extents of pv0 with one"),
        ("loop", Corrupt, "nested too deeply"),
        ("nowhere", Corrupt, "needs `pv9`, which is not in its group"),
        ("odd", Corrupt, "divided into 2 stripes"),
        ("count", Corrupt, "`stripe_count` is 3"),
        (
            "away",
            NotFound,
            "last seen as /dev/sdb, which is on none of the disks",
        ),
        ("inner", NotFound, "last seen as /dev/sdb"),
    ] {
        let (found, said) = kind_and_reason(&machine, name);
        assert_eq!(found, kind, "{said}");
        assert!(said.contains(reason), "{said}");
    }
    let group = &machine.groups[0];
    let missing = |name: &str| {
        let there = |id: &_| machine.disks.iter().any(|(physical, _)| physical.id == *id);
        let volume = group.logical_volume(name).unwrap();
        group.missing_for(volume, &there).len()
    };
    assert_eq!(["one", "away", "inner", "loop"].map(missing), [0, 1, 1, 0]);
    // The disk was truncated after it was given to LVM.
    let text = group_text(1, &['a'], &volume_text("end", &[(1, &linear("pv0", 39))]));
    let mut disk = Pv::new('a', &text).bytes();
    disk.truncate(3 << 20);
    let (kind, said) = kind_and_reason(&Machine::new([disk]), "end");
    assert_eq!(kind, OutOfBounds, "{said}");
    assert!(said.contains("the image was truncated"), "{said}");
    let machine = one(&volume_text("bad", &[(1, "type = \"error\"")]));
    let opened = machine.open("bad").unwrap();
    assert_eq!(opened.read_at(0, &mut [0]).unwrap_err().kind(), Io);
}

#[test]
fn what_spoils_a_snapshot_is_not_written() {
    let snapshot = "type = \"snapshot\" chunk_size = 8 origin = \"root\" cow_store = \"snap\"";
    let merging = "type = \"snapshot\" chunk_size = 8 origin = \"old\" merging_store = \"new\"";
    let volumes = [
        volume_text("root", &[(1, &linear("pv0", 0))]),
        volume_text("snap", &[(1, &linear("pv0", 1))]),
        volume_text("snapshot0", &[(1, snapshot)]),
        volume_text("old", &[(1, &linear("pv0", 2))]),
        volume_text("new", &[(1, &linear("pv0", 3))]),
        volume_text("snapshot1", &[(1, merging)]),
    ];
    let machine = one(&volumes.concat());
    let visible = machine.groups[0].logical_volumes.iter();
    let visible: Vec<_> = visible.filter(|lv| lv.visible).map(|lv| &lv.name).collect();
    assert_eq!(visible, ["root", "snap", "old", "new"]);
    assert!(machine.open("root").is_ok());
    let error = machine.open_writable("root").map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(machine.open("snap").is_ok());
    let error = machine.open_writable("snap").map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    for name in ["old", "new"] {
        let (kind, said) = kind_and_reason(&machine, name);
        assert_eq!(kind, ErrorKind::Unsupported, "{said}");
    }
}

#[test]
fn a_raid_without_state_reads_its_first_copy_and_is_not_written() {
    let raid = "type = \"raid1\" device_count = 2 region_size = 8 \
                raids = [ \"m0\", \"i0\", \"m1\", \"i1\" ]";
    let nested = raid.replace("\"i1\"", "\"root\"");
    let parts = ["m0", "i0", "m1", "i1"];
    let parts = parts.iter().zip(0..);
    let parts: Vec<String> = parts
        .map(|(name, extent)| volume_text(name, &[(1, &linear("pv0", extent))]))
        .collect();
    let raids = [("root", raid), ("nested", &nested)];
    let raids = raids.map(|(name, segment)| volume_text(name, &[(1, segment)]));
    let text = group_text(1, &['a'], &(parts.concat() + &raids.concat()));
    let mut disk = Pv::new('a', &text).bytes();
    let first = usize::try_from(PE_START + EXTENT).unwrap();
    disk[first..first + 7].copy_from_slice(b"image 0");
    let machine = Machine::new([disk]);
    assert!(contents(&machine.open("root").unwrap()).starts_with(b"image 0"));
    let error = machine.open_writable("root").map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let (kind, said) = kind_and_reason(&machine, "nested");
    assert_eq!(kind, ErrorKind::Unsupported, "{said}");
    assert!(said.contains("a RAID within a RAID"), "{said}");
}

#[test]
fn a_mirror_without_a_log_is_written_to_all_legs() {
    let legs = [0, 1].map(|n| volume_text(&format!("leg{n}"), &[(1, &linear("pv0", n))]));
    let mirror = |legs: &str, more: &str| {
        let count = legs.matches('"').count() / 2;
        format!("type = \"mirror\" mirror_count = {count} mirrors = [ {legs} ] {more}")
    };
    let two = mirror("\"leg0\", 0, \"leg1\", 0", "");
    let nested = mirror("\"root\", 0, \"leg1\", 0", "");
    let sizeless = mirror("\"leg0\", 0", "mirror_log = \"leg1\" region_size = 0");
    let logged = mirror("\"leg0\", 0", "mirror_log = \"leg1\" region_size = 8");
    let none = mirror("", "");
    let volumes = [
        ("root", &two),
        ("nested", &nested),
        ("sizeless", &sizeless),
        ("logged", &logged),
        ("none", &none),
    ];
    let volumes = volumes.map(|(name, segment)| volume_text(name, &[(1, segment)]));
    let machine = one(&(legs.concat() + &volumes.concat()));
    let opened = machine.open_writable("root").unwrap();
    opened.write_at(5, b"twice").unwrap();
    for name in ["leg0", "leg1", "root"] {
        let bytes = contents(&machine.open(name).unwrap());
        assert_eq!(&bytes[5..10], b"twice", "{name}");
    }
    let problem = |name: &str| machine.open_writable(name).map(drop).unwrap_err().kind();
    assert_eq!(problem("nested"), ErrorKind::Unsupported);
    assert_eq!(problem("logged"), ErrorKind::Unsupported, "no log is there");
    assert_eq!(problem("sizeless"), ErrorKind::Corrupt);
    assert_eq!(problem("none"), ErrorKind::Corrupt);
}

#[test]
fn the_metadata_images_of_stripes_are_passed_by() {
    let names = ["m0", "i0", "m1", "i1"];
    let parts = names.iter().zip(0..);
    let parts: Vec<String> = parts
        .map(|(name, extent)| volume_text(name, &[(1, &linear("pv0", extent))]))
        .collect();
    let stripes = "type = \"raid0_meta\" stripe_count = 2 stripe_size = 16 \
                   raids = [ \"m0\", \"i0\", \"m1\", \"i1\" ]";
    let machine = one(&(parts.concat() + &volume_text("root", &[(2, stripes)])));
    let opened = machine.open_writable("root").unwrap();
    opened.write_at(0, b"first").unwrap();
    opened.write_at(8192, b"second").unwrap();
    let starts = |name: &str| contents(&machine.open(name).unwrap());
    assert!(starts("i0").starts_with(b"first"));
    assert!(starts("i1").starts_with(b"second"));
    assert!(starts("m0").iter().all(|byte| *byte == 0));
}

#[test]
fn a_volume_that_lvm_keeps_from_being_written_is_read_only() {
    let text = volume_text("root", &[(1, &linear("pv0", 0))]).replace("\"WRITE\", ", "");
    let machine = one(&text);
    assert!(machine.open("root").is_ok());
    let error = machine.open_writable("root").map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
}

#[test]
fn what_was_missing_once_is_out_of_date() {
    let text = group_text(
        2,
        &['a', 'b'],
        &volume_text("root", &[(1, &linear("pv1", 0))]),
    );
    let stale = text.replacen(
        "/dev/sdb\" status = [\"ALLOCATABLE\"]",
        "/dev/sdb\" status = [\"ALLOCATABLE\"] flags = [\"MISSING\"]",
        1,
    );
    assert_ne!(text, stale);
    for (text, opens) in [(text, true), (stale, false)] {
        let machine = Machine::new(['a', 'b'].map(|letter| Pv::new(letter, &text).bytes()));
        assert_eq!(machine.open("root").is_ok(), opens);
    }
}

#[test]
fn metadata_that_makes_no_sense_is_told() {
    let good = group_text(1, &['a'], &volume_text("root", &[(1, &linear("pv0", 0))]));
    for (from, to, reason) in [
        ("version = 1", "version = 2", "another version"),
        (
            "extent_size = 128",
            "extent_size = 0",
            "extents of 0 sectors",
        ),
        ("seqno = 1", "seqno = \"x\"", "missing number `seqno`"),
        ("vg {", "\"v/g\" {", "invalid name `v/g`"),
        ("root {", "\"../etc\" {", "invalid name `../etc`"),
        (
            "pe_start = 2048",
            "pe_start = -1",
            "missing number `pe_start`",
        ),
        ("vg {", "vg", "expected `=` or `{`"),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good);
        let pv = Pv::new('a', &text).bytes();
        let physical = PhysicalVolume::read(&diskfs_block::Memory::new(pv))
            .unwrap()
            .unwrap();
        assert_eq!(physical.group, None);
        assert!(
            physical.warnings[0].contains(reason),
            "{:?}",
            physical.warnings
        );
    }
}
