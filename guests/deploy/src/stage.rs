//! The stage: a guest's tree together with the changes of a plan, in memory.
//!
//! Steps read and change the stage, never the disk. So errors are found before anything is written,
//! a plan that fails halfway has changed nothing, and a step whose work is already done has nothing
//! to write.
//!
//! Paths are absolute. Symlinks are followed within the guest, wherever they point.

mod below;
mod changes;
mod entry;
mod expand;
mod links;
mod part;
mod resolve;
mod same;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use diskfs_vfs::{self as vfs, FileType, Follow};

use super::text;
use diskfs_disk::{Error, ErrorKind, Filesystem, Result};

pub use changes::{Aspect, Change};
pub use entry::{Contents, Entry, EntryKind};
pub use part::Part;

/// The limit on the size of a file that steps read, which is larger than any configuration file.
const SETTINGS_BYTES: u64 = 16 << 20;

/// The limit on the entries of a directory that steps list.
const MAX_NAMES: usize = 100_000;

/// The limit on the entries of the guest that are remembered.
const KNOWN_MAX: usize = 4096;

/// A guest's tree, and the changes to it.
#[derive(Debug)]
pub struct Stage {
    guest: Filesystem,
    /// Entries of the unchanged guest that were looked up: steps ask for the same ones again.
    known: Mutex<HashMap<String, Option<Entry>>>,
    /// The changed entries, by path without symlinks; the root is "". `None` for removed ones.
    nodes: BTreeMap<String, Option<Entry>>,
    touched: BTreeSet<String>,
    /// The paths that become hard links, by the path of the file that they link to.
    names: BTreeMap<String, BTreeSet<String>>,
}

impl Stage {
    /// Returns a stage without changes.
    pub fn new(guest: Filesystem) -> Self {
        Self {
            guest,
            known: Mutex::default(),
            nodes: BTreeMap::new(),
            touched: BTreeSet::new(),
            names: BTreeMap::new(),
        }
    }

    /// Returns the unchanged filesystem of the guest.
    pub fn guest(&self) -> &Filesystem {
        &self.guest
    }

