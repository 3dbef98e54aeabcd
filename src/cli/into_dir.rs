//! The destination of copies, moves and links: a new name, or a directory.

use diskfs::vfs::{self, Follow, resolve};
use diskfs::{Error, ErrorKind, Result};

use super::show::name::join;
use super::target::TargetPlace;

/// The destination of one or several files.
#[derive(Debug, Clone)]
pub(crate) enum Destination {
    /// The new name itself.
    Name(TargetPlace),
    /// An existing directory, in which each file keeps its own name.
    Directory(TargetPlace),
}

impl Destination {
    /// Finds out what `place` is as the destination of `count` files. A slash after the path, or
    /// several files, require an existing directory. With `as_name` it is always a name.
    pub(crate) fn find(place: TargetPlace, count: usize, as_name: AsName) -> Result<Self> {
        let wants_directory = count > 1 || place.path.ends_with(b"/");
        if as_name == AsName::Yes {
            if count > 1 {
                let reason = "several files can only be put into a directory, not under one name";
                return Err(Error::new(ErrorKind::Invalid, reason));
            }
            return Ok(Self::Name(place));
        }
        let found = resolve(place.fs(), &place.path, Follow::All)
            .and_then(|inode| place.fs().metadata(inode));
        match found {
            Ok(metadata) if metadata.is_dir() => Ok(Self::Directory(place)),
            Ok(_) if wants_directory => {
                let error = vfs::Error::from(vfs::ErrorKind::NotADirectory);
                Err(place.error(error.in_path(&place.path)))
            }
            Err(error) if wants_directory => Err(place.error(error)),
            // If the path cannot be examined, creating something there reports why.
            Ok(_) | Err(_) => Ok(Self::Name(place)),
        }
    }

    /// Returns the destination of a file that is called `name` at its source.
    pub(crate) fn for_name(&self, name: &[u8]) -> TargetPlace {
        match self {
            Self::Name(place) => place.clone(),
            Self::Directory(place) => place.at(join(&place.path, name)),
        }
    }
}

/// The choice to treat a destination as a name even if it is an existing directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AsName {
    IfNoDirectory,
    Yes,
}

impl From<bool> for AsName {
    /// Converts the option `-T`.
    fn from(given: bool) -> Self {
        if given {
            Self::Yes
        } else {
            Self::IfNoDirectory
        }
    }
}

/// Returns the last name of a path, or `None` for the root and for paths that end in `.` or `..`.
pub(crate) fn base_name(path: &[u8]) -> Option<&[u8]> {
    let mut names = path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty());
    names
        .next_back()
        .filter(|name| *name != b"." && *name != b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_has_no_name() {
        for (path, name) in [
            ("/etc/fstab", Some("fstab")),
            ("/etc/", Some("etc")),
            ("/", None),
            ("", None),
            ("/etc/..", None),
        ] {
            assert_eq!(
                base_name(path.as_bytes()),
                name.map(str::as_bytes),
                "{path}"
            );
        }
    }
}
