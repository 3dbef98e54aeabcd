//! The gate for files that an image names.
//!
//! A backing file or an external data file is a path inside a file that somebody else wrote. It is
//! opened only when the gate lets it through: a plain path (no `json:`, no `nbd:`) to a regular
//! file below the image's own directory, or below a directory that the user added.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use diskfs_block::{Error, ErrorKind, File, Result};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Which files an image may name.
///
/// By default those below the image's own directory, symbolic links resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate(Policy);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Policy {
    Closed,
    /// Below the image's own directory, or below one of these.
    Below(Vec<PathBuf>),
}

impl Default for Gate {
    fn default() -> Self {
        Self(Policy::Below(Vec::new()))
    }
}

impl Gate {
    /// Lets nothing through: an image that names another file is refused.
    #[must_use]
    pub const fn closed() -> Self {
        Self(Policy::Closed)
    }

    /// Also lets through what is below `dir`. Opens a closed gate for `dir` and the image's own
    /// directory.
    #[must_use]
    pub fn allow(self, dir: impl Into<PathBuf>) -> Self {
        let mut dirs = match self.0 {
            Policy::Closed => Vec::new(),
            Policy::Below(dirs) => dirs,
        };
        dirs.push(dir.into());
        Self(Policy::Below(dirs))
    }

    /// Opens the file that `image` names as `name`. `role` says what for.
    pub(crate) fn open(
        &self,
        image: &Path,
        name: &[u8],
        role: &str,
        access: Access,
    ) -> Result<File> {
        let request = Request {
            image,
            name,
            role,
            access,
        };
        match &self.0 {
            Policy::Closed => Err(request.denied("the gate is closed", CLOSED_HINT)),
            Policy::Below(dirs) => request.open_below(dirs),
        }
    }
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

impl Access {
    const fn flags(self) -> OFlags {
        match self {
            Self::Read => OFlags::RDONLY,
            Self::ReadWrite => OFlags::RDWR,
        }
    }
}

const CLOSED_HINT: &str = "leave out --no-backing to open it";
const PROTOCOL_HINT: &str = "give the image a plain path with `qemu-img rebase -u`";

struct Request<'a> {
    image: &'a Path,
    name: &'a [u8],
    role: &'a str,
    access: Access,
}

impl Request<'_> {
    fn shown_name(&self) -> String {
        String::from_utf8_lossy(self.name)
            .escape_debug()
            .to_string()
    }

    fn denied(&self, why: &str, hint: impl Into<std::borrow::Cow<'static, str>>) -> Error {
        let reason = format!("{} `{}` is not opened: {why}", self.role, self.shown_name());
        Error::new(ErrorKind::Denied, reason)
            .in_file(self.image)
            .hint(hint)
    }

    /// The name as a path below the image's directory, or absolute. QEMU takes what precedes a
    /// colon for a protocol unless there is a slash before it.
    fn plain_path(&self) -> Result<&Path> {
        if self.name.contains(&0) {
            let reason = format!("{}'s name contains a zero byte", self.role);
            return Err(Error::corrupt(reason).in_file(self.image));
        }
        let prefix_end = self.name.iter().position(|&b| b == b':' || b == b'/');
        match prefix_end.and_then(|at| self.name.split_at_checked(at)) {
            Some((b"json", rest)) if rest.starts_with(b":") => {
                Err(self.denied("it is a json: description, not a plain path", PROTOCOL_HINT))
            }
            Some((protocol, rest)) if rest.starts_with(b":") => {
                let shown = String::from_utf8_lossy(protocol).escape_debug().to_string();
                let why = format!("`{shown}:` is a protocol, not a plain path");
                Err(self.denied(&why, PROTOCOL_HINT))
            }
            _ => Ok(Path::new(OsStr::from_bytes(self.name))),
        }
    }

    fn open_below(&self, dirs: &[PathBuf]) -> Result<File> {
        let own_dir = self.image.parent().unwrap_or(Path::new(""));
        let named = own_dir.join(self.plain_path()?);
        let roots = roots(own_dir, dirs);
        // The kernel resolves links here; below, nothing but real directories is walked.
        let real = match named.canonicalize() {
            Ok(real) => real,
            Err(e) => return Err(self.cannot_resolve(e, &named, &roots)),
        };
        let Some((root, rest)) = below_any(&real, &roots) else {
            return Err(self.outside(&real));
        };
        let fd =
            open_beneath(root, rest, self.access).map_err(|e| Error::from(e).in_file(&named))?;
        self.check_regular(&fd)?;
        File::from_fd(fd, named)
    }

    /// Whether a file exists outside the gate is nothing to tell an image's author.
    fn cannot_resolve(&self, e: std::io::Error, named: &Path, roots: &[PathBuf]) -> Error {
        let lexical = std::path::absolute(named).map_or_else(|_| named.to_owned(), |p| lexical(&p));
        if below_any(&lexical, roots).is_none() {
            return self.outside(&lexical);
        }
        let what = Error::from(e);
        Error::new(
            what.kind(),
            format!("{} `{}`: {}", self.role, self.shown_name(), what.reason()),
        )
        .in_file(self.image)
        .hint("put it there, or have the image name another with `qemu-img rebase -u`")
    }

    fn outside(&self, real: &Path) -> Error {
        let dir = real.parent().unwrap_or(real).display();
        self.denied(
            "it is not below the image's own directory",
            format!("give --allow-backing {dir} if the image may read it"),
        )
    }

    fn check_regular(&self, fd: &OwnedFd) -> Result<()> {
        let stat = rustix::fs::fstat(fd)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(()),
            _ => Err(self.denied("it is not a regular file", "name a regular file")),
        }
    }
}

