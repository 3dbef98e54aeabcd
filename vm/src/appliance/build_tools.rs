//! Building of the filesystem tools image: programs of this host with their libraries that make,
//! check and resize filesystems. A machine mounts the image when it needs one of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::lacking::{Package, package};
use crate::boot_files::{TOOLS, find_program, output_of, remove_checksum, run, write_checksum};
use diskfs_disk::{Error, ErrorKind, Result};

const NTFS: Package = Package {
    deb: "ntfs-3g",
    rpm: "ntfsprogs",
};

/// The programs, by their usual names, with their packages. Those that the host does not have are
/// left out.
pub(super) const PROGRAMS: &[(&str, Package)] = &[
    ("btrfs", package("btrfs-progs")),
    ("e2fsck", package("e2fsprogs")),
    ("fsck.exfat", package("exfatprogs")),
    ("fsck.f2fs", package("f2fs-tools")),
    ("fsck.vfat", package("dosfstools")),
    ("fstrim", package("util-linux")),
    ("mke2fs", package("e2fsprogs")),
    ("mkfs.btrfs", package("btrfs-progs")),
    ("mkfs.f2fs", package("f2fs-tools")),
    ("mkfs.xfs", package("xfsprogs")),
    ("mkntfs", NTFS),
    ("ntfsfix", NTFS),
    ("ntfsresize", NTFS),
    ("resize.f2fs", package("f2fs-tools")),
    ("resize2fs", package("e2fsprogs")),
    ("xfs_growfs", package("xfsprogs")),
    ("xfs_repair", package("xfsprogs")),
];

/// The files that the programs read besides their libraries.
const FILES: &[&str] = &["/etc/mke2fs.conf"];

/// The directories of the image: mount points where programs expect them, and one for the target
/// filesystem.
const DIRECTORIES: &[&str] = &["bin", "dev", "etc", "mnt", "proc", "run", "sys", "tmp"];

/// The parameters for building the tools image.
#[derive(Debug, Clone)]
pub struct BuildTools {
    /// The output directory.
    pub output: PathBuf,
}

/// The result of the build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltTools {
    /// The image file.
    pub file: PathBuf,
    /// The programs in the image.
    pub programs: Vec<String>,
    /// The programs that this host does not have.
    pub missing: Vec<String>,
    /// The size of the image.
    pub size_bytes: u64,
}

impl BuildTools {
    /// Builds the image; `say` gets progress messages.
    ///
    /// # Errors
    /// Fails with `NotFound` if `mke2fs` or `ldd` is missing, or if the host has none of the
    /// programs.
    pub fn run(&self, say: &mut dyn FnMut(&str)) -> Result<BuiltTools> {
        let mke2fs = needed("mke2fs", "e2fsprogs")?;
        fs::create_dir_all(&self.output).map_err(|e| Error::from(e).in_file(&self.output))?;
        let tree = tempfile::tempdir_in(&self.output)?;
        let (programs, missing) = fill(tree.path())?;
        if programs.is_empty() {
            let reason = "none of the filesystem programs is installed";
            let hint = "install xfsprogs, btrfs-progs, f2fs-tools, ntfs-3g";
            return Err(Error::new(ErrorKind::NotFound, reason).with_hint(hint));
        }
        say(&format!("making an image with {}", programs.join(", ")));
        let file = self.output.join(TOOLS);
        let unfinished = self.output.join(format!("{TOOLS}.new"));
        let kib = size_bytes_below(tree.path())? / 1024;
        run(Command::new(mke2fs)
            .args(["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0"])
            .args(["-E", "root_owner=0:0", "-d"])
            .arg(tree.path())
            .arg(&unfinished)
            // The filesystem's metadata takes a fraction, and each file a part of its last block.
            .arg(format!("{}k", kib + kib / 4 + 2048)))?;
        remove_checksum(&file)?;
        fs::rename(&unfinished, &file)?;
        write_checksum(&file)?;
        Ok(BuiltTools {
            size_bytes: fs::metadata(&file)?.len(),
            file,
            programs,
            missing,
        })
    }
}

fn needed(program: &str, package: &str) -> Result<PathBuf> {
    find_program(program).ok_or_else(|| {
        let reason = format!("{program} is not installed");
        Error::new(ErrorKind::NotFound, reason).with_hint(format!("install {package}"))
    })
}

/// Copies the programs and their files into a tree. Returns the copied and the missing programs.
fn fill(tree: &Path) -> Result<(Vec<String>, Vec<String>)> {
    for name in DIRECTORIES {
        fs::create_dir(tree.join(name))?;
    }
    let mut libraries = BTreeSet::new();
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for &(name, _) in PROGRAMS {
        let Some(program) = find_program(name) else {
            missing.push(name.to_owned());
            continue;
        };
        copy(&program, &tree.join("bin").join(name))?;
        libraries.extend(libraries_of(&program)?);
        there.push(name.to_owned());
    }
    let files = FILES
        .iter()
        .map(PathBuf::from)
        .filter(|file| file.is_file());
    for file in libraries.into_iter().chain(files) {
        let below_root = file.strip_prefix("/").unwrap_or(&file);
        copy(&file, &tree.join(below_root))?;
    }
    Ok((there, missing))
}

/// Copies a file; a symlink is replaced by its target.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(dir) = to.parent() {
        fs::create_dir_all(dir)?;
    }
    let copied = fs::copy(from, to);
    copied.map(drop).map_err(|e| Error::from(e).in_file(from))
}

/// Returns the libraries and the loader of a host program as `ldd` lists them; empty for a static
/// program.
fn libraries_of(program: &Path) -> Result<Vec<PathBuf>> {
    let ldd = needed("ldd", "libc-bin")?;
    let listed = output_of(Command::new(ldd).arg(program))?;
    let words = listed.split_whitespace();
    let paths = words
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from);
    Ok(paths.filter(|path| path.is_file()).collect())
}

fn size_bytes_below(tree: &Path) -> Result<u64> {
    let mut size_bytes = 0;
    for entry in fs::read_dir(tree)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        size_bytes += if metadata.is_dir() {
            size_bytes_below(&entry.path())?
        } else {
            metadata.len().next_multiple_of(4096)
        };
    }
    Ok(size_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_come_with_their_libraries() {
        let tree = tempfile::tempdir().unwrap();
        let (there, missing) = fill(tree.path()).unwrap();
        assert_eq!(there.len() + missing.len(), PROGRAMS.len());
        // e2fsprogs is installed on every Debian.
        if there.iter().any(|name| name == "e2fsck") {
            let listed = libraries_of(&tree.path().join("bin/e2fsck")).unwrap();
            for library in listed {
                assert!(
                    tree.path()
                        .join(library.strip_prefix("/").unwrap())
                        .is_file()
                );
            }
            assert!(size_bytes_below(tree.path()).unwrap() > 1 << 20);
        }
    }
}
