//! The filesystems that operations run on: the options of mke2fs, and what the kernel does with
//! them first.

use std::path::Path;

use anyhow::{Context, Result};
use diskfs_fixtures::{Mount, run};

/// A type of filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureSet {
    /// The name on the command line.
    pub name: &'static str,
    /// The options of mke2fs, in addition to those for all sets.
    mke2fs: &'static str,
    /// The size in MiB.
    pub size_mib: u64,
    /// The mount options for the kernel, which then fills the filesystem first; `None` if it does
    /// not.
    used_with: Option<&'static str>,
    /// The requests to debugfs before the run.
    debugfs: &'static [&'static str],
    /// The properties that the harness must know.
    pub traits: Traits,
}

/// The visible differences between the sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is used on its own")]
pub struct Traits {
    /// True if a crash leaves what the journal says. Without a journal, e2fsck may repair anything.
    pub journal: bool,
    /// True if times have nanoseconds and go past 2038.
    pub large_inodes: bool,
    /// True if files have extents, so that ranges can be allocated, collapsed and inserted.
    pub extents: bool,
    /// True if values of attributes may be larger than a block.
    pub large_values: bool,
    /// True if contents may be in the inode.
    pub inline_data: bool,
    /// True if the kernel can mount it.
    pub mountable: bool,
}

const ALL: Traits = Traits {
    journal: true,
    large_inodes: true,
    extents: true,
    large_values: false,
    inline_data: false,
    mountable: true,
};

/// The hash seed, fixed so that names get the same hashes in every run.
const HASH_SEED: &str = "hash_seed=6d9a3c5e-0000-4000-8000-00000000beef";

/// The block size of most filesystems, which mke2fs does not choose for such small ones. Groups of 8
/// MiB, so that a small filesystem has several, and a journal of 1024 blocks, so that it wraps around
/// and transactions fill it.
const SMALL_GROUPS: &str = "-b 4096 -g 2048 -J size=4";

const fn set(name: &'static str, mke2fs: &'static str, size_mib: u64) -> FeatureSet {
    FeatureSet {
        name,
        mke2fs,
        size_mib,
        used_with: None,
        debugfs: &[],
        traits: ALL,
    }
}

/// The available feature sets.
pub const SETS: &[FeatureSet] = &[
    set("default", SMALL_GROUPS, 32),
    FeatureSet {
        // The kernel turns on the journal's checksums and 64-bit block numbers.
        used_with: Some("defaults"),
        ..set("kernel-used", SMALL_GROUPS, 32)
    },
    set("1k-blocks", "-b 1024 -J size=1", 32),
    set("no-64bit", "-b 4096 -g 2048 -J size=4 -O ^64bit", 32),
    set(
        "gdt-csum",
        "-b 4096 -g 2048 -J size=4 -O ^metadata_csum,uninit_bg",
        32,
    ),
    set(
        "no-checksums",
        "-b 1024 -J size=1 -O ^metadata_csum,^uninit_bg",
        32,
    ),
    FeatureSet {
        // Only commits have checksums: version 1.
        used_with: Some("journal_checksum"),
        ..set(
            "journal-v1",
            "-b 1024 -J size=1 -O ^metadata_csum,^64bit",
            32,
        )
    },
    FeatureSet {
        traits: Traits {
            inline_data: true,
            ..ALL
        },
        ..set("inline-data", "-b 1024 -J size=1 -O inline_data", 32)
    },
    set("bigalloc", "-b 1024 -C 8192 -J size=1 -O bigalloc", 48),
    set("meta-bg", "-b 1024 -J size=1 -O meta_bg,^resize_inode", 48),
    set(
        "orphan-file",
        "-b 4096 -g 2048 -J size=4 -O orphan_file",
        32,
    ),
    FeatureSet {
        traits: Traits {
            large_inodes: false,
            ..ALL
        },
        ..set("128-byte-inodes", "-b 1024 -I 128 -J size=1", 32)
    },
    set("large-dir", "-b 1024 -J size=1 -O large_dir", 32),
    FeatureSet {
        traits: Traits {
            large_values: true,
            ..ALL
        },
        ..set("ea-inode", "-b 1024 -J size=1 -O ea_inode", 32)
    },
    FeatureSet {
        traits: Traits {
            extents: false,
            ..ALL
        },
        ..set("ext3", "-t ext3 -b 1024 -I 256 -J size=1", 32)
    },
    set(
        "fast-commit",
        "-b 4096 -g 2048 -J size=4 -O fast_commit",
        32,
    ),
    FeatureSet {
        // The flags for extents and for case folding.
        debugfs: &["mkdir folded", "set_inode_field folded flags 0x40080000"],
        traits: Traits {
            // Only a kernel with Unicode tables mounts it.
            mountable: false,
            ..ALL
        },
        ..set(
            "casefold",
            "-b 1024 -J size=1 -O casefold -E encoding=utf8",
            32,
        )
    },
    FeatureSet {
        traits: Traits {
            journal: false,
            ..ALL
        },
        ..set("no-journal", "-b 4096 -g 2048 -O ^has_journal", 24)
    },
    FeatureSet {
        traits: Traits {
            mountable: false,
            ..ALL
        },
        ..set("64k-blocks", "-b 65536 -J size=64", 256)
    },
];

