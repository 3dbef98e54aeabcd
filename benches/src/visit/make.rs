//! The visit that creates, fills, changes, grows, checks and sparsifies filesystems, as whole
//! processes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{Record, Row, Unit, Visit, mebibytes, milliseconds};
use crate::command;
use crate::contender::{Contender, Making};
use crate::image::{ImageFormat, large_file};
use crate::rig::Rig;

const KEY_EMPTY: &str = "make_empty";
const KEY_TREE: &str = "make_tree";
const KEY_TREE_MEMORY: &str = "make_tree_memory";
const KEY_LARGE: &str = "make_large";
const KEY_GROWN: &str = "make_grown";
const KEY_CHECKED: &str = "make_checked";
const KEY_CHECKED_MEMORY: &str = "make_checked_memory";
const KEY_SPARSIFIED: &str = "make_sparsified";
const KEY_UNPACKED: &str = "make_unpacked";
const KEY_COPIED: &str = "make_copied";
const KEY_REMOVED: &str = "make_removed";

/// The size of the empty filesystem.
const EMPTY_BYTES: u64 = 1 << 40;

/// The size of the empty filesystem that the tree is unpacked in.
const ROOMY_BYTES: u64 = 4 << 30;

/// The directories of the tree that are removed: nearly all of its files.
const REMOVED: &[&str] = &["usr", "etc", "var"];

/// The length of the file that exceeds 2 GiB.
const LARGE_BYTES: u64 = 3 << 30;

/// The sizes of the disk that grows.
const SMALL_DISK_BYTES: u64 = 10 << 30;
const LARGE_DISK: &str = "100G";

/// The visit of `mkfs`, `resize`, `check` and `sparsify`.
#[derive(Debug)]
pub(super) struct Make;

impl Visit for Make {
    fn name(&self) -> &'static str {
        "make"
    }

    fn rows(&self) -> &'static [Row] {
        const {
            use Unit::{Mebibytes, Milliseconds};
            &[
                Row::new(KEY_EMPTY, "`mkfs ext4` of 1 TiB", Milliseconds),
                Row::new(KEY_TREE, "ext4 image of the Debian tree", Milliseconds).within(1.0),
                Row::new(
                    KEY_TREE_MEMORY,
                    "ext4 image of the Debian tree: peak memory",
                    Mebibytes,
                ),
                Row::new(KEY_LARGE, "ext4 image of one file of 3 GiB", Milliseconds).within(1.0),
                Row::new(KEY_GROWN, "disk grown from 10 to 100 GiB", Milliseconds),
                Row::new(KEY_CHECKED, "check of the Debian image", Milliseconds),
                Row::new(
                    KEY_CHECKED_MEMORY,
                    "check of the Debian image: peak memory",
                    Mebibytes,
                ),
                Row::new(KEY_SPARSIFIED, "the Debian image sparsified", Milliseconds),
                Row::new(KEY_UNPACKED, "`tar-in` of the Debian tree", Milliseconds).within(0.4),
                Row::new(
                    KEY_COPIED,
                    "`cp -a` of the tree into an image",
                    Milliseconds,
                )
                .within(1.0),
                Row::new(KEY_REMOVED, "`rm -r` of the tree in an image", Milliseconds).within(0.5),
            ]
        }
    }

    fn run(&self, rig: &Rig, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()> {
        if contender.kind() != ImageFormat::Raw {
            return Ok(());
        }
        let bench = Bench::new(rig)?;
        let image = &*bench.image;
        bench.empty(contender, record)?;
        let (directory, archive) = (&*bench.tree, &*bench.tree_archive);
        let tree = Making::Filled {
            image,
            directory,
            archive,
        };
        bench.new_image(contender, &tree, record, KEY_TREE, Some(KEY_TREE_MEMORY))?;
        let (directory, archive) = (&*bench.large, &*bench.large_archive);
        let large = Making::Filled {
            image,
            directory,
            archive,
        };
        bench.new_image(contender, &large, record, KEY_LARGE, None)?;
        bench.grown(contender, record)?;
        let debian = rig.image(contender);
        rig.cache_image(contender)?;
        let checked = Making::Checked { image: &debian };
        measure(
            contender,
            &checked,
            record,
            KEY_CHECKED,
            Some(KEY_CHECKED_MEMORY),
        )?;
        bench.copy(&debian)?;
        let sparsified = Making::Sparsified { image };
        measure(contender, &sparsified, record, KEY_SPARSIFIED, None)?;
        bench.changed(contender, record)?;
        Ok(fs::remove_file(image)?)
    }
}

