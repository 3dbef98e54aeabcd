//! The files of a layout: in a directory, or in a tar archive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_disk::{Error, ErrorKind, Result};

use crate::digest::{Digest, mismatch};
use crate::layer::{Layer, Range, spool};
use crate::{Archive, MemberKind, unpack};

/// The limit on a JSON document, as in containerd.
const DOCUMENT_MAX_BYTES: u64 = 8 << 20;

/// The limit on the members of an archive: a layout has a few for each layer.
const MAX_MEMBERS: usize = 100_000;

/// The limit on the members before the first one of a layout: an archive of files is given up after
/// them.
const MAX_OTHERS: usize = 64;

/// The limit on symlinks from member to member: Docker wrote one for a layer that it had stored.
const MAX_SYMLINKS: usize = 8;

/// The files of a layout.
#[derive(Debug)]
pub(super) enum Store {
    /// A directory, by its canonical path.
    Directory(PathBuf),
    /// A tar archive with the files of the layout.
    Archive {
        path: PathBuf,
        file: Arc<File>,
        members: BTreeMap<String, Stored>,
    },
}

/// A member of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stored {
    /// A regular file: the offset of its contents and their size in bytes.
    File { offset: u64, size_bytes: u64 },
    /// A symlink to another member.
    Symlink(String),
}

impl Store {
    /// Opens a directory or an archive; returns `None` for an archive that is not a layout.
    ///
    /// # Errors
    /// `Io`; `Corrupt` for a damaged archive; `NoSpace` if a pipe or a compressed archive has more
    /// than `limit_bytes`.
    pub(super) fn open(path: &Path, limit_bytes: u64) -> Result<Option<Self>> {
        let metadata = std::fs::metadata(path)?;
        if metadata.is_dir() {
            return Ok(Some(Self::Directory(path.canonicalize()?)));
        }
        let mut file = File::open(path)?;
        let mut size_bytes = metadata.len();
        if !metadata.is_file() {
            (file, size_bytes) = spool(file, limit_bytes)?;
        }
        let mut file = Arc::new(file);
        let mut start = Vec::new();
        Range::new(&file, 0, size_bytes.min(6)).read_to_end(&mut start)?;
        if unpack::is_compressed(&start) {
            let plain = || crate::decompressed(Range::new(&file, 0, size_bytes));
            if !starts_like_a_layout(&mut Archive::new(plain()?)) {
                return Ok(None);
            }
            let (spooled, spooled_bytes) = spool(plain()?, limit_bytes)?;
            (file, size_bytes) = (Arc::new(spooled), spooled_bytes);
        } else {
            let range = Range::new(&file, 0, size_bytes);
            if !starts_like_a_layout(&mut Archive::new(Box::new(range))) {
                return Ok(None);
            }
        }
        let members = members(&file, size_bytes)?;
        Ok(Some(Self::Archive {
            path: path.to_owned(),
            file,
            members,
        }))
    }