impl FeatureSet {
    /// Returns the feature set with this name.
    ///
    /// # Errors
    /// An unknown name; the message lists all names.
    pub fn named(name: &str) -> Result<Self> {
        let names = || SETS.iter().map(|set| set.name).collect::<Vec<_>>();
        SETS.iter()
            .find(|set| set.name == name)
            .copied()
            .with_context(|| format!("unknown feature set `{name}`; known: {:?}", names()))
    }

    /// Returns the size of a block. Each set names it, because mke2fs chooses 1 KiB for such small
    /// filesystems.
    ///
    /// # Errors
    /// The set does not.
    pub fn block_bytes(&self) -> Result<u64> {
        let mut words = self.mke2fs.split(' ').skip_while(|word| *word != "-b");
        let size = words.nth(1).context("no block size")?;
        Ok(size.parse()?)
    }

    /// Returns the alignment of ranges to collapse or insert: the cluster size if there are
    /// clusters, and at least the block size of the model.
    pub fn unit_bytes(&self) -> u64 {
        match self.name {
            "bigalloc" => 8192,
            "64k-blocks" => 65536,
            _ => 4096,
        }
    }

    /// Makes an empty filesystem of this type in the file `image`.
    ///
    /// # Errors
    /// The errors of mke2fs and mount.
    pub fn make(&self, image: &Path) -> Result<()> {
        self.make_with_size(image, self.size_mib << 20)
    }

    /// Makes a filesystem as [`make`](Self::make) does, with another size.
    ///
    /// # Errors
    /// Those of [`make`](Self::make).
    pub fn make_with_size(&self, image: &Path, size_bytes: u64) -> Result<()> {
        std::fs::File::create(image)?.set_len(size_bytes)?;
        let kind = if self.mke2fs.starts_with("-t") {
            ""
        } else {
            "-t ext4"
        };
        let fixed = "-q -F -U 6d9a3c5e-0000-4000-8000-00000000c0de";
        // mke2fs uses the last -E.
        let words = format!("{fixed} {kind} -E {HASH_SEED} {}", self.mke2fs);
        let words = words.replace("encoding=", &format!("{HASH_SEED},encoding="));
        let words = words.split_whitespace().map(Path::new);
        run("mke2fs", words.chain([image]))?;
        for request in self.debugfs {
            run(
                "debugfs",
                ["-w", "-R", request]
                    .map(Path::new)
                    .into_iter()
                    .chain([image]),
            )?;
        }
        if let Some(options) = self.used_with {
            use_by_kernel(image, options)?;
        }
        Ok(())
    }
}

/// Mounts the image, and creates and removes some files.
fn use_by_kernel(image: &Path, options: &str) -> Result<()> {
    let mount = Mount::of_image(image, options)?;
    let root = mount.path();
    for directory in 0..3 {
        let path = root.join(format!("kernel-{directory}"));
        std::fs::create_dir(&path)?;
        for file in 0..20_usize {
            std::fs::write(path.join(format!("file-{file}")), vec![b'k'; file * 700])?;
        }
        std::fs::remove_file(path.join("file-7"))?;
    }
    mount.unmount()
}
