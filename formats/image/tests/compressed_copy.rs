//! Compressed copies, judged by `qemu-img` and by our own reader.

use std::ops::ControlFlow;
use std::path::Path;

use diskfs_block::{ErrorKind, Memory};
use diskfs_fixtures::{pattern, require, run};
use diskfs_image::{Image, OpenOptions, compressed_copy};

const MIB: usize = 1 << 20;

/// Returns a disk with text, random bytes and holes, whose size is not a multiple of the clusters'.
fn disk() -> Vec<u8> {
    let mut bytes = vec![0; 40 * MIB + 512];
    bytes[..5 * MIB].copy_from_slice(&pattern("text", 5 * MIB));
    let mut state = 1_u64;
    for byte in &mut bytes[7 * MIB + 4096..9 * MIB] {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        *byte = (state >> 56).to_le_bytes()[0];
    }
    bytes[40 * MIB..].fill(9);
    bytes
}

fn copy(bytes: &[u8], path: &Path) {
    let device = Memory::new(bytes.to_vec());
    compressed_copy(&device, path, &mut |_| ControlFlow::Continue(())).unwrap();
}

#[test]
fn a_copy_has_the_same_contents() {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in [("disk", disk()), ("empty", vec![0; MIB])] {
        let path = directory.path().join(format!("{name}.qcow2"));
        copy(&bytes, &path);
        let image = Image::open(&path, &OpenOptions::default()).unwrap();
        let device = image.device();
        assert_eq!(device.size_bytes(), bytes.len() as u64);
        let mut read = vec![1; bytes.len()];
        device.read_at(0, &mut read).unwrap();
        assert!(read == bytes, "{name}");
        assert!(image.check().unwrap().unwrap().findings.is_empty());
        let again = directory.path().join("again.qcow2");
        copy(&bytes, &again);
        assert!(std::fs::read(&path).unwrap() == std::fs::read(&again).unwrap());
        std::fs::remove_file(again).unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() < bytes.len() as u64 / 2 + (1 << 19));

        if require("qemu-img").is_none() {
            continue;
        }
        let raw = directory.path().join("disk.raw");
        std::fs::write(&raw, &bytes).unwrap();
        run("qemu-img", [Path::new("check"), &path]).unwrap();
        run("qemu-img", [Path::new("compare"), &path, &raw]).unwrap();
    }
}

#[test]
fn an_existing_file_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.qcow2");
    std::fs::write(&path, "old").unwrap();
    let device = Memory::new(vec![1; MIB]);
    let error = compressed_copy(&device, &path, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
}
