//! The stored images: groups that LVM's tools made.

use std::sync::Arc;

use diskfs_block::{BlockRead, File, Slice};
use diskfs_fixtures::image;
use diskfs_volume::lvm::{PhysicalVolume, volume_groups};
use diskfs_volume::read_table;

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
