//! Arrays that we wrote, assembled by a kernel. The test needs a virtual machine:
//! `DISKFS_FIXTURES_KERNEL=... cargo test -p diskfs-volume --test raid_in_vm -- --ignored`.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Memory, Slice};
use diskfs_fixtures::{Workshop, pattern, run, run_in_vm, sha256_hex};
use diskfs_volume::lvm::{PhysicalVolume, PvEntry, volume_groups};
use diskfs_volume::md::{Member, arrays};
use diskfs_volume::read_table;

const MAKE: &str = "cd /\nmodprobe md-mod\n\
    mdadm -C /dev/md0 -R --force -N plain --homehost=any -n 2 -l 1 -b none /dev/vda1 /dev/vda2\n\
    mdadm -C /dev/md1 -R --force -N bitmap --homehost=any -n 2 -l 1 -b internal /dev/vda3 /dev/vda4\n\
    mdadm -C /dev/md2 -R --force -N ten --homehost=any -n 4 -l 10 -c 4 -b internal /dev/vda5 \
        /dev/vda6 /dev/vda7 /dev/vda8\n\
    lvm pvcreate -q /dev/vda9 /dev/vda10\nlvm vgcreate -q -s 64k vg /dev/vda9 /dev/vda10\n\
    lvm lvcreate -q -y -Wn -Zn -R 64k --type raid1 -m 1 -L 1m -n lv vg\n\
    lvm lvcreate -q -y -Wn -Zn -R 64k --type mirror -m 1 --mirrorlog disk --alloc anywhere -L 640k -n old vg\n\
    lvm lvcreate -q -y -Wn -Zn --type raid0_meta -i 2 -I 4k -L 640k -n meta vg\n\
    for i in 1 2 3 4 5 6 7 8; do sleep 1; done\n\
    cat /proc/mdstat\nlvm lvs -a vg\nlvm vgchange -q -an vg\nmdadm --stop --scan\n";

/// The script that starts all arrays, prints the kernel's state and the contents, and then whether
/// all copies are equal.
const LOOK: &str = "cd /\nmodprobe md-mod\n\
    mdadm -A /dev/md0 /dev/vda1 /dev/vda2\nmdadm -A /dev/md1 /dev/vda3 /dev/vda4\n\
    mdadm -A /dev/md2 /dev/vda5 /dev/vda6 /dev/vda7 /dev/vda8\nlvm vgchange -q -ay vg\n\
    for i in 1 2 3 4 5 6 7 8; do sleep 1; done\n\
    cat /proc/mdstat\nsha256sum /dev/md0 /dev/md1 /dev/md2 /dev/vg/lv /dev/vg/old /dev/vg/meta\ndmesg | grep -i 'md/\\|md:\\|md[0-9]'\n\
    for md in /sys/block/*/md; do echo check > $md/sync_action; done || true\n\
    for i in 1 2 3 4; do sleep 1; done\n\
    for n in 0 1 2; do echo MISMATCH $(cat /sys/block/md$n/md/mismatch_cnt); done\n\
    lvm lvchange -q --syncaction check vg/lv\nfor i in 1 2 3 4; do sleep 1; done\n\
    echo MISMATCH $(lvm lvs --noheadings -o raid_mismatch_count vg/lv)\n\
    cmp /dev/mapper/vg-old_mimage_0 /dev/mapper/vg-old_mimage_1 && echo LEGS-ALIKE\n\
    lvm vgchange -q -an vg\nmdadm --stop --scan\n";

