//! The files of the sources that a boot loader may need.

use std::collections::BTreeMap;

use diskfs_archive::Tree;
use diskfs_vfs::FileType;

/// The directories with programs and kernels, and the links to the default kernel.
const PREFIXES: [&str; 6] = [
    "boot/",
    "usr/lib/systemd/boot/efi/",
    "usr/lib/grub/",
    "usr/lib/shim/",
    "vmlinuz",
    "initrd.img",
];

/// The number of symlinks that are followed.
const MAX_SYMLINKS: u32 = 8;

/// The sizes of files, and the targets of symlinks, by path.
#[derive(Debug, Default)]
pub(crate) struct BootFiles(BTreeMap<String, Known>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    Regular(u64),
    Symlink(String),
}

/// A regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BootFile {
    /// The path without a slash in front, and without symlinks as its last name.
    pub(crate) path: String,
    pub(crate) size_bytes: u64,
}

impl BootFiles {
    pub(crate) fn of(tree: &Tree) -> Self {
        let named = tree.names().filter_map(|named| {
            let path = String::from_utf8(named.path).ok()?;
            if !PREFIXES.iter().any(|prefix| path.starts_with(prefix)) {
                return None;
            }
            let known = match (named.node.file_type, named.target) {
                (FileType::Regular, _) => Known::Regular(named.node.size_bytes),
                (_, Some(target)) => Known::Symlink(String::from_utf8(target.to_vec()).ok()?),
                _ => return None,
            };
            Some((path, known))
        });
        Self(named.collect())
    }

    /// Finds a regular file; a symlink as the last name is followed.
    pub(crate) fn find(&self, path: &str) -> Option<BootFile> {
        let mut path = normal(path);
        for _ in 0..MAX_SYMLINKS {
            match self.0.get(&path)? {
                Known::Regular(size_bytes) => {
                    let size_bytes = *size_bytes;
                    return Some(BootFile { path, size_bytes });
                }
                Known::Symlink(target) if target.starts_with('/') => path = normal(target),
                Known::Symlink(target) => {
                    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
                    path = normal(&format!("{directory}/{target}"));
                }
            }
        }
        None
    }

    /// Returns the paths of regular files and symlinks that begin with `prefix`.
    pub(crate) fn beginning_with<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        let after = self.0.range(prefix.to_owned()..);
        after
            .map(|(path, _)| path.as_str())
            .take_while(move |path| path.starts_with(prefix))
    }
}

/// Removes empty names, `.` and `..` from a path.
fn normal(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symlinks_are_followed() {
        let known = [
            ("vmlinuz", Known::Symlink("boot/vmlinuz-6.1".to_owned())),
            ("boot/vmlinuz-6.1", Known::Regular(7)),
            ("boot/a", Known::Symlink("../boot//./a".to_owned())),
        ];
        let files = BootFiles(known.map(|(path, known)| (path.to_owned(), known)).into());
        let found = files.find("/vmlinuz").unwrap();
        assert_eq!(
            (found.path.as_str(), found.size_bytes),
            ("boot/vmlinuz-6.1", 7)
        );
        assert_eq!(files.find("boot/a"), None);
        assert_eq!(files.beginning_with("boot/v").count(), 1);
    }
}
