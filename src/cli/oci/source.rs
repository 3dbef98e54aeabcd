//! The disk of a new OCI image, as a file.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs::block::{BlockRead, File};
use diskfs::image::convert::{ConvertOptions, convert};
use diskfs::image::create::NewImage;
use diskfs::image::{Access, Description, is_oci};
use diskfs::{Disk, Error, ErrorKind, Format, Result};
use tempfile::TempDir;

use crate::cli::options::ImageArgs;

/// The hint for a disk that cannot be stored as it is.
const CONVERT_HINT: &str = "use -O qcow2 or -O raw to convert it on the way";

/// The bytes of a disk's file, from its first to its last.
#[derive(Debug)]
pub(super) struct DiskFile {
    name: String,
    /// The file of the host that it comes from, for errors.
    path: PathBuf,
    bytes: Arc<dyn BlockRead>,
    at: u64,
    /// The directory of a converted file.
    _directory: Option<TempDir>,
}

impl DiskFile {
    /// Opens the file of a disk as it is, or converts the disk.
    pub(super) fn open(disk: &Disk, format: Option<Format>, options: &ImageArgs) -> Result<Self> {
        let name = file_name(disk.description());
        let stem = name.rsplit_once('.').map_or(&*name, |(stem, _)| stem);
        match format {
            None => Self::as_it_is(disk.description(), name, options),
            Some(Format::Raw) => {
                let path = &disk.description().path;
                Ok(Self::of(format!("{stem}.img"), path, disk.device(), None))
            }
            Some(Format::Qcow2) => Self::converted(disk, format!("{stem}.qcow2")),
            Some(other) => {
                let reason =
                    format!("a disk of the format {other} cannot be put into an OCI image");
                Err(Error::new(ErrorKind::Invalid, reason).with_hint("use -O raw or -O qcow2"))
            }
        }
    }

    fn of(
        name: String,
        path: &Path,
        bytes: Arc<dyn BlockRead>,
        directory: Option<TempDir>,
    ) -> Self {
        Self {
            name,
            path: path.to_owned(),
            bytes,
            at: 0,
            _directory: directory,
        }
    }

    fn as_it_is(image: &Description, name: String, options: &ImageArgs) -> Result<Self> {
        check_complete(image)?;
        let files = options.open_options()?.files;
        let file = files.open(&image.path, Access::Read)?;
        Ok(Self::of(name, &image.path, Arc::new(file), None))
    }

    fn converted(disk: &Disk, name: String) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("diskfs-").tempdir()?;
        let path = directory.path().join("disk.qcow2");
        let options = ConvertOptions {
            image: NewImage::Qcow2(Box::default()),
            ..ConvertOptions::default()
        };
        let mut go_on = |_| ControlFlow::Continue(());
        convert(&*disk.device(), &path, &options, &mut go_on)?;
        let file = File::open(&path)?;
        Ok(Self::of(name, &path, Arc::new(file), Some(directory)))
    }

    /// Returns the name of the file in the image.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.bytes.size_bytes()
    }
}

impl Read for DiskFile {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.size_bytes().saturating_sub(self.at);
        let len = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        let buf = &mut buf[..len];
        let read = self.bytes.read_at(self.at, buf);
        read.map_err(|e| io::Error::other(e.in_file(&self.path)))?;
        self.at += len as u64;
        Ok(len)
    }
}

/// Refuses a disk that KubeVirt does not run, or that needs other files.
fn check_complete(image: &Description) -> Result<()> {
    let refused = |reason: String| {
        let error = Error::new(ErrorKind::Invalid, reason).in_file(&image.path);
        Err(error.with_hint(CONVERT_HINT))
    };
    if is_oci(&image.path) || image.file_id.is_none() {
        return refused("the disk is not a file of this host".to_owned());
    }
    match (image.format, &image.qcow2) {
        (Some(Format::Qcow2), Some(details)) if details.backing_name.is_some() => {
            refused("the image has a backing file, which an OCI image does not contain".to_owned())
        }
        (Some(Format::Qcow2), Some(details)) if details.data_file.is_some() => {
            refused("the image has a data file, which an OCI image does not contain".to_owned())
        }
        (Some(Format::Raw | Format::Qcow2), _) => Ok(()),
        (Some(other), _) => refused(format!("KubeVirt does not run disks of the format {other}")),
        (None, _) => refused("the format of the disk is not known".to_owned()),
    }
}

/// Returns the name of the image's file, as the name of the disk.
fn file_name(image: &Description) -> String {
    let name = image.path.file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    if name.is_empty() {
        "disk".to_owned()
    } else {
        name.into_owned()
    }
}