    /// Returns the paths that changed since the last call.
    pub(super) fn take_touched(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.touched)
    }

    /// Returns the entry of a path, with symlinks followed; `None` if nothing exists there.
    ///
    /// # Errors
    /// The errors of reading the guest.
    pub fn entry(&self, path: &str) -> Result<Option<Entry>> {
        self.entry_at(&self.resolved_path(path, Follow::All)?)
    }

    /// Returns the entry of a path. If it is a symlink, returns the symlink itself.
    ///
    /// # Errors
    /// As [`entry`](Self::entry).
    pub fn link_entry(&self, path: &str) -> Result<Option<Entry>> {
        self.entry_at(&self.resolved_path(path, Follow::AllButLast)?)
    }

    /// Returns the path with all symlinks resolved, whether or not it exists.
    ///
    /// # Errors
    /// The errors of reading the guest.
    pub(super) fn resolved(&self, path: &str) -> Result<String> {
        self.resolved_path(path, Follow::All)
    }

    /// Returns true if the path exists, with symlinks followed.
    ///
    /// # Errors
    /// As [`entry`](Self::entry).
    pub fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.entry(path)?.is_some())
    }

    /// Returns true if the path is a directory.
    ///
    /// # Errors
    /// As [`entry`](Self::entry).
    pub fn is_dir(&self, path: &str) -> Result<bool> {
        let entry = self.entry(path)?;
        Ok(entry.is_some_and(|entry| entry.kind == EntryKind::Directory))
    }

    /// Returns true if the path is a regular file.
    ///
    /// # Errors
    /// As [`entry`](Self::entry).
    pub fn is_file(&self, path: &str) -> Result<bool> {
        let entry = self.entry(path)?;
        Ok(entry.is_some_and(|entry| matches!(entry.kind, EntryKind::File(_))))
    }

    /// Returns the bytes of a regular file of at most 16 MiB; `None` if it does not exist.
    ///
    /// # Errors
    /// `Invalid` if the path is not a regular file, or is too large.
    pub fn bytes(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let place = self.resolved_path(path, Follow::All)?;
        let Some(entry) = self.entry_at(&place)? else {
            return Ok(None);
        };
        let bytes = match entry.kind {
            EntryKind::File(Contents::AsBefore) => {
                self.guest.read_at_most(&place, SETTINGS_BYTES)?
            }
            EntryKind::File(Contents::Bytes(bytes)) => bytes.to_vec(),
            EntryKind::File(contents) if contents.size_bytes() > SETTINGS_BYTES => {
                let reason = format!("too large: at most {SETTINGS_BYTES} bytes");
                return Err(self.error(vfs::ErrorKind::Invalid, reason, &place));
            }
            EntryKind::File(Contents::Host { path, .. }) => {
                std::fs::read(&path).map_err(|error| Error::from(error).in_file(path))?
            }
            EntryKind::File(Contents::Part(part)) => {
                let mut bytes = Vec::new();
                part.reader().read_to_end(&mut bytes)?;
                bytes
            }
            EntryKind::File(Contents::Allocated { start, size_bytes }) => {
                let mut bytes = start.to_vec();
                bytes.resize(usize::try_from(size_bytes).unwrap_or(usize::MAX), 0);
                bytes
            }
            // `place` has already resolved hard links of the stage to the file itself.
            EntryKind::File(Contents::HardLinkTo(_)) => return Ok(None),
            EntryKind::Directory => {
                return Err(self.error(vfs::ErrorKind::IsADirectory, "is a directory", &place));
            }
            EntryKind::Symlink(_) | EntryKind::Other(_) => {
                let reason = format!("is a {}, not a regular file", entry.kind.name());
                return Err(self.error(vfs::ErrorKind::Invalid, reason, &place));
            }
        };
        Ok(Some(bytes))
    }

    /// Returns the text of a file; `None` if it does not exist. Bytes that are not valid UTF-8
    /// survive when the text is written back.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub fn text(&self, path: &str) -> Result<Option<String>> {
        let Some(bytes) = self.bytes(path)? else {
            return Ok(None);
        };
        Ok(Some(text::decode(&bytes)))
    }

    /// Returns the names in a directory, sorted; no names if the directory does not exist. Names
    /// that are not valid UTF-8 are skipped.
    ///
    /// # Errors
    /// `NotADirectory`, and the errors of reading the guest.
    pub fn names(&self, path: &str) -> Result<Vec<String>> {
        let place = self.resolved_path(path, Follow::All)?;
        let Some(entry) = self.entry_at(&place)? else {
            return Ok(Vec::new());
        };
        if entry.kind != EntryKind::Directory {
            return Err(self.error(vfs::ErrorKind::NotADirectory, "not a directory", &place));
        }
        let mut names: BTreeSet<String> = if entry.is_new {
            BTreeSet::new()
        } else {
            let listed = self.guest.names_at_most(root_or(&place), MAX_NAMES)?;
            if listed.entries >= MAX_NAMES {
                let reason = format!("too many entries: at most {MAX_NAMES}");
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

    /// Sets the contents of a regular file, which keeps its owner, mode and attributes. A new file
    /// belongs to root and has mode 0644.
    ///
    /// # Errors
    /// `NotFound` if the parent directory is missing, `Invalid` if the path is not a regular file.
    pub fn write(&mut self, path: &str, contents: impl Into<Contents>) -> Result<()> {
        let place = self.resolved_path(path, Follow::All)?;
        let contents = contents.into();
        let entry = match self.entry_at(&place)? {
            None => self.new_at(&place, EntryKind::File(contents), 0o644)?,
            Some(entry) => {
                if !matches!(entry.kind, EntryKind::File(_)) {
                    let reason = format!("is a {}, not a regular file", entry.kind.name());
                    return Err(self.error(vfs::ErrorKind::Invalid, reason, &place));
                }
                if self.has(&place, &entry, &contents)? {
                    return Ok(());
                }
                Entry {
                    kind: EntryKind::File(contents),
                    ..entry
                }
            }
        };
        self.put(place, Some(entry));
        Ok(())
    }

    /// Sets the contents of a regular file to a text, such as one from [`text`](Self::text).
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_text(&mut self, path: &str, text: &str) -> Result<()> {
        self.write(path, text::encode(text))
    }

    /// Writes a text to a file with these permissions. Missing parent directories are created.
    ///
    /// # Errors
    /// As [`write`](Self::write), [`make_dirs`](Self::make_dirs).
    pub fn write_with(&mut self, path: &str, text: &str, permissions: u16) -> Result<()> {
        self.make_dirs(above(path), 0o755)?;
        self.write_text(path, text)?;
        self.set_permissions(path, permissions)
    }

    /// Creates a directory and its missing parents, with these permissions and owned by root.
    ///
    /// # Errors
    /// `NotADirectory` if something else exists at one of the paths.
    pub fn make_dirs(&mut self, path: &str, permissions: u16) -> Result<()> {
        let place = self.resolved_path(path, Follow::All)?;
        let mut upto = String::new();
        for name in place.split('/').filter(|name| !name.is_empty()) {
            upto.push('/');
            upto.push_str(name);
            match self.entry_at(&upto)? {
                Some(entry) if entry.kind == EntryKind::Directory => {}
                Some(_) => {
                    return Err(self.error(
                        vfs::ErrorKind::NotADirectory,
                        "not a directory",
                        &upto,
                    ));
                }
                None => {
                    let entry = self.new_at(&upto, EntryKind::Directory, permissions)?;
                    self.put(upto.clone(), Some(entry));
                }
            }
        }
        Ok(())
    }

    /// Creates a symlink. It replaces an existing file or symlink.
    ///
    /// # Errors
    /// `IsADirectory` if a directory exists at the path; `NotFound` if the parent directory is
    /// missing; `Invalid` if the symlink would replace its own target, and so point to itself.
    pub fn symlink(&mut self, path: &str, target: &str) -> Result<()> {
        let place = self.resolved_path(path, Follow::AllButLast)?;
        let from = if target.starts_with('/') {
            "/"
        } else {
            above(&place)
        };
        let to = self.resolved_path(&format!("{from}/{target}"), Follow::AllButLast);
        if to.is_ok_and(|to| to == place) {
            let reason =
                format!("refusing to create a symlink to {target}: it would point to itself");
            return Err(self.error(vfs::ErrorKind::Invalid, reason, &place));
        }
        let kind = EntryKind::Symlink(target.to_owned());
        match self.entry_at(&place)? {
            Some(entry) if entry.kind == kind => return Ok(()),
            Some(entry) if entry.kind == EntryKind::Directory => {
                return Err(self.error(vfs::ErrorKind::IsADirectory, "is a directory", &place));
            }
            _ => self.check_no_first_name(&place)?,
        }
        let entry = self.new_at(&place, kind, 0o777)?;
        self.put(place, Some(entry));
        Ok(())
    }

    /// Removes a file, a symlink itself, or a directory with everything below it.
    ///
    /// # Errors
    /// The errors of reading the guest.
    pub fn remove(&mut self, path: &str) -> Result<()> {
        let place = self.resolved_path(path, Follow::AllButLast)?;
        if self.entry_at(&place)?.is_none() {
            return Ok(());
        }
        if place.is_empty() {
            return Err(self.error(
                vfs::ErrorKind::Invalid,
                "refusing to remove the root directory",
                "/",
            ));
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
    /// `NotFound` if the path does not exist.
    pub fn set_permissions(&mut self, path: &str, permissions: u16) -> Result<()> {
        self.change(path, Follow::All, |entry| entry.permissions = permissions)
    }

    /// Sets the owner and the group.
    ///
    /// # Errors
    /// `NotFound` if the path does not exist.
    pub fn set_owner(&mut self, path: &str, uid: u32, gid: u32) -> Result<()> {
        self.change(path, Follow::All, |entry| {
            entry.uid = uid;
            entry.gid = gid;
        })
    }

    /// Sets the owner and the group of a symlink itself.
    ///
    /// # Errors
    /// `NotFound` if the path does not exist.
    pub fn set_link_owner(&mut self, path: &str, uid: u32, gid: u32) -> Result<()> {
        self.change(path, Follow::AllButLast, |entry| {
            entry.uid = uid;
            entry.gid = gid;
        })
    }

    /// Sets an extended attribute by its full name.
    ///
    /// # Errors
    /// `NotFound` if the path does not exist.
    pub fn set_xattr(&mut self, path: &str, name: &str, value: &[u8]) -> Result<()> {
        self.change(path, Follow::All, |entry| {
            entry.xattrs.insert(name.to_owned(), value.to_vec());
        })
    }

    /// Returns the paths of new entries, without symlinks, and their kinds.
    pub(super) fn new_entries(&self) -> Vec<(String, EntryKind)> {
        let nodes = self.nodes.iter();
        let made = nodes.filter_map(|(path, node)| Some((path, node.as_ref()?)));
        let made = made.filter(|(_, entry)| entry.is_new);
        made.map(|(path, entry)| (path.clone(), entry.kind.clone()))
            .collect()
    }

    /// Sets an extended attribute of a path that [`new_entries`](Self::new_entries) returned.
    pub(super) fn set_xattr_of_new(&mut self, place: &str, name: &str, value: Vec<u8>) {
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
        let place = self.resolved_path(path, follow)?;
        let Some(before) = self.entry_at(&place)? else {
            return Err(self.error(
                vfs::ErrorKind::NotFound,
                "no such file or directory",
                &place,
            ));
        };
        let mut after = before.clone();
        change(&mut after);
        if after != before {
            self.put(place, Some(after));
        }
        Ok(())
    }

    /// Creates an entry for a path that is new or is replaced.
    fn new_at(&self, place: &str, kind: EntryKind, permissions: u16) -> Result<Entry> {
        let dir = above(place);
        match self.entry_at(if dir == "/" { "" } else { dir })? {
            Some(entry) if entry.kind == EntryKind::Directory => Ok(Entry::new(kind, permissions)),
            Some(_) => Err(self.error(vfs::ErrorKind::NotADirectory, "not a directory", dir)),
            None => Err(self.error(vfs::ErrorKind::NotFound, "no such directory", dir)),
        }
    }

    /// Returns true if a file already has these contents.
    fn has(&self, place: &str, entry: &Entry, contents: &Contents) -> Result<bool> {
        if EntryKind::File(contents.clone()) == entry.kind {
            return Ok(true);
        }
        if entry.kind != EntryKind::File(Contents::AsBefore) {
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
            Contents::HardLinkTo(first) => self.is_one_file(place, first),
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

    /// Returns an error about a path in this guest.
    pub(super) fn error(
        &self,
        kind: vfs::ErrorKind,
        reason: impl Into<String>,
        path: &str,
    ) -> Error {
        self.guest
            .in_image(vfs::Error::new(kind, reason.into()).in_path(root_or(path)))
    }

    /// Returns an error about the plan itself.
    pub(super) fn invalid(&self, reason: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, reason).in_file(self.guest.image_path())
    }
}

/// Returns the parent directory of a path without symlinks.
pub(super) fn above(path: &str) -> &str {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((dir, _)) => dir,
    }
}

/// Converts a path of the stage to a path of the guest, where the root is "/".
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
    /// Returns the number of bytes to write.
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::AsBefore | Self::HardLinkTo(_) => 0,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Part(part) => part.size_bytes(),
            Self::Host { size_bytes, .. } | Self::Allocated { size_bytes, .. } => *size_bytes,
        }
    }

    /// Returns the contents of a local file.
    ///
    /// # Errors
    /// `NotFound`, or `Invalid` if the path is not a regular file.
    pub fn of_host(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let metadata = std::fs::metadata(&path);
        let metadata = metadata.map_err(|error| Error::from(error).in_file(&path))?;
        if !metadata.is_file() {
            return Err(Error::new(ErrorKind::Invalid, "not a regular file").in_file(&path));
        }
        Ok(Self::Host {
            path,
            size_bytes: metadata.len(),
        })
    }
}

/// Converts a file type; `None` for a symlink.
pub(super) fn kind_of(file_type: FileType) -> Option<EntryKind> {
    match file_type {
        FileType::Regular => Some(EntryKind::File(Contents::AsBefore)),
        FileType::Directory => Some(EntryKind::Directory),
        FileType::Symlink => None,
        other => Some(EntryKind::Other(other)),
    }
}
