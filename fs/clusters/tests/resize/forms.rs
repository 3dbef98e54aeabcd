//! The filesystems under test, with random trees.

use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockWrite, Memory};
use diskfs_clusters::resize::{ResizeOptions, Resized};
use diskfs_fat::FatKind;
use diskfs_fixtures::require;
use diskfs_vfs::{FsRead, FsWrite, InodeNumber, NewAttributes, NewKind, Result};

use crate::common::{self, Tree, mtools_tree, tree};

const ANY: NewAttributes = NewAttributes::for_root(0o644);

/// A generator of random numbers (xorshift).
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.below(256).to_le_bytes()[0]
    }
}

/// The form of a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    /// The type; `None` for exFAT.
    pub(crate) fat: Option<FatKind>,
    pub(crate) cluster_bytes: u32,
    pub(crate) sector_bytes: u32,
}

const fn form(fat: Option<FatKind>, cluster_bytes: u32, sector_bytes: u32) -> Form {
    Form {
        fat,
        cluster_bytes,
        sector_bytes,
    }
}

/// The forms, each with the smallest size in KiB that a test formats.
pub(crate) const FORMS: [(Form, u64); 10] = [
    (form(Some(FatKind::Fat12), 512, 512), 200),
    (form(Some(FatKind::Fat12), 4096, 512), 600),
    (form(Some(FatKind::Fat12), 4096, 4096), 600),
    (form(Some(FatKind::Fat16), 512, 512), 2400),
    (form(Some(FatKind::Fat16), 2048, 512), 9000),
    (form(Some(FatKind::Fat32), 512, 512), 34_000),
    (form(Some(FatKind::Fat32), 512, 512), 600),
    (form(Some(FatKind::Fat32), 4096, 512), 2000),
    (form(None, 512, 512), 1500),
    (form(None, 4096, 512), 4000),
];

impl Form {
    pub(crate) fn format(self, device: &dyn BlockWrite) -> Result<()> {
        let Some(kind) = self.fat else {
            let options = diskfs_exfat::FormatOptions {
                cluster_bytes: Some(self.cluster_bytes),
                sector_bytes: self.sector_bytes,
                label: "label".to_owned(),
                hidden_sectors: 2048,
                ..diskfs_exfat::FormatOptions::default()
            };
            return diskfs_exfat::format(device, &options);
        };
        let options = diskfs_fat::FormatOptions {
            kind: Some(kind),
            cluster_bytes: Some(self.cluster_bytes),
            sector_bytes: self.sector_bytes,
            label: "label".to_owned(),
            hidden_sectors: 2048,
            ..diskfs_fat::FormatOptions::default()
        };
        diskfs_fat::format(device, &options)
    }

    pub(crate) fn open(self, bytes: Vec<u8>) -> Result<Box<dyn FsRead>> {
        let device = Arc::new(Memory::new(bytes));
        Ok(match self.fat {
            Some(_) => Box::new(diskfs_fat::Fat::open(device)?),
            None => Box::new(diskfs_exfat::Exfat::open(device)?),
        })
    }

    pub(crate) fn open_writable(self, device: Arc<dyn BlockWrite>) -> Box<dyn FsWrite> {
        if self.fat.is_some() {
            let options = diskfs_fat::WriteOptions {
                commit_interval: None,
                ..diskfs_fat::WriteOptions::default()
            };
            return Box::new(diskfs_fat::WritableFat::open(device, &options).unwrap());
        }
        let options = diskfs_exfat::WriteOptions {
            commit_interval: None,
            ..diskfs_exfat::WriteOptions::default()
        };
        Box::new(diskfs_exfat::WritableExfat::open(device, &options).unwrap())
    }

    /// Changes the size to `size_bytes`, larger or smaller.
    pub(crate) fn resize(self, device: &Arc<dyn BlockWrite>, size_bytes: u64) -> Result<Resized> {
        let options = ResizeOptions {
            size_bytes: Some(size_bytes),
            may_shrink: true,
        };
        let progress = &mut |_| ControlFlow::Continue(());
        match self.fat {
            Some(_) => diskfs_fat::resize(device, &options, progress),
            None => diskfs_exfat::resize(device, &options, progress),
        }
    }

    pub(crate) fn minimum_size(self, device: &Arc<dyn BlockWrite>) -> Result<u64> {
        match self.fat {
            Some(_) => diskfs_fat::minimum_size(device),
            None => diskfs_exfat::minimum_size(device),
        }
    }

