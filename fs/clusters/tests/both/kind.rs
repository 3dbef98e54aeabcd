//! The two filesystems, as the tests see them.

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockWrite, File};
use diskfs_exfat::{Exfat, WritableExfat};
use diskfs_fat::{Fat, WritableFat};
use diskfs_fixtures::require;
use diskfs_vfs::{FsRead, FsWrite};

use crate::common::{self, EXFAT_IMAGES, FAT_IMAGES, Open, OpenWritable, mtools_tree, tree};

/// One of the two, and the images for its tests.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) open: Open,
    pub(crate) open_writable: OpenWritable,
    pub(crate) fsck: &'static str,
    /// All images.
    pub(crate) images: &'static [&'static str],
    /// The images of the model's test.
    pub(crate) in_model: &'static [&'static str],
    /// The image for what does not depend on sizes.
    pub(crate) usual: &'static str,
    /// An image with clusters of 512 bytes.
    pub(crate) small_clusters: &'static str,
    /// Images that are filled.
    pub(crate) filled: [&'static str; 2],
    /// Images for crashes.
    pub(crate) crashed: [&'static str; 2],
    /// How many rounds of crashes there are.
    pub(crate) crash_rounds: u64,
    /// What a crash may leave: parts of the lines that the checker prints.
    pub(crate) harmless: &'static [&'static str],
    /// A name of the usual image, in other case.
    pub(crate) existing: &'static [u8],
    /// A size that no file has, and an offset that no byte has.
    pub(crate) too_large: u64,
    pub(crate) too_far: u64,
    /// The seconds and nanoseconds that are left of 1,000,000,001 and 5.
    pub(crate) odd_second: (i64, u32),
}

pub(crate) static KINDS: [Kind; 2] = [
    Kind {
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
    Kind {
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

impl Kind {
    /// Opens an image for writing.
    pub(crate) fn write(&self, path: &Path) -> Box<dyn FsWrite> {
        let device: Arc<dyn BlockWrite> = Arc::new(File::open_read_write(path).unwrap());
        (self.open_writable)(device).unwrap()
    }

    /// Opens an image for reading.
    pub(crate) fn read(&self, path: &Path) -> Box<dyn FsRead> {
        (self.open)(Arc::new(File::open(path).unwrap())).unwrap()
    }

    /// Fails if the checker finds anything in an image, or another program sees something else than we
    /// do.
    pub(crate) fn judge(&self, path: &Path, name: &str) {
        if require(self.fsck).is_some() {
            common::fsck(self.fsck, path);
        }
        // mtools takes so small a FAT32 for a FAT16.
        let is_for_mtools = name.starts_with("fat") && name != "fat32-small";
        if is_for_mtools && require("mcopy").is_some() {
            assert_eq!(mtools_tree(path), tree(&*self.read(path)), "{name}");
        }
    }

    /// Returns the path of the directory in which there is room for names.
    pub(crate) fn roomy(name: &str) -> &'static str {
        match name {
            // The root is full.
            "fat12" => "Long directory name",
            _ => "",
        }
    }
}
