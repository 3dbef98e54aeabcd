//! Resolution of paths to inode numbers.

use crate::{Error, ErrorKind, FileType, FsRead, InodeNumber, Result};

pub use crate::join::join;

/// The limit on symlinks in one path resolution, as in Linux (`path_resolution(7)`).
pub const MAX_SYMLINKS: usize = 40;

/// The length limit of a name in bytes: `NAME_MAX` of Linux.
pub const NAME_MAX_BYTES: usize = 255;

/// The length limit of a path in bytes: `PATH_MAX` of Linux, which includes a terminating NUL.
pub const PATH_MAX_BYTES: usize = 4095;

/// The treatment of a symlink at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// Follow it, as stat(2) does.
    All,
    /// Return the link itself, as lstat(2) does. After a trailing slash it is still followed.
    AllButLast,
}

/// Returns the inode number of the file at `path`.
///
/// Every path starts at the filesystem's root, with or without a leading slash; an empty path is
/// the root. An absolute symlink starts at the root again, and `..` of the root is the root, so no
/// path and no link leaves the filesystem.
///
/// # Errors
/// `NotFound`, `NotADirectory`; `TooManyLinks` after [`MAX_SYMLINKS`]; `NameTooLong` past
/// [`NAME_MAX_BYTES`] or [`PATH_MAX_BYTES`]; `Invalid` for a path with a NUL byte. All errors carry
/// `path`.
pub fn resolve(fs: &dyn FsRead, path: impl AsRef<[u8]>, follow: Follow) -> Result<InodeNumber> {
    let path = path.as_ref();
    check(path)
        .and_then(|()| Resolver::new(fs, follow).run(path))
        .map_err(|error| error.in_path(path))
}

/// Returns the parent directory and the last name of `path`, to create, remove or rename a file.
/// Symlinks in the middle of the path are followed; the last name is not resolved. Trailing slashes
/// are ignored.
///
/// # Errors
/// As [`resolve`]; `NotADirectory`; `Invalid` for the root and for a path that ends in `.` or `..`.
pub fn resolve_parent(fs: &dyn FsRead, path: impl AsRef<[u8]>) -> Result<(InodeNumber, Vec<u8>)> {
    let path = path.as_ref();
    parent(fs, path).map_err(|error| error.in_path(path))
}

fn parent(fs: &dyn FsRead, path: &[u8]) -> Result<(InodeNumber, Vec<u8>)> {
    let end = path.iter().rposition(|&byte| byte != b'/');
    let trimmed = end.and_then(|end| path.get(..=end)).unwrap_or_default();
    let name_at = trimmed.iter().rposition(|&byte| byte == b'/');
    let name_at = name_at.map_or(0, |slash| slash.saturating_add(1));
    let (dir, name) = trimmed.split_at_checked(name_at).unwrap_or_default();
    if name.is_empty() || name == b"." || name == b".." {
        return Err(Error::new(
            ErrorKind::Invalid,
            "the path does not end in a name",
        ));
    }
    if name.len() > NAME_MAX_BYTES {
        return Err(ErrorKind::NameTooLong.into());
    }
    check(path)?;
    let dir = Resolver::new(fs, Follow::All).run(dir)?;
    if fs.metadata(dir)?.is_dir() {
        Ok((dir, name.to_vec()))
    } else {
        Err(ErrorKind::NotADirectory.into())
    }
}