    pub(crate) const fn checker(self) -> &'static str {
        match self.fat {
            Some(_) => "fsck.vfat",
            None => "fsck.exfat",
        }
    }

    /// Returns the tree of an image that its checker finds nothing wrong with, and that other
    /// programs read in the same way.
    pub(crate) fn judge(self, bytes: &[u8], what: &str) -> Tree {
        let image = tempfile::NamedTempFile::new().unwrap();
        write_sparse(image.as_file(), bytes);
        let ours = tree(&*self.open(bytes.to_vec()).unwrap());
        if require(self.checker()).is_some() {
            let (is_clean, told) = common::fsck_says(self.checker(), image.path());
            let is_clean = is_clean && !told.contains("rong") && !told.contains("iffer");
            if !is_clean && let Ok(kept) = std::env::var("DISKFS_KEEP") {
                std::fs::write(kept, bytes).unwrap();
            }
            assert!(is_clean, "{what}:\n{told}");
        }
        if self.is_for_mtools(image.path()) && require("mcopy").is_some() {
            assert_eq!(mtools_tree(image.path()), ours, "{what}");
        }
        ours
    }

    /// Returns true unless mtools would take a small FAT32 for another type.
    fn is_for_mtools(self, image: &Path) -> bool {
        let len = std::fs::metadata(image).unwrap().len();
        match self.fat {
            None => false,
            Some(FatKind::Fat32) => len / u64::from(self.cluster_bytes) > 70_000,
            Some(_) => true,
        }
    }
}

/// Writes an image, with holes for zeroes.
fn write_sparse(file: &std::fs::File, bytes: &[u8]) {
    const PIECE: usize = 64 << 10;
    file.set_len(bytes.len() as u64).unwrap();
    for (nth, piece) in bytes.chunks(PIECE).enumerate() {
        if piece.iter().any(|byte| *byte != 0) {
            file.write_all_at(piece, (nth * PIECE) as u64).unwrap();
        }
    }
}

/// Makes an image larger. The new bytes are not only zeroes, so that nobody relies on them.
pub(crate) fn extend(bytes: &mut Vec<u8>, size_bytes: u64) {
    let now = bytes.len();
    let new = usize::try_from(size_bytes).unwrap().max(now);
    bytes.resize(new.min(now + (4 << 20)), 0xa7);
    bytes.resize(new, 0);
}

/// Fills about `percent` of a filesystem with fragmented files and nested directories.
pub(crate) fn fill(form: Form, device: Arc<dyn BlockWrite>, random: &mut Random, percent: u64) {
    let fs = form.open_writable(device);
    let statistics = fs.statistics().unwrap();
    let cluster = u64::from(statistics.block_size);
    let total = statistics.blocks;
    let limit = total - total * percent / 100;
    let mut directories = vec![fs.root()];
    let mut files: Vec<(InodeNumber, String)> = Vec::new();
    for step in 0..400 {
        let free = fs.statistics().unwrap().blocks_free;
        if free <= limit + 2 {
            break;
        }
        let dir = directories[usize::try_from(random.below(directories.len() as u64)).unwrap()];
        let name = format!("name {step} of something that is long");
        match random.below(10) {
            0 | 1 => {
                let made = fs.create(dir, name.as_bytes(), NewKind::Directory, &ANY);
                directories.extend(made.ok());
            }
            2 if !files.is_empty() => {
                let nth = usize::try_from(random.below(files.len() as u64)).unwrap();
                let (dir, name) = files.swap_remove(nth);
                fs.unlink(dir, name.as_bytes()).unwrap();
            }
            3..6 if !files.is_empty() => {
                let (dir, name) =
                    &files[usize::try_from(random.below(files.len() as u64)).unwrap()];
                let file = fs.lookup(*dir, name.as_bytes()).unwrap();
                let size = fs.metadata(file).unwrap().size_bytes;
                let _ = fs.write_at(file, size, &vec![7; usize::try_from(3 * cluster).unwrap()]);
            }
            _ => {
                let most = (free - limit).min(total / 12).max(1) * cluster;
                let len = usize::try_from(random.below(most)).unwrap();
                if let Ok(file) = fs.create(dir, name.as_bytes(), NewKind::Regular, &ANY) {
                    let data = diskfs_fixtures::pattern(&name, len);
                    if fs.write_at(file, 0, &data).is_ok() {
                        files.push((dir, name));
                    }
                }
            }
        }
    }
    fs.close().unwrap();
}
