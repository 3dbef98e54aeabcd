//! The broker: opens files for a process that can open none.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use diskfs_block::{Error, ErrorKind, File, Result};
use diskfs_image::{Access, DirectOpener, FileOpener, Gate, NamedFile, NamedFor, host_file};
use rustix::fs::fstat;

/// The largest number of files that one process may open for each granted image: some chains of 64
/// images with a data file each.
const FILES_MAX: usize = 512;

/// The files that a process may ask its broker for.
///
/// These are the images that were granted by path, and the files that an open image names, as far
/// as the [`Gate`] allows them.
#[derive(Debug, Clone, Default)]
pub struct Grants {
    images: HashMap<PathBuf, Access>,
    gate: Gate,
}

impl Grants {
    /// Grants reading the image at `path`. The process must ask for exactly this path, or for the
    /// index of the OCI image that it names.
    #[must_use]
    pub fn reading(mut self, path: impl Into<PathBuf>) -> Self {
        let path = host_file(&path.into()).into_owned();
        self.images.entry(path).or_insert(Access::Read);
        self
    }

    /// Grants reading and writing the image at `path`.
    #[must_use]
    pub fn writing(mut self, path: impl Into<PathBuf>) -> Self {
        self.images.insert(path.into(), Access::ReadWrite);
        self
    }

    /// Sets the policy for the files that images name.
    #[must_use]
    pub fn gate(mut self, gate: Gate) -> Self {
        self.gate = gate;
        self
    }

    fn allows(&self, path: &Path, access: Access) -> bool {
        let granted = self.images.get(path);
        granted.is_some_and(|most| is_within(access, *most))
    }
}

/// Opens files for one process, by what was granted to it.
///
/// The process is hostile: it may claim anything about an image. The broker knows by itself which
/// images it has opened, who owns them, and how they were opened. What it cannot know is which names
/// an image contains, because it does not parse images. So the process can choose the names, as the
/// image's author could: the gate decides which of them are opened.
#[derive(Debug)]
pub struct Broker<'a> {
    grants: &'a Grants,
    opened: Vec<OpenedFile>,
}

/// A file that the broker has opened, and what it knows about it.
#[derive(Debug)]
struct OpenedFile {
    path: PathBuf,
    owner: u32,
    access: Access,
}

impl<'a> Broker<'a> {
    /// Creates a broker that has opened nothing yet.
    #[must_use]
    pub fn new(grants: &'a Grants) -> Self {
        Self {
            grants,
            opened: Vec::new(),
        }
    }

    /// Opens a granted image.
    ///
    /// # Errors
    /// [`Denied`](ErrorKind::Denied) for any other file, and those of [`File::open`].
    pub fn open(&mut self, path: &Path, access: Access) -> Result<File> {
        self.check_count()?;
        if !self.grants.allows(path, access) {
            return Err(denied("the file was not granted to this job").in_file(path));
        }
        let file = DirectOpener.open(path, access)?;
        self.note(&file, path, access)?;
        Ok(file)
    }

    /// Opens a file that an open image names.
    ///
    /// # Errors
    /// [`Denied`](ErrorKind::Denied) if the gate refuses the file, if the image is not open, or if
    /// the file would be written and the image only read; and those of [`File::open`].
    pub fn open_named(
        &mut self,
        image: &Path,
        name: &[u8],
        named_for: NamedFor,
        access: Access,
    ) -> Result<File> {
        self.check_count()?;
        let namer = self.namer(image)?;
        if !is_within(access, namer.access)
            || access == Access::ReadWrite && is_only_read(named_for)
        {
            return Err(denied("an image that is only read names no file to write").in_file(image));
        }
        let named = NamedFile {
            image: &namer.path,
            owner: Some(namer.owner),
            name,
            named_for,
            access,
        };
        let file = DirectOpener.open_named(&named, &self.grants.gate)?;
        let path = file.path().to_owned();
        self.note(&file, &path, access)?;
        Ok(file)
    }

