//! A filesystem with files at all places: groups are filled and partly emptied.

use std::path::{Path, PathBuf};

use diskfs_ext4::WritableExt4;
use diskfs_vfs::{
    Fallocate, FileType, FsRead, FsWrite, InodeNumber, NewAttributes, NewKind, SetXattr, read_file,
};

use super::{Random, mke2fs_empty, open, open_for_writing, run};

/// Fills a filesystem with directories in all groups, then deletes most of them. Some files of each
/// remain: with holes, unwritten extents, attributes, other names and symlinks.
pub(crate) fn populate(image: &Path, random: &mut Random, keep_one_in: usize) {
    let fs = open_for_writing(image);
    let attributes = NewAttributes::for_root(0o755);
    let mut dirs = Vec::new();
    for n in 0..60 {
        let name = format!("dir-{n}");
        let Ok(dir) = fs.create(fs.root(), name.as_bytes(), NewKind::Directory, &attributes) else {
            break;
        };
        dirs.push((dir, name));
        if !fill(&fs, dir, random) {
            break;
        }
    }
    let kept = dirs.len() / keep_one_in;
    while dirs.len() > kept {
        let (dir, name) = dirs.swap_remove(random.below(dirs.len()));
        delete(&fs, dir);
        fs.rmdir(fs.root(), name.as_bytes()).unwrap();
    }
    fs.close().unwrap();
}

/// Creates a filesystem of `size_bytes` whose journal of `journal_mib` is in its second half: it gets
/// the space after a large file, which is then deleted.
pub(crate) fn with_late_journal(
    dir: &Path,
    args: &str,
    size_bytes: u64,
    journal_mib: u32,
) -> PathBuf {
    let args = format!("{args} -O ^has_journal");
    let image = mke2fs_empty(dir, &args, &format!("{}k", size_bytes >> 10));
    let fs = open_for_writing(&image);
    let attributes = NewAttributes::for_root(0o644);
    let large = fs
        .create(fs.root(), b"large", NewKind::Regular, &attributes)
        .unwrap();
    for n in 0..size_bytes >> 19 {
        fs.write_at(large, n << 18, &vec![1; 1 << 18]).unwrap();
    }
    fs.close().unwrap();
    let size = format!("size={journal_mib}");
    let name = image.to_str().unwrap();
    run("tune2fs", &["-O", "has_journal", "-J", &size, name]);
    let fs = open_for_writing(&image);
    fs.unlink(fs.root(), b"large").unwrap();
    fs.close().unwrap();
    image
}

/// Returns false if the filesystem is full.
fn fill(fs: &WritableExt4, dir: InodeNumber, random: &mut Random) -> bool {
    let attributes = NewAttributes::for_root(0o640);
    let many = if random.below(5) == 0 { 120 } else { 6 };
    for n in 0..many {
        let name = format!("file-{n}-{}", "x".repeat(random.below(40)));
        let Ok(file) = fs.create(dir, name.as_bytes(), NewKind::Regular, &attributes) else {
            return false;
        };
        if !contents(fs, file, random) {
            return false;
        }
        if random.below(4) == 0 && fs.link(file, dir, format!("link-{n}").as_bytes()).is_err() {
            return false;
        }
    }
    let target = b"t".repeat(10 + random.below(300));
    let attributes = NewAttributes::for_root(0o777);
    let below = NewKind::Directory;
    fs.create(dir, b"symlink", NewKind::Symlink(&target), &attributes)
        .is_ok()
        && fs.create(dir, b"fifo", NewKind::Fifo, &attributes).is_ok()
        && fs
            .create(dir, b"below", below, &attributes)
            .is_ok_and(|below| {
                fs.create(below, b"empty", NewKind::Directory, &attributes)
                    .is_ok()
            })
}

