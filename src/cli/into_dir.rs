//! Where what is copied, moved or linked goes: to a name, or into a directory.

use diskfs::vfs::{self, Follow, resolve};
use diskfs::{Error, ErrorKind, Result};

use super::show::name::join;
use super::target::TargetPlace;

/// Where things go.
#[derive(Debug, Clone)]
pub(crate) enum Destination {
    /// It is the new name itself.
    Name(TargetPlace),
    /// A directory that is there, and takes each under its own name.
    Directory(TargetPlace),
}

impl Destination {
    /// What `place` is for `count` things. A slash behind the path, and several things, ask for a
    /// directory that is there; with `as_name` it is a name in any case.
    pub(crate) fn find(place: TargetPlace, count: usize, as_name: AsName) -> Result<Self> {
        let wants_directory = count > 1 || place.path.ends_with(b"/");
        if as_name == AsName::Yes {
            if count > 1 {
                let reason = "several files go into a directory, not to one name";
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
            // Whatever keeps it from being looked at is said when something is made there.
            Ok(_) | Err(_) => Ok(Self::Name(place)),
        }
    }

    /// The place of something that has this name where it comes from.
    pub(crate) fn for_name(&self, name: &[u8]) -> TargetPlace {
        match self {
            Self::Name(place) => place.clone(),
            Self::Directory(place) => place.at(join(&place.path, name)),
        }
    }
}

/// Whether a destination is a name even when a directory has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AsName {
    IfNoDirectory,
    Yes,
}

impl From<bool> for AsName {
    /// The option `-T`.
    fn from(given: bool) -> Self {
        if given {
            Self::Yes
        } else {
            Self::IfNoDirectory
        }
    }
}

/// The last name of a path; `None` for the root, and for what ends in `.` or `..`.
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
