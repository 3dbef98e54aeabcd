//! Changes of groups, compared with those that LVM's own commands make on a copy.

use diskfs_block::{ErrorKind, Result};
use diskfs_volume::edit::NewSize;
use diskfs_volume::lvm::{GroupEditor, VolumeGroup};

use crate::edit_rig::{MIB, Rig};

/// Makes a change with our editor, and with LVM's command on a copy, and compares the results.
fn compare(rig: &Rig, command: &str, change: impl FnOnce(&mut GroupEditor) -> Result<u64>) -> u64 {
    let copy = rig.copy();
    let value = compare_sizes(rig, &copy, command, change);
    compare_texts(&rig.group(), &copy.group());
    value
}

/// Makes a change and compares LVM's reports. LVM may have chosen other extents.
fn compare_sizes(
    rig: &Rig,
    copy: &Rig,
    command: &str,
    change: impl FnOnce(&mut GroupEditor) -> Result<u64>,
) -> u64 {
    copy.lvm.run(command).unwrap();
    let (value, is_written) = rig.edit(change).unwrap();
    assert!(is_written, "{command}");
    rig.check();
    assert_eq!(rig.told(), copy.told(), "{command}");
    value
}

/// Compares the metadata of two groups with the same history, except for what we do not change
/// (the paths of devices) and for `dev_size`, which pvresize reduces by `pe_start`.
fn compare_texts(ours: &VolumeGroup, theirs: &VolumeGroup) {
    assert_eq!(ours.logical_volumes, theirs.logical_volumes);
    let physical = |group: &VolumeGroup| {
        let mut physical = group.physical_volumes.clone();
        for entry in &mut physical {
            entry.device_hint = None;
            entry.device_bytes = None;
        }
        physical
    };
    assert_eq!(physical(ours), physical(theirs));
    assert_eq!(ours.extent_bytes, theirs.extent_bytes);
    assert_eq!((&ours.name, ours.id), (&theirs.name, theirs.id));
}

const MAKE: &str = "lvcreate -q -an -Zn -Wn -n";

#[test]
fn sizes_become_those_that_lvm_gives() {
    let Some(rig) = Rig::new(2, 8 * MIB) else {
        return;
    };
    let lvm = |command: &str| rig.lvm.run(command).unwrap();
    lvm("pvcreate -q @0");
    lvm("pvcreate -q --bootloaderareasize 64k @1");
    lvm("vgcreate -q -s 64k vg @0 @1");
    lvm(&format!("{MAKE} root -l 30 vg @0"));
    lvm(&format!("{MAKE} home -l 5 vg @0"));
    lvm(&format!("{MAKE} striped -i 2 -I 8k -l 30 vg"));
    rig.fill();
    let (root, striped) = (rig.open("root"), rig.open("striped"));

    rig.set_len(0, 11 * MIB + 512);
    let id = rig.id(0);
    let added = compare(&rig, "pvresize -q @0", |e| e.grow_physical_volume(&id));
    assert_eq!(added, 3 * MIB);
    let id = rig.id(1);
    let (added, is_written) = rig.edit(|e| e.grow_physical_volume(&id)).unwrap();
    assert_eq!((added, is_written), (0, false));

    compare(&rig, "lvextend -q -l +10 vg/root", |e| {
        e.extend("root", NewSize::More(9 * 65536 + 1))
    });
    let size = compare(&rig, "lvextend -q -L 4M vg/striped", |e| {
        e.extend("striped", NewSize::Bytes(4 * MIB))
    });
    assert_eq!(size, 4 * MIB);
    compare(&rig, "lvextend -q -L 4160k vg/striped", |e| {
        e.extend("striped", NewSize::Bytes(4 * MIB + 1))
    });
    compare(&rig, "lvextend -q -l +100%FREE vg/home", |e| {
        e.extend("home", NewSize::Largest)
    });
    let full = rig
        .edit(|e| e.extend("root", NewSize::More(1)))
        .unwrap_err();
    assert_eq!(full.kind(), ErrorKind::NoSpace, "{full}");
    let same = rig.edit(|e| e.extend("root", NewSize::Largest)).unwrap();
    assert!(!same.1);
    assert!(rig.open("root").starts_with(&root));
    assert!(rig.open("striped").starts_with(&striped));

    compare(&rig, "lvreduce -q -f -L 300k vg/home", |e| {
        e.reduce("home", 300 << 10)
    });
    compare(&rig, "lvreduce -q -f -L 3M vg/striped", |e| {
        e.reduce("striped", 3 * MIB)
    });
    let size = compare(&rig, "lvreduce -q -f -L 1M vg/root", |e| {
        e.reduce("root", MIB - 65535)
    });
    assert_eq!(size, MIB);
    let id = rig.id(0);
    let lost = compare(&rig, "pvresize -q -y --setphysicalvolumesize 10M @0", |e| {
        e.shrink_physical_volume(&id, 10 * MIB)
    });
    assert_eq!(lost, MIB);
    let least = rig.edit(|e| e.least_device_bytes(&id)).unwrap().0;
    let error = rig
        .edit(|e| e.shrink_physical_volume(&id, least - 1))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(
        error.reason().contains(&format!("up to byte {least}")),
        "{error}"
    );
    rig.edit(|e| e.shrink_physical_volume(&id, least)).unwrap();
    rig.check();
    rig.set_len(0, least);
    rig.check();
    assert_eq!(rig.open("root"), root[..1 << 20]);
    let left = rig.open("striped");
    let common = left.len().min(striped.len());
    assert!(left[..common] == striped[..common]);

    // LVM goes on with the metadata that we wrote.
    lvm("lvextend -q -l +3 vg/root");
    lvm(&format!("{MAKE} more -l 1 vg"));
    rig.check();
}

