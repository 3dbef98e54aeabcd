//! Stored images with groups that LVM's tools made.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, ErrorKind, File, Memory, Slice};
use diskfs_fixtures::{image, pattern};
use diskfs_volume::lvm::{LogicalVolume, LvmId, PhysicalVolume, PvEntry, volume_groups};
use diskfs_volume::{Partition, read_table};

use crate::disk::contents;

/// Physical volumes with their devices.
type Disks = Vec<(PhysicalVolume, Arc<dyn BlockRead>)>;

fn volume(disks: &Disks, name: &str) -> Vec<u8> {
    let groups = volume_groups(disks.iter().map(|(physical, _)| physical));
    let [group] = groups.as_slice() else {
        panic!("{groups:?}");
    };
    let volume = group.logical_volume(name).expect(name);
    let opened = group.open(volume, &|entry| {
        let found = disks.iter().find(|(physical, _)| physical.id == entry.id);
        Ok(found.map(|(_, disk)| Arc::clone(disk)))
    });
    let opened = opened.unwrap();
    assert_eq!(opened.size_bytes(), volume.size_bytes);
    contents(&opened)
}

#[test]
fn a_linear_volume_of_three_pieces_on_a_whole_disk() {
    let image = image("lvm-linear.raw");
    let disk: Arc<dyn BlockRead> = Arc::new(File::open(image.path()).unwrap());
    assert_eq!(read_table(&*disk).unwrap(), None);
    let physical = PhysicalVolume::read(&*disk).unwrap().unwrap();
    assert_eq!(physical.warnings, [""; 0]);
    let group = physical.group.as_ref().unwrap();
    assert_eq!((group.name.as_str(), group.extent_bytes), ("vg0", 1 << 20));
    let root = group.logical_volume("root").unwrap();
    assert_eq!((root.layout.as_str(), root.size_bytes), ("linear", 8 << 20));
    assert!(root.visible && root.writable && root.problem.is_none());
    let expected = std::fs::read(diskfs_fixtures::image("ext2").path()).unwrap();
    assert!(volume(&vec![(physical, disk)], "root") == expected);
}

#[test]
fn striped_volumes_over_two_partitions() {
    let image = image("lvm-striped.raw");
    let disk: Arc<dyn BlockRead> = Arc::new(File::open(image.path()).unwrap());
    let table = read_table(&*disk).unwrap().unwrap();
    let disks: Disks = table
        .partitions
        .iter()
        .map(|partition| {
            let slice: Slice = partition.open(Arc::clone(&disk)).unwrap();
            let physical = PhysicalVolume::read(&slice).unwrap().unwrap();
            (physical, Arc::new(slice) as Arc<dyn BlockRead>)
        })
        .collect();
    assert!(disks[0].0.group.is_some() && disks[1].0.group.is_none());
    let expected = std::fs::read(diskfs_fixtures::image("ext2").path()).unwrap();
    assert!(volume(&disks, "my-root") == expected);
    assert_eq!(volume(&disks, "raid0").len(), 8 << 20);
}

/// Returns the physical volumes of `lvm-raid.raw` as devices, of which some may be omitted.
fn raid_disks() -> Disks {
    let image = image("lvm-raid.raw");
    let bytes = std::fs::read(image.path()).unwrap();
    let disk: Arc<dyn BlockRead> = Arc::new(Memory::new(bytes));
    let table = read_table(&*disk).unwrap().unwrap();
    let open = |partition: &Partition| {
        let slice: Slice = partition.open(Arc::clone(&disk)).unwrap();
        let physical = PhysicalVolume::read(&slice).unwrap().unwrap();
        (physical, Arc::new(slice) as Arc<dyn BlockRead>)
    };
    table.partitions.iter().map(open).collect()
}

/// Returns why a volume of a RAID cannot be opened, if so, when some disks are missing.
fn check_raid(disks: &Disks, volume: &LogicalVolume, without: &[usize]) -> Option<ErrorKind> {
    let groups = volume_groups(disks.iter().map(|(physical, _)| physical));
    let find = |entry: &PvEntry| {
        let found = disks.iter().enumerate();
        let mut found = found.filter(|(n, (pv, _))| pv.id == entry.id && !without.contains(n));
        Ok(found.next().map(|(_, (_, disk))| Arc::clone(disk)))
    };
    let there = |id: &LvmId| {
        let mut disks = disks.iter().enumerate();
        disks.any(|(n, (pv, _))| pv.id == *id && !without.contains(&n))
    };
    let missing = groups[0].missing_for(volume, &there);
    match groups[0].open(volume, &find) {
        Ok(opened) => {
            assert!(missing.is_empty(), "{} {without:?}", volume.name);
            let found = contents(&opened);
            let expected = pattern(&volume.name, 384 << 10);
            assert!(
                found[..384 << 10] == expected,
                "{} {without:?}",
                volume.name
            );
            // A read from the middle of one stripe into another.
            let mut some = vec![0; 10_000];
            opened.read_at(3000, &mut some).unwrap();
            assert!(
                some == expected[3000..13_000],
                "{} {without:?}",
                volume.name
            );
            None
        }
        Err(error) => {
            assert_eq!(
                missing.is_empty(),
                error.kind() != ErrorKind::NotFound,
                "{error}"
            );
            Some(error.kind())
        }
    }
}

