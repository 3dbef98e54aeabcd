//! The target of a new OCI image: an image layout in a directory, or in a tar archive.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use diskfs::vfs::copy_out::{Existing, NewFile};
use diskfs::{Error, ErrorKind, Result};
use diskfs_oci::{Digest, INDEX_NAME, LAYOUT_NAME, NewImage, NewLayer, TarMember};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, open};
use rustix::io::Errno;
use tempfile::TempDir;

/// The name of the layer before its digest is known.
const UNNAMED: &str = "layer";

/// A new image layout, which has no name yet.
#[derive(Debug)]
pub(super) enum Target {
    Directory(NewDirectory),
    Archive(NewArchive),
}

impl Target {
    /// Begins a layout that will be called `path`.
    pub(super) fn begin(path: &Path) -> Result<Self> {
        let begun = if path.extension().is_some_and(|ending| ending == "tar") {
            NewArchive::begin(path).map(Self::Archive)
        } else {
            NewDirectory::begin(path).map(Self::Directory)
        };
        begun.map_err(|e| failed(path, e))
    }

    /// Returns the file of the layer.
    pub(super) fn layer(&mut self) -> &mut File {
        match self {
            Self::Directory(directory) => &mut directory.layer,
            Self::Archive(archive) => &mut archive.layer,
        }
    }

    /// Adds the documents, and gives the layout its name.
    pub(super) fn finish(self, layer: &NewLayer, image: &NewImage, seconds: u32) -> Result<()> {
        let (path, finished) = match self {
            Self::Directory(directory) => (directory.path.clone(), directory.finish(layer, image)),
            Self::Archive(archive) => {
                (archive.path.clone(), archive.finish(layer, image, seconds)?)
            }
        };
        finished.map_err(|e| failed(&path, e))
    }
}

/// A directory beside the target, which it becomes. It is made at the end, so that a killed command
/// leaves nothing.
#[derive(Debug)]
pub(super) struct NewDirectory {
    path: PathBuf,
    layer: File,
    /// The directory with the layer, where files cannot be without a name.
    staging: Option<TempDir>,
}

impl NewDirectory {
    fn begin(path: &Path) -> io::Result<Self> {
        refuse_existing(path)?;
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let (layer, staging) = match open(parent(path), flags, Mode::from_raw_mode(0o666)) {
            Ok(layer) => (layer.into(), None),
            // The answers of filesystems that do not support files without a name.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
                let staging = staging_of(path)?;
                let layer = staging.path().join("blobs/sha256").join(UNNAMED);
                (File::create_new(layer)?, Some(staging))
            }
            Err(errno) => return Err(errno.into()),
        };
        Ok(Self {
            layer,
            path: path.to_owned(),
            staging,
        })
    }

    fn finish(self, layer: &NewLayer, image: &NewImage) -> io::Result<()> {
        self.layer.sync_all()?;
        let (staging, is_named) = match self.staging {
            Some(staging) => (staging, true),
            None => (staging_of(&self.path)?, false),
        };
        let at = |name: &str| staging.path().join(name);
        let blob = at(&layer.digest.blob_name());
        if is_named {
            std::fs::rename(at("blobs/sha256").join(UNNAMED), blob)?;
        } else {
            let unnamed = format!("/proc/self/fd/{}", self.layer.as_raw_fd());
            linkat(CWD, unnamed, CWD, blob, AtFlags::SYMLINK_FOLLOW)?;
        }
        for (name, bytes) in documents(image) {
            let mut file = File::create(at(&name))?;
            file.write_all(bytes)?;
            file.sync_all()?;
        }
        for name in ["blobs/sha256", "blobs", "."] {
            File::open(at(name))?.sync_all()?;
        }
        rename_to_free(staging.path(), &self.path)?;
        // It has another name now, under which it stays.
        let _ = staging.keep();
        File::open(parent(&self.path))?.sync_all()
    }
}

/// Creates the directories of a layout, beside the target.
fn staging_of(path: &Path) -> io::Result<TempDir> {
    let staging = tempfile::Builder::new()
        .prefix(".diskfs-oci-")
        .permissions(Permissions::from_mode(0o777))
        .tempdir_in(parent(path))?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o777)
        .create(staging.path().join("blobs/sha256"))?;
    Ok(staging)
}

/// An archive, and the layer before it is copied into it: the header of a member has its size.
#[derive(Debug)]
pub(super) struct NewArchive {
    path: PathBuf,
    file: NewFile<File>,
    layer: File,
}

impl NewArchive {
    fn begin(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let directory = File::open(parent(path))?;
        Ok(Self {
            file: NewFile::create(directory, name, Existing::Keep, 0o666)?,
            layer: tempfile::tempfile_in(parent(path))?,
            path: path.to_owned(),
        })
    }

    fn finish(
        mut self,
        layer: &NewLayer,
        image: &NewImage,
        seconds: u32,
    ) -> Result<io::Result<()>> {
        let mut members = vec![
            member("blobs/", 0, seconds),
            member("blobs/sha256/", 0, seconds),
        ];
        let documents = documents(image);
        let sizes = documents
            .iter()
            .map(|(name, bytes)| member(name, bytes.len() as u64, seconds));
        members.extend(sizes);
        let layer_member = member(&layer.digest.blob_name(), layer.size_bytes, seconds);
        let contents = [&[][..], &[]]
            .into_iter()
            .chain(documents.iter().map(|(_, bytes)| *bytes));
        let mut headers = Vec::new();
        for (member, contents) in members.iter().zip(contents) {
            headers.extend(member.header()?);
            headers.extend(contents);
            headers.resize(headers.len() + member.padding_bytes(), 0);
        }
        headers.extend(layer_member.header()?);
        let written = || {
            let mut out = File::from(self.file.as_fd().try_clone_to_owned()?);
            out.write_all(&headers)?;
            self.layer.rewind()?;
            io::copy(&mut self.layer, &mut out)?;
            out.write_all(&vec![0; layer_member.padding_bytes()])?;
            out.write_all(TarMember::end())?;
            out.sync_all()?;
            Ok(self.file.finish()?)
        };
        Ok(written())
    }
}

fn member(name: &str, size_bytes: u64, seconds: u32) -> TarMember {
    TarMember {
        name: name.to_owned(),
        mode: if name.ends_with('/') { 0o755 } else { 0o644 },
        owner: (0, 0),
        seconds,
        size_bytes,
    }
}

/// Returns the files of a layout besides its layer.
fn documents(image: &NewImage) -> [(String, &[u8]); 4] {
    let blob = |digest: &Digest| digest.blob_name();
    [
        (LAYOUT_NAME.to_owned(), &image.marker.bytes),
        (INDEX_NAME.to_owned(), &image.index.bytes),
        (blob(&image.config.digest), &image.config.bytes),
        (blob(&image.manifest.digest), &image.manifest.bytes),
    ]
}

fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Network filesystems mostly don't support the flag.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            refuse_existing(to)?;
            std::fs::rename(from, to)
        }
        renamed => Ok(renamed?),
    }
}

fn refuse_existing(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => Ok(()),
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn exists(path: &Path) -> Error {
    Error::new(ErrorKind::Exists, "file exists")
        .in_file(path)
        .with_hint("give the name of a new directory, or of a new file that ends in .tar")
}

fn failed(path: &Path, error: io::Error) -> Error {
    let error = Error::from(error).in_file(path);
    match error.kind() {
        ErrorKind::Exists => exists(path),
        _ => error,
    }
}
