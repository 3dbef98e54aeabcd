//! The files of an OCI image layout: in a directory, or in a tar archive.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use diskfs_block::{BlockRead, Error, ErrorKind, File, Result, Slice};
use diskfs_oci::{Blobs, Digest, INDEX_NAME};
use diskfs_ova::members_where;
use rustix::fs::fstat;

use crate::FileOpener;
use crate::gate::{Access, Gate, NamedFile, NamedFor};

/// The limit on the headers of an archive. A layout has some ten blobs for each image.
const MAX_HEADERS: usize = 65536;

/// The files of a layout.
#[derive(Debug)]
pub(crate) enum Store<'a> {
    Directory(Directory<'a>),
    Archive(Archive),
}

/// A layout in a directory. Its files are opened as files that the index names.
#[derive(Debug)]
pub(crate) struct Directory<'a> {
    files: &'a dyn FileOpener,
    gate: &'a Gate,
    index_path: PathBuf,
    index: Arc<File>,
    owner: u32,
}

/// A layout in a tar archive.
#[derive(Debug)]
pub(crate) struct Archive {
    archive: Arc<dyn BlockRead>,
    /// The start and the size of each file.
    members: HashMap<String, (u64, u64)>,
}

impl<'a> Store<'a> {
    /// Opens the layout with this index.
    pub(crate) fn directory(
        files: &'a dyn FileOpener,
        gate: &'a Gate,
        index_path: PathBuf,
        index: File,
    ) -> Result<Self> {
        let owner = fstat(&index).map_err(Error::from)?.st_uid;
        Ok(Self::Directory(Directory {
            files,
            gate,
            index_path,
            index: Arc::new(index),
            owner,
        }))
    }

    /// Opens the layout in an archive.
    pub(crate) fn archive(archive: Arc<dyn BlockRead>) -> Result<Self> {
        let members = members_where(archive.as_ref(), MAX_HEADERS, &mut |_| true)?;
        let members = members
            .into_iter()
            .map(|member| (member.name, (member.start, member.size_bytes)));
        Ok(Self::Archive(Archive {
            members: members.collect(),
            archive,
        }))
    }

    /// Opens a file of the layout by its name. A name is one of the specification's, or has the
    /// characters of a digest.
    pub(crate) fn file(&self, name: &str) -> Result<Arc<dyn BlockRead>> {
        match self {
            Self::Directory(directory) => directory.file(name),
            Self::Archive(archive) => archive.file(name),
        }
    }
}

impl Directory<'_> {
    fn file(&self, name: &str) -> Result<Arc<dyn BlockRead>> {
        if name == INDEX_NAME {
            return Ok(self.index.clone());
        }
        let named = NamedFile {
            image: &self.index_path,
            owner: Some(self.owner),
            name: name.as_bytes(),
            named_for: NamedFor::Blob,
            access: Access::Read,
        };
        Ok(Arc::new(self.files.open_named(&named, self.gate)?))
    }
}

impl Archive {
    fn file(&self, name: &str) -> Result<Arc<dyn BlockRead>> {
        let missing = || {
            let reason = format!("the archive has no file `{name}`");
            let error = Error::new(ErrorKind::NotFound, reason);
            error.with_hint("make an archive of an OCI image layout, as `skopeo copy` does")
        };
        let (start, size_bytes) = self.members.get(name).ok_or_else(missing)?;
        let file = Slice::new(Arc::clone(&self.archive), *start, *size_bytes)?;
        Ok(Arc::new(file))
    }
}

impl Blobs for Store<'_> {
    fn open(&self, digest: &Digest) -> Result<Arc<dyn BlockRead>> {
        self.file(&digest.blob_name())
    }
}
