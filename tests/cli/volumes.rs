//! The selection of a volume.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use diskfs_fixtures::image;

use crate::{diskfs, diskfs_in};

const MIB: u64 = 1 << 20;

#[test]
fn a_volume_has_many_names() {
    let demo = image("demo.qcow2");
    for which in [
        &["--volume", "p1"][..],
        &["-p", "1"],
        &["--volume", "demo-root"],
        &["--volume", "LABEL=demo-root"],
        &["--volume", "d15cf500-0000-4000-8000-0000000000e4"],
        &["--volume", "UUID=D15CF500-0000-4000-8000-0000000000E4"],
        &["--volume", "PARTUUID=d15cf500-0000-4000-8000-000000000001"],
        &["--volume", "PARTLABEL=root"],
        &["--offset", "10M"],
        &["--offset", "20480s"],
        &["--volume", "@10485760"],
    ] {
        let words = [&["cat", "demo.qcow2:/etc/hostname"], which].concat();
        assert_eq!(diskfs(&demo, &words).text(), "demo\n", "{which:?}");
    }
}

#[test]
fn a_volume_that_is_not_there_or_not_read_says_so() {
    let demo = image("demo.qcow2");
    let cases: [(&[&str], i32, &str); 4] = [
        (
            &["-p", "3"],
            3,
            "no such volume: `p3`; available: p1, p14, p15",
        ),
        (&["-p", "14"], 4, "p14 holds no known filesystem"),
        (&["--offset", "1G"], 2, "the disk ends at byte 67108864"),
        (&["--volume", "LABEL="], 3, "no such volume"),
    ];
    for (which, code, message) in cases {
        let words = [&["ls", "demo.qcow2"], which].concat();
        let (found, stderr) = diskfs(&demo, &words).failure();
        assert_eq!(found, code, "{which:?}: {stderr}");
        assert!(stderr.contains(message), "{which:?}: {stderr}");
    }
}

/// Makes a disk with an MBR and two filesystems from fixtures.
fn two_filesystems(directory: &Path, first: &str, second: &str) {
    let disk = OpenOptions::new()
        .create_new(true)
        .write(true)
        .open(directory.join("two.img"))
        .unwrap();
    disk.set_len(64 * MIB).unwrap();
    let mut sector = [0; 512];
    sector[440..444].copy_from_slice(&0xd15c_f500_u32.to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    for (n, (name, start)) in [(first, MIB), (second, 32 * MIB)].into_iter().enumerate() {
        let filesystem = fs::read(image(name).path()).unwrap();
        disk.write_all_at(&filesystem, start).unwrap();
        let entry = &mut sector[446 + 16 * n..][..16];
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&u32::try_from(start / 512).unwrap().to_le_bytes());
        let sectors = u32::try_from(filesystem.len() / 512).unwrap();
        entry[12..].copy_from_slice(&sectors.to_le_bytes());
    }
    disk.write_all_at(&sector, 0).unwrap();
}