/// The directories to open below, as they really are; those that are not there let nothing through.
fn roots(own_dir: &Path, dirs: &[PathBuf]) -> Vec<PathBuf> {
    std::iter::once(own_dir)
        .chain(dirs.iter().map(PathBuf::as_path))
        .map(|dir| {
            if dir.as_os_str().is_empty() {
                Path::new(".")
            } else {
                dir
            }
        })
        .filter_map(|dir| dir.canonicalize().ok())
        .collect()
}

/// The root that `path` is below, and the rest of it from there.
fn below_any<'a>(path: &'a Path, roots: &'a [PathBuf]) -> Option<(&'a Path, &'a Path)> {
    roots
        .iter()
        .find_map(|root| Some((root.as_path(), path.strip_prefix(root).ok()?)))
        .filter(|(_, rest)| !rest.as_os_str().is_empty())
}

/// `path` without `.` and `..`, by its letters only.
fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

const FILE_FLAGS: OFlags = OFlags::CLOEXEC
    // A FIFO would wait for its other end.
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW);

/// Opens `rest` below `root`. Both were resolved, so no link is followed: if one has appeared
/// since, opening fails, and what is opened is below `root` whatever else happens meanwhile.
fn open_beneath(root: &Path, rest: &Path, access: Access) -> std::result::Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags, Mode::empty())?;
    let file_flags = FILE_FLAGS | access.flags();
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(&root, rest, file_flags, Mode::empty(), resolve) {
        // Linux before 5.6, or a sandbox that does not know it.
        Err(Errno::NOSYS | Errno::PERM) => walk_beneath(root, rest, access),
        other => other,
    }
}

/// The same, one component at a time.
fn walk_beneath(root: OwnedFd, rest: &Path, access: Access) -> std::result::Result<OwnedFd, Errno> {
    let mut dir = root;
    let mut components = rest.components().peekable();
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else {
            return Err(Errno::XDEV);
        };
        if components.peek().is_none() {
            let flags = FILE_FLAGS | access.flags();
            return rustix::fs::openat(dir.as_fd(), name, flags, Mode::empty());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        dir = rustix::fs::openat(dir.as_fd(), name, flags, Mode::empty())?;
    }
    Err(Errno::ISDIR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn root_of(dir: &Path) -> OwnedFd {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(dir, flags, Mode::empty()).unwrap()
    }

    fn contents(fd: OwnedFd) -> String {
        let mut text = String::new();
        std::fs::File::from(fd).read_to_string(&mut text).unwrap();
        text
    }

    /// Both ways to open follow no link that has appeared since the name was resolved.
    #[test]
    fn links_are_not_followed_below_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("sub/file"), "inside").unwrap();
        std::fs::write(outside.path().join("file"), "outside").unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("sub/file", dir.path().join("near")).unwrap();
        let walk = |rest: &str| walk_beneath(root_of(dir.path()), Path::new(rest), Access::Read);
        let direct = |rest: &str| open_beneath(dir.path(), Path::new(rest), Access::Read);
        assert_eq!(contents(walk("sub/file").unwrap()), "inside");
        assert_eq!(contents(direct("sub/file").unwrap()), "inside");
        for rest in [
            "link/file",
            "near",
            "sub/../../x",
            "/etc/passwd",
            "sub/none",
            "",
        ] {
            assert!(walk(rest).is_err(), "{rest}");
            assert!(direct(rest).is_err(), "{rest}");
        }
    }

    #[test]
    fn a_prefix_of_a_name_is_not_a_directory_above_it() {
        let roots = [PathBuf::from("/images")];
        assert!(below_any(Path::new("/images/a/b"), &roots).is_some());
        assert!(below_any(Path::new("/images2/a"), &roots).is_none());
        assert!(below_any(Path::new("/images"), &roots).is_none());
        assert_eq!(lexical(Path::new("/a/./b/../../../c")), Path::new("/c"));
    }
}
