//! The sizes of new disks, compared with QEMU's.

use diskfs_fixtures::{Random, require, run};
use diskfs_vhd::{SizeRule, virtual_size_bytes};

/// Returns the size of a disk that QEMU creates.
fn qemu_size(size: u64, option: &str) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.vhd").display().to_string();
    let size = size.to_string();
    let words = ["create", "-q", "-f", "vpc", "-o", option, &path, &size];
    run("qemu-img", words).unwrap();
    let words = ["info", "--output=json", "-f", "vpc", &path];
    let info: serde_json::Value = serde_json::from_str(&run("qemu-img", words).unwrap()).unwrap();
    info["virtual-size"].as_u64().unwrap()
}

#[test]
fn sizes_are_those_of_qemu() {
    if require("qemu-img").is_none() {
        return;
    }
    let mut random = Random::new(1);
    // The boundaries between the numbers of heads and of sectors per track.
    let boundaries = [
        1,
        17 * 4 * 1024,
        17 * 16 * 1024,
        31 * 16 * 1024,
        63 * 16 * 1024,
        65535 * 16 * 63,
        65535 * 16 * 255,
        2040 << 21,
    ];
    let near = boundaries
        .iter()
        .flat_map(|sectors| [sectors - 1, *sectors, sectors + 1]);
    let mut sectors: Vec<u64> = near.filter(|sectors| *sectors <= 2040 << 21).collect();
    sectors.extend((0..11).map(|n| random.below(1 << (10 + 2 * n))));
    for size in sectors.into_iter().map(|sectors| sectors * 512) {
        let ours = virtual_size_bytes(size, SizeRule::Geometry).unwrap();
        assert_eq!(ours, qemu_size(size, "force_size=off"), "{size}");
        let ours = virtual_size_bytes(size, SizeRule::Exact).unwrap();
        assert_eq!(ours, qemu_size(size, "force_size=on"), "{size}");
    }
    assert_eq!(virtual_size_bytes(700, SizeRule::Exact).unwrap(), 1024);
    for rule in [SizeRule::Exact, SizeRule::Geometry] {
        assert!(virtual_size_bytes((2040 << 30) + 1, rule).is_err());
    }
}
