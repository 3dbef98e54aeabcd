//! The step `copy-in`: copies local files and directory trees.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::super::guest::Guest;
use super::super::super::stage::Contents;
use super::{Mode, Owner, absolute, ownership};
use diskfs_disk::{Error, ErrorKind, Result};

/// The limit on the depth of a tree: a deeper tree is a mistake, such as a mount on itself.
const MAX_DEPTH: usize = 128;

/// Files up to this size are read into memory, so that the diff shows their text.
const SHOWN_BYTES: u64 = 1 << 20;

/// A local file, directory or symlink, which is copied with everything below it into a directory of
/// the guest, as by `virt-copy-in`. Modes are those of the originals; the owner is root unless
/// `owner` is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CopyIn {
    /// The local path to copy.
    pub from: PathBuf,
    /// The destination directory in the guest, which is created if it is missing.
    pub to: String,
    /// The owner of all copied files and directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
}

impl CopyIn {
    pub(in super::super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let to = absolute(guest, &self.to)?.trim_end_matches('/');
        guest.stage.make_dirs(to, 0o755)?;
        let name = name_of(&self.from)?;
        self.copy(guest, &self.from, &format!("{to}/{name}"), 0)
    }

    fn copy(&self, guest: &mut Guest, from: &Path, to: &str, depth: usize) -> Result<()> {
        let in_place = |error: std::io::Error| Error::from(error).in_file(from);
        if depth > MAX_DEPTH {
            let reason = format!("the directory tree is too deep: at most {MAX_DEPTH} levels");
            return Err(Error::new(ErrorKind::Invalid, reason).in_file(from));
        }
        let metadata = fs::symlink_metadata(from).map_err(in_place)?;
        if metadata.is_symlink() {
            let target = fs::read_link(from).map_err(in_place)?;
            let target = target.to_str().ok_or_else(|| not_text(from))?;
            return guest.stage.symlink(to, target);
        }
        if metadata.is_dir() {
            return self.copy_dir(guest, from, to, depth);
        }
        if !metadata.is_file() {
            guest.note(format!(
                "{} was not copied: not a regular file, directory or symlink",
                from.display()
            ));
            return Ok(());
        }
        put_file(guest, to, Contents::of_host(from)?)?;
        self.set(guest, from, to)
    }

    fn copy_dir(&self, guest: &mut Guest, from: &Path, to: &str, depth: usize) -> Result<()> {
        let in_place = |error: std::io::Error| Error::from(error).in_file(from);
        guest.stage.make_dirs(to, 0o755)?;
        self.set(guest, from, to)?;
        for entry in fs::read_dir(from).map_err(in_place)? {
            let path = entry.map_err(in_place)?.path();
            let name = name_of(&path)?;
            self.copy(guest, &path, &format!("{to}/{name}"), depth + 1)?;
        }
        Ok(())
    }

    fn set(&self, guest: &mut Guest, from: &Path, to: &str) -> Result<()> {
        ownership::set(guest, to, Some(Mode::of_host(from)?), self.owner.as_ref())
    }
}

/// Writes a file. A small one is read into memory.
pub(super) fn put_file(guest: &mut Guest, path: &str, contents: Contents) -> Result<()> {
    let contents = match contents {
        Contents::Host { path, size_bytes } if size_bytes <= SHOWN_BYTES => {
            let bytes = fs::read(&path).map_err(|e| Error::from(e).in_file(&path))?;
            Contents::from(bytes)
        }
        contents => contents,
    };
    guest.stage.write(path, contents)
}

fn name_of(path: &Path) -> Result<&str> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.ok_or_else(|| not_text(path))
}

fn not_text(path: &Path) -> Error {
    Error::new(ErrorKind::Invalid, "the file name is not valid UTF-8").in_file(path)
}
