//! Filesystems that mkfs.btrfs makes and the kernel fills, and their comparison with the driver.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use diskfs_block::BlockRead;
use diskfs_btrfs::{Btrfs, Options};
use diskfs_fixtures::{Mount, Tree, run};

/// The devices of a filesystem, each a file and a loop device while the kernel uses it.
pub(crate) struct KernelImage {
    directory: tempfile::TempDir,
    count: usize,
}

/// Loop devices, detached when dropped.
struct Loops(Vec<String>);

impl Drop for Loops {
    fn drop(&mut self) {
        for device in &self.0 {
            let _ = run("losetup", ["-d", device]);
        }
    }
}

/// A mount and the loop devices below it.
pub(crate) struct Mounted {
    mount: Option<Mount>,
    _loops: Loops,
}

impl Mounted {
    pub(crate) fn path(&self) -> &Path {
        self.mount.as_ref().expect("mounted").path()
    }
}

impl KernelImage {
    /// Makes a filesystem on `count` devices of `mib` MiB each.
    pub(crate) fn make(count: usize, mib: u64, mkfs: &str) -> Result<Self> {
        let image = Self {
            directory: tempfile::tempdir()?,
            count,
        };
        for path in image.paths() {
            File::create(&path)?.set_len(mib << 20)?;
        }
        let words = mkfs.split_whitespace().map(str::to_owned);
        let paths = image
            .paths()
            .into_iter()
            .map(|path| path.display().to_string());
        run(
            "mkfs.btrfs",
            ["-q".to_owned(), "-f".to_owned()]
                .into_iter()
                .chain(words)
                .chain(paths),
        )?;
        Ok(image)
    }

    /// Makes a filesystem and runs a shell script in its root directory.
    pub(crate) fn filled(
        count: usize,
        mib: u64,
        mkfs: &str,
        options: &str,
        script: &str,
    ) -> Result<Self> {
        let image = Self::make(count, mib, mkfs)?;
        image.fill(options, script)?;
        Ok(image)
    }

    /// Mounts the filesystem and runs a shell script in its root directory.
    pub(crate) fn fill(&self, options: &str, script: &str) -> Result<()> {
        let mounted = self.mount(options)?;
        let script = format!("cd {}\n{script}\nsync", mounted.path().display());
        run("bash", ["-ec", &script])?;
        Ok(())
    }

    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let path = |nth| self.directory.path().join(format!("device{nth}"));
        (0..self.count).map(path).collect()
    }

    pub(crate) fn mount(&self, options: &str) -> Result<Mounted> {
        let mut loops = Loops(Vec::new());
        for path in self.paths() {
            let words = ["--find".as_ref(), "--show".as_ref(), path.as_os_str()];
            loops.0.push(run("losetup", words)?.trim().to_owned());
        }
        let mut all = options.to_owned();
        for device in &loops.0 {
            if !all.is_empty() {
                all.push(',');
            }
            all.push_str("device=");
            all.push_str(device);
        }
        let first = loops.0.first().context("a device")?.clone();
        let mount = Mount::by("mount", ["-t", "btrfs", "-o", &all, &first])?;
        Ok(Mounted {
            mount: Some(mount),
            _loops: loops,
        })
    }

    /// Returns the devices except those with these indexes.
    pub(crate) fn devices_without(&self, missing: &[usize]) -> Vec<Arc<dyn BlockRead>> {
        let paths = self.paths().into_iter().enumerate();
        paths
            .filter(|(nth, _)| !missing.contains(nth))
            .map(|(_, path)| Arc::new(diskfs_block::File::open(path).unwrap()) as _)
            .collect()
    }

    /// Overwrites everything on a device but the superblocks.
    pub(crate) fn damage(&self, nth: usize) -> Result<()> {
        let paths = self.paths();
        let file = File::options()
            .write(true)
            .open(paths.get(nth).context("a device")?)?;
        let noise = vec![0xa5; 1 << 20];
        for mib in (1..file.metadata()?.len() >> 20).filter(|mib| *mib != 64) {
            file.write_all_at(&noise, mib << 20)?;
        }
        Ok(())
    }

    pub(crate) fn open(&self, options: &Options) -> diskfs_vfs::Result<Btrfs> {
        Btrfs::open(self.devices_without(&[]), options)
    }

    /// Returns the tree that the kernel shows.
    pub(crate) fn kernel_tree(&self, options: &str) -> Result<Tree> {
        let mounted = self.mount(options)?;
        Tree::of_directory(mounted.path())
    }

    /// Fails if the driver shows another tree than the kernel.
    pub(crate) fn compare(&self, kernel: &str, options: &Options) {
        let expected = self.kernel_tree(kernel).unwrap();
        let fs = self.open(options).unwrap();
        assert_same(&expected, &fs);
    }
}

/// Fails if the driver shows another tree than was expected.
pub(crate) fn assert_same(expected: &Tree, fs: &Btrfs) {
    let mut found = Tree::of_filesystem(fs).unwrap();
    for entry in &mut found.entries {
        // The upper bits are the subvolume, or say that Linux would make the directory up.
        let is_placeholder = entry.inode & (1 << 47) != 0;
        entry.inode = if is_placeholder {
            2
        } else {
            entry.inode & ((1 << 47) - 1)
        };
        if is_placeholder && let Some(shown) = expected.entry(&entry.path) {
            // Linux shows the time of the mount.
            entry.mtime.clone_from(&shown.mtime);
            entry.ctime.clone_from(&shown.ctime);
            entry.btime.clone_from(&shown.btime);
        }
    }
    let differences = expected.differences(&found);
    assert!(differences.is_empty(), "{differences:#?}");
}
