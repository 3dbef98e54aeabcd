//! A guest's tree compared with the kernel's: the same filesystems, mounted on each other by hand,
//! as root.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use diskfs::Disk;
use diskfs::guest;
use diskfs_fixtures::{image, require_root, run, unmount};

const MIB: u64 = 1 << 20;

/// Mounts of the kernel on each other; the last one ends first.
struct Mounts {
    directory: tempfile::TempDir,
    mounted: Vec<PathBuf>,
}

impl Mounts {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            mounted: Vec::new(),
        }
    }

    fn add(&mut self, at: &str, options: &str, what: &Path) {
        let at = self.directory.path().join(at);
        let words = ["-o", options].map(Path::new);
        run("mount", words.into_iter().chain([what, &*at])).unwrap();
        self.mounted.push(at);
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        for at in self.mounted.iter().rev() {
            let _ = unmount(at);
        }
    }
}

/// Compares the names in both directions; types, modes, owners, times, links, contents and targets.
#[test]
fn the_tree_is_as_the_kernel_puts_it_together() {
    if require_root().is_none() {
        return;
    }
    let system = image("guest.raw");
    let data = image("guest-data.raw");
    let mut kernel = Mounts::new();
    let part = |mib: u64, len_mib: u64| {
        format!("ro,loop,offset={},sizelimit={}", mib * MIB, len_mib * MIB)
    };
    kernel.add("", &part(11, 16), &system.path());
    kernel.add("boot", &part(2, 8), &system.path());
    kernel.add("home", &part(27, 8), &system.path());
    kernel.add("srv/my data", "ro,loop", &data.path());
    let bound = kernel.directory.path().join("home/ann/mail");
    kernel.add("var/mail", "bind", &bound);
    let bound = kernel.directory.path().join("srv/my data");
    kernel.add("opt/data", "bind", &bound);

    let disk = Disk::options().add(data.path()).open(system.path());
    let disk = disk.unwrap();
    let system = guest::select_system(&disk, None).unwrap().unwrap();
    let tree = system.filesystem().unwrap();
    let mut ours = Vec::new();
    for entry in tree.walk("/").unwrap() {
        match entry {
            Ok(entry) => ours.push(String::from_utf8(entry.path).unwrap()),
            // It is an XFS.
            Err(error) => assert!(error.to_string().contains("other"), "{error}"),
        }
    }
    let root = kernel.directory.path();
    let listed = run("find", [root, "-printf".as_ref(), "%P\n".as_ref()]).unwrap();
    let mut theirs: Vec<&str> = listed
        .lines()
        .filter(|path| *path != "boot/other")
        .collect();
    ours.retain(|path| path != "boot/other");
    ours.sort_unstable();
    theirs.sort_unstable();
    assert_eq!(ours, theirs);
    for path in theirs {
        let here = root.join(path);
        let found = tree.symlink_metadata(path).unwrap();
        let expected = std::fs::symlink_metadata(&here).unwrap();
        let mode = found.file_type.mode_bits() | u32::from(found.permissions);
        assert_eq!(mode, expected.mode(), "{path}");
        assert_eq!((found.uid, found.gid), (expected.uid(), expected.gid()));
        assert_eq!(found.modified.seconds, expected.mtime(), "{path}");
        assert_eq!(u64::from(found.links), expected.nlink(), "{path}");
        if expected.is_file() {
            let contents = std::fs::read(&here).unwrap();
            assert_eq!(tree.read(path).unwrap(), contents, "{path}");
        } else if expected.is_symlink() {
            let target = std::fs::read_link(&here).unwrap();
            let found = tree.read_link(path).unwrap();
            assert_eq!(found, target.as_os_str().as_encoded_bytes(), "{path}");
        }
    }
}
