//! Putting together what makes, checks and resizes filesystems: programs of this host with their libraries,
//! in a filesystem of their own, which a machine mounts when one of them is asked for.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::boot_files::{TOOLS, find_program, output_of, run};
use diskfs_disk::{Error, ErrorKind, Result};

/// The programs, as distributions name them. What the host does not have is left out.
const PROGRAMS: &[&str] = &[
    "btrfs",
    "e2fsck",
    "fsck.exfat",
    "fsck.f2fs",
    "fsck.vfat",
    "fstrim",
    "mke2fs",
    "mkfs.btrfs",
    "mkfs.f2fs",
    "mkfs.xfs",
    "mkntfs",
    "ntfsfix",
    "ntfsresize",
    "resize.f2fs",
    "resize2fs",
    "xfs_growfs",
    "xfs_repair",
];

/// What they read besides their libraries.
const FILES: &[&str] = &["/etc/mke2fs.conf"];

/// Directories for what is mounted, where programs expect it, and for the filesystem that is worked on.
const DIRECTORIES: &[&str] = &["bin", "dev", "etc", "mnt", "proc", "run", "sys", "tmp"];

/// How to put it together.
#[derive(Debug, Clone)]
pub struct BuildTools {
    /// The directory to make it in.
    pub output: PathBuf,
}

/// What was put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltTools {
    /// The file.
    pub file: PathBuf,
    /// The programs in it.
    pub programs: Vec<String>,
    /// The programs that this host does not have.
    pub missing: Vec<String>,
    /// How large it is.
    pub size_bytes: u64,
}

impl BuildTools {
    /// Puts it together; `say` hears what is done.
    ///
    /// # Errors
    /// `NotFound` without `mke2fs` or `ldd`, or when there is not one of the programs.
    pub fn run(&self, say: &mut dyn FnMut(&str)) -> Result<BuiltTools> {
        let mke2fs = needed("mke2fs", "e2fsprogs")?;
        fs::create_dir_all(&self.output).map_err(|e| Error::from(e).in_file(&self.output))?;
        let tree = tempfile::tempdir_in(&self.output)?;
        let (programs, missing) = fill(tree.path())?;
        if programs.is_empty() {
            let reason = "there is none of the programs that it is made of";
            let hint = "install xfsprogs, btrfs-progs, f2fs-tools, ntfs-3g";
            return Err(Error::new(ErrorKind::NotFound, reason).with_hint(hint));
        }
        say(&format!("a filesystem with {}", programs.join(", ")));
        let file = self.output.join(TOOLS);
        let unfinished = self.output.join(format!("{TOOLS}.new"));
        let kib = size_bytes_below(tree.path())? / 1024;
        run(Command::new(mke2fs)
            .args(["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0"])
            .args(["-E", "root_owner=0:0", "-d"])
            .arg(tree.path())
            .arg(&unfinished)
            // Its own metadata takes a fraction, and each file a part of its last block.
            .arg(format!("{}k", kib + kib / 4 + 2048)))?;
        fs::rename(&unfinished, &file)?;
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
        let reason = format!("there is no {program}");
        Error::new(ErrorKind::NotFound, reason).with_hint(format!("install {package}"))
    })
}

/// Copies the programs and what they need into a tree, and tells which there are.
fn fill(tree: &Path) -> Result<(Vec<String>, Vec<String>)> {
    for name in DIRECTORIES {
        fs::create_dir(tree.join(name))?;
    }
    let mut libraries = BTreeSet::new();
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for &name in PROGRAMS {
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

/// A symlink becomes what it points to.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(dir) = to.parent() {
        fs::create_dir_all(dir)?;
    }
    let copied = fs::copy(from, to);
    copied.map(drop).map_err(|e| Error::from(e).in_file(from))
}

/// The libraries and the loader that a program of this host is loaded with, as `ldd` lists them; none for
/// a static one.
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
        // e2fsprogs is on each Debian.
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
