//! Images that QEMU makes, with the bytes that QEMU reads of them.

mod tools;

use diskfs_block::{ImageMap, RunStorage};
use diskfs_fixtures::{Random, have};
use tools::{Disk, compare, contents, file, fill, run, try_run};

const SUBFORMATS: [&str; 5] = [
    "monolithicSparse",
    "monolithicFlat",
    "twoGbMaxExtentSparse",
    "twoGbMaxExtentFlat",
    "streamOptimized",
];

/// No sector, one, an odd number, one more than a grain, several grain tables with a part of a
/// grain.
const SIZES: [u64; 5] = [0, 512, 512 * 77, (64 << 10) + 512, (34 << 20) + 512 * 3];

fn create(dir: &std::path::Path, name: &str, subformat: &str, size: u64) {
    let option = format!("subformat={subformat}");
    let size = size.to_string();
    run(
        dir,
        "qemu-img",
        &["create", "-q", "-f", "vmdk", "-o", &option, name, &size],
    );
}

#[test]
fn written_images_have_the_same_bytes() {
    if !have(&["qemu-img", "qemu-io"]) {
        return;
    }
    for subformat in SUBFORMATS {
        for size in SIZES {
            let dir = tempfile::tempdir().unwrap();
            create(dir.path(), "disk.vmdk", subformat, size);
            if size > 0 && subformat != "streamOptimized" {
                fill(dir.path(), "disk.vmdk", size, &mut Random::new(size));
            }
            let disk = Disk::open(dir.path(), "disk.vmdk");
            assert_eq!(disk.map.descriptor().create_type.name(), subformat);
            assert_eq!(disk.map.size_bytes(), size);
            assert_eq!(disk.map.descriptor().adapter_type(), Some("ide"));
            // QEMU does not open sparse images of size 0.
            let is_sparse = disk.files.len() == 1;
            if size > 0 || !is_sparse {
                compare(dir.path(), "disk.vmdk");
            }
        }
    }
}

#[test]
fn converted_images_have_the_same_bytes() {
    if !have(&["qemu-img"]) {
        return;
    }
    let mut random = Random::new(7);
    for subformat in SUBFORMATS {
        for size in &SIZES[1..] {
            let dir = tempfile::tempdir().unwrap();
            let bytes = contents(*size, &mut random);
            std::fs::write(dir.path().join("source.raw"), &bytes).unwrap();
            let option = format!("subformat={subformat}");
            let args = ["convert", "-q", "-f", "raw", "-O", "vmdk", "-o", &option];
            let args = [&args[..], &["source.raw", "disk.vmdk"]].concat();
            run(dir.path(), "qemu-img", &args);
            let disk = Disk::open(dir.path(), "disk.vmdk");
            assert!(disk.bytes().unwrap() == bytes, "{subformat} {size}");
            // Any part of it, in runs of any length.
            for _ in 0..30 {
                let offset = random.below(*size);
                let len = random.len((size - offset).min(200 << 10)) + 1;
                let len = len.min(usize::try_from(size - offset).unwrap());
                let mut part = vec![0; len];
                let max_run = 1 + random.below(100_000);
                disk.read(offset, &mut part, max_run).unwrap();
                let start = usize::try_from(offset).unwrap();
                assert!(part == bytes[start..start + len]);
            }
        }
    }
}

