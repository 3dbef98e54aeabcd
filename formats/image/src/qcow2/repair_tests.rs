//! Power cuts at every moment of a repair: a second repair completes it.

use std::sync::Arc;

use diskfs_block::{BlockRead, Faulty, Memory};

use super::header::Header;
use super::repair::{Repair, repair};
use crate::create::{NewImage, NewQcow2, create};
use crate::{CreateOptions, Format, Image, OpenOptions, WritableImage};

const SIZE_BYTES: u64 = 300 << 10;
/// Long enough for everything that a repair adds.
const FILE_BYTES: usize = 2 << 20;

fn options() -> OpenOptions {
    OpenOptions {
        format: Some(Format::Qcow2),
        ..OpenOptions::default()
    }
}

/// Returns an image of small clusters with data, and its disk.
fn image() -> (Vec<u8>, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let new = NewQcow2 {
        cluster_size_bytes: 512,
        ..NewQcow2::default()
    };
    let image = NewImage::Qcow2(Box::new(new));
    create(&path, &CreateOptions::new(image, Some(SIZE_BYTES))).unwrap();
    let image = WritableImage::open(&path, &options()).unwrap();
    for n in 0..10_u8 {
        let at = u64::from(n) * 30_011;
        image.device().write_at(at, &vec![n + 1; 25_000]).unwrap();
    }
    image.close().unwrap();
    crate::snapshots::create(&path, "a", &options()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let disk = disk(Arc::new(Memory::new(bytes.as_slice())));
    (bytes, disk)
}

fn disk(device: Arc<dyn BlockRead>) -> Vec<u8> {
    let image = Image::from_device(device, &options()).unwrap();
    let mut bytes = vec![0; usize::try_from(SIZE_BYTES).unwrap()];
    image.device().read_at(0, &mut bytes).unwrap();
    bytes
}

fn cut(damaged: &[u8], expected: &[u8], what: &str) {
    let memory = Arc::new(Memory::new(damaged));
    let faulty = Faulty::new(memory.clone(), []);
    let repaired = repair(&faulty, Repair::All).unwrap();
    assert!(!repaired.before.is_clean(), "{what}");
    assert!(repaired.after.is_clean(), "{what}: {:?}", repaired.after);
    let mut start = damaged.to_vec();
    start.resize(FILE_BYTES, 0);
    for state in faulty.log().states(1) {
        let left = Arc::new(Memory::new(start.as_slice()));
        state.replay(left.as_ref()).unwrap();
        let what = format!("{what}: {state}");
        assert!(disk(left.clone()) == expected, "{what}: before");
        let again = repair(left.as_ref(), Repair::All).unwrap();
        assert!(again.after.is_clean(), "{what}: {:?}", again.after);
        assert!(disk(left) == expected, "{what}: after");
    }
}

#[test]
fn a_repair_that_is_cut_off() {
    let (sound, disk) = image();
    let header = Header::read(&Memory::new(sound.as_slice())).unwrap();
    let table = usize::try_from(header.refcount_table.at.0).unwrap();
    let word = |at: usize| u64::from_be_bytes(sound[at..at + 8].try_into().unwrap());
    let blocks: Vec<usize> = (table..table + 512)
        .step_by(8)
        .map(|at| usize::try_from(word(at)).unwrap())
        .filter(|&at| at != 0)
        .collect();
    assert!(blocks.len() > 1);
    let mut damaged = sound.clone();
    for (index, &block) in blocks.iter().enumerate() {
        damaged[block..block + 512].fill(u8::try_from(index).unwrap());
    }
    cut(&damaged, &disk, "counts");
    let mut damaged = sound.clone();
    damaged[table + 8..table + 16].fill(0);
    cut(&damaged, &disk, "a missing block");
    damaged[table..table + 512].fill(0xff);
    cut(&damaged, &disk, "the whole table");
    let l1 = usize::try_from(header.l1.at.0).unwrap();
    let mut damaged = sound.clone();
    for at in (l1..l1 + 80).step_by(8) {
        damaged[at] ^= 0x80;
    }
    cut(&damaged, &disk, "flags");
}