/// The files that the jobs read and write.
#[derive(Debug)]
struct Bench {
    /// The image that a job creates or changes.
    image: PathBuf,
    /// A disk with a partition that contains the Debian tree.
    disk: PathBuf,
    tree: PathBuf,
    tree_archive: PathBuf,
    large: PathBuf,
    large_archive: PathBuf,
}

impl Bench {
    /// Unpacks the trees, once in a run.
    fn new(rig: &Rig) -> Result<Self> {
        let work = rig.scratch().join("make");
        let file = |name: &str| work.join(name);
        let bench = Self {
            image: file("image.raw"),
            disk: file("disk.raw"),
            tree: file("tree"),
            tree_archive: file("tree.tar"),
            large: file("large"),
            large_archive: file("large.tar"),
        };
        if work.exists() {
            return Ok(bench);
        }
        fs::create_dir(&work)?;
        let mut unpack = Command::new("tar");
        unpack
            .args(["--xattrs", "--acls", "-xpf"])
            .arg(rig.archive());
        command::output(unpack.arg("-C").arg(&work))?;
        fs::create_dir(&bench.large)?;
        large_file::write(&bench.large.join("large.bin"), LARGE_BYTES)?;
        for (directory, archive) in [
            (&bench.tree, &bench.tree_archive),
            (&bench.large, &bench.large_archive),
        ] {
            pack(directory, archive)?;
        }
        bench.make_disk()?;
        Ok(bench)
    }

    /// Makes the disk that grows, with other programs than those that are measured.
    fn make_disk(&self) -> Result<()> {
        File::create(&self.disk)?.set_len(SMALL_DISK_BYTES)?;
        let script = "echo 'start=2048, type=linux' | sfdisk -q -X gpt \"$0\" && \
            mke2fs -q -t ext4 -E offset=1048576 -d \"$1\" \"$0\" 10484000k";
        run(script, &[&self.disk, &self.tree])
    }

    fn empty(&self, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()> {
        File::create(&self.image)?.set_len(EMPTY_BYTES)?;
        let making = Making::Empty { image: &self.image };
        measure(contender, &making, record, KEY_EMPTY, None)
    }

    /// Unpacks the tree in an empty filesystem, removes it, and copies it to another one.
    fn changed(&self, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()> {
        let (image, archive, directory) = (&*self.image, &*self.tree_archive, &*self.tree);
        let names = REMOVED;
        self.make_roomy()?;
        let unpacked = Making::Unpacked { image, archive };
        measure(contender, &unpacked, record, KEY_UNPACKED, None)?;
        let removed = Making::Removed { image, names };
        measure(contender, &removed, record, KEY_REMOVED, None)?;
        self.make_roomy()?;
        let copied = Making::Copied { image, directory };
        measure(contender, &copied, record, KEY_COPIED, None)
    }

    /// Makes an image with an empty filesystem, with another program than those that are measured.
    fn make_roomy(&self) -> Result<()> {
        File::create(&self.image)?.set_len(ROOMY_BYTES)?;
        let script = "mke2fs -q -F -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 \"$0\" && \
            sync \"$0\"";
        run(script, &[&self.image])
    }

    fn grown(&self, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()> {
        self.copy(&self.disk)?;
        let making = Making::Grown {
            image: &self.image,
            size: LARGE_DISK,
        };
        measure(contender, &making, record, KEY_GROWN, None)
    }

    fn new_image(
        &self,
        contender: &dyn Contender,
        making: &Making<'_>,
        record: &mut Record<'_>,
        key: &'static str,
        key_memory: Option<&'static str>,
    ) -> Result<()> {
        if self.image.exists() {
            fs::remove_file(&self.image)?;
        }
        measure(contender, making, record, key, key_memory)
    }

    fn copy(&self, from: &Path) -> Result<()> {
        run(
            "cp --sparse=always \"$0\" \"$1\" && sync \"$1\"",
            &[from, &self.image],
        )
    }
}

/// Runs a job, if the contender has a command for it, until its result is durable.
fn measure(
    contender: &dyn Contender,
    making: &Making<'_>,
    record: &mut Record<'_>,
    key: &'static str,
    key_memory: Option<&'static str>,
) -> Result<()> {
    let Some(mut job) = contender.make(making) else {
        return Ok(());
    };
    let used = command::used(&mut job)?;
    record(key, milliseconds(used.wall));
    if let Some(key) = key_memory {
        record(key, mebibytes(used.peak_memory_kib << 10));
    }
    Ok(())
}

/// Packs the contents of a directory.
fn pack(directory: &Path, archive: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--xattrs", "--acls", "-cpf"]).arg(archive);
    command::output(tar.arg("-C").arg(directory).arg(".")).map(drop)
}

fn run(script: &str, words: &[&Path]) -> Result<()> {
    let mut shell = Command::new("sh");
    command::output(shell.args(["-ec", script]).args(words)).map(drop)
}
