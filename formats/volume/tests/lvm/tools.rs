//! Comparison with LVM's own tools: random groups are read as `pvs`, `vgs` and `lvs` report them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use diskfs_block::{BlockRead, File};
use diskfs_fixtures::{Lvm, Part, require, require_root};
use diskfs_volume::lvm::{PhysicalVolume, VolumeGroup, volume_groups};

const MIB: u64 = 1 << 20;

/// The extent size in bytes.
const EXTENT: u64 = 64 << 10;

/// Creates a device of which each sector contains its own number and the device's.
#[derive(Debug)]
struct Numbered {
    disk: u64,
    size_bytes: u64,
}

fn mark(disk: u64, offset: u64) -> u64 {
    (disk << 48) | (offset / 512)
}

impl BlockRead for Numbered {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> diskfs_block::Result<()> {
        for (n, byte) in (offset..).zip(buf) {
            let mark = mark(self.disk, n).to_le_bytes();
            *byte = mark[usize::try_from(n % 8).unwrap()];
        }
        Ok(())
    }
}

/// A test setup: disks, LVM on them, and our view of them.
struct Rig {
    _directory: tempfile::TempDir,
    disks: Vec<PathBuf>,
    lvm: Lvm,
}

impl Rig {
    fn new(disks: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disks: Vec<PathBuf> = (0..disks)
            .map(|n| directory.path().join(n.to_string()))
            .collect();
        for path in &disks {
            let file = std::fs::File::create(path).unwrap();
            file.set_len(16 * MIB).unwrap();
        }
        let parts: Vec<Part<'_>> = disks
            .iter()
            .map(|image| Part {
                image,
                start_bytes: 0,
                len_bytes: None,
            })
            .collect();
        let lvm = Lvm::new(&parts).unwrap();
        Self {
            _directory: directory,
            disks,
            lvm,
        }
    }

    fn physical(&self) -> Vec<PhysicalVolume> {
        let read = |path| PhysicalVolume::read(&File::open(path).unwrap()).unwrap();
        self.disks.iter().filter_map(read).collect()
    }

    fn group(&self) -> VolumeGroup {
        let mut groups = volume_groups(&self.physical());
        assert_eq!(groups.len(), 1);
        groups.remove(0)
    }

    /// Compares the reports of `pvs`, `vgs` and `lvs` with ours.
    fn compare(&self) {
        let physical = self.physical();
        let group = self.group();
        for row in self.lvm.report("pvs", "pv_name,pv_uuid,vg_name").unwrap() {
            let device = row["pv_name"].as_str().unwrap();
            let disk = (0..self.disks.len()).find(|&n| self.lvm.device(n) == device);
            let uuid = physical[disk.unwrap()].id.to_string();
            assert_eq!(row["pv_uuid"].as_str().unwrap(), uuid);
            assert_eq!(row["vg_name"].as_str().unwrap(), group.name);
        }
        let fields = "vg_name,vg_uuid,vg_seqno,vg_extent_size,lv_count";
        let row = &self.lvm.report("vgs", fields).unwrap()[0];
        let visible = group.logical_volumes.iter().filter(|lv| lv.visible).count();
        let ours = [
            ("vg_name", group.name.clone()),
            ("vg_uuid", group.id.to_string()),
            ("vg_seqno", group.seqno.to_string()),
            ("vg_extent_size", group.extent_bytes.to_string()),
            ("lv_count", visible.to_string()),
        ];
        for (field, ours) in ours {
            assert_eq!(row[field].as_str().unwrap(), ours, "{field}");
        }
        let fields = "lv_name,lv_uuid,lv_size,segtype";
        let rows = self.lvm.report("lvs --segments -a", fields).unwrap();
        assert!(!rows.is_empty());
        for row in rows {
            let name = row["lv_name"].as_str().unwrap();
            let ours = group.logical_volume(name.trim_matches(['[', ']'])).unwrap();
            assert_eq!(
                row["lv_uuid"].as_str().unwrap(),
                ours.id.unwrap().to_string()
            );
            assert_eq!(
                row["lv_size"].as_str().unwrap(),
                ours.size_bytes.to_string()
            );
            assert!(ours.layout.contains(row["segtype"].as_str().unwrap()));
            assert_eq!(ours.visible, !name.starts_with('['));
            if ours.visible {
                self.compare_map(&group, name);
            }
        }
    }

