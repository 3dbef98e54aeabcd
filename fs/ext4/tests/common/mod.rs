//! Functions for the tests that run e2fsprogs. They need no privileges: `mke2fs -d` fills a
//! filesystem from a directory without mounting it.

#![allow(dead_code, reason = "each test uses its part")]
#![allow(clippy::print_stderr, reason = "a test that skips says why")]

pub(crate) mod populated;
pub(crate) mod resized;

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use diskfs_block::{BlockRead, File};
use diskfs_ext4::{Ext4, Options, WritableExt4, WriteOptions};

/// Returns a directory for images that are written often: in memory if possible, because e2fsck
/// flushes.
pub(crate) fn fast_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// Runs a program, which must succeed.
pub(crate) fn run(program: &str, args: &[&str]) -> String {
    let output = diskfs_fixtures::command(program)
        .args(args)
        .env("E2FSPROGS_FAKE_TIME", "1700000000")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{program} {args:?}: {}{}",
        String::from_utf8_lossy(&output.stderr),
        // e2fsck prints its findings here.
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Creates a filesystem of `size` (in the form of truncate and mke2fs), filled from `tree`.
pub(crate) fn mke2fs(dir: &Path, tree: &Path, size: &str, args: &str) -> PathBuf {
    let image = dir.join("image");
    let _ = fs::remove_file(&image);
    let mut all = vec!["-q", "-F", "-d", tree.to_str().unwrap()];
    all.extend(args.split_whitespace());
    all.extend([image.to_str().unwrap(), size]);
    run("mke2fs", &all);
    image
}

/// Runs commands of debugfs on an image, for writing.
pub(crate) fn debugfs(image: &Path, commands: &[&str]) -> String {
    commands
        .iter()
        .map(|command| run("debugfs", &["-w", "-R", command, image.to_str().unwrap()]))
        .collect()
}

pub(crate) fn open(image: &Path) -> Ext4 {
    let device: Arc<dyn BlockRead> = Arc::new(File::open(image).unwrap());
    Ext4::open(device, &Options::default()).unwrap()
}

/// Creates a tree with something for every structure: runs and holes, targets of all lengths,
/// directories with no, some and many names.
pub(crate) fn make_tree(root: &Path, names: usize) {
    for dir in ["empty", "a/b/c", "many"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    for n in 0..names {
        let name = format!("many/{n}{}", "-and-more".repeat(n % 20));
        fs::write(root.join(name), n.to_string()).unwrap();
    }
    for len in [
        0, 1, 59, 60, 61, 100, 160, 200, 4095, 4096, 4097, 70_000, 300_000,
    ] {
        let bytes: Vec<u8> = (0..len).map(|n: u32| n.to_le_bytes()[0] ^ 0x5a).collect();
        fs::write(root.join(format!("a/len-{len}")), bytes).unwrap();
    }
    for len in [1, 58, 59, 60, 61, 200, 1000] {
        symlink("t".repeat(len), root.join(format!("link-{len}"))).unwrap();
    }
    fs::hard_link(root.join("a/len-1"), root.join("a/b/same")).unwrap();
    fs::set_permissions(root.join("a/len-1"), fs::Permissions::from_mode(0o6751)).unwrap();
    fs::write(root.join("not-ascii-\u{e9}\u{4e16}"), "x").unwrap();
}

/// Adds a file with a hundred runs and a hole at its end.
pub(crate) fn make_holes(root: &Path) {
    let holes = fs::File::create(root.join("a/holes")).unwrap();
    for block in (0..200u64).step_by(2) {
        holes
            .write_all_at(&block.to_le_bytes(), block * 4096)
            .unwrap();
    }
    holes.set_len(3 << 20).unwrap();
}

/// Creates an empty filesystem of `size`.
pub(crate) fn mke2fs_empty(dir: &Path, args: &str, size: &str) -> PathBuf {
    let image = dir.join("image");
    let _ = fs::remove_file(&image);
    let mut all = vec!["-q", "-F"];
    all.extend(args.split_whitespace());
    all.extend([image.to_str().unwrap(), size]);
    run("mke2fs", &all);
    image
}

/// Opens an image for writing; changes become durable only on request.
pub(crate) fn open_for_writing(image: &Path) -> WritableExt4 {
    let device = Arc::new(File::open_read_write(image).unwrap());
    let options = WriteOptions {
        commit_interval: None,
        ..WriteOptions::default()
    };
    WritableExt4::open(device, &options).unwrap()
}

/// Checks that e2fsck finds nothing to repair.
pub(crate) fn e2fsck(image: &Path) {
    run("e2fsck", &["-f", "-n", image.to_str().unwrap()]);
}

/// The kernel's mount of a filesystem; it is unmounted when dropped.
pub(crate) struct Mounted {
    at: tempfile::TempDir,
}

impl Mounted {
    /// Mounts a filesystem. Returns `None`, and prints the reason, if the kernel or the user's
    /// rights don't allow it; in CI that is a failure.
    pub(crate) fn new(test: &str, image: &Path) -> Option<Self> {
        let at = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "ext4", "-o", "loop"])
            .args([image, at.path()])
            .output()
            .unwrap();
        if mounted.status.success() {
            return Some(Self { at });
        }
        let reason = String::from_utf8_lossy(&mounted.stderr).into_owned();
        assert!(
            std::env::var_os("CI").is_none_or(|value| value != "true"),
            "{test}: {reason}"
        );
        eprintln!("SKIP: {test}: {reason}");
        None
    }

    pub(crate) fn path(&self) -> &Path {
        self.at.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let ended = diskfs_fixtures::unmount(self.at.path());
        assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
    }
}

/// A random number generator that gives the same numbers in each run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Returns a number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).unwrap() % limit
    }
}