    /// Returns true if the layout contains this file.
    pub(super) fn has(&self, name: &str) -> Result<bool> {
        match self.locate(name, None) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            found => found.map(|_| true),
        }
    }

    /// Reads a JSON document.
    ///
    /// # Errors
    /// `NotFound`; `Unsupported` if it is too large; `Io`.
    pub(super) fn document(&self, name: &str) -> Result<Vec<u8>> {
        let (file, offset, size_bytes) = self.locate(name, None)?;
        if size_bytes > DOCUMENT_MAX_BYTES {
            let reason = format!(
                "`{}` is too large: {size_bytes} bytes, at most {DOCUMENT_MAX_BYTES}",
                name.escape_debug()
            );
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        let mut bytes = Vec::new();
        Range::new(&file, offset, size_bytes).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads a JSON document that is a blob, and verifies its size and digest.
    ///
    /// # Errors
    /// As [`document`](Self::document); `Corrupt` for a wrong size or digest.
    pub(super) fn blob_document(&self, digest: &Digest, size_bytes: u64) -> Result<Vec<u8>> {
        self.locate(&blob_name(digest), Some(size_bytes))?;
        let bytes = self.document(&blob_name(digest))?;
        let found = Digest::of(&bytes);
        if found != *digest {
            return Err(mismatch("blob", digest, &found));
        }
        Ok(bytes)
    }

    /// Returns a file as a layer, whose digests are verified when it is read.
    ///
    /// # Errors
    /// `NotFound`; `Corrupt` for a wrong size.
    pub(super) fn layer(
        &self,
        name: &str,
        size_bytes: Option<u64>,
        digest: Option<Digest>,
        diff_id: Digest,
    ) -> Result<Layer> {
        let (file, offset, size_bytes) = self.locate(name, size_bytes)?;
        let shown = match self {
            Self::Directory(path) => path.join(name),
            Self::Archive { path, .. } => PathBuf::from(format!("{}: {name}", path.display())),
        };
        let layer = Layer::part(shown, file, offset, size_bytes);
        Ok(layer.of_image(digest, Some(diff_id)))
    }

    /// Returns the file with the contents of `name`, their offset and their size.
    fn locate(&self, name: &str, expected_bytes: Option<u64>) -> Result<(Arc<File>, u64, u64)> {
        let found = match self {
            Self::Directory(path) => in_directory(path, name)?,
            Self::Archive { file, members, .. } => {
                let (offset, size_bytes) = in_archive(members, name)?;
                (Arc::clone(file), offset, size_bytes)
            }
        };
        if let Some(expected) = expected_bytes.filter(|expected| *expected != found.2) {
            let reason = format!(
                "wrong size of `{}`: expected {expected} bytes, found {}",
                name.escape_debug(),
                found.2
            );
            return Err(Error::new(ErrorKind::Corrupt, reason));
        }
        Ok(found)
    }
}

/// Returns the name of a blob in a layout.
pub(super) fn blob_name(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

fn missing(name: &str) -> Error {
    let reason = format!("the image does not contain `{}`", name.escape_debug());
    Error::new(ErrorKind::NotFound, reason)
}

fn leads_out(name: &str) -> Error {
    let reason = format!("`{}` leads out of the image", name.escape_debug());
    Error::new(ErrorKind::Denied, reason)
}

/// Opens a regular file of a directory. Symlinks must stay in the directory.
fn in_directory(root: &Path, name: &str) -> Result<(Arc<File>, u64, u64)> {
    let plain = plain(name, "").ok_or_else(|| leads_out(name))?;
    let path = match root.join(&plain).canonicalize() {
        Err(error) if is_missing(&error) => return Err(missing(name)),
        path => path?,
    };
    if !path.starts_with(root) {
        return Err(leads_out(name));
    }
    // Opening anything but a regular file could wait forever.
    if !std::fs::metadata(&path)?.is_file() {
        let reason = format!("`{}` is not a regular file", name.escape_debug());
        return Err(Error::new(ErrorKind::Invalid, reason));
    }
    let file = File::open(&path)?;
    let size_bytes = file.metadata()?.len();
    Ok((Arc::new(file), 0, size_bytes))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn in_archive(members: &BTreeMap<String, Stored>, name: &str) -> Result<(u64, u64)> {
    let mut at = plain(name, "").ok_or_else(|| leads_out(name))?;
    for _ in 0..MAX_SYMLINKS {
        match members.get(&at) {
            Some(Stored::File { offset, size_bytes }) => return Ok((*offset, *size_bytes)),
            Some(Stored::Symlink(target)) => {
                let parent = at.rsplit_once('/').map_or("", |(parent, _)| parent);
                at = plain(target, parent).ok_or_else(|| leads_out(name))?;
            }
            None => return Err(missing(name)),
        }
    }
    let reason = format!("too many symlinks at `{}`", name.escape_debug());
    Err(Error::new(ErrorKind::Corrupt, reason))
}

/// Returns the path of `name` from the directory `parent` on, without `.` and `..`; `None` if it is
/// absolute, or leads out of the layout.
fn plain(name: &str, parent: &str) -> Option<String> {
    if name.starts_with('/') {
        return None;
    }
    let mut parts: Vec<_> = parent.split('/').filter(|part| !part.is_empty()).collect();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns true if one of the first members is a file of a layout. An archive that can't be read is
/// something else, which its reader reports.
fn starts_like_a_layout(archive: &mut Archive<'_>) -> bool {
    for _ in 0..MAX_OTHERS {
        let Ok(Some(member)) = archive.next() else {
            return false;
        };
        let name = std::str::from_utf8(&member.name).unwrap_or_default();
        let name = plain(name, "").unwrap_or_default();
        let is_of_layer = name.split_once('/').is_some_and(|(directory, name)| {
            let is_known = matches!(name, "VERSION" | "json" | "layer.tar");
            is_known && Digest::from_hex(directory).is_some()
        });
        let stem = [".json", ".tar"]
            .iter()
            .find_map(|end| name.strip_suffix(end));
        let is_config_or_layer = stem.is_some_and(|stem| Digest::from_hex(stem).is_some());
        let is_blob = name.starts_with("blobs/sha256/");
        let is_top = matches!(&*name, "oci-layout" | "manifest.json");
        if is_of_layer || is_config_or_layer || is_blob || is_top {
            return true;
        }
    }
    false
}

/// Lists the members of an archive. Their contents are not read.
fn members(file: &Arc<File>, size_bytes: u64) -> Result<BTreeMap<String, Stored>> {
    let mut members = BTreeMap::new();
    let mut at: u64 = 0;
    loop {
        let range = Range::new(file, at, size_bytes.saturating_sub(at));
        let mut archive = Archive::with_buffer(Box::new(range), 4096);
        let Some(member) = archive.next()? else {
            return Ok(members);
        };
        let offset = at.saturating_add(archive.position());
        let end = offset.checked_add(member.stored_bytes);
        let end = end.and_then(|end| end.checked_next_multiple_of(512));
        let is_cut = offset.saturating_add(member.stored_bytes) > size_bytes;
        let Some(end) = end.filter(|_| !is_cut) else {
            return Err(crate::damage::cut_short());
        };
        at = end.min(size_bytes);
        let name = std::str::from_utf8(&member.name).ok();
        let Some(name) = name.and_then(|name| plain(name, "")) else {
            continue;
        };
        let stored = match member.kind {
            MemberKind::Regular if member.runs.is_none() => Stored::File {
                offset,
                size_bytes: member.stored_bytes,
            },
            MemberKind::Symlink(target) => {
                Stored::Symlink(String::from_utf8_lossy(&target).into_owned())
            }
            // A hard link names a member from the root of the archive.
            MemberKind::HardLink(target) => {
                let target = String::from_utf8_lossy(&target).into_owned();
                let target = plain(&target, "").and_then(|target| members.get(&target).cloned());
                match target {
                    Some(stored) => stored,
                    None => continue,
                }
            }
            _ => continue,
        };
        if members.len() >= MAX_MEMBERS {
            let reason = format!("too many members in the image, at most {MAX_MEMBERS}");
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        members.insert(name, stored);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_layout() {
        assert_eq!(plain("./a//b", "").unwrap(), "a/b");
        assert_eq!(plain("../c/layer.tar", "a").unwrap(), "c/layer.tar");
        for (name, parent) in [("/etc/passwd", ""), ("..", ""), ("../../x", "a")] {
            assert_eq!(plain(name, parent), None);
        }
    }

    #[test]
    fn symlinks_between_members_end() {
        let link = |target: &str| Stored::Symlink(target.into());
        let file = Stored::File {
            offset: 512,
            size_bytes: 3,
        };
        let members: BTreeMap<String, Stored> = [
            ("a/layer.tar", link("../b/layer.tar")),
            ("b/layer.tar", file),
            ("x", link("x")),
            ("y", link("/etc/passwd")),
        ]
        .map(|(name, stored)| (name.to_owned(), stored))
        .into();
        assert_eq!(in_archive(&members, "a/layer.tar").unwrap(), (512, 3));
        for (name, kind) in [
            ("x", ErrorKind::Corrupt),
            ("y", ErrorKind::Denied),
            ("z", ErrorKind::NotFound),
            ("../z", ErrorKind::Denied),
        ] {
            assert_eq!(in_archive(&members, name).unwrap_err().kind(), kind);
        }
    }
}