/// Returns the path that `path` refers to if its last names are symlinks: where a write through
/// these symlinks creates a file. The file need not exist.
///
/// # Errors
/// As [`resolve`], for the parent directories.
pub fn follow_last(fs: &dyn FsRead, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
    let mut path = path.as_ref().to_vec();
    for _ in 0..=MAX_SYMLINKS {
        let (dir, name) = resolve_parent(fs, &path)?;
        let link = match fs.lookup(dir, &name) {
            Ok(inode) if fs.metadata(inode)?.file_type == FileType::Symlink => inode,
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(path),
            Err(error) => return Err(error.in_path(path)),
        };
        let target = fs.read_link(link)?;
        let end = path.iter().rposition(|&byte| byte != b'/').unwrap_or(0);
        let above = path.iter().take(end).rposition(|&byte| byte == b'/');
        if target.starts_with(b"/") {
            path.clear();
        } else {
            path.truncate(above.map_or(0, |slash| slash.saturating_add(1)));
        }
        path.extend_from_slice(&target);
    }
    Err(Error::from(ErrorKind::TooManyLinks).in_path(path))
}

/// Resolves a path like [`resolve`], but from `start` on and never out of it: `..` of `start` is
/// refused, and so is an absolute symlink unless `start` is the filesystem's root.
///
/// # Errors
/// As [`resolve`]; `Denied` for a path that leads out of `start`.
pub fn resolve_beneath(
    fs: &dyn FsRead,
    start: InodeNumber,
    path: impl AsRef<[u8]>,
    follow: Follow,
) -> Result<InodeNumber> {
    let path = path.as_ref();
    let resolver = Resolver {
        start,
        outside: if start == fs.root() {
            Outside::IsTheRoot
        } else {
            Outside::Refused
        },
        ..Resolver::new(fs, follow)
    };
    check(path)
        .and_then(|()| resolver.run(path))
        .map_err(|error| error.in_path(path))
}

fn check(path: &[u8]) -> Result<()> {
    if path.len() > PATH_MAX_BYTES {
        return Err(Error::new(
            ErrorKind::NameTooLong,
            format!(
                "the path is too long: {} bytes, at most {PATH_MAX_BYTES}",
                path.len()
            ),
        ));
    }
    if path.contains(&0) {
        return Err(Error::new(
            ErrorKind::Invalid,
            "invalid path: it contains a NUL byte",
        ));
    }
    Ok(())
}

/// A directory on the way from the root.
struct PathLevel {
    name: Vec<u8>,
    inode: InodeNumber,
}

/// The treatment of `..` at the start, and of absolute symlinks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outside {
    /// They lead to the start, which is the filesystem's root.
    IsTheRoot,
    Refused,
}

struct Resolver<'a> {
    fs: &'a dyn FsRead,
    start: InodeNumber,
    outside: Outside,
    follow: Follow,
    /// The directories from the root down to the present position. They are kept here instead of
    /// following `..` entries, which come from the image and are not trusted.
    steps: Vec<PathLevel>,
    /// The rest of the path.
    rest: Vec<u8>,
    links: usize,
}

impl<'a> Resolver<'a> {
    fn new(fs: &'a dyn FsRead, follow: Follow) -> Self {
        Self {
            fs,
            start: fs.root(),
            outside: Outside::IsTheRoot,
            follow,
            steps: Vec::new(),
            rest: Vec::new(),
            links: 0,
        }
    }

    fn run(mut self, path: &[u8]) -> Result<InodeNumber> {
        self.rest = path.to_vec();
        while let Some(component) = self.next_component() {
            let outcome = self.enter(&component);
            if let Err(error) = outcome {
                return Err(self.explain(error, &component.name));
            }
        }
        Ok(self.current_dir())
    }

    fn current_dir(&self) -> InodeNumber {
        self.steps.last().map_or(self.start, |step| step.inode)
    }

    /// Removes the next name from the rest of the path.
    fn next_component(&mut self) -> Option<Component> {
        let start = self.rest.iter().position(|&byte| byte != b'/')?;
        let from_start = self.rest.split_off(start);
        let end = from_start.iter().position(|&byte| byte == b'/');
        let (name, rest) = from_start.split_at(end.unwrap_or(from_start.len()));
        self.rest = rest.to_vec();
        Some(Component {
            name: name.to_vec(),
            place: match () {
                () if rest.is_empty() => ComponentPosition::Last,
                () if rest.iter().all(|&byte| byte == b'/') => ComponentPosition::LastWithSlash,
                () => ComponentPosition::Within,
            },
        })
    }

