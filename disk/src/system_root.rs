//! Recognition of the root of an operating system by its files.

use diskfs_vfs::{ErrorKind, FileType, Follow, FsRead, Result, resolve};

/// Returns true if a filesystem is the root of a Unix operating system.
///
/// A root whose `/usr` is a separate filesystem also counts: it is recognised by its symlinks into
/// `/usr`, such as `/bin -> usr/bin`.
///
/// # Errors
/// `Corrupt`, `Io` if damage prevents the answer.
pub(crate) fn holds_system(fs: &dyn FsRead) -> Result<bool> {
    let mut lookups = Lookups { fs, failed: None };
    let is_system = lookups.is_root();
    match lookups.failed {
        Some(error) if !is_system => Err(error),
        _ => Ok(is_system),
    }
}

/// Returns true if a filesystem is the `/usr` of an operating system, judged by its own files.
pub(crate) fn holds_usr(fs: &dyn FsRead) -> bool {
    let mut lookups = Lookups { fs, failed: None };
    lookups.is("/lib/os-release", FileType::Regular)
        && lookups.is("/bin", FileType::Directory)
        && !lookups.is_root()
}

/// A series of look-ups in a filesystem that keeps the first error.
struct Lookups<'a> {
    fs: &'a dyn FsRead,
    failed: Option<diskfs_vfs::Error>,
}

impl Lookups<'_> {
    fn is_root(&mut self) -> bool {
        // os-release(5) names both places. Systems from before 2012 have neither.
        if self.is("/etc/os-release", FileType::Regular)
            || self.is("/usr/lib/os-release", FileType::Regular)
        {
            return true;
        }
        if !self.is("/etc", FileType::Directory) {
            return false;
        }
        if self.is("/usr", FileType::Directory) {
            return self.is("/bin", FileType::Directory)
                || self.is("/usr/bin", FileType::Directory)
                || self.leads_to_usr("/bin")
                || self.leads_to_usr("/etc/os-release");
        }
        // The `/usr` of SUSE has an `etc` directory.
        self.is("/bin", FileType::Directory) && !self.is("/share", FileType::Directory)
    }

    fn is(&mut self, path: &str, wanted: FileType) -> bool {
        let found = resolve(self.fs, path, Follow::All).and_then(|inode| self.fs.metadata(inode));
        self.noted(found)
            .is_some_and(|metadata| metadata.file_type == wanted)
    }

    /// Returns true if a symlink's target is below the root's `/usr`.
    fn leads_to_usr(&mut self, link: &str) -> bool {
        let target = resolve(self.fs, link, Follow::AllButLast).and_then(|inode| {
            match self.fs.metadata(inode)?.file_type {
                FileType::Symlink => self.fs.read_link(inode),
                _ => Ok(Vec::new()),
            }
        });
        let target = self.noted(target).unwrap_or_default();
        let mut names = target.split(|&byte| byte == b'/');
        names.find(|name| !matches!(*name, b"" | b"." | b"..")) == Some(b"usr")
    }

    fn noted<T>(&mut self, found: Result<T>) -> Option<T> {
        match found {
            Ok(found) => Some(found),
            Err(error) => {
                if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io) {
                    self.failed.get_or_insert(error);
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use diskfs_vfs::testing::MemoryFs;

    use super::*;

    #[test]
    fn a_root_without_its_usr_is_a_root() {
        for (tree, is_root) in TREES {
            let mut fs = MemoryFs::new();
            for line in *tree {
                match line.split_once(" -> ") {
                    Some((link, target)) => fs.symlink(link, target),
                    None if line.ends_with('/') => fs.dir(line.trim_end_matches('/')),
                    None => fs.file(line, b""),
                };
            }
            assert_eq!(holds_system(&fs).unwrap(), *is_root, "{tree:?}");
        }
    }

    const TREES: &[(&[&str], bool)] = &[
        (
            &[
                "/etc/",
                "/usr/",
                "/bin -> usr/bin",
                "/etc/os-release -> ../usr/lib/os-release",
            ],
            true,
        ),
        (&["/etc/", "/usr/", "/bin -> /usr/bin"], true),
        (&["/etc/", "/bin/"], true),
        (&["/etc/", "/usr/"], false),
        (&["/etc/", "/bin -> usr/bin"], false),
        (&["/etc/", "/usr/", "/bin -> ../opt/bin"], false),
        // The `/usr` of Debian and of SUSE.
        (&["/bin/", "/lib/", "/lib/os-release", "/share/"], false),
        (
            &["/bin/", "/etc/", "/lib/", "/lib/os-release", "/share/"],
            false,
        ),
    ];
}