#[test]
fn two_that_could_be_meant_are_listed() {
    let directory = tempfile::tempdir().unwrap();
    two_filesystems(directory.path(), "ext4-default", "ext2");
    let (code, stderr) = diskfs_in(directory.path(), &["ls", "two.img"]).failure();
    assert_eq!(code, 2, "{stderr}");
    for part in [
        "several filesystems",
        "p1 (ext4, 16 MiB",
        "p2 (ext2, 8 MiB",
        "--volume p1",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let run = diskfs_in(directory.path(), &["ls", "-p", "2", "two.img:/size-1"]);
    assert_eq!(run.text(), "/size-1\n");
    let rows = diskfs_in(directory.path(), &["df", "--json", "two.img"]).json();
    assert_eq!(rows["filesystems"].as_array().unwrap().len(), 2);
    let by_uuid = diskfs_in(
        directory.path(),
        &["ls", "--volume", "d15cf500-02", "two.img:/size-1"],
    );
    assert_eq!(by_uuid.text(), "/size-1\n");
}

#[test]
fn the_one_with_an_operating_system_is_meant() {
    let directory = tempfile::tempdir().unwrap();
    let demo = image("demo.qcow2");
    // Copies the demo's root to a file with diskfs itself: its device starts at 10 MiB.
    let disk = diskfs::Disk::open(demo.path()).unwrap();
    let root = disk.volume("p1").unwrap().device().unwrap();
    let mut bytes = vec![0; usize::try_from(root.size_bytes()).unwrap()];
    root.read_at(0, &mut bytes).unwrap();
    fs::write(directory.path().join("root"), &bytes).unwrap();
    let boot = fs::read(image("ext2").path()).unwrap();
    let file = fs::File::create(directory.path().join("os.img")).unwrap();
    file.set_len(80 * MIB).unwrap();
    let mut sector = [0; 512];
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    for (n, (bytes, start)) in [(&boot, MIB), (&bytes, 16 * MIB)].into_iter().enumerate() {
        file.write_all_at(bytes, start).unwrap();
        let entry = &mut sector[446 + 16 * n..][..16];
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&u32::try_from(start / 512).unwrap().to_le_bytes());
        entry[12..].copy_from_slice(&u32::try_from(bytes.len() / 512).unwrap().to_le_bytes());
    }
    file.write_all_at(&sector, 0).unwrap();
    let run = diskfs_in(directory.path(), &["cat", "os.img:/etc/hostname"]);
    assert_eq!(run.text(), "demo\n");
}

#[test]
fn names_with_colons_and_commas() {
    let demo = image("demo.qcow2");
    let odd = demo.directory().join("a:b,c");
    fs::create_dir(&odd).unwrap();
    fs::rename(demo.path(), odd.join("x:.qcow2")).unwrap();
    let run = diskfs(
        &demo,
        &["cat", "a:b,,c/x:.qcow2,format=qcow2:/etc/hostname"],
    );
    assert_eq!(run.text(), "demo\n");
}

#[test]
fn a_snapshot_is_another_disk() {
    let image = image("qcow2-snapshots.qcow2");
    let name = "qcow2-snapshots.qcow2";
    let info = diskfs(&image, &["info", "--json", name]).json();
    let first = info["image"]["qcow2"]["snapshots"][0]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let spec = format!("{name},snapshot={first}");
    let of_snapshot = diskfs(&image, &["info", "--json", &spec]).json();
    assert!(of_snapshot["image"]["qcow2"]["opened_snapshot"].is_string());
    let by_option = diskfs(&image, &["info", "--json", "--snapshot", &first, name]).json();
    assert_eq!(of_snapshot["image"], by_option["image"]);
    let (code, stderr) = diskfs(&image, &["info", "--snapshot", "no such", name]).failure();
    assert_eq!(code, 3, "{stderr}");
}

/// An ISO that also boots from a disk has a table with overlapping partitions, which is intended.
#[test]
fn an_iso_with_a_partition_table_is_no_failure() {
    let iso = image("iso9660-hybrid.iso");
    let run = diskfs(&iso, &["info", "iso9660-hybrid.iso"]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    let warnings = run.stderr();
    assert!(
        warnings
            .lines()
            .all(|line| line.starts_with("diskfs: warning: ")),
        "{warnings}"
    );
    assert!(
        warnings.contains("partitions 1 (LBA 0 to 4095) and 2"),
        "{warnings}"
    );
    let told = String::from_utf8_lossy(&run.output.stdout);
    for expected in [
        "disk    iso9660  native  DISKFS",
        "p2      vfat     native  ESP",
        "overlaps partition 2",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    let listed = diskfs(&iso, &["ls", "iso9660-hybrid.iso"]);
    let listed = String::from_utf8_lossy(&listed.output.stdout);
    assert!(listed.contains("README"), "{listed}");
}
