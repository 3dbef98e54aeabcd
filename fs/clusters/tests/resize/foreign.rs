//! Filesystems that other programs made.

use std::sync::Arc;

use diskfs_block::{BlockWrite, Memory};
use diskfs_fat::FatKind;
use diskfs_fixtures::{image, require};

use crate::common::{EXFAT_IMAGES, FAT_IMAGES};
use crate::forms::{Form, extend};

/// Grows an image and shrinks it again.
fn there_and_back(name: &str, fat: Option<FatKind>) {
    let mut bytes = std::fs::read(image(name).path()).unwrap();
    let form = Form {
        fat,
        cluster_bytes: 4096,
        sector_bytes: 512,
    };
    let expected = form.judge(&bytes, name);
    let size = bytes.len() as u64;
    let large = (4 * size).min(size + (24 << 20));
    for target in [large, 0, size + 100_000] {
        let what = format!("{name} to {target}");
        let device: Arc<dyn BlockWrite> = Arc::new(Memory::new(bytes.clone()));
        let target = match target {
            0 => form.minimum_size(&device).unwrap(),
            target => target,
        };
        extend(&mut bytes, target);
        let memory = Arc::new(Memory::new(bytes));
        let device: Arc<dyn BlockWrite> = memory.clone();
        let resized = form.resize(&device, target);
        let resized = resized.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(resized.new_bytes <= target, "{what}: {resized:?}");
        bytes = memory.to_vec();
        bytes.truncate(usize::try_from(resized.new_bytes).unwrap());
        assert!(form.judge(&bytes, &what) == expected, "{what}");
    }
}

#[test]
fn fat_of_other_programs() {
    for name in FAT_IMAGES {
        let kind = match name {
            name if name.starts_with("fat12") => FatKind::Fat12,
            name if name.starts_with("fat16") => FatKind::Fat16,
            _ => FatKind::Fat32,
        };
        there_and_back(name, Some(kind));
    }
}

#[test]
fn exfat_of_other_programs() {
    for name in EXFAT_IMAGES {
        there_and_back(name, None);
    }
}

#[test]
fn a_long_fixed_root_directory_moves_as_a_whole() {
    if require("mkfs.fat").is_none() {
        return;
    }
    let image = tempfile::NamedTempFile::new().unwrap();
    image.as_file().set_len(4 << 20).unwrap();
    let made = diskfs_fixtures::command("mkfs.fat")
        .args(["-F", "16", "-s", "1", "-r", "4096"])
        .arg(image.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut bytes = std::fs::read(image.path()).unwrap();
    let number = |bytes: &[u8], at| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let root = |bytes: &[u8]| (number(bytes, 14) + 2 * number(bytes, 22)) * 512;
    let before = bytes[root(&bytes)..][..4096 * 32].to_vec();
    extend(&mut bytes, 20 << 20);
    let form = Form {
        fat: Some(FatKind::Fat16),
        cluster_bytes: 512,
        sector_bytes: 512,
    };
    let memory = Arc::new(Memory::new(bytes));
    let device: Arc<dyn BlockWrite> = memory.clone();
    form.resize(&device, 20 << 20).unwrap();
    let bytes = memory.to_vec();
    assert!(bytes[root(&bytes)..][..4096 * 32] == before);
    form.judge(&bytes, "a long root directory");
}
