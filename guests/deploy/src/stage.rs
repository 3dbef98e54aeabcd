//! A guest's tree with what a plan changes in it, in memory.
//!
//! Steps read and change this, never the disk: so what they say of a guest is found before anything is written, a plan
//! that fails half-way has changed nothing, and one whose work is already done has nothing to write.
//!
//! Paths are absolute. Symlinks are followed within the guest, whatever they point at.

mod below;
mod changes;
mod entry;
mod expand;
mod links;
mod part;
mod resolve;
mod same;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use diskfs_vfs::{self as vfs, FileType, Follow};

use super::text;
use diskfs_disk::{Error, ErrorKind, Filesystem, Result};

pub use changes::{Aspect, Change};
pub use entry::{Contents, Entry, Kind};
pub use part::Part;

/// More than any file of settings has.
const SETTINGS_BYTES: u64 = 16 << 20;

/// More names than a directory has that a step looks through.
const MAX_NAMES: usize = 100_000;

/// A guest's tree, and what is changed in it.
#[derive(Debug)]
pub struct Stage {
    guest: Filesystem,
    /// By path without symlinks; the root is "". `None` for what is gone.
    nodes: BTreeMap<String, Option<Entry>>,
    touched: BTreeSet<String>,
    /// The paths that are made one more name of a file, by the file's.
    names: BTreeMap<String, BTreeSet<String>>,
}

impl Stage {
    /// Without changes.
    pub fn new(guest: Filesystem) -> Self {
        Self {
            guest,
            nodes: BTreeMap::new(),
            touched: BTreeSet::new(),
            names: BTreeMap::new(),
        }
    }

    /// The guest as it is.
    pub fn guest(&self) -> &Filesystem {
        &self.guest
    }

