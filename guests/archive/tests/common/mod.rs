//! The judge in Python, and the listing that both sides are compared by.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use diskfs_fixtures::{require, require_root};
use diskfs_vfs::{FileType, FsRead, InodeNumber};
use sha2::{Digest, Sha256};

/// Returns true if the judge can run; otherwise the test is skipped.
pub(crate) fn require_judge() -> bool {
    require("python3").is_some() && require_root().is_some()
}

/// Runs `layers.py`, and returns its output.
pub(crate) fn python(args: &[&OsStr]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/layers.py");
    let output = Command::new("python3").arg(script).args(args).output();
    let output = output.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command of `layers.py` with a directory, and returns the listing of the directory.
pub(crate) fn judge(command: &str, dir: &Path, layers: &[PathBuf]) -> Vec<String> {
    let mut args = vec![OsStr::new(command), dir.as_os_str()];
    args.extend(layers.iter().map(|layer| layer.as_os_str()));
    python(&args).lines().map(str::to_owned).collect()
}

/// Lists a filesystem as `layers.py` does.
pub(crate) fn listing(fs: &dyn FsRead) -> Vec<String> {
    let mut paths = BTreeMap::new();
    let mut open = vec![(Vec::new(), fs.root())];
    while let Some((path, dir)) = open.pop() {
        for entry in fs.read_dir(dir, 0).unwrap() {
            let entry = entry.unwrap();
            if entry.name == b"." || entry.name == b".." {
                continue;
            }
            let path = [&path[..], b"/", &entry.name].concat();
            if fs.metadata(entry.inode).unwrap().is_dir() {
                open.push((path.clone(), entry.inode));
            }
            paths.insert(path, entry.inode);
        }
    }
    paths.insert(b"/".to_vec(), fs.root());
    let mut first = BTreeMap::new();
    let lines = paths.iter().map(|(path, inode)| {
        let path = String::from_utf8(path.clone()).unwrap();
        let same = first.entry(*inode).or_insert_with(|| path.clone());
        line(fs, &path, *inode, same)
    });
    lines.collect()
}

fn line(fs: &dyn FsRead, path: &str, inode: InodeNumber, same: &str) -> String {
    let metadata = fs.metadata(inode).unwrap();
    let kind = metadata.file_type.letter();
    let body = match metadata.file_type {
        FileType::Regular => {
            let mut data = vec![0; usize::try_from(metadata.size_bytes).unwrap()];
            assert_eq!(fs.read_at(inode, 0, &mut data).unwrap(), data.len());
            hex(&Sha256::digest(&data))
        }
        FileType::Symlink => String::from_utf8(fs.read_link(inode).unwrap()).unwrap(),
        _ => metadata.device.map_or(String::new(), |device| {
            format!("{}:{}", device.major, device.minor)
        }),
    };
    let mut names = fs.list_xattrs(inode).unwrap();
    names.sort();
    let xattrs = names.iter().map(|name| {
        let value = fs.xattr(inode, name).unwrap().unwrap();
        format!("{}={}", String::from_utf8_lossy(name), hex(&value))
    });
    let xattrs: Vec<_> = xattrs.collect();
    let size = match kind {
        '-' | 'l' => metadata.size_bytes,
        _ => 0,
    };
    let time = i128::from(metadata.modified.seconds) * 1_000_000_000
        + i128::from(metadata.modified.nanoseconds);
    format!(
        "{path} {kind} {:o} {}:{} {size} {time} {same} {} {body} {}",
        metadata.permissions,
        metadata.uid,
        metadata.gid,
        metadata.links,
        xattrs.join(",")
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Compares listings. The time `any` of the judge is that of a directory without a member.
pub(crate) fn same(found: &[String], expected: &[String], what: &str) {
    let without_time = |line: &str| {
        let mut fields: Vec<_> = line.split(' ').collect();
        fields[5] = "any";
        fields.join(" ")
    };
    for (found, expected) in found.iter().zip(expected) {
        let is_any = expected.split(' ').nth(5) == Some("any");
        let found = if is_any {
            without_time(found)
        } else {
            found.clone()
        };
        assert_eq!(&found, expected, "{what}");
    }
    assert_eq!(found.len(), expected.len(), "{what}: {found:#?}");
}