fn contents(fs: &WritableExt4, file: InodeNumber, random: &mut Random) -> bool {
    let byte = u8::try_from(random.below(256)).unwrap();
    let xattr = |name: &[u8], len| {
        // The same value for several files: they share a block.
        let value = vec![byte & 3; len];
        fs.set_xattr(file, name, &value, SetXattr::Any).is_ok()
    };
    let most = if random.below(8) == 0 { 150_000 } else { 9000 };
    let len = 1 + random.below(most);
    let data: Vec<u8> = (0..len)
        .map(|n| u8::try_from(n % 251).unwrap() ^ byte)
        .collect();
    match random.below(6) {
        0 => (0..12u64).all(|n| fs.write_at(file, n * 9000, &data[..len.min(700)]).is_ok()),
        1 => {
            // Files with a block map have no unwritten extents.
            let _ = fs.fallocate(file, 0, 40_000, Fallocate::Allocate);
            fs.write_at(file, 5000, &data).is_ok()
        }
        2 => xattr(b"user.large", 300) && fs.write_at(file, 0, &data).is_ok(),
        3 => {
            // With `ea_inode`, large values are in inodes of their own, which files share.
            let _ = xattr(b"user.huge", 3000);
            xattr(b"user.x", 20)
        }
        _ => fs.write_at(file, 0, &data).is_ok(),
    }
}

fn delete(fs: &WritableExt4, dir: InodeNumber) {
    let entries: Vec<_> = fs.read_dir(dir, 0).unwrap().map(Result::unwrap).collect();
    for entry in entries {
        if entry.name == b"." || entry.name == b".." {
            continue;
        }
        if fs.metadata(entry.inode).unwrap().file_type == FileType::Directory {
            delete(fs, entry.inode);
            fs.rmdir(dir, &entry.name).unwrap();
        } else {
            fs.unlink(dir, &entry.name).unwrap();
        }
    }
}

/// Returns a line for every file: everything that stat shows but the inode number, attributes, and
/// a checksum of the contents.
pub(crate) fn listing(image: &Path) -> Vec<String> {
    let fs = open(image);
    let mut lines = Vec::new();
    walk(&fs, (fs.root(), fs.root()), "", &mut lines);
    lines.sort();
    lines
}

fn walk(
    fs: &dyn FsRead,
    (dir, parent): (InodeNumber, InodeNumber),
    path: &str,
    lines: &mut Vec<String>,
) {
    for entry in fs.read_dir(dir, 0).unwrap() {
        let entry = entry.unwrap_or_else(|e| panic!("{path}: {e}"));
        match &entry.name[..] {
            b"." => assert_eq!(entry.inode, dir, "{path}"),
            b".." => assert_eq!(entry.inode, parent, "{path}"),
            name => {
                let path = format!("{path}/{}", String::from_utf8_lossy(name));
                assert_eq!(fs.lookup(dir, name).unwrap(), entry.inode, "{path}");
                lines.push(line(fs, entry.inode, &path));
                if fs.metadata(entry.inode).unwrap().file_type == FileType::Directory {
                    walk(fs, (entry.inode, dir), &path, lines);
                }
            }
        }
    }
}

fn line(fs: &dyn FsRead, inode: InodeNumber, path: &str) -> String {
    let metadata = fs.metadata(inode).unwrap();
    let bytes = match metadata.file_type {
        FileType::Regular => read_file(fs, inode, 16 << 20).unwrap(),
        FileType::Symlink => fs.read_link(inode).unwrap(),
        _ => Vec::new(),
    };
    let sum = |bytes: &[u8]| {
        bytes.iter().fold(7u64, |sum, &byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(byte))
        })
    };
    let mut names = fs.list_xattrs(inode).unwrap();
    names.sort();
    let xattrs: Vec<String> = names
        .iter()
        .map(|name| {
            let value = fs.xattr(inode, name).unwrap().unwrap();
            format!("{}={:x}", String::from_utf8_lossy(name), sum(&value))
        })
        .collect();
    format!(
        "{path} {:?} {:o} {} {} {:?} {:?} {:x} {xattrs:?}",
        metadata.file_type,
        metadata.permissions,
        metadata.links,
        metadata.size_bytes,
        metadata.modified,
        metadata.generation,
        sum(&bytes)
    )
}