    /// The paths that were changed since this was last asked.
    pub(super) fn take_touched(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.touched)
    }

    /// What there is at a path, symlinks followed; `None` when there is nothing.
    ///
    /// # Errors
    /// What keeps one from knowing.
    pub fn entry(&self, path: &str) -> Result<Option<Entry>> {
        self.at(&self.place(path, Follow::All)?)
    }

    /// The same of a symlink itself.
    ///
    /// # Errors
    /// As [`entry`](Self::entry).
    pub fn link_entry(&self, path: &str) -> Result<Option<Entry>> {
        self.at(&self.place(path, Follow::AllButLast)?)
    }

    /// The path without symlinks of what a path leads to, whether or not something is there.
    ///
    /// # Errors
    /// What keeps one from knowing.
    pub(super) fn resolved(&self, path: &str) -> Result<String> {
        self.place(path, Follow::All)
    }

    /// Whether there is something, symlinks followed.
    ///
    /// # Errors
    /// As [`entry`](Self::entry).
    pub fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.entry(path)?.is_some())
    }

    /// Whether there is a directory.
    ///
    /// # Errors
    /// As [`entry`](Self::entry).
    pub fn is_dir(&self, path: &str) -> Result<bool> {
        let entry = self.entry(path)?;
        Ok(entry.is_some_and(|entry| entry.kind == Kind::Directory))
    }

    /// Whether there is a regular file.
    ///
    /// # Errors
    /// As [`entry`](Self::entry).
    pub fn is_file(&self, path: &str) -> Result<bool> {
        let entry = self.entry(path)?;
        Ok(entry.is_some_and(|entry| matches!(entry.kind, Kind::File(_))))
    }

    /// The bytes of a regular file of at most 16 MiB; `None` when there is none.
    ///
    /// # Errors
    /// `Invalid` for what is no regular file, or is larger.
    pub fn bytes(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let place = self.place(path, Follow::All)?;
        let Some(entry) = self.at(&place)? else {
            return Ok(None);
        };
        let bytes = match entry.kind {
            Kind::File(Contents::AsBefore) => self.guest.read_at_most(&place, SETTINGS_BYTES)?,
            Kind::File(Contents::Bytes(bytes)) => bytes.to_vec(),
            Kind::File(contents) if contents.size_bytes() > SETTINGS_BYTES => {
                let reason = format!("is larger than {SETTINGS_BYTES} bytes");
                return Err(self.error(vfs::ErrorKind::Invalid, reason, &place));
            }
            Kind::File(Contents::Host { path, .. }) => {
                std::fs::read(&path).map_err(|error| Error::from(error).in_file(path))?
            }
            Kind::File(Contents::Part(part)) => {
                let mut bytes = Vec::new();
                part.reader().read_to_end(&mut bytes)?;
                bytes
            }
            Kind::File(Contents::Allocated { start, size_bytes }) => {
                let mut bytes = start.to_vec();
                bytes.resize(usize::try_from(size_bytes).unwrap_or(usize::MAX), 0);
                bytes
            }
            // Names of others are followed to them.
            Kind::File(Contents::SameAs(_)) => return Ok(None),
            Kind::Directory => {
                return Err(self.error(vfs::ErrorKind::IsADirectory, "is a directory", &place));
            }
            Kind::Symlink(_) | Kind::Other(_) => {
                let reason = format!("is a {}, where a file is expected", entry.kind.name());
                return Err(self.error(vfs::ErrorKind::Invalid, reason, &place));
            }
        };
        Ok(Some(bytes))
    }

    /// The text of a file of settings, of which nothing is lost when it is written back; `None` when there is none.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub fn text(&self, path: &str) -> Result<Option<String>> {
        let Some(bytes) = self.bytes(path)? else {
            return Ok(None);
        };
        Ok(Some(text::decode(&bytes)))
    }

    /// The names in a directory, sorted; none when there is none. What is no UTF-8 is left out.
    ///
    /// # Errors
    /// `NotADirectory`, and what keeps one from knowing.
    pub fn names(&self, path: &str) -> Result<Vec<String>> {
        let place = self.place(path, Follow::All)?;
        let Some(entry) = self.at(&place)? else {
            return Ok(Vec::new());
        };
        if entry.kind != Kind::Directory {
            return Err(self.error(vfs::ErrorKind::NotADirectory, "is no directory", &place));
        }
        let mut names: BTreeSet<String> = if entry.is_new {
            BTreeSet::new()
        } else {
            let listed = self.guest.names_at_most(root_or(&place), MAX_NAMES)?;
            if listed.entries >= MAX_NAMES {
                let reason = format!("has {MAX_NAMES} entries or more: it is not looked through");
                return Err(self.error(vfs::ErrorKind::Invalid, reason, &place));
            }
            listed.names.into_iter().collect()
        };
        let below = format!("{place}/");
        let staged = self.nodes.range(below.clone()..);
        for (path, node) in staged.take_while(|(path, _)| path.starts_with(&below)) {
            let name = path.get(below.len()..).unwrap_or_default();
            if name.contains('/') {
                continue;
            }
            if node.is_some() {
                names.insert(name.to_owned());
            } else {
                names.remove(name);
            }
        }
        Ok(names.into_iter().collect())
    }

    /// Puts contents into a regular file, which keeps its owner, mode and attributes; a new one belongs to root, with
    /// mode 0644.
    ///
    /// # Errors
    /// `NotFound` without its directory, `Invalid` for what is no regular file.
    pub fn write(&mut self, path: &str, contents: impl Into<Contents>) -> Result<()> {
        let place = self.place(path, Follow::All)?;
        let contents = contents.into();
        let entry = match self.at(&place)? {
            None => self.new_at(&place, Kind::File(contents), 0o644)?,
            Some(entry) => {
                if !matches!(entry.kind, Kind::File(_)) {
                    let reason = format!("is a {}, where a file is expected", entry.kind.name());
                    return Err(self.error(vfs::ErrorKind::Invalid, reason, &place));
                }
                if self.has(&place, &entry, &contents)? {
                    return Ok(());
                }
                Entry {
                    kind: Kind::File(contents),
                    ..entry
                }
            }
        };
        self.put(place, Some(entry));
        Ok(())
    }

    /// The same for a text that [`text`](Self::text) gave, or another.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_text(&mut self, path: &str, text: &str) -> Result<()> {
        self.write(path, text::encode(text))
    }

    /// Puts a text into a file with these permissions, in directories that are made where they are missing.
    ///
    /// # Errors
    /// As [`write`](Self::write), [`make_dirs`](Self::make_dirs).
    pub fn write_with(&mut self, path: &str, text: &str, permissions: u16) -> Result<()> {
        self.make_dirs(above(path), 0o755)?;
        self.write_text(path, text)?;
        self.set_permissions(path, permissions)
    }

    /// Makes a directory and those that are missing above it, with these permissions, of root.
    ///
    /// # Errors
    /// `NotADirectory` when something else is there.
    pub fn make_dirs(&mut self, path: &str, permissions: u16) -> Result<()> {
        let place = self.place(path, Follow::All)?;
        let mut upto = String::new();
        for name in place.split('/').filter(|name| !name.is_empty()) {
            upto.push('/');
            upto.push_str(name);
            match self.at(&upto)? {
                Some(entry) if entry.kind == Kind::Directory => {}
                Some(_) => {
                    return Err(self.error(
                        vfs::ErrorKind::NotADirectory,
                        "is no directory",
                        &upto,
                    ));
                }
                None => {
                    let entry = self.new_at(&upto, Kind::Directory, permissions)?;
                    self.put(upto.clone(), Some(entry));
                }
            }
        }
        Ok(())
    }

    /// Makes a symlink, in place of a file or another symlink where one is there.
    ///
    /// # Errors
    /// `IsADirectory` for a directory that is in its place; `NotFound` without the directory above; `Invalid` for one
    /// that would lead to itself, in the place of what it was to lead to.
    pub fn symlink(&mut self, path: &str, target: &str) -> Result<()> {
        let place = self.place(path, Follow::AllButLast)?;
        let from = if target.starts_with('/') {
            "/"
        } else {
            above(&place)
        };
        let to = self.place(&format!("{from}/{target}"), Follow::AllButLast);
        if to.is_ok_and(|to| to == place) {
            let reason = format!("a symlink to {target} would lead to itself here");
            return Err(self.error(vfs::ErrorKind::Invalid, reason, &place));
        }
        let kind = Kind::Symlink(target.to_owned());
        match self.at(&place)? {
            Some(entry) if entry.kind == kind => return Ok(()),
            Some(entry) if entry.kind == Kind::Directory => {
                return Err(self.error(vfs::ErrorKind::IsADirectory, "is a directory", &place));
            }
            _ => self.check_no_first_name(&place)?,
        }
        let entry = self.new_at(&place, kind, 0o777)?;
        self.put(place, Some(entry));
        Ok(())
    }

    /// Removes what is there, a directory with all below it. A symlink is removed itself.
    ///
    /// # Errors
    /// What keeps one from knowing what is there.
    pub fn remove(&mut self, path: &str) -> Result<()> {
        let place = self.place(path, Follow::AllButLast)?;
        if self.at(&place)?.is_none() {
            return Ok(());
        }
        if place.is_empty() {
            return Err(self.error(vfs::ErrorKind::Invalid, "the root stays", "/"));
        }
        self.check_no_first_name(&place)?;
        let below = format!("{place}/");
        let staged: Vec<String> = self
            .nodes
            .range(below.clone()..)
            .map(|(path, _)| path.clone())
            .take_while(|path| path.starts_with(&below))
            .collect();
        for path in staged {
            let gone = self.nodes.remove(&path);
            self.forget_name(&path, gone.flatten().as_ref());
        }
        self.put(place, None);
        Ok(())
    }

    /// Sets the low 12 bits of the mode.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn set_permissions(&mut self, path: &str, permissions: u16) -> Result<()> {
        self.change(path, Follow::All, |entry| entry.permissions = permissions)
    }

    /// Sets owner and group.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn set_owner(&mut self, path: &str, uid: u32, gid: u32) -> Result<()> {
        self.change(path, Follow::All, |entry| {
            entry.uid = uid;
            entry.gid = gid;
        })
    }

    /// The same of a symlink itself.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn set_link_owner(&mut self, path: &str, uid: u32, gid: u32) -> Result<()> {
        self.change(path, Follow::AllButLast, |entry| {
            entry.uid = uid;
            entry.gid = gid;
        })
    }

    /// Sets an extended attribute by its whole name.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn set_xattr(&mut self, path: &str, name: &str, value: &[u8]) -> Result<()> {
        self.change(path, Follow::All, |entry| {
            entry.xattrs.insert(name.to_owned(), value.to_vec());
        })
    }

    /// The paths that are made, without symlinks on the way, with what is there.
    pub(super) fn made(&self) -> Vec<(String, Kind)> {
        let nodes = self.nodes.iter();
        let made = nodes.filter_map(|(path, node)| Some((path, node.as_ref()?)));
        let made = made.filter(|(_, entry)| entry.is_new);
        made.map(|(path, entry)| (path.clone(), entry.kind.clone()))
            .collect()
    }

    /// Sets an extended attribute of something that [`made`](Self::made) told.
    pub(super) fn set_xattr_of_made(&mut self, place: &str, name: &str, value: Vec<u8>) {
        if let Some(Some(entry)) = self.nodes.get_mut(place) {
            entry.xattrs.entry(name.to_owned()).or_insert(value);
        }
    }

    fn change(
        &mut self,
        path: &str,
        follow: Follow,
        change: impl FnOnce(&mut Entry),
    ) -> Result<()> {
        let place = self.place(path, follow)?;
        let Some(before) = self.at(&place)? else {
            return Err(self.error(vfs::ErrorKind::NotFound, "is not there", &place));
        };
        let mut after = before.clone();
        change(&mut after);
        if after != before {
            self.put(place, Some(after));
        }
        Ok(())
    }

    /// Something new where nothing is, or something is replaced.
    fn new_at(&self, place: &str, kind: Kind, permissions: u16) -> Result<Entry> {
        let dir = above(place);
        match self.at(if dir == "/" { "" } else { dir })? {
            Some(entry) if entry.kind == Kind::Directory => Ok(Entry::new(kind, permissions)),
            Some(_) => Err(self.error(vfs::ErrorKind::NotADirectory, "is no directory", dir)),
            None => Err(self.error(vfs::ErrorKind::NotFound, "there is no such directory", dir)),
        }
    }

    /// Whether a file has these contents.
    fn has(&self, place: &str, entry: &Entry, contents: &Contents) -> Result<bool> {
        if Kind::File(contents.clone()) == entry.kind {
            return Ok(true);
        }
        if entry.kind != Kind::File(Contents::AsBefore) {
            return Ok(false);
        }
        match contents {
            Contents::AsBefore => Ok(true),
            Contents::Bytes(new) if entry.size_bytes == new.len() as u64 => {
                Ok(self.guest.read_at_most(place, entry.size_bytes)? == **new)
            }
            Contents::Host { path, size_bytes } if entry.size_bytes == *size_bytes => {
                same::as_on_host(self.guest.open(place)?, path)
            }
            Contents::Part(part) if entry.size_bytes == part.size_bytes() => {
                same::is(self.guest.open(place)?, part.reader(), Error::from)
            }
            Contents::SameAs(first) => self.is_one_file(place, first),
            Contents::Allocated { start, size_bytes } if entry.size_bytes == *size_bytes => {
                same::begins_with(self.guest.open(place)?, start)
            }
            _ => Ok(false),
        }
    }

    fn put(&mut self, place: String, entry: Option<Entry>) {
        self.touched.insert(place.clone());
        let before = self.nodes.remove(&place).flatten();
        self.forget_name(&place, before.as_ref());
        self.note_name(&place, entry.as_ref());
        self.nodes.insert(place, entry);
    }

    /// An error about a path of this guest.
    pub(super) fn error(
        &self,
        kind: vfs::ErrorKind,
        reason: impl Into<String>,
        path: &str,
    ) -> Error {
        self.guest
            .in_image(vfs::Error::new(kind, reason.into()).in_path(root_or(path)))
    }

    /// The same of what the plan asks for.
    pub(super) fn invalid(&self, reason: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, reason).in_file(self.guest.image_path())
    }
}

