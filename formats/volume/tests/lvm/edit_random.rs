//! Random sequences of changes, each compared with LVM's own command on a copy.

use diskfs_block::ErrorKind;
use diskfs_volume::edit::NewSize;
use proptest::prelude::*;

use crate::edit_rig::{MIB, Rig};

const NAMES: [&str; 3] = ["root", "home", "striped"];

#[derive(Debug, Clone)]
enum Change {
    Enlarge(usize, u64),
    Extend(usize, u64),
    ExtendAll(usize),
    Reduce(usize, u64),
    Shrink(usize, u64),
}

fn change() -> impl Strategy<Value = Change> {
    let (pv, lv) = (0..2_usize, 0..3_usize);
    prop_oneof![
        2 => (pv.clone(), 0..6 * 1024_u64).prop_map(|(pv, more)| Change::Enlarge(pv, more * 512)),
        5 => (lv.clone(), 1..6 * 1024_u64).prop_map(|(lv, bytes)| Change::Extend(lv, bytes * 512)),
        1 => lv.clone().prop_map(Change::ExtendAll),
        4 => (lv, 1..6 * 1024_u64).prop_map(|(lv, bytes)| Change::Reduce(lv, bytes * 512)),
        1 => (pv, 4096..16384_u64).prop_map(|(pv, bytes)| Change::Shrink(pv, bytes * 512)),
    ]
}

/// Makes the change; returns LVM's command for it, and true if anything was written.
fn apply(rig: &Rig, change: &Change) -> (String, diskfs_block::Result<bool>) {
    let written = |done: diskfs_block::Result<(u64, bool)>| done.map(|(_, written)| written);
    match *change {
        Change::Enlarge(pv, _) => {
            let id = rig.id(pv);
            let done = rig.edit(|e| e.grow_physical_volume(&id));
            (format!("pvresize -q @{pv}"), written(done))
        }
        Change::Extend(lv, bytes) => {
            let name = NAMES[lv];
            let done = rig.edit(|e| e.extend(name, NewSize::More(bytes)));
            (format!("lvextend -q -L +{bytes}b vg/{name}"), written(done))
        }
        Change::ExtendAll(lv) => {
            let name = NAMES[lv];
            let done = rig.edit(|e| e.extend(name, NewSize::Largest));
            (format!("lvextend -q -l +100%FREE vg/{name}"), written(done))
        }
        Change::Reduce(lv, bytes) => {
            let name = NAMES[lv];
            let done = rig.edit(|e| e.reduce(name, bytes));
            (
                format!("lvreduce -q -f -L {bytes}b vg/{name}"),
                written(done),
            )
        }
        Change::Shrink(pv, bytes) => {
            let id = rig.id(pv);
            let done = rig.edit(|e| e.shrink_physical_volume(&id, bytes));
            let command = format!("pvresize -q -y --setphysicalvolumesize {bytes}b @{pv}");
            (command, written(done))
        }
    }
}

fn cases() -> u32 {
    let cases = std::env::var("DISKFS_CASES")
        .ok()
        .and_then(|text| text.parse().ok());
    cases.unwrap_or(2)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        max_shrink_iters: 20,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn sequences_of_changes(changes in prop::collection::vec(change(), 10..16)) {
        let Some(rig) = Rig::new(2, 6 * MIB) else { return Ok(()) };
        let lvm = |command: &str| rig.lvm.run(command).unwrap();
        lvm("pvcreate -q @0");
        lvm("pvcreate -q @1");
        lvm("vgcreate -q -s 64k vg @0 @1");
        for (name, more) in [("root", "-l 10"), ("home", "-l 7"), ("striped", "-i 2 -I 4k -l 8")] {
            lvm(&format!("lvcreate -q -an -Zn -Wn -n {name} {more} vg"));
        }
        rig.fill();
        let theirs = rig.copy();
        for change in &changes {
            if let Change::Enlarge(pv, more) = change {
                let size = rig.devices()[*pv].clone();
                rig.set_len(*pv, diskfs_block::BlockRead::size_bytes(&*size) + more);
            }
            theirs.take(&rig);
            let bytes = rig.bytes();
            let before = NAMES.map(|name| rig.open(name));
            let (command, done) = apply(&rig, change);
            match done {
                Ok(true) => {
                    let is_striped = matches!(change, Change::ExtendAll(2) | Change::Extend(2, _));
                    let compared = theirs.lvm.run(&command);
                    // LVM may choose other extents for stripes, and reach another size.
                    prop_assert!(is_striped || compared.is_ok(), "{command}: {compared:?}");
                    if compared.is_ok() && !matches!(change, Change::ExtendAll(2)) {
                        prop_assert_eq!(rig.sizes(), theirs.sizes(), "{}", command);
                    }
                }
                Ok(false) => {}
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::NoSpace, "{}: {}", command, error);
                    prop_assert!(theirs.lvm.run(&command).is_err(), "{command}: {error}");
                    prop_assert!(rig.bytes() == bytes, "{command} wrote something");
                }
            }
            for (name, before) in NAMES.iter().zip(before) {
                let after = rig.open(name);
                let common = after.len().min(before.len());
                prop_assert!(after[..common] == before[..common], "{command}: {name}");
            }
        }
        rig.check();
    }
}
