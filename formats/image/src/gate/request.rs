//! A request to open a file that an image names: from the bytes of the name to an open file.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use diskfs_block::{Error, ErrorKind, File, Result};
use rustix::fs::{FileType, Stat};

use super::beneath::open_checked;
use super::{Access, Gate, NamedFor, Namer, Policy};
use crate::uri;

const CLOSED_HINT: &str = "omit --no-backing (in the configuration: `backing = \"none\"`) to open it, or use --allow-backing DIR";

/// A request of an image to open a file.
pub(super) struct Request<'a> {
    pub(super) gate: &'a Gate,
    pub(super) image: Namer<'a>,
    pub(super) name: &'a [u8],
    pub(super) what: NamedFor,
    pub(super) access: Access,
}

/// A directory below which files may be opened, and the reason.
pub(super) struct Root {
    /// The resolved path of the directory.
    pub(super) dir: PathBuf,
    pub(super) reason: Reason,
}

/// The reason why the gate allows a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The user allowed the file itself.
    File,
    /// The user or the policy allowed a directory above it.
    Directory,
    /// The file is below the image's own directory.
    Beside,
}

/// A file that the gate may allow.
struct CandidateFile<'a> {
    root: &'a Path,
    rest: &'a Path,
    reason: Reason,
}

impl CandidateFile<'_> {
    /// Returns true if the file or one of its directories below the root is a dot file.
    fn is_hidden(&self) -> bool {
        let is_hidden = |part: Component<'_>| part.as_os_str().as_bytes().starts_with(b".");
        self.rest.components().any(is_hidden)
    }
}

