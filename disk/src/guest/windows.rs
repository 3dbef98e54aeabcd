//! Windows installations, recognised by the registry hive that each has.

use diskfs_vfs::{Follow, resolve};

use super::os_release::OsRelease;
use crate::Filesystem;

/// The names of the system directory; Windows NT 4 and 2000 use the second.
const ROOTS: [&str; 2] = ["/Windows", "/WINNT"];

/// The registry hive, relative to the system directory.
const SOFTWARE: &str = "System32/config/SOFTWARE";

/// The limit on directory entries that are searched, more than any real directory has.
const MAX_ENTRIES: usize = 100_000;

/// Returns the release of the Windows installation on a filesystem, if it has one.
pub(super) fn find(filesystem: &Filesystem) -> Option<OsRelease> {
    windows_root(filesystem)?;
    Some(OsRelease {
        id: String::from("windows"),
        version_id: String::new(),
        pretty_name: String::from("Windows"),
    })
}

/// Returns the system directory of the Windows installation on a filesystem.
pub fn windows_root(filesystem: &Filesystem) -> Option<String> {
    let mut roots = ROOTS
        .iter()
        .filter_map(|root| in_any_case(filesystem, root));
    roots.find(|root| in_any_case(filesystem, &format!("{root}/{SOFTWARE}")).is_some())
}

/// Returns the path as the filesystem spells it, ignoring case: drivers serve the filesystems of
/// Windows with case-sensitive names. Symlinks are not followed.
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