    fn enter(&mut self, component: &Component) -> Result<()> {
        let name = component.name.as_slice();
        match name {
            b"." => return self.require_directory(self.current_dir()),
            b".." => {
                self.require_directory(self.current_dir())?;
                if self.steps.pop().is_none() {
                    self.leave_start()?;
                }
                return Ok(());
            }
            _ if name.len() > NAME_MAX_BYTES => {
                return Err(Error::new(
                    ErrorKind::NameTooLong,
                    format!(
                        "the name is too long: {} bytes, at most {NAME_MAX_BYTES}",
                        name.len()
                    ),
                ));
            }
            _ => {}
        }
        let inode = self.fs.lookup(self.current_dir(), name)?;
        if component.place == ComponentPosition::Last && self.follow == Follow::AllButLast {
            self.step(name, inode);
            return Ok(());
        }
        match self.fs.metadata(inode)?.file_type {
            FileType::Symlink => return self.follow_link(inode),
            FileType::Directory => {}
            _ if component.place == ComponentPosition::Last => {}
            _ => return Err(ErrorKind::NotADirectory.into()),
        }
        self.step(name, inode);
        Ok(())
    }

    /// Goes to the parent of the start.
    fn leave_start(&self) -> Result<()> {
        match self.outside {
            Outside::IsTheRoot => Ok(()),
            Outside::Refused => Err(Error::new(
                ErrorKind::Denied,
                "the path leads out of the destination directory",
            )),
        }
    }

    fn step(&mut self, name: &[u8], inode: InodeNumber) {
        self.steps.push(PathLevel {
            name: name.to_vec(),
            inode,
        });
    }

    fn require_directory(&self, inode: InodeNumber) -> Result<()> {
        if self.fs.metadata(inode)?.is_dir() {
            Ok(())
        } else {
            Err(ErrorKind::NotADirectory.into())
        }
    }

    /// Puts the link's target in front of the rest of the path.
    fn follow_link(&mut self, link: InodeNumber) -> Result<()> {
        self.links = self.links.saturating_add(1);
        if self.links > MAX_SYMLINKS {
            return Err(ErrorKind::TooManyLinks.into());
        }
        let mut target = self.fs.read_link(link)?;
        if target.is_empty() {
            return Err(ErrorKind::NotFound.into());
        }
        check(&target)?;
        if target.starts_with(b"/") {
            self.leave_start()?;
            self.steps.clear();
        }
        target.extend_from_slice(&self.rest);
        self.rest = target;
        Ok(())
    }

    /// Adds the place to an error after a symlink was followed: then the original path no longer
    /// says where it failed.
    fn explain(&self, error: Error, name: &[u8]) -> Error {
        if self.links == 0 || error.kind() == ErrorKind::TooManyLinks {
            return error;
        }
        let mut place = Vec::new();
        for part in self
            .steps
            .iter()
            .map(|step| step.name.as_slice())
            .chain([name])
        {
            place.push(b'/');
            place.extend_from_slice(part);
        }
        let place = String::from_utf8_lossy(&place).escape_debug().to_string();
        Error::new(
            error.kind(),
            format!("symlink leads to {place}: {}", error.reason()),
        )
        .with_source(error)
    }
}

