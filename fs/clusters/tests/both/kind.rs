//! The differences between the two filesystems that the tests need.

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockWrite, File};
use diskfs_exfat::{Exfat, WritableExfat};
use diskfs_fat::{Fat, WritableFat};
use diskfs_fixtures::require;
use diskfs_vfs::{FsRead, FsWrite};

use crate::common::{self, EXFAT_IMAGES, FAT_IMAGES, Open, OpenWritable, mtools_tree, tree};

/// A filesystem type under test, with the images for its tests.
#[derive(Debug)]
pub(crate) struct FilesystemType {
    pub(crate) open: Open,
    pub(crate) open_writable: OpenWritable,
    pub(crate) fsck: &'static str,
    /// The images of this filesystem.
    pub(crate) images: &'static [&'static str],
    /// The images for the model test.
    pub(crate) in_model: &'static [&'static str],
    /// The image for tests that do not depend on sizes.
    pub(crate) usual: &'static str,
    /// An image with clusters of 512 bytes.
    pub(crate) small_clusters: &'static str,
    /// The images for tests that fill the filesystem.
    pub(crate) filled: [&'static str; 2],
    /// The images for crash tests.
    pub(crate) crashed: [&'static str; 2],
    /// The number of rounds of the crash test.
    pub(crate) crash_rounds: u64,
    /// Parts of the lines that the checker may print after a crash.
    pub(crate) harmless: &'static [&'static str],
    /// A name of the usual image, in another case.
    pub(crate) existing: &'static [u8],
    /// A size that is larger than the largest file.
    pub(crate) too_large: u64,
    /// An offset that is larger than the largest file.
    pub(crate) too_far: u64,
    /// The stored form of 1,000,000,001 seconds and 5 nanoseconds.
    pub(crate) odd_second: (i64, u32),
}

pub(crate) static KINDS: [FilesystemType; 2] = [
    FilesystemType {
        open: |device| Ok(Box::new(Fat::open(device)?)),
        open_writable: |device| {
            let options = diskfs_fat::WriteOptions {
                commit_interval: None,
                ..diskfs_fat::WriteOptions::default()
            };
            Ok(Box::new(WritableFat::open(device, &options)?))
        },
        fsck: "fsck.vfat",
        images: &FAT_IMAGES,
        in_model: &["fat12", "fat16", "fat16-sector-4k", "fat32"],
        usual: "fat16",
        small_clusters: "fat32",
        filled: ["fat12", "fat32-small"],
        crashed: ["fat12-one-table", "fat32-small"],
        crash_rounds: 2,
        harmless: &[
            "fsck.fat ",
            "Dirty bit is set",
            "Automatically removing dirty bit",
            "There are differences between boot sector and its backup",
            "This is mostly harmless",
            "65:01/00",
            "Not automatically fixing this",
            "Free cluster summary wrong",
            "Auto-correcting",
            "Reclaimed ",
            "Reclaiming unconnected clusters",
            "cluster chain length is >",
            "Truncating file",
            "Leaving filesystem unchanged",
            " files, ",
            "Orphaned long file name part",
            "Auto-deleting",
            "  Auto-",
            "FATs differ but appear to be intact",
            "Using first FAT",
            "FATs differ",
        ],
        existing: b"LONG directory NAME",
        too_large: 1 << 32,
        too_far: 0xffff_ffff,
        odd_second: (1_000_000_000, 0),
    },
    FilesystemType {
        open: |device| Ok(Box::new(Exfat::open(device)?)),
        open_writable: |device| {
            let options = diskfs_exfat::WriteOptions {
                commit_interval: None,
                ..diskfs_exfat::WriteOptions::default()
            };
            Ok(Box::new(WritableExfat::open(device, &options)?))
        },
        fsck: "fsck.exfat",
        images: &EXFAT_IMAGES,
        in_model: &EXFAT_IMAGES,
        usual: "exfat.img",
        small_clusters: "exfat-cluster-512.img",
        filled: ["exfat.img", "exfat-cluster-512.img"],
        crashed: ["exfat.img", "exfat-cluster-512.img"],
        crash_rounds: 1,
        harmless: &[
            "exfatprogs version",
            "more clusters are allocated. truncate to",
            "corrupted. directories",
            "files corrupted",
        ],
        existing: b"SIZES",
        too_large: 1 << 63,
        too_far: u64::MAX,
        odd_second: (1_000_000_001, 0),
    },
];

impl FilesystemType {
    /// Opens an image for writing.
    pub(crate) fn write(&self, path: &Path) -> Box<dyn FsWrite> {
        let device: Arc<dyn BlockWrite> = Arc::new(File::open_read_write(path).unwrap());
        (self.open_writable)(device).unwrap()
    }

    /// Opens an image for reading.
    pub(crate) fn read(&self, path: &Path) -> Box<dyn FsRead> {
        (self.open)(Arc::new(File::open(path).unwrap())).unwrap()
    }

    /// Fails if the checker reports anything for an image, or another program reads something else
    /// than our driver.
    pub(crate) fn judge(&self, path: &Path, name: &str) {
        if require(self.fsck).is_some() {
            common::fsck(self.fsck, path);
        }
        // mtools takes such a small FAT32 for a FAT16.
        let is_for_mtools = name.starts_with("fat") && name != "fat32-small";
        if is_for_mtools && require("mcopy").is_some() {
            assert_eq!(mtools_tree(path), tree(&*self.read(path)), "{name}");
        }
    }

    /// Returns the path of a directory with space for further names.
    pub(crate) fn roomy(name: &str) -> &'static str {
        match name {
            // The root directory of this image is full.
            "fat12" => "Long directory name",
            _ => "",
        }
    }
}