/// Contents that the kernel wrote through device-mapper are read correctly, with any one or two
/// disks missing as far as the type allows.
#[test]
fn every_type_of_raid_is_read_also_degraded() {
    let disks = raid_disks();
    let groups = volume_groups(disks.iter().map(|(physical, _)| physical));
    let mut seen = 0;
    for volume in groups[0].logical_volumes.iter().filter(|lv| lv.visible) {
        if volume.name == "snap" {
            continue;
        }
        seen += 1;
        assert!(volume.problem.is_none(), "{volume:?}");
        assert_eq!(check_raid(&disks, volume, &[]), None);
        let spare = match volume.name.as_str() {
            "mirror" => 0,
            name if name.starts_with("raid6") || name == "raid1" => 2,
            _ => 1,
        };
        for a in 0..disks.len() {
            let failed = check_raid(&disks, volume, &[a]);
            assert!(failed.is_none() || spare == 0, "{} {a}", volume.name);
            for b in (0..a).filter(|b| spare > 1 || b + 1 == a) {
                let failed = check_raid(&disks, volume, &[a, b]);
                assert!(failed.is_none() || spare < 2, "{} {a} {b}", volume.name);
                assert!(failed.is_none_or(|kind| kind == ErrorKind::NotFound));
            }
        }
        let all = check_raid(&disks, volume, &[0, 1, 2, 3, 4]);
        assert_eq!(all, Some(ErrorKind::NotFound));
    }
    assert_eq!(seen, 17);
}

/// Opens the volume `snap` of `lvm-raid.raw`, after the first bytes of its store are replaced.
fn snapshot(header: &[u8]) -> diskfs_block::Result<Vec<u8>> {
    let image = image("lvm-raid.raw");
    let disk: Arc<Memory> = Arc::new(Memory::new(std::fs::read(image.path()).unwrap()));
    let mut bytes = vec![0; usize::try_from(disk.size_bytes()).unwrap()];
    disk.read_at(0, &mut bytes).unwrap();
    let magic = bytes
        .chunks(4096)
        .position(|chunk| chunk.starts_with(b"SnAp\x01"));
    let store = magic.expect("a store") * 4096;
    bytes[store..store + header.len()].copy_from_slice(header);
    let disk: Arc<dyn BlockRead> = Arc::new(Memory::new(bytes));
    let table = read_table(&*disk).unwrap().unwrap();
    let disks: Disks = table
        .partitions
        .iter()
        .map(|partition| {
            let slice: Slice = partition.open(Arc::clone(&disk)).unwrap();
            let physical = PhysicalVolume::read(&slice).unwrap().unwrap();
            (physical, Arc::new(slice) as Arc<dyn BlockRead>)
        })
        .collect();
    let group = volume_groups(disks.iter().map(|(physical, _)| physical)).remove(0);
    let find = |entry: &PvEntry| {
        let found = disks.iter().find(|(pv, _)| pv.id == entry.id);
        Ok(found.map(|(_, disk)| Arc::clone(disk)))
    };
    let volume = group.logical_volume("snap").unwrap();
    let opened = group.open(volume, &find)?;
    assert_eq!(opened.size_bytes(), volume.size_bytes);
    let found = contents(&opened);
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < opened.size_bytes() {
        let extent = opened.extent_at(at)?;
        let mut piece = vec![0; usize::try_from(extent.len_bytes).unwrap()];
        opened.read_at(at, &mut piece)?;
        pieces.extend(piece);
        at += extent.len_bytes;
    }
    assert!(pieces == found);
    Ok(found)
}

#[test]
fn a_snapshot_is_read_from_its_store_and_its_origin() {
    let mut expected = pattern("raid1", 384 << 10);
    expected[5 << 12..8 << 12].copy_from_slice(&pattern("raid10", 3 << 12));
    let found = snapshot(&[]).unwrap();
    assert!(found[..expected.len()] == expected);
    let kind = |header: &[u8]| snapshot(header).map_err(|error| error.kind()).err();
    // Stores that overflowed, have another version, chunks of size zero, or no header.
    let invalid = snapshot(b"SnAp\0\0\0\0").unwrap_err();
    assert_eq!(invalid.kind(), ErrorKind::Corrupt);
    assert!(
        invalid
            .to_string()
            .contains("snap is a snapshot that is invalid"),
        "{invalid}"
    );
    let version = kind(b"SnAp\x01\0\0\0\x02\0\0\0");
    assert_eq!(version, Some(ErrorKind::Unsupported));
    let sizes: [&[u8; 4]; 3] = [b"\0\0\0\0", b"\x09\0\0\0", b"\0\0\0\x80"];
    for size in sizes {
        let header = [b"SnAp\x01\0\0\0\x01\0\0\0", &size[..]].concat();
        assert_eq!(kind(&header), Some(ErrorKind::Corrupt), "{size:?}");
    }
    assert_eq!(kind(b"LUKS"), Some(ErrorKind::Corrupt));
    // A store that was never used, so the snapshot equals the current origin.
    let unused = snapshot(b"\0\0\0\0").unwrap();
    assert!(unused[..384 << 10] == pattern("raid1", 384 << 10));
}

