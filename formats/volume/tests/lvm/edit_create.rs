//! New groups, compared with those of pvcreate, vgcreate and lvcreate.

use std::sync::Arc;

use diskfs_block::{BlockWrite, ErrorKind, Memory};
use diskfs_volume::edit::NewSize;
use diskfs_volume::lvm::{LvmId, MetadataOrigin, NewGroup, NewVolume};

use crate::edit_rig::{MIB, Rig};

fn id(number: u8) -> LvmId {
    LvmId::from_random([number; 32])
}

fn volume(name: &str, number: u8, size: NewSize) -> NewVolume {
    NewVolume {
        name: name.to_owned(),
        id: id(number),
        size,
    }
}

fn new_group(devices: u8) -> NewGroup {
    NewGroup {
        name: "vg".to_owned(),
        id: id(1),
        physical_volumes: (0..devices).map(|number| id(10 + number)).collect(),
        extent_bytes: NewGroup::DEFAULT_EXTENT_BYTES,
        volumes: vec![
            volume("root", 2, NewSize::Bytes(9 * MIB)),
            volume("swap", 3, NewSize::Bytes(4 * MIB)),
            volume("home", 4, NewSize::Largest),
        ],
        origin: MetadataOrigin {
            host: "builder".to_owned(),
            time_seconds: 1_700_000_000,
            description: "made by a test".to_owned(),
        },
    }
}

fn devices(rig: &Rig) -> Vec<Arc<dyn BlockWrite>> {
    let devices = rig.devices().into_iter();
    devices
        .map(|device| device as Arc<dyn BlockWrite>)
        .collect()
}

#[test]
fn a_group_is_what_lvm_makes() {
    let Some(rig) = Rig::new(2, 33 * MIB + 512) else {
        return;
    };
    let theirs = rig.copy();
    let group = new_group(2).create(&devices(&rig)).unwrap();
    assert_eq!(rig.group(), group);
    rig.check();
    let lvm = |command: &str| theirs.lvm.run(command).unwrap();
    for n in [0, 1] {
        let id = id(10 + n);
        lvm(&format!("pvcreate -q --norestorefile --uuid {id} @{n}"));
    }
    lvm("vgcreate -q vg @0 @1");
    let make = "lvcreate -q -an -Zn -Wn -n";
    lvm(&format!("{make} root -L 9M vg"));
    lvm(&format!("{make} swap -L 4M vg"));
    lvm(&format!("{make} home -l 100%FREE vg"));
    for (ours, theirs) in rig.paths.iter().zip(&theirs.paths) {
        let (ours, theirs) = (std::fs::read(ours).unwrap(), std::fs::read(theirs).unwrap());
        assert_eq!(ours[..4096], theirs[..4096], "label");
        // The magic, version, start and size of the metadata area.
        assert_eq!(ours[4100..4136], theirs[4100..4136], "metadata area");
    }
    let without = |rig: &Rig| {
        let mut told = rig.told();
        for row in &mut told {
            let row = row.as_object_mut().unwrap();
            row.retain(|key, _| key != "vg_uuid" && key != "lv_uuid");
        }
        told
    };
    assert_eq!(without(&rig), without(&theirs));
    let segments = |rig: &Rig, name: &str| {
        let mut segments = rig.lvm.segments(&format!("vg/{name}")).unwrap();
        for (device, _) in segments.iter_mut().flat_map(|segment| &mut segment.areas) {
            let number = (0..2).find(|n| rig.lvm.device(*n) == device);
            *device = number.unwrap().to_string();
        }
        segments
    };
    for name in ["root", "swap", "home"] {
        assert_eq!(segments(&rig, name), segments(&theirs, name), "{name}");
    }
    let fields = "lv_name,lv_uuid,lv_host,vg_seqno";
    let row = &rig.lvm.report("lvs", fields).unwrap()[0];
    assert_eq!(row["lv_uuid"].as_str().unwrap(), id(4).to_string());
    assert_eq!(row["lv_host"].as_str().unwrap(), "builder");
    // LVM goes on with it.
    rig.lvm.run("lvreduce -q -f -l 2 vg/home").unwrap();
    rig.lvm.run("lvextend -q -l +1 vg/root").unwrap();
    rig.check();
}

#[test]
fn the_same_arguments_lead_to_the_same_bytes() {
    let disk = |fill| Arc::new(Memory::new(vec![fill; 33 << 20]));
    let two = [disk(0), disk(0)];
    for disk in &two {
        new_group(1).create(&[Arc::clone(disk) as _]).unwrap();
    }
    assert!(two[0].to_vec() == two[1].to_vec());
    let needed = NewGroup::device_bytes(4 * MIB, [9 * MIB, 4 * MIB]);
    assert_eq!(needed, 17 * MIB);
}

#[test]
fn wrong_arguments_are_refused_before_the_first_write() {
    let check = |change: &dyn Fn(&mut NewGroup), sizes: &[u64], kind, part: &str| {
        let mut new = new_group(1);
        change(&mut new);
        let error = new.check(sizes).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.reason().contains(part), "{part}: {error}");
    };
    let one = [33 * MIB];
    let invalid = ErrorKind::Invalid;
    check(&|new| new.name = "a b".to_owned(), &one, invalid, "name");
    check(&|new| new.name.clear(), &one, invalid, "name");
    check(
        &|new| new.extent_bytes = 3 * MIB,
        &one,
        invalid,
        "extent size",
    );
    check(&|new| new.extent_bytes = 0, &one, invalid, "extent size");
    check(
        &|new| new.origin.host = "a\"b".to_owned(),
        &one,
        invalid,
        "text",
    );
    check(&|_| (), &[33 * MIB, 33 * MIB], invalid, "2 devices");
    check(
        &|new| new.physical_volumes.push(id(10)),
        &[33 * MIB; 2],
        invalid,
        "same UUID",
    );
    let no_space = ErrorKind::NoSpace;
    check(&|_| (), &[5 * MIB - 512], no_space, "too small");
    check(&|_| (), &[13 * MIB], no_space, "logical volume swap");
    check(
        &|new| new.volumes[0].name = "root_rimage_0".to_owned(),
        &one,
        invalid,
        "reserves",
    );
    let exists = ErrorKind::Exists;
    check(
        &|new| new.volumes[1].name = "root".to_owned(),
        &one,
        exists,
        "already",
    );
    check(&|new| new.volumes[1].id = id(2), &one, exists, "UUID");
    let huge = |new: &mut NewGroup| new.volumes[0].size = NewSize::Bytes(u64::MAX);
    check(&huge, &one, invalid, "extents");
}
