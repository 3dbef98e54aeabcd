//! Large numbers: names in a directory, extents of a file, a full disk and a full inode table.
//! e2fsck and the kernel's mount check the results.
//!
//! The sizes that run by default take seconds. `tests/README.md` has the others.

#[path = "../common/mod.rs"]
mod common;
mod full;
mod many_extents;
mod many_files;

use diskfs_vfs::{FsRead, FsWrite, InodeNumber, NewAttributes, NewKind};

/// Returns a number from the environment.
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect(variable))
}

fn usize_of(n: u64) -> usize {
    usize::try_from(n).unwrap()
}

/// Returns bytes that show which file they belong to.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len)
        .map(|n| (seed ^ (n as u64) ^ ((n as u64) >> 8)).to_le_bytes()[0] | 1)
        .collect()
}

/// Creates a file as an ordinary user does.
fn create(
    fs: &dyn FsWrite,
    dir: InodeNumber,
    name: &str,
    kind: NewKind<'_>,
) -> diskfs_vfs::Result<InodeNumber> {
    let attributes = NewAttributes {
        uid: 1000,
        ..NewAttributes::for_root(0o755)
    };
    fs.create(dir, name.as_bytes(), kind, &attributes)
}

fn read(fs: &dyn FsRead, inode: InodeNumber) -> Vec<u8> {
    let size = fs.metadata(inode).unwrap().size_bytes;
    let mut bytes = vec![0; usize_of(size)];
    assert_eq!(fs.read_at(inode, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}