/// The directory of a path without symlinks.
pub(super) fn above(path: &str) -> &str {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((dir, _)) => dir,
    }
}

/// The path as the guest takes it: the root has a name there.
fn root_or(place: &str) -> &str {
    if place.is_empty() { "/" } else { place }
}

impl From<Vec<u8>> for Contents {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl From<Arc<[u8]>> for Contents {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self::Bytes(bytes)
    }
}

impl Contents {
    /// How much is to be written of them.
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::AsBefore | Self::SameAs(_) => 0,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Part(part) => part.size_bytes(),
            Self::Host { size_bytes, .. } | Self::Allocated { size_bytes, .. } => *size_bytes,
        }
    }

    /// Those of a file of this machine.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` for what is no regular file.
    pub fn of_host(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let metadata = std::fs::metadata(&path);
        let metadata = metadata.map_err(|error| Error::from(error).in_file(&path))?;
        if !metadata.is_file() {
            return Err(Error::new(ErrorKind::Invalid, "is no regular file").in_file(&path));
        }
        Ok(Self::Host {
            path,
            size_bytes: metadata.len(),
        })
    }
}

/// What `st_mode` calls it.
pub(super) fn kind_of(file_type: FileType) -> Option<Kind> {
    match file_type {
        FileType::Regular => Some(Kind::File(Contents::AsBefore)),
        FileType::Directory => Some(Kind::Directory),
        FileType::Symlink => None,
        other => Some(Kind::Other(other)),
    }
}