impl Request<'_> {
    pub(super) fn open(&self) -> Result<File> {
        self.check_open()?;
        self.open_path(self.own_dir().join(self.plain_path()?))
    }

    /// Fails if no file may be named at all.
    pub(super) fn check_open(&self) -> Result<()> {
        if self.gate.is_closed() {
            return Err(self.denied("the gate is closed", CLOSED_HINT));
        }
        Ok(())
    }

    /// Opens the file with this path, if the gate allows it.
    pub(super) fn open_path(&self, named: PathBuf) -> Result<File> {
        let roots = self.roots(self.own_dir());
        // The kernel resolves links here; below the root only real directories are walked.
        let real = match named.canonicalize() {
            Ok(real) => real,
            Err(e) => return Err(self.cannot_resolve(e, &named, &roots)),
        };
        let found = self.find(&real, &roots)?;
        self.check_name(&found)?;
        let fd = open_checked(found.root, found.rest, self.access, |stat| {
            self.check_file(stat, found.reason).map_err(Refused::Gate)
        });
        let fd = fd.map_err(|refused| refused.in_file(&named))?;
        File::from_fd(fd, named)
    }

    pub(super) fn own_dir(&self) -> &Path {
        self.image.path.parent().unwrap_or(Path::new(""))
    }

    fn shown_name(&self) -> String {
        self.what.shown(self.name)
    }

    const fn plain_hint(&self) -> &'static str {
        match self.what {
            NamedFor::Backing | NamedFor::Data => {
                "give the image a plain path with `qemu-img rebase -u`"
            }
            NamedFor::Parent | NamedFor::ParentByIds | NamedFor::Extent | NamedFor::Blob => {
                self.what.rename_hint()
            }
        }
    }

    fn denied(&self, why: &str, hint: impl Into<Cow<'static, str>>) -> Error {
        let what = self.what.noun();
        let reason = format!("refusing to open {what} `{}`: {why}", self.shown_name());
        Error::new(ErrorKind::Denied, reason)
            .in_file(self.image.path)
            .with_hint(hint)
    }

    /// Returns the name as a path: absolute, or relative to the image's directory. As in QEMU, the
    /// part before a colon is a protocol unless a slash precedes the colon.
    fn plain_path(&self) -> Result<&Path> {
        if self.name.contains(&0) {
            let reason = format!(
                "invalid name of the {}: it contains a NUL byte",
                self.what.noun()
            );
            return Err(Error::corrupt(reason).in_file(self.image.path));
        }
        let prefix_end = self.name.iter().position(|&b| b == b':' || b == b'/');
        match prefix_end.and_then(|at| self.name.split_at_checked(at)) {
            Some((b"json", rest)) if rest.starts_with(b":") => Err(self.denied(
                "it is a json: description, not a plain path",
                self.plain_hint(),
            )),
            Some((protocol, rest)) if rest.starts_with(b":") => {
                let shown = String::from_utf8_lossy(protocol).escape_debug().to_string();
                let why = format!("`{shown}:` is a protocol, not a plain path");
                let hint = self
                    .remote_hint()
                    .unwrap_or_else(|| self.plain_hint().into());
                Err(self.denied(&why, hint))
            }
            _ => Ok(Path::new(OsStr::from_bytes(self.name))),
        }
    }

    /// Returns the way to use an overlay of an image on another machine.
    fn remote_hint(&self) -> Option<Cow<'static, str>> {
        let is_backing = self.what == NamedFor::Backing;
        let name = is_backing.then(|| Path::new(OsStr::from_bytes(self.name)));
        let uri = name.and_then(uri::of)?.escape_debug();
        let image = self.image.path.display();
        let hint = format!("name both: `diskfs mount --overlay {image} {uri} MOUNTPOINT`");
        Some(hint.into())
    }

    /// Returns the resolved directories below which files may be opened. Missing directories allow
    /// nothing. Directories that the user named precede the image's own directory.
    pub(super) fn roots(&self, own_dir: &Path) -> Vec<Root> {
        let named = |dir: &PathBuf| (dir.clone(), Reason::Directory);
        let mut dirs: Vec<_> = self.gate.allowed.iter().map(named).collect();
        if self.access == Access::Read {
            match &self.gate.policy {
                Policy::Closed => {}
                Policy::Beside => dirs.push((own_dir.to_owned(), Reason::Beside)),
                Policy::Below(policy) => dirs.extend(policy.iter().map(named)),
            }
        }
        dirs.into_iter()
            .filter_map(|(dir, reason)| {
                let dir = real_dir(&dir)?;
                Some(Root { dir, reason })
            })
            .collect()
    }

    /// Returns the root below which `real` is, if it may be opened.
    fn find<'p>(&self, real: &'p Path, roots: &'p [Root]) -> Result<CandidateFile<'p>> {
        let files = match self.access {
            Access::Read => [&self.gate.files[..], &self.gate.data_files[..]],
            Access::ReadWrite => [&[][..], &self.gate.data_files[..]],
        };
        let is_named = |file: &PathBuf| file.canonicalize().is_ok_and(|file| file == real);
        if files.into_iter().flatten().any(is_named)
            && let (Some(dir), Some(name)) = (real.parent(), real.file_name())
        {
            return Ok(CandidateFile {
                root: dir,
                rest: Path::new(name),
                reason: Reason::File,
            });
        }
        below_any(real, roots).ok_or_else(|| {
            let own = CandidateFile {
                root: Path::new(""),
                rest: real.file_name().map_or(real, Path::new),
                reason: Reason::Beside,
            };
            // No option allows a file with such a name.
            let refused = self.check_name(&own).err();
            refused.unwrap_or_else(|| self.outside(real))
        })
    }

    /// Hides from an image's author whether a file exists outside the gate.
    fn cannot_resolve(&self, e: std::io::Error, named: &Path, roots: &[Root]) -> Error {
        let lexical = std::path::absolute(named).map_or_else(|_| named.to_owned(), |p| lexical(&p));
        let is_named = self.gate.data_files.iter().any(|file| file == named);
        if below_any(&lexical, roots).is_none() && !is_named {
            return self.outside(&lexical);
        }
        let what = Error::from(e);
        let noun = self.what.noun();
        let reason = format!("{noun} `{}`: {}", self.shown_name(), what.reason());
        Error::new(what.kind(), reason)
            .in_file(self.image.path)
            .with_hint(format!("create that file, or {}", self.what.rename_hint()))
    }

    fn outside(&self, real: &Path) -> Error {
        let dir = real.parent().unwrap_or(real).display();
        if self.access == Access::ReadWrite {
            let hint = format!(
                "use --data-file {} if the image may write to it",
                real.display()
            );
            return self.denied(
                "an image cannot choose by itself which files are written",
                hint,
            );
        }
        let why = match self.gate.policy {
            Policy::Below(_) => "it is not below a directory that the configuration names",
            Policy::Closed => "it is not below a directory that is allowed",
            Policy::Beside => "it is not below the image's own directory",
        };
        self.denied(
            why,
            format!("use --allow-backing {dir} if the image may read it"),
        )
    }

    /// Refuses dot files, which hold keys and shell start-up scripts and are not images. A file
    /// that the user allowed for reading by its own name is accepted.
    fn check_name(&self, found: &CandidateFile<'_>) -> Result<()> {
        let is_named = found.reason == Reason::File && self.access == Access::Read;
        if is_named || !found.is_hidden() {
            return Ok(());
        }
        Err(self.denied(
            "it is a dot file",
            format!("rename it, and {}", self.what.rename_hint()),
        ))
    }

    fn check_file(&self, stat: &Stat, reason: Reason) -> Result<()> {
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(self.denied("it is not a regular file", "use a regular file"));
        }
        if reason == Reason::Beside && self.image.owner != Some(stat.st_uid) {
            let owner = self.image.owner.map_or_else(
                || "the image has no owner".to_owned(),
                |uid| format!("the image belongs to user {uid}"),
            );
            let why = format!("it belongs to user {}, and {owner}", stat.st_uid);
            let dir = self.own_dir();
            let dir = if dir.as_os_str().is_empty() {
                Path::new(".")
            } else {
                dir
            };
            let hint = format!(
                "use --allow-backing {} if the image may read it",
                dir.display()
            );
            return Err(self.denied(&why, hint));
        }
        Ok(())
    }
}

