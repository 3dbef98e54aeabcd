//! Directories with broken bytes: a change may fail, but must do no other harm.

use std::os::unix::fs::FileExt;

use diskfs_fixtures::have;
use diskfs_vfs::{ErrorKind, FsRead, FsWrite};

use crate::common::{mke2fs_empty, open_for_writing};
use crate::model::{Model, Random};

const MATRIX: [&str; 4] = [
    "-t ext4 -b 1024 -O ^metadata_csum,^has_journal",
    "-t ext4 -b 1024 -O ^metadata_csum,^has_journal,^dir_index",
    "-t ext4 -b 1024 -O ^metadata_csum,^has_journal,inline_data -I 1024",
    "-t ext4 -b 1024 -O ^has_journal",
];

#[test]
fn broken_bytes_are_reported_or_do_no_harm() {
    if !have(&["mke2fs"]) {
        return;
    }
    let rounds = std::env::var("DISKFS_ROUNDS").map_or(6, |rounds| rounds.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    for (args, seed) in MATRIX.into_iter().zip(1..) {
        let image = mke2fs_empty(dir.path(), args, "2M");
        let fs = open_for_writing(&image);
        let mut model = Model::new(&fs, seed);
        let names = if args.contains("inline") { 8 } else { 300 };
        for _ in 0..names {
            model.add(&fs);
        }
        fs.close().unwrap();
        drop(fs);
        let sound = std::fs::read(&image).unwrap();
        // The blocks of the directory, which contain its names.
        let blocks: Vec<usize> = (0..sound.len() / 1024)
            .filter(|&nth| {
                let block = &sound[nth * 1024..][..1024];
                let used = block.iter().any(|&byte| byte != 0);
                used && model
                    .names
                    .keys()
                    .filter(|name| name.len() > 10)
                    .any(|name| block.windows(name.len()).any(|bytes| bytes == &name[..]))
            })
            .collect();
        assert!(!blocks.is_empty());
        let mut random = Random(seed + 100);
        for round in 0..rounds {
            let mut broken = sound.clone();
            for _ in 0..=round % 8 {
                let block = blocks[random.below(blocks.len())];
                let at = block * 1024 + random.below(1024);
                broken[at] = match random.below(3) {
                    0 => 0,
                    1 => 0xff,
                    _ => broken[at] ^ (1 << random.below(8)),
                };
            }
            std::fs::File::create(&image)
                .unwrap()
                .write_all_at(&broken, 0)
                .unwrap();
            try_everything(&image, &mut model);
        }
    }
}

/// Tries every operation: whatever the result, each ends without a panic.
fn try_everything(image: &std::path::Path, model: &mut Model) {
    let fs = open_for_writing(image);
    for n in 0..60 {
        let name = match model.some_name() {
            Some(name) if n % 2 == 0 => name,
            _ => model.random.name(),
        };
        let file = model.files[n % model.files.len()];
        let outcome = match n % 4 {
            0 => fs.unlink(model.dir, &name),
            1 | 3 => fs.link(file, model.dir, &name),
            _ => fs.lookup(model.dir, &name).map(|_| ()),
        };
        if let Err(e) = outcome {
            assert_ne!(e.kind(), ErrorKind::Io, "{e}");
        }
        if n % 20 == 0
            && let Ok(entries) = fs.read_dir(model.dir, 0)
        {
            assert!(entries.take_while(Result::is_ok).count() < 10_000);
        }
    }
}
