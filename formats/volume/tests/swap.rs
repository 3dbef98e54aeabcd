//! Resized swap areas, compared with those of mkswap.

use std::path::Path;

use diskfs_block::{BlockWrite, ErrorKind, Fault, Faulty, Memory};
use diskfs_fixtures::have;
use diskfs_volume::swap::{FormatOptions, Resized, format, resize};

const UUID: &str = "0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0ff";

/// Creates a swap area with mkswap, and returns its bytes.
fn mkswap(dir: &Path, len: u64, page_bytes: u32) -> Vec<u8> {
    let path = dir.join("swap");
    let _ = std::fs::remove_file(&path);
    std::fs::File::create(&path).unwrap().set_len(len).unwrap();
    let output = diskfs_fixtures::command("mkswap")
        .args(["-U", UUID, "-L", "label", "-p", &page_bytes.to_string()])
        .arg(&path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    std::fs::read(path).unwrap()
}

#[test]
fn as_mkswap_makes_them() {
    if !have(&["mkswap"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for page_bytes in [4096, 65536] {
        for (old, new) in [
            (1 << 20, 8 << 20),
            (8 << 20, 1 << 20),
            (1 << 20, (3 << 20) + 5000),
            (2 << 20, 2 << 20),
        ] {
            let mut bytes = mkswap(dir.path(), old, page_bytes);
            bytes.resize(usize::try_from(new).unwrap(), 0);
            let device = Memory::new(bytes);
            let resized = resize(&device, None).unwrap();
            let page = u64::from(page_bytes);
            let expected = Resized {
                old_bytes: old,
                new_bytes: new / page * page,
            };
            assert_eq!(resized, expected);
            assert!(device.to_vec() == mkswap(dir.path(), new, page_bytes));
        }
    }
}

#[test]
fn what_is_no_plain_swap_area_is_refused() {
    let area = |change: fn(&mut [u8])| {
        let device = Memory::new(vec![0; 1 << 20]);
        format(&device, &FormatOptions::default()).unwrap();
        let mut bytes = device.to_vec();
        change(&mut bytes);
        Memory::new(bytes)
    };
    let refused = |change: fn(&mut [u8]), size| {
        let device = area(change);
        let before = device.to_vec();
        let kind = resize(&device, Some(size)).unwrap_err().kind();
        assert!(device.to_vec() == before);
        kind
    };
    assert_eq!(refused(|b| b[4090] = 0, 1 << 19), ErrorKind::Invalid);
    assert_eq!(refused(|_| {}, 2 << 20), ErrorKind::Invalid);
    assert_eq!(refused(|_| {}, 4096 * 9), ErrorKind::Invalid);
    let hibernated = |b: &mut [u8]| b[4086..4096].copy_from_slice(b"S1SUSPEND\0");
    assert_eq!(refused(hibernated, 1 << 19), ErrorKind::Unsupported);
    let big_endian = |b: &mut [u8]| b[1024..1028].copy_from_slice(&[0, 0, 0, 1]);
    assert_eq!(refused(big_endian, 1 << 19), ErrorKind::Unsupported);
    assert_eq!(refused(|b| b[1032] = 1, 1 << 19), ErrorKind::Unsupported);
    assert!(resize(&area(|b| b[1032] = 1), None).is_ok());
    assert!(resize(&Memory::new(vec![0; 100]), None).is_err());
}

#[test]
fn one_write_changes_the_size() {
    let memory = std::sync::Arc::new(Memory::new(vec![0; 1 << 20]));
    format(&*memory, &FormatOptions::default()).unwrap();
    let before = memory.to_vec();
    let device = Faulty::new(memory.clone(), [Fault::FailWrite { nth: 0 }]);
    assert!(resize(&device, Some(1 << 19)).is_err());
    assert!(memory.to_vec() == before);
    resize(&device, Some(1 << 19)).unwrap();
    device.flush().unwrap();
    assert_eq!(device.logged(), 3);
}
