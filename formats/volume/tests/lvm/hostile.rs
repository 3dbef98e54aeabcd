//! Malicious metadata: any bytes and texts lead to a result.

use diskfs_block::BlockRead;
use diskfs_volume::edit::NewSize;
use diskfs_volume::lvm::{LvmId, NewVolume, VolumeGroup};
use proptest::prelude::*;

use crate::disk::{EXTENT, Machine, Pv, group_text, linear, seal_header, seal_label, volume_text};

/// Opens and reads everything.
fn exercise(disks: Vec<Vec<u8>>) {
    let machine = Machine::new(disks);
    for group in machine.groups.iter().take(1) {
        for volume in &group.logical_volumes {
            if let Ok(device) = machine.open(&volume.name) {
                assert_eq!(device.size_bytes(), volume.size_bytes);
                for offset in [0, device.size_bytes() / 2, device.size_bytes() - 1] {
                    let _ = device.read_at(offset, &mut [0]);
                    let _ = device.extent_at(offset);
                }
            }
        }
        let _ = machine.change_ids(group);
        // The group is then another one, unless it was refused.
        let again = Machine::new(machine.disks.iter().map(|(_, disk)| disk.to_vec()));
        again
            .groups
            .iter()
            .take(1)
            .for_each(|group| edit(&again, group));
    }
}

/// Makes all changes of a group that are not refused, and reads the result.
fn edit(machine: &Machine, group: &VolumeGroup) {
    let edited = machine.edit(group, |editor| {
        let new = NewVolume {
            name: "new".to_owned(),
            id: LvmId::from_random([1; 32]),
            size: NewSize::Bytes(1),
        };
        for volume in &group.logical_volumes {
            let _ = editor.extend(&volume.name, NewSize::More(3 * EXTENT));
            let _ = editor.reduce(&volume.name, volume.size_bytes / 2);
        }
        let _ = editor.add(&new);
        let _ = editor.grow_physical_volumes();
        for volume in &group.logical_volumes {
            let _ = editor.extend(&volume.name, NewSize::Largest);
        }
        for entry in &group.physical_volumes {
            let least = editor.least_device_bytes(&entry.id).unwrap_or(0);
            let _ = editor.shrink_physical_volume(&entry.id, least);
        }
        Ok(())
    });
    let seqno = group.seqno + u64::from(edited.is_ok_and(|is_written| is_written));
    let left = Machine::new(machine.disks.iter().map(|(_, disk)| disk.to_vec()));
    // Only the areas may have been written a second time.
    assert!([seqno, seqno - 1].contains(&left.groups[0].seqno));
}

/// Returns the text of a RAID5 of three images.
fn raid_text() -> String {
    let raid = "type = \"raid5_ls\" device_count = 3 stripe_size = 8 region_size = 8 \
                raids = [ \"m0\", \"i0\", \"m1\", \"i1\", \"m2\", \"i2\" ]";
    let parts = ["m0", "i0", "m1", "i1", "m2", "i2"];
    let parts = parts.iter().zip(20..);
    let parts: Vec<String> = parts
        .map(|(name, extent)| volume_text(name, &[(1, &linear("pv0", extent))]))
        .collect();
    parts.concat() + &volume_text("raid", &[(2, raid)])
}

fn text() -> String {
    let striped = "type = \"striped\" stripe_count = 2 stripe_size = 8 \
                   stripes = [ \"pv0\", 10, \"home\", 0 ]";
    let logical = volume_text("root", &[(2, &linear("pv0", 0)), (4, striped)])
        + &volume_text("home", &[(5, &linear("pv0", 4))])
        + &raid_text();
    group_text(1, &['a'], &logical)
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(1 << 63),
        Just(1 << 55),
        0_u64..4096,
        0_u64..10 << 20,
        any::<u64>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Numbers and words of a good text are replaced.
    #[test]
    fn any_number_in_the_text(at in any::<prop::sample::Index>(), value in number()) {
        let text = text();
        let words: Vec<&str> = text.split(' ').collect();
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let numbers: Vec<usize> = (0..words.len())
            .filter(|&n| words[n].trim_end_matches([',', '\n']).parse::<u64>().is_ok())
            .collect();
        words[numbers[at.index(numbers.len())]] = value.to_string();
        exercise(vec![Pv::new('a', &words.join(" ")).bytes()]);
    }

    /// Pieces of a good text are removed, doubled or replaced by others.
    #[test]
    fn any_text(from in 0_usize..2500, len in 0_usize..60, to in 0_usize..2500, swap in ".{0,12}") {
        let good = text();
        let pick = |from: usize, len: usize| good.get(from..from + len).unwrap_or("");
        let text = [pick(0, to), &swap, pick(from, len), good.get(to..).unwrap_or("")].concat();
        exercise(vec![Pv::new('a', &text).bytes()]);
    }

    /// Fields of the headers are replaced, and their checksums corrected.
    #[test]
    fn any_header(fields in prop::collection::vec((0_usize..30, number()), 1..4)) {
        let mut disk = Pv::new('a', &text()).bytes();
        for (field, value) in fields {
            let at = if field < 15 { 512 + 32 + 8 * field } else { 4096 + 24 + 8 * (field - 15) };
            disk[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        seal_label(&mut disk[512..1024]);
        seal_header(&mut disk[4096..4608]);
        exercise(vec![disk]);
    }
}