/// The reason why a file was not opened.
enum Refused {
    Gate(Error),
    Kernel(rustix::io::Errno),
}

impl From<rustix::io::Errno> for Refused {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Kernel(errno)
    }
}

impl Refused {
    fn in_file(self, named: &Path) -> Error {
        match self {
            Self::Gate(error) => error,
            Self::Kernel(errno) => Error::from(errno).in_file(named),
        }
    }
}

fn real_dir(dir: &Path) -> Option<PathBuf> {
    let dir = if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    };
    dir.canonicalize().ok()
}

/// Returns the root that contains `path`, and the rest of the path. Directories that the user named
/// are preferred to the image's own directory, and deeper roots to others.
fn below_any<'a>(path: &'a Path, roots: &'a [Root]) -> Option<CandidateFile<'a>> {
    let found = roots.iter().filter_map(|root| {
        Some(CandidateFile {
            root: root.dir.as_path(),
            rest: path.strip_prefix(&root.dir).ok()?,
            reason: root.reason,
        })
    });
    found
        .filter(|found| !found.rest.as_os_str().is_empty())
        .max_by_key(|found| {
            let is_named = found.reason != Reason::Beside;
            (!found.is_hidden(), is_named, found.root.as_os_str().len())
        })
}

/// Removes `.` and `..` from `path` without resolving links.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_of_a_name_is_not_a_directory_above_it() {
        let roots = [Root {
            dir: PathBuf::from("/images"),
            reason: Reason::Beside,
        }];
        assert!(below_any(Path::new("/images/a/b"), &roots).is_some());
        assert!(below_any(Path::new("/images2/a"), &roots).is_none());
        assert!(below_any(Path::new("/images"), &roots).is_none());
        assert_eq!(lexical(Path::new("/a/./b/../../../c")), Path::new("/c"));
    }
}