struct Component {
    name: Vec<u8>,
    place: ComponentPosition,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ComponentPosition {
    Within,
    Last,
    /// The last name, followed by a slash: it must be a directory.
    LastWithSlash,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MemoryFs;

    #[test]
    fn parents_have_names_in_them() {
        let fs = tree();
        let bin = resolve(&fs, "/usr/bin", Follow::All).unwrap();
        for path in ["/usr/bin/new", "usr/bin/new/", "/usr//bin/../bin/new//"] {
            assert_eq!(
                resolve_parent(&fs, path).unwrap(),
                (bin, b"new".to_vec()),
                "{path}"
            );
        }
        assert_eq!(
            resolve_parent(&fs, "new").unwrap(),
            (fs.root(), b"new".to_vec())
        );
        for path in ["/", "", "/usr/.", "/usr/..", ".."] {
            let error = resolve_parent(&fs, path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{path}");
        }
        let error = resolve_parent(&fs, "/no/new").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn links_to_nothing_say_where_it_would_be() {
        let mut fs = MemoryFs::new();
        fs.dir("/a/b");
        fs.symlink("/a/up", "../new");
        fs.symlink("/a/b/twice", "../up");
        fs.symlink("/a/loop", "loop");
        fs.symlink("/abs", "/a/b/new");
        let followed =
            |path: &str| follow_last(&fs, path).map(|path| String::from_utf8(path).unwrap());
        assert_eq!(followed("/a/b/plain").unwrap(), "/a/b/plain");
        assert_eq!(followed("/a/b/twice").unwrap(), "/a/b/../../new");
        assert_eq!(followed("abs").unwrap(), "/a/b/new");
        let looped = followed("/a/loop").unwrap_err();
        assert_eq!(looped.kind(), ErrorKind::TooManyLinks);
        assert_eq!(followed("/no/x").unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn nothing_leads_out_of_a_start_that_is_not_the_root() {
        let mut fs = MemoryFs::new();
        let inner = fs.dir("/a/inner");
        let a = fs.dir("/a");
        fs.symlink("/a/up", "..");
        fs.symlink("/a/near", "inner/../inner");
        fs.symlink("/a/root", "/a/inner");
        let kind = |path: &str| {
            resolve_beneath(&fs, a, path, Follow::All)
                .unwrap_err()
                .kind()
        };
        assert_eq!(resolve_beneath(&fs, a, "near", Follow::All).unwrap(), inner);
        for path in ["..", "up", "inner/../..", "root", "up/a"] {
            assert_eq!(kind(path), ErrorKind::Denied, "{path}");
        }
        let whole = resolve_beneath(&fs, fs.root(), "a/root", Follow::All);
        assert_eq!(whole.unwrap(), inner);
    }

    fn tree() -> MemoryFs {
        let mut fs = MemoryFs::new();
        fs.dir("/usr/bin");
        fs.file("/usr/bin/true", b"#!");
        fs.symlink("/bin", "usr/bin");
        fs.symlink("/usr/up", "..");
        fs.symlink("/usr/bin/sh", "/bin/true");
        fs.symlink("/dangling", "/usr/nothing");
        fs.symlink("/loop", "/loop");
        fs.symlink("/file-slash", "/usr/bin/true/");
        fs
    }

    fn find(fs: &MemoryFs, path: &str) -> Result<InodeNumber> {
        resolve(fs, path, Follow::All)
    }

    fn kind(fs: &MemoryFs, path: impl AsRef<[u8]>) -> ErrorKind {
        resolve(fs, path, Follow::All).unwrap_err().kind()
    }

    #[test]
    fn many_ways_lead_to_one_file() {
        let fs = tree();
        let wanted = find(&fs, "/usr/bin/true").unwrap();
        for path in [
            "usr/bin/true",
            "//usr///bin/./true",
            "/bin/true",
            "/bin/sh",
            "/usr/bin/sh",
            "/../../usr/bin/true",
            "/usr/up/usr/up/bin/../bin/sh",
        ] {
            assert_eq!(find(&fs, path).unwrap(), wanted, "{path}");
        }
    }

    #[test]
    fn the_root_has_many_names() {
        let fs = tree();
        for path in [
            "",
            "/",
            "//",
            ".",
            "..",
            "/usr/..",
            "/usr/up",
            "/usr/bin/../up/",
        ] {
            assert_eq!(find(&fs, path).unwrap(), fs.root(), "{path}");
        }
    }

    #[test]
    fn parent_of_a_link_is_the_parent_of_its_target() {
        let fs = tree();
        assert_eq!(find(&fs, "/bin/..").unwrap(), find(&fs, "/usr").unwrap());
    }

    #[test]
    fn the_last_link_is_left_alone_unless_a_slash_follows() {
        let fs = tree();
        let link = resolve(&fs, "/bin", Follow::AllButLast).unwrap();
        assert_eq!(fs.metadata(link).unwrap().file_type, FileType::Symlink);
        let through = resolve(&fs, "/bin/", Follow::AllButLast).unwrap();
        assert_eq!(through, find(&fs, "/usr/bin").unwrap());
        assert!(resolve(&fs, "/dangling", Follow::AllButLast).is_ok());
        assert!(resolve(&fs, "/loop", Follow::AllButLast).is_ok());
    }

    #[test]
    fn a_file_is_no_directory() {
        let fs = tree();
        for path in [
            "/usr/bin/true/",
            "/usr/bin/true/.",
            "/usr/bin/true/..",
            "/usr/bin/true/x",
        ] {
            assert_eq!(kind(&fs, path), ErrorKind::NotADirectory, "{path}");
        }
        assert_eq!(kind(&fs, "/file-slash"), ErrorKind::NotADirectory);
    }

    #[test]
    fn limits_hold() {
        let fs = tree();
        assert_eq!(kind(&fs, "/loop"), ErrorKind::TooManyLinks);
        assert_eq!(kind(&fs, "x".repeat(256)), ErrorKind::NameTooLong);
        assert_eq!(kind(&fs, "x".repeat(255)), ErrorKind::NotFound);
        assert_eq!(kind(&fs, "/".repeat(4096)), ErrorKind::NameTooLong);
        assert_eq!(find(&fs, &"/".repeat(4095)).unwrap(), fs.root());
        assert_eq!(kind(&fs, "/usr\0"), ErrorKind::Invalid);
    }

    #[test]
    fn forty_links_are_followed_and_not_one_more() {
        let mut fs = MemoryFs::new();
        fs.file("/l0", b"end");
        for n in 1..=41 {
            fs.symlink(&format!("/l{n}"), &format!("l{}", n - 1));
        }
        assert!(find(&fs, "/l40").is_ok());
        assert_eq!(kind(&fs, "/l41"), ErrorKind::TooManyLinks);
    }

    #[test]
    fn errors_say_which_path_and_where_the_link_led() {
        let fs = tree();
        let error = find(&fs, "/no/such").unwrap_err();
        assert_eq!(error.to_string(), "/no/such: no such file or directory");
        let error = find(&fs, "/dangling").unwrap_err();
        assert_eq!(
            error.to_string(),
            "/dangling: symlink leads to /usr/nothing: no such file or directory"
        );
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_a_model_where_there_are_no_links(
            parts in proptest::collection::vec("(a|b|file|\\.|\\.\\.|none)", 0..8)
        ) {
            let mut fs = MemoryFs::new();
            fs.dir("/a/b/a");
            fs.file("/a/file", b"");
            fs.file("/a/b/file", b"");
            let exists = |at: &[&str]| {
                matches!(at, [] | ["a"] | ["a", "b" | "file"] | ["a", "b", "a" | "file"])
            };
            let mut at: Vec<&str> = vec![];
            let mut found = true;
            for part in &parts {
                // Everything after a file fails, even `.` and `..`.
                found &= at.last() != Some(&"file");
                match part.as_str() {
                    "." => {}
                    ".." => { at.pop(); }
                    name => at.push(name),
                }
                found &= exists(&at);
                if !found { break; }
            }
            let path = parts.join("/");
            proptest::prop_assert_eq!(find(&fs, &path).is_ok(), found, "{}", path);
        }
    }
}
