//! Images with random changes, and random descriptors.

mod tools;

use std::sync::Arc;

use diskfs_block::{BlockRead, ImageMap, RunStorage};
use diskfs_fixtures::Random;
use diskfs_vmdk::{Descriptor, DescriptorPlace, StreamReader};
use proptest::prelude::*;
use tools::made::{cowd, descriptor, se_sparse, sparse, stream};
use tools::{Disk, memory};

/// Uses everything of a disk, within bounds.
fn exercise(image: &Arc<dyn BlockRead>, files: Vec<Arc<dyn BlockRead>>) {
    let Ok(disk) = Disk::new(Arc::clone(image), files) else {
        return;
    };
    let size = disk.map.size_bytes();
    let _ = (disk.map.grain_bytes(), disk.map.is_compressed());
    let mut at = 0;
    for _ in 0..300 {
        if at >= size {
            break;
        }
        let Ok(run) = disk.map.run_at(at, size - at) else {
            at += 65_536;
            continue;
        };
        assert!(run.len_bytes > 0 && run.len_bytes <= size - at);
        match run.storage {
            RunStorage::Stored { file, offset } => {
                assert!(offset + run.len_bytes <= disk.files[file].size_bytes());
            }
            RunStorage::Compressed { unit, skip_bytes } => {
                assert!(skip_bytes + run.len_bytes <= unit.unpacked_bytes);
                if let Ok(bytes) = disk.map.decompress(unit) {
                    assert_eq!(bytes.len() as u64, unit.unpacked_bytes);
                }
            }
            RunStorage::Zero | RunStorage::Absent => {}
        }
        at += run.len_bytes;
    }
    for at in [size / 3, size.saturating_sub(1)] {
        let _ = disk.map.run_at(at, 1);
    }
    assert!(disk.map.run_at(size, 1).is_err());
}

/// Returns the images to change: the first file, and the others.
fn seeds() -> Vec<(Vec<u8>, Vec<Vec<u8>>)> {
    let mut random = Random::new(5);
    let (cowd, se) = (cowd(1, &mut random), se_sparse(&mut random));
    let delta = format!("RW {} VMFSSPARSE \"x\"", cowd.disk.len() / 512);
    let se_line = format!("RW {} SESPARSE \"x\"", se.disk.len() / 512);
    vec![
        (sparse(), Vec::new()),
        (stream(), Vec::new()),
        (descriptor("vmfsSparse", &delta).into(), vec![cowd.file]),
        (descriptor("seSparse", &se_line).into(), vec![se.file]),
        (
            descriptor("custom", "RW 24 SPARSE \"s\"\nRW 2 FLAT \"f\" 1").into(),
            vec![sparse(), vec![1; 1536]],
        ),
    ]
}

/// Changes a file: bytes, or an interesting number, or its length. Most places are those of
/// structures, at the start and the end.
fn change(file: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let len = file.len() as u64;
        let near = random.below(len.clamp(1, 16 << 10));
        let at = match random.below(4) {
            0 => random.below(len.max(1)),
            1 => len.saturating_sub(1 + random.below(len.clamp(1, 3000))),
            _ => near,
        };
        let at = usize::try_from(at).unwrap();
        let number = *random.pick(&[0, 1, 2, 31, 255, 1 << 16, 1 << 31, u64::MAX, u64::MAX / 512]);
        let bytes = match random.below(4) {
            0 => random.bytes(1),
            1 => number.to_le_bytes()[..4].to_vec(),
            2 => number.to_le_bytes().to_vec(),
            _ => vec![b"0987\n\" "[random.len(6)]],
        };
        let end = (at + bytes.len()).min(file.len());
        if at < end {
            file[at..end].copy_from_slice(&bytes[..end - at]);
        }
        if random.below(20) == 0 {
            file.truncate(at);
        }
    }
}

#[test]
fn changed_images_do_no_harm() {
    let count = std::env::var("DISKFS_MUTATIONS").map_or(3000, |it| it.parse().unwrap());
    let seeds = seeds();
    for seed in 0..count {
        let mut random = Random::new(seed);
        let (mut image, mut files) = random.pick(&seeds).clone();
        match files.first_mut() {
            Some(file) if random.below(4) != 0 => change(file, &mut random),
            _ => change(&mut image, &mut random),
        }
        let mut reader = StreamReader::new(&*image).ok();
        while let Some(Ok(Some(grain))) = reader.as_mut().map(StreamReader::next_grain) {
            let _ = reader.as_ref().map(|it| it.decompress(&grain));
        }
        exercise(&memory(image), files.into_iter().map(memory).collect());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_text_is_parsed_or_refused(text in ".{0,300}", lines in prop::collection::vec(
        "(RW|RDONLY|NOACCESS|CID|version|ddb.x)[ =]{0,2}[0-9a-f\"]{0,8} ?(FLAT|ZERO)?.{0,20}",
        0..20,
    )) {
        let text = format!("CID=1\ncreateType=\"custom\"\n{}\n{text}", lines.join("\n"));
        let _ = Descriptor::parse(text.as_bytes(), u64::MAX - 5, DescriptorPlace::File);
    }
}