    /// Checks that every sector of a volume is where `lvs` reports it.
    fn compare_map(&self, group: &VolumeGroup, name: &str) {
        let rows = self.lvm.report("pvs", "pv_name,pv_uuid,pe_start").unwrap();
        let mut starts = BTreeMap::new();
        let mut numbers = BTreeMap::new();
        for row in &rows {
            let text = |field: &str| row[field].as_str().unwrap().to_owned();
            let disk = (0..self.disks.len()).find(|&n| self.lvm.device(n) == text("pv_name"));
            let disk = u64::try_from(disk.unwrap()).unwrap();
            starts.insert(text("pv_name"), (disk, text("pe_start").parse().unwrap()));
            numbers.insert(text("pv_uuid"), disk);
        }
        let opened = group
            .open(group.logical_volume(name).unwrap(), &|entry| {
                let disk = numbers[&entry.id.to_string()];
                let size_bytes = 16 * MIB;
                Ok(Some(Arc::new(Numbered { disk, size_bytes })))
            })
            .unwrap();
        let full = format!("{}/{name}", group.name);
        for segment in self.lvm.segments(&full).unwrap() {
            let stripes = u64::try_from(segment.areas.len()).unwrap();
            let stripe = match segment.stripe_bytes {
                0 => segment.len_bytes,
                bytes => bytes,
            };
            let areas = segment.areas.iter();
            let areas: Vec<_> = areas.map(|area| self.place(area, &starts)).collect();
            for at in (0..segment.len_bytes).step_by(512) {
                let number = at / stripe;
                let (disk, start) = areas[usize::try_from(number % stripes).unwrap()];
                let place = start + number / stripes * stripe + at % stripe;
                let mut found = [0; 8];
                opened
                    .read_at(segment.start_bytes + at, &mut found)
                    .unwrap();
                assert_eq!(
                    u64::from_le_bytes(found),
                    mark(disk, place),
                    "{full} at {at}"
                );
            }
        }
    }

    /// Returns the disk and byte at which an area begins. The area may be on a hidden linear
    /// volume.
    fn place(&self, area: &(String, u64), starts: &BTreeMap<String, (u64, u64)>) -> (u64, u64) {
        let (name, extent) = area;
        if let Some((disk, start)) = starts.get(name) {
            return (*disk, start + extent * EXTENT);
        }
        let inner = self.lvm.segments(&format!("vg/{name}")).unwrap();
        assert_eq!((inner.len(), inner[0].areas.len()), (1, 1), "{inner:?}");
        self.place(&inner[0].areas[0], starts)
    }
}

fn rig(disks: usize) -> Option<Rig> {
    require_root()?;
    require("lvm")?;
    Some(Rig::new(disks))
}

#[test]
fn groups_are_read_as_the_tools_read_them() {
    let Some(rig) = rig(3) else { return };
    let lvm = |command: &str| rig.lvm.run(command).unwrap();
    // Small areas, in which the texts wrap around several times.
    lvm(
        "pvcreate -q --labelsector 3 --metadatasize 32k --dataalignment 4k --pvmetadatacopies 2 @0",
    );
    lvm("pvcreate -q --metadatasize 32k --dataalignment 4k @1");
    lvm("pvcreate -q --pvmetadatacopies 0 @2");
    lvm("vgcreate -q -s 64k vg @0 @1 @2");
    let make = "lvcreate -q -an -Zn -Wn -n";
    lvm(&format!("{make} root -l 30 vg @1"));
    lvm(&format!("{make} swap -l 10 vg @1"));
    lvm("lvextend -q -l +25 vg/root @0 @2");
    lvm(&format!("{make} striped -i 3 -I 4k -l 30 vg"));
    rig.compare();
    lvm("lvextend -q -i 2 -I 16k -l +8 vg/striped @0 @2");
    lvm(&format!("{make} raid0 --type raid0 -i 2 -I 8k -l 12 vg"));
    lvm("lvremove -q -y vg/swap");
    lvm("lvrename -q vg root my-root.0");
    rig.compare();
    for _ in 0..4 {
        lvm(&format!("{make} more -l 1 vg"));
        lvm("lvremove -q -y vg/more");
    }
    rig.compare();
}