/// Writes to all arrays, and returns their contents. Without closing them it simulates a crash in
/// which one copy of each write is lost.
fn write(disk: &Path, round: &str, crashes: bool) -> Vec<String> {
    let bytes = Arc::new(Memory::new(fs::read(disk).unwrap()));
    let table = read_table(&*bytes).unwrap().unwrap();
    let parts: Vec<Arc<Slice<Memory>>> = table
        .partitions
        .iter()
        .map(|partition| Arc::new(partition.open(Arc::clone(&bytes)).unwrap()))
        .collect();
    let members: Vec<(Member, usize)> = parts
        .iter()
        .enumerate()
        .filter_map(|(n, part)| Some((Member::read(&**part).unwrap()?, n)))
        .collect();
    let (members, places): (Vec<_>, Vec<_>) = members.into_iter().unzip();
    let found = arrays(&members);
    let mut written: Vec<Arc<dyn BlockWrite>> = Vec::new();
    for name in ["plain", "bitmap", "ten"] {
        let array = found
            .iter()
            .find(|array| array.name.ends_with(name))
            .unwrap();
        let find = |index: usize| Ok(Arc::clone(&parts[places[index]]));
        written.push(Arc::new(array.open_writable(&find).unwrap()));
    }
    let physical: Vec<_> = parts[8..]
        .iter()
        .map(|part| PhysicalVolume::read(&**part).unwrap().unwrap())
        .collect();
    let group = volume_groups(&physical).remove(0);
    for name in ["lv", "old", "meta"] {
        let volume = group.logical_volume(name).unwrap();
        let opened = group.open_writable(volume, &|entry: &PvEntry| {
            let found = physical.iter().position(|pv| pv.id == entry.id);
            Ok(found.map(|n| Arc::clone(&parts[8 + n])))
        });
        written.push(Arc::new(opened.unwrap()));
    }
    let contents = pattern(round, 200_000);
    let striped = pattern("striped", 200_000);
    let mut sums = Vec::new();
    for (n, device) in written.iter().enumerate() {
        // The last volume has only one copy.
        let contents = if n == 5 { &striped } else { &contents };
        device.write_at(300_000, contents).unwrap();
        device.flush().unwrap();
        let mut all = vec![0; usize::try_from(device.size_bytes()).unwrap()];
        device.read_at(0, &mut all).unwrap();
        sums.push(sha256_hex(&all));
    }
    if crashes {
        lose_second_copies(&bytes, &contents);
        written.into_iter().for_each(std::mem::forget);
    } else {
        drop(written);
    }
    let mut all = vec![0; usize::try_from(bytes.size_bytes()).unwrap()];
    bytes.read_at(0, &mut all).unwrap();
    fs::write(disk, all).unwrap();
    sums
}

/// Removes the written data from each second member.
fn lose_second_copies(disk: &Memory, contents: &[u8]) {
    let mut all = vec![0; usize::try_from(disk.size_bytes()).unwrap()];
    disk.read_at(0, &mut all).unwrap();
    // Each line of the pattern is unique, so it occurs once on each copy.
    let line = &contents[100_000 / 16 * 16..][..16];
    let sectors = all.chunks(512).enumerate();
    let found: Vec<u64> = sectors
        .filter(|(_, sector)| sector.windows(16).any(|bytes| bytes == line))
        .map(|(n, _)| u64::try_from(n).unwrap() * 512)
        .collect();
    assert_eq!(found.len(), 10, "two copies of each");
    // The arrays' members are adjacent pairs; those of the group's volumes are on one disk, then on
    // the other.
    for second in [1, 3, 5, 8, 9] {
        disk.write_at(found[second], &[0x55; 512]).unwrap();
    }
}

#[test]
#[ignore = "needs qemu and a kernel for it, and takes three minutes"]
fn the_kernel_copies_what_was_not_closed_and_nothing_else() {
    let workshop = Workshop::new().unwrap();
    let disk = workshop.sparse_file("disk", 44 << 20).unwrap();
    let mut words = vec!["-a".to_owned(), "1".to_owned()];
    for n in 1..=10 {
        words.extend([
            "-n".to_owned(),
            format!("{n}:{}:+4M", 2048 + (n - 1) * 8192),
        ]);
    }
    words.push(disk.display().to_string());
    run("sgdisk", words).unwrap();
    let vm = |script: &str| run_in_vm(&workshop, &disk, &["mdadm", "lvm"], &[], script).unwrap();
    vm(MAKE);
    for (round, crashes) in [("closed", false), ("crashed", true), ("again", false)] {
        let sums = write(&disk, round, crashes);
        let told = vm(LOOK);
        for sum in &sums {
            assert!(told.contains(sum), "{round}: {told}");
        }
        let repairs = told
            .matches("not clean -- starting background reconstruction")
            .count();
        assert_eq!(repairs, if crashes { 4 } else { 0 }, "{round}: {told}");
        assert_eq!(
            told.contains("out of date"),
            crashes,
            "{round}: the bitmaps: {told}"
        );
        let mismatches = told
            .lines()
            .filter_map(|line| line.strip_prefix("MISMATCH "));
        let mismatches: Vec<_> = mismatches.map(str::trim).collect();
        assert_eq!(mismatches, ["0"; 4], "{round}: {told}");
        assert!(told.contains("LEGS-ALIKE"), "{round}: {told}");
    }
}