#[test]
fn zeroed_grains_are_declared_zeroes() {
    if !have(&["qemu-img", "qemu-io"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    run(
        dir.path(),
        "qemu-img",
        &[
            "create",
            "-q",
            "-f",
            "vmdk",
            "-o",
            "zeroed_grain=on",
            "disk.vmdk",
            "4M",
        ],
    );
    let commands = ["-c", "write -P 7 0 256k", "-c", "write -z 64k 128k"];
    run(
        dir.path(),
        "qemu-io",
        &[&commands[..], &["disk.vmdk"]].concat(),
    );
    let disk = Disk::open(dir.path(), "disk.vmdk");
    let zero = disk.map.run_at(65 << 10, 1 << 20).unwrap();
    assert_eq!(
        (zero.storage, zero.len_bytes),
        (RunStorage::Zero, 127 << 10)
    );
    let absent = disk.map.run_at(256 << 10, 1 << 20).unwrap();
    assert_eq!(
        (absent.storage, absent.len_bytes),
        (RunStorage::Absent, 1 << 20)
    );
    compare(dir.path(), "disk.vmdk");
}

#[test]
fn split_disks_reach_past_two_gib() {
    if !have(&["qemu-img", "qemu-io"]) {
        return;
    }
    for (subformat, seed) in [("twoGbMaxExtentSparse", 1), ("twoGbMaxExtentFlat", 2)] {
        let dir = tempfile::tempdir().unwrap();
        let size = (5 << 30) + 512;
        create(dir.path(), "disk.vmdk", subformat, size);
        fill(dir.path(), "disk.vmdk", size, &mut Random::new(seed));
        // Over the border of two extents, and the last sector.
        let commands = [
            "-c",
            "write -P 5 2147418112 131072",
            "-c",
            "write -P 6 5368709120 512",
        ];
        run(
            dir.path(),
            "qemu-io",
            &[&commands[..], &["disk.vmdk"]].concat(),
        );
        let disk = Disk::open(dir.path(), "disk.vmdk");
        assert_eq!(disk.files.len(), 4);
        let mut border = [0; 1024];
        disk.read((2 << 30) - 512, &mut border, u64::MAX).unwrap();
        assert_eq!(border, [5; 1024]);
        let run = disk.map.run_at((2 << 30) - 512, 1024).unwrap();
        assert_eq!(run.len_bytes, 512, "a run ends with its extent");
        let mut last = [0; 1024];
        disk.read(size - 1024, &mut last, u64::MAX).unwrap();
        assert_eq!((last[511], last[512], last[1023]), (0, 6, 6));
        // QEMU would read all of a flat disk, which takes long.
        if subformat == "twoGbMaxExtentSparse" {
            compare(dir.path(), "disk.vmdk");
        }
    }
}

#[test]
fn a_large_sparse_disk_is_mapped_in_long_runs() {
    if !have(&["qemu-img", "qemu-io"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    create(dir.path(), "disk.vmdk", "monolithicSparse", 1 << 40);
    let commands = ["-c", "write -P 5 999999995904 131072"];
    run(
        dir.path(),
        "qemu-io",
        &[&commands[..], &["disk.vmdk"]].concat(),
    );
    let disk = Disk::open(dir.path(), "disk.vmdk");
    let (mut at, mut runs) = (0, 0);
    while at < 1 << 40 {
        let run = disk.map.run_at(at, (1 << 40) - at).unwrap();
        at += run.len_bytes;
        runs += 1;
    }
    // QEMU allocates all tables, of 32 MiB each.
    assert!(runs < 33_000, "{runs}");
    let mut part = [0; 1024];
    disk.read(999_999_995_904 - 512, &mut part, u64::MAX)
        .unwrap();
    assert_eq!((part[511], part[512]), (0, 5));
}

#[test]
fn parents_show_through_where_nothing_is_stored() {
    if !have(&["qemu-img", "qemu-io"]) {
        return;
    }
    for (subformat, zeroed) in [
        ("monolithicSparse", "on"),
        ("monolithicSparse", "off"),
        ("twoGbMaxExtentSparse", "off"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut random = Random::new(3);
        let size = (8 << 20) + 512 * 5;
        create(dir.path(), "base.vmdk", "twoGbMaxExtentSparse", size);
        fill(dir.path(), "base.vmdk", size, &mut random);
        for (child, parent) in [("mid.vmdk", "base.vmdk"), ("disk.vmdk", "mid.vmdk")] {
            let option = format!("subformat={subformat},zeroed_grain={zeroed}");
            let args = ["create", "-q", "-f", "vmdk", "-o", &option, "-F", "vmdk"];
            let args = [&args[..], &["-b", parent, child]].concat();
            run(dir.path(), "qemu-img", &args);
            fill(dir.path(), child, size, &mut random);
        }
        let disk = Disk::open(dir.path(), "disk.vmdk");
        let parent = disk.map.descriptor().parent.clone().unwrap();
        assert_eq!(parent.file_name, "mid.vmdk");
        compare(dir.path(), "disk.vmdk");
    }
}

#[test]
fn a_changed_parent_is_refused() {
    if !have(&["qemu-img", "qemu-io"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    create(dir.path(), "base.vmdk", "monolithicSparse", 1 << 20);
    let args = [
        "create",
        "-q",
        "-f",
        "vmdk",
        "-F",
        "vmdk",
        "-b",
        "base.vmdk",
        "disk.vmdk",
    ];
    run(dir.path(), "qemu-img", &args);
    // The first write after opening changes the content identifier.
    run(dir.path(), "qemu-io", &["-c", "write 0 512", "base.vmdk"]);
    let read = |name| diskfs_vmdk::Descriptor::read(&*file(&dir.path().join(name))).unwrap();
    let e = read("disk.vmdk")
        .check_parent(&read("base.vmdk"))
        .unwrap_err();
    assert_eq!(e.kind(), diskfs_block::ErrorKind::Corrupt);
    assert!(e.to_string().contains("content ID"), "{e}");
    // So does QEMU.
    let output = try_run(
        dir.path(),
        "qemu-io",
        &["-r", "-c", "read 64k 512", "disk.vmdk"],
    );
    assert!(!output.status.success());
}