    /// Returns the names of the overlays beside an image that is open for writing.
    pub fn overlays_of(&self, image: &Path) -> Vec<String> {
        let is_written = |namer: &OpenedFile| namer.access == Access::ReadWrite;
        let Some(namer) = self.namer(image).ok().filter(|namer| is_written(namer)) else {
            return Vec::new();
        };
        let file = DirectOpener.open(&namer.path, Access::Read);
        file.map_or_else(
            |_| Vec::new(),
            |file| DirectOpener.overlays_of(&namer.path, &file),
        )
    }

    /// Returns what the broker knows about an image that it has opened. If one path was opened
    /// several times, the last file counts.
    fn namer(&self, image: &Path) -> Result<&OpenedFile> {
        let mut opened = self.opened.iter().rev();
        opened
            .find(|opened| opened.path == image)
            .ok_or_else(|| denied("no such open image").in_file(image))
    }

    fn note(&mut self, file: &File, path: &Path, access: Access) -> Result<()> {
        let stat = fstat(file).map_err(|error| Error::from(error).in_file(path))?;
        self.opened.push(OpenedFile {
            path: path.to_owned(),
            owner: stat.st_uid,
            access,
        });
        Ok(())
    }

    fn check_count(&self) -> Result<()> {
        let files_max = self.grants.images.len().saturating_mul(FILES_MAX);
        if self.opened.len() < files_max {
            return Ok(());
        }
        Err(denied("too many files for one job"))
    }
}

fn denied(reason: &'static str) -> Error {
    Error::new(ErrorKind::Denied, reason)
}

fn is_within(access: Access, most: Access) -> bool {
    access == Access::Read || most == Access::ReadWrite
}

/// Returns true for files that no image writes: all but external data files.
fn is_only_read(named_for: NamedFor) -> bool {
    named_for != NamedFor::Data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_granted_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["top", "base", "other"] {
            std::fs::write(path(name), "x").unwrap();
        }
        let grants = Grants::default().reading(path("top"));
        let mut broker = Broker::new(&grants);
        let kind = |opened: Result<File>| opened.unwrap_err().kind();
        let backing = |broker: &mut Broker<'_>, name: &[u8], access| {
            broker.open_named(&path("top"), name, NamedFor::Backing, access)
        };
        // No image is open yet.
        assert_eq!(
            kind(backing(&mut broker, b"base", Access::Read)),
            ErrorKind::Denied
        );
        for (name, access) in [("other", Access::Read), ("top", Access::ReadWrite)] {
            assert_eq!(kind(broker.open(&path(name), access)), ErrorKind::Denied);
        }
        let aliased = dir.path().join("./sub/../top");
        assert_eq!(kind(broker.open(&aliased, Access::Read)), ErrorKind::Denied);
        broker.open(&path("top"), Access::Read).unwrap();
        backing(&mut broker, b"base", Access::Read).unwrap();
        for name in [&b"/etc/passwd"[..], b"../x", b"nbd:x", b"json:{}"] {
            assert_eq!(
                kind(backing(&mut broker, name, Access::Read)),
                ErrorKind::Denied
            );
        }
        let written = backing(&mut broker, b"base", Access::ReadWrite);
        assert_eq!(kind(written), ErrorKind::Denied);
        let data = broker.open_named(&path("top"), b"base", NamedFor::Data, Access::ReadWrite);
        assert_eq!(kind(data), ErrorKind::Denied);
        assert!(broker.overlays_of(&path("top")).is_empty());
    }

    #[test]
    fn the_number_of_files_is_bounded() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let grants = Grants::default().reading(file.path());
        let mut broker = Broker::new(&grants);
        for _ in 0..FILES_MAX {
            broker.open(file.path(), Access::Read).unwrap();
        }
        assert!(broker.open(file.path(), Access::Read).is_err());
    }
}
