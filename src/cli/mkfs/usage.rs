//! The space that a file tree needs, from which the size of a fitting filesystem follows.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use diskfs::archive::Tree;
use diskfs::{Error, Result, TreeUsage};
use rustix::fs::{Access, AtFlags, CWD, accessat, lgetxattr, llistxattr};

/// The largest list of names of extended attributes (xattr(7)).
const XATTR_LIST_MAX_BYTES: usize = 64 << 10;

/// Returns the usage of the files that archives make.
pub(super) fn of_archives(tree: &Tree) -> TreeUsage {
    let mut usage = TreeUsage::new();
    tree.nodes().for_each(|node| node.add_to(&mut usage));
    usage
}

/// Returns the usage of a directory of the host and everything below it.
pub(super) fn of_directory(path: &Path) -> Result<TreeUsage> {
    let mut usage = TreeUsage::new();
    let mut links = HashSet::new();
    let mut directories = vec![path.to_owned()];
    while let Some(directory) = directories.pop() {
        let in_directory = |e| Error::from(e).in_file(&directory);
        let mut name_lens = Vec::new();
        for entry in fs::read_dir(&directory).map_err(in_directory)? {
            let entry = entry.map_err(in_directory)?;
            name_lens.push(entry.file_name().len());
            add_entry(&mut usage, &mut links, &mut directories, entry.path())?;
        }
        usage.add_directory(name_lens);
        add_xattrs(&mut usage, xattr_sizes(&directory)?);
    }
    Ok(usage)
}

/// Checks that all files below a directory of the host can be opened, without opening them.
pub(super) fn check_readable(path: &Path) -> Result<()> {
    let mut directories = vec![path.to_owned()];
    while let Some(directory) = directories.pop() {
        let in_directory = |e| Error::from(e).in_file(&directory);
        for entry in fs::read_dir(&directory).map_err(in_directory)? {
            let entry = entry.map_err(in_directory)?;
            let file_type = entry.file_type().map_err(in_directory)?;
            let path = entry.path();
            if file_type.is_dir() {
                directories.push(path);
            } else if file_type.is_file() {
                let readable = accessat(CWD, &path, Access::READ_OK, AtFlags::EACCESS);
                readable.map_err(|e| Error::from(std::io::Error::from(e)).in_file(&path))?;
            }
        }
    }
    Ok(())
}

fn add_entry(
    usage: &mut TreeUsage,
    links: &mut HashSet<(u64, u64)>,
    directories: &mut Vec<PathBuf>,
    path: PathBuf,
) -> Result<()> {
    let metadata = fs::symlink_metadata(&path).map_err(|e| Error::from(e).in_file(&path))?;
    let file_type = metadata.file_type();
    if file_type.is_dir() {
        directories.push(path);
        return Ok(());
    }
    if metadata.nlink() > 1 && !links.insert((metadata.dev(), metadata.ino())) {
        return Ok(());
    }
    if file_type.is_file() {
        usage.add_file(metadata.len(), metadata.blocks().saturating_mul(512));
    } else if file_type.is_symlink() {
        usage.add_symlink(metadata.len());
    } else {
        usage.add_special();
    }
    add_xattrs(usage, xattr_sizes(&path)?);
    Ok(())
}

fn add_xattrs(usage: &mut TreeUsage, sizes: Vec<u64>) {
    if !sizes.is_empty() {
        let count = sizes.len() as u64;
        usage.add_xattrs(count, sizes.into_iter().fold(0, u64::saturating_add));
    }
}

/// Returns the size of each extended attribute of a file: its name and its value. A filesystem
/// without attributes has none.
fn xattr_sizes(path: &Path) -> Result<Vec<u64>> {
    let mut list = vec![0; XATTR_LIST_MAX_BYTES];
    let len = match llistxattr(path, &mut list) {
        Ok(len) => len,
        Err(rustix::io::Errno::NOTSUP) => 0,
        Err(e) => return Err(Error::from(std::io::Error::from(e)).in_file(path)),
    };
    let names = list.get(..len).unwrap_or_default().split(|byte| *byte == 0);
    let sizes = names.filter(|name| !name.is_empty()).map(|name| {
        let value_bytes = lgetxattr(path, name, &mut [0_u8; 0][..]).unwrap_or(0);
        (name.len() as u64).saturating_add(value_bytes as u64)
    });
    Ok(sizes.collect())
}