/// Writes to a RAID with copies go to all of them, which are marked meanwhile.
#[test]
fn copies_are_written_alike() {
    let image = image("lvm-raid.raw");
    let disk = Arc::new(Memory::new(std::fs::read(image.path()).unwrap()));
    let table = read_table(&*disk).unwrap().unwrap();
    let parts: Vec<_> = table
        .partitions
        .iter()
        .map(|partition| Arc::new(partition.open(Arc::clone(&disk)).unwrap()))
        .collect();
    let physical: Vec<_> = parts
        .iter()
        .map(|part: &Arc<Slice<Memory>>| PhysicalVolume::read(&**part).unwrap().unwrap())
        .collect();
    let group = volume_groups(&physical).remove(0);
    let find = |entry: &PvEntry| {
        let found = physical.iter().position(|pv| pv.id == entry.id);
        Ok(found.map(|n| Arc::clone(&parts[n])))
    };
    let volume = |name: &str| group.logical_volume(name).unwrap();
    let read = |name: &str| contents(&group.open(volume(name), &find).unwrap());
    let refused = |name: &str| {
        let opened = group.open_writable(volume(name), &find);
        opened.err().map(|error| error.kind())
    };
    for name in ["raid4", "raid5_ls", "raid6_zr", "raid1", "snap"] {
        // A snapshot of raid1 would have to keep the data that is overwritten.
        assert_eq!(refused(name), Some(ErrorKind::Unsupported), "{name}");
    }
    let before = read("raid10_rmeta_0");
    let raid = group.open_writable(volume("raid10"), &find).unwrap();
    assert!(read("raid10_rmeta_0") == before, "nothing is written yet");
    let bytes = pattern("written", 50_000);
    raid.write_at(3000, &bytes).unwrap();
    assert!(read("raid10_rmeta_0") != before);
    let events = |metadata: &[u8]| u64::from_le_bytes(metadata[16..24].try_into().unwrap());
    for image in 0..4 {
        let metadata = read(&format!("raid10_rmeta_{image}"));
        assert_eq!(events(&metadata), events(&before) + 1);
        assert_eq!(metadata[40..48], [0; 8], "everything must be copied");
    }
    assert_eq!(
        refused("raid10"),
        Some(ErrorKind::Unsupported),
        "another writes"
    );
    drop(raid);
    for image in 0..4 {
        let metadata = read(&format!("raid10_rmeta_{image}"));
        assert_eq!(events(&metadata), events(&before) + 2);
        assert_eq!(metadata[40..48], [0xff; 8]);
        assert_eq!(
            metadata[4096 + 24..][..8],
            metadata[16..24],
            "the bitmap's events"
        );
    }
    assert!(read("raid10")[3000..53_000] == bytes);
    assert!(read("raid10_rimage_0") == read("raid10_rimage_1"));
    assert!(read("raid10_rimage_2") == read("raid10_rimage_3"));
    assert_eq!(refused("raid10"), None);

    // The log has six regions, each with a bit after the first two sectors.
    let bits = || read("mirror_mlog")[1024];
    assert_eq!(bits(), 0x3f);
    let mirror = group.open_writable(volume("mirror"), &find).unwrap();
    assert_eq!(bits(), 0x3f, "nothing is written yet");
    mirror.write_at(3000, &bytes).unwrap();
    assert_eq!(bits(), 0, "everything must be copied");
    assert_eq!(refused("mirror"), Some(ErrorKind::Unsupported));
    drop(mirror);
    assert_eq!(bits(), 0x3f);
    assert!(read("mirror")[3000..53_000] == bytes);
    assert!(read("mirror_mimage_0") == read("mirror_mimage_1"));
    let log = group.open_writable(volume("mirror_mlog"), &find).unwrap();
    for (offset, byte) in [(1024, 0x1f), (8, 7), (0, 0), (4, 1)] {
        let mut before = [0];
        log.read_at(offset, &mut before).unwrap();
        log.write_at(offset, &[byte]).unwrap();
        assert_eq!(
            refused("mirror"),
            Some(ErrorKind::Unsupported),
            "byte {offset} of the log"
        );
        log.write_at(offset, &before).unwrap();
    }
    assert_eq!(refused("mirror"), None);
}