#[test]
fn a_metadata_area_after_the_extents_moves() {
    let Some(rig) = Rig::new(2, 8 * MIB) else {
        return;
    };
    let lvm = |command: &str| rig.lvm.run(command).unwrap();
    // The extents differ from zeroes.
    rig.fill();
    lvm("pvcreate -q -y --pvmetadatacopies 2 @0");
    lvm("pvcreate -q -y @1");
    lvm("vgcreate -q -s 64k vg @0 @1");
    lvm(&format!("{MAKE} root -l 40 vg @0"));
    let root = rig.open("root");
    let id = rig.id(0);
    // The new area would overlap the old one.
    rig.set_len(0, 8 * MIB + MIB / 2);
    let error = rig.edit(|e| e.grow_physical_volume(&id)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    rig.set_len(0, 13 * MIB);
    compare(&rig, "pvresize -q @0", |e| e.grow_physical_volume(&id));
    compare(&rig, "lvextend -q -l +100%FREE vg/root @0", |e| {
        e.extend("root", NewSize::Bytes(11 * MIB))
    });
    assert!(rig.open("root").starts_with(&root));
}

/// Returns a group with a thin pool, a RAID and a mirror, which LVM makes only with the kernel.
fn pools() -> Option<Rig> {
    let rig = Rig::new(2, 24 * MIB)?;
    let lvm = |command: &str| rig.lvm.run(command).unwrap();
    lvm("pvcreate -q @0");
    lvm("pvcreate -q @1");
    lvm("vgcreate -q -s 64k vg @0 @1");
    lvm(&format!("{MAKE} root -l 1 vg"));
    let mut letters = 'a'..;
    let mut volume = |name: &str, is_hidden: bool, segment: &str| {
        let id = letters.next().unwrap().to_string().repeat(32);
        let mark = if is_hidden { "" } else { ", \"VISIBLE\"" };
        let id = diskfs_volume::lvm::LvmId::parse(&id).unwrap();
        format!(
            "{name} {{ id = \"{id}\" status = [\"READ\", \"WRITE\"{mark}] flags = []\n\
             segment_count = 1 segment1 {{ start_extent = 0 {segment} }} }}\n"
        )
    };
    let linear = |extents: u64, pv: usize, start: u64| {
        format!(
            "extent_count = {extents} type = \"striped\" stripe_count = 1 \
             stripes = [\"pv{pv}\", {start}]"
        )
    };
    let mut text = [
        volume(
            "pool",
            false,
            "extent_count = 64 type = \"thin-pool\" metadata = \"pool_tmeta\" \
             pool = \"pool_tdata\" transaction_id = 1 chunk_size = 128 zero_new_blocks = 1",
        ),
        volume("pool_tmeta", true, &linear(32, 0, 10)),
        volume("pool_tdata", true, &linear(64, 0, 50)),
        volume(
            "thin",
            false,
            "extent_count = 128 type = \"thin\" thin_pool = \"pool\" transaction_id = 0 \
             device_id = 1",
        ),
        volume(
            "raid1",
            false,
            "extent_count = 16 type = \"raid1\" device_count = 2 region_size = 1024 raids = \
             [\"raid1_rmeta_0\", \"raid1_rimage_0\", \"raid1_rmeta_1\", \"raid1_rimage_1\"]",
        ),
        volume(
            "mirror",
            false,
            "extent_count = 16 type = \"mirror\" mirror_count = 2 region_size = 1024 mirrors = \
             [\"mirror_mimage_0\", 0, \"mirror_mimage_1\", 0]",
        ),
    ]
    .concat();
    for n in 0..2 {
        text += &volume(&format!("raid1_rmeta_{n}"), true, &linear(1, n, 150));
        text += &volume(&format!("raid1_rimage_{n}"), true, &linear(16, n, 160));
        text += &volume(&format!("mirror_mimage_{n}"), true, &linear(16, n, 200));
    }
    rig.restore(&text);
    Some(rig)
}

#[test]
fn a_thin_volume_gets_a_larger_virtual_size() {
    let Some(rig) = pools() else { return };
    compare(&rig, "lvextend -q -f -L 10M vg/thin", |e| {
        e.extend("thin", NewSize::Bytes(10 * MIB))
    });
    for (volume, part) in [("pool", "thin-pool"), ("pool_tdata", "part of another")] {
        let error = rig
            .edit(|e| e.extend(volume, NewSize::More(1)))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.reason().contains(part), "{error}");
    }
    let error = rig.edit(|e| e.reduce("thin", MIB)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let error = rig
        .edit(|e| e.extend("thin", NewSize::Largest))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[test]
fn other_types_are_refused_by_name() {
    let Some(rig) = pools() else { return };
    let lvm = |command: &str| rig.lvm.run(command).unwrap();
    lvm(&format!("{MAKE} plain -L 1M vg"));
    lvm(&format!("{MAKE} raid0 --type raid0 -i 2 -L 1M vg"));
    lvm("lvchange -q --addtag kept vg/plain");
    let bytes = rig.bytes();
    for name in ["raid1", "raid0", "mirror"] {
        let error = rig.edit(|e| e.extend(name, NewSize::More(1))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let part = format!("logical volume {name} is of type `{name}`");
        assert!(error.reason().contains(&part), "{error}");
        assert!(error.next_step().unwrap().contains("lvextend"), "{error}");
        assert!(rig.edit(|e| e.reduce(name, 1)).is_err());
    }
    for name in ["raid1_rimage_0", "pool_tmeta"] {
        let error = rig.edit(|e| e.reduce(name, 1)).unwrap_err();
        assert!(error.reason().contains("part of another"), "{error}");
    }
    let error = rig
        .edit(|e| e.extend("none", NewSize::More(1)))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(rig.bytes() == bytes);
    // They do not prevent changes of others, and their extents are in use.
    compare(&rig, "lvextend -q -L 2M vg/plain", |e| {
        e.extend("plain", NewSize::Bytes(2 * MIB))
    });
    lvm("pvchange -q -x n @0");
    compare_sizes(
        &rig,
        &rig.copy(),
        "lvextend -q -l +100%FREE vg/plain",
        |e| e.extend("plain", NewSize::Largest),
    );
    assert!(lvm("lvs --noheadings -o lv_tags vg/plain").contains("kept"));
}

#[test]
fn lvm_reads_what_a_crash_leaves() {
    use diskfs_block::{BlockRead, BlockWrite, Fate, Faulty, Memory};
    use std::sync::Arc;

    let Some(rig) = Rig::new(2, 4 * MIB) else {
        return;
    };
    let lvm = |command: &str| rig.lvm.run(command).unwrap();
    lvm("pvcreate -q --metadatasize 64k --pvmetadatacopies 2 @0");
    lvm("pvcreate -q --metadatasize 64k @1");
    lvm("vgcreate -q -s 64k vg @0 @1");
    lvm(&format!("{MAKE} root -l 20 -i 2 -I 4k vg"));
    rig.set_len(0, 5 * MIB);
    rig.set_len(1, 6 * MIB);
    let (group, physical) = (rig.group(), rig.physical());
    let before = rig.bytes();
    // Both are parts of one device, whose writes are in one order.
    let all = before.concat();
    let device = Arc::new(Faulty::new(Arc::new(Memory::new(all.clone())), []));
    let starts = [0, before[0].len() as u64, all.len() as u64];
    let part = |id| {
        let n = physical.iter().position(|it| it.id == id).unwrap();
        let len = starts[n + 1] - starts[n];
        diskfs_block::Slice::new(Arc::clone(&device), starts[n], len).map(Arc::new)
    };
    let mut editor = group
        .editor(&|entry| Ok(Some(part(entry.id)? as Arc<dyn BlockRead>)))
        .unwrap();
    editor.grow_physical_volumes().unwrap();
    editor.extend("root", NewSize::Bytes(3 * MIB)).unwrap();
    assert!(
        editor
            .write(&|entry| Ok(Some(part(entry.id)? as Arc<dyn BlockWrite>)))
            .unwrap()
    );
    let report = "lvs --noheadings --units b -o lv_size,vg_extent_count vg/root";
    let told = |bytes: &[u8]| {
        rig.put(0, &bytes[..before[0].len()]);
        rig.put(1, &bytes[before[0].len()..]);
        lvm("vgck vg");
        lvm(report)
    };
    let (old, new) = (told(&all), told(&device_bytes(&*device)));
    assert_ne!(old, new);
    let log = device.log();
    let is_write = |count: &usize| {
        let event = count.checked_sub(1).and_then(|last| log.events().get(last));
        event.is_none_or(|event| event.len_bytes() > 0)
    };
    let mut seen = Vec::new();
    for count in (0..=log.events().len()).filter(is_write) {
        let left = Memory::new(all.clone());
        log.crash_after(count)
            .replay(&left, |_, _| Fate::Kept)
            .unwrap();
        seen.push(told(&left.to_vec()));
        assert!(
            [&old, &new].contains(&seen.last().unwrap()),
            "after {count}: {seen:?}"
        );
    }
    let first_new = seen.iter().position(|told| *told == new).unwrap();
    assert!(
        seen[first_new..].iter().all(|told| *told == new),
        "{seen:?}"
    );
}

fn device_bytes(device: &dyn diskfs_block::BlockRead) -> Vec<u8> {
    crate::disk::contents(device)
}
