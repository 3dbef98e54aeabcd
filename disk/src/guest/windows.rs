//! Systems of Windows: known by the hive that each of them has.

use diskfs_vfs::{Follow, resolve};

use super::os_release::OsRelease;
use crate::Filesystem;

/// What the system's directory is called; Windows 2000 and NT 4 called it the second.
const ROOTS: [&str; 2] = ["/Windows", "/WINNT"];

/// What each of them has in it.
const SOFTWARE: &str = "System32/config/SOFTWARE";

/// More than any directory has that is looked through.
const MAX_ENTRIES: usize = 100_000;

/// What a Windows on a filesystem calls itself, if there is one.
pub(super) fn find(filesystem: &Filesystem) -> Option<OsRelease> {
    windows_root(filesystem)?;
    Some(OsRelease {
        id: String::from("windows"),
        version_id: String::new(),
        pretty_name: String::from("Windows"),
    })
}

/// The directory of the Windows that is on a filesystem.
pub fn windows_root(filesystem: &Filesystem) -> Option<String> {
    let mut roots = ROOTS
        .iter()
        .filter_map(|root| in_any_case(filesystem, root));
    roots.find(|root| in_any_case(filesystem, &format!("{root}/{SOFTWARE}")).is_some())
}

/// The path as the filesystem has it, whatever the case of its letters: Windows's filesystems are served with names
/// that differ by it. No symlink is followed.
pub fn in_any_case(filesystem: &Filesystem, path: &str) -> Option<String> {
    let mut found = String::new();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let exact = format!("{found}/{name}");
        found = if resolve(filesystem.as_fs(), &exact, Follow::AllButLast).is_ok() {
            exact
        } else {
            format!("{found}/{}", similar(filesystem, &found, name)?)
        };
    }
    Some(found)
}

fn similar(filesystem: &Filesystem, dir: &str, name: &str) -> Option<String> {
    let fs = filesystem.as_fs();
    let dir = if dir.is_empty() { "/" } else { dir };
    let inode = resolve(fs, dir, Follow::AllButLast).ok()?;
    let entries = fs.read_dir(inode, 0).ok()?.take(MAX_ENTRIES);
    let mut names = entries.filter_map(|entry| String::from_utf8(entry.ok()?.name).ok());
    names.find(|entry| entry.eq_ignore_ascii_case(name))
}
