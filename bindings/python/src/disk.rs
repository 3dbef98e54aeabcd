//! Open disks.

use std::ops::ControlFlow;
use std::path::PathBuf;

use diskfs::WritableFilesystem;
use diskfs::document::Sources;
use diskfs::inspect::Depth;
use diskfs::vfs::Follow;
use diskfs_session::{FileMode, Session};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::detached;
use crate::file::File;
use crate::options::Options;
use crate::{json, stat};

/// An open disk.
#[pyclass(frozen, module = "diskfs._diskfs")]
pub(crate) struct Disk {
    session: Session,
}

/// A volume: name, size, kind, label, UUID, and whether it can be opened.
type VolumeFields = (
    String,
    u64,
    Option<&'static str>,
    Vec<u8>,
    Option<String>,
    bool,
);

impl Disk {
    fn change(
        &self,
        py: Python<'_>,
        volume: Option<&str>,
        act: impl FnOnce(&WritableFilesystem) -> diskfs::Result<()> + Send,
    ) -> PyResult<()> {
        detached(py, || act(self.session.tree(volume)?.writer()?))
    }
}

#[pymethods]
impl Disk {
    /// Opens the image at `path`.
    #[new]
    fn open(py: Python<'_>, path: PathBuf, options: Options) -> PyResult<Self> {
        let options = options.session(py)?;
        let session = detached(py, || Session::open(path, &options))?;
        Ok(Self { session })
    }

    /// Makes all changes so far durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.session.sync())
    }

    /// Ends writing and closes the disk.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.session.close())
    }

    /// Returns true after `close`.
    fn closed(&self) -> bool {
        self.session.is_closed()
    }

    /// Returns true if the disk was opened for writing.
    fn writable(&self) -> bool {
        self.session.is_writable()
    }

    /// Lists the volumes.
    fn volumes(&self, py: Python<'_>) -> PyResult<Vec<VolumeFields>> {
        let volumes = detached(py, || self.session.volumes())?;
        let fields = volumes.into_iter().map(|volume| {
            (
                volume.name,
                volume.size_bytes,
                volume.kind,
                volume.label,
                volume.uuid,
                volume.is_readable,
            )
        });
        Ok(fields.collect())
    }

    /// Returns the document of `diskfs info`.
    fn info(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let document = detached(py, || Ok(self.session.info()?.to_string()))?;
        json::to_python(py, &document)
    }

    /// Returns the document of `diskfs inspect`.
    fn inspect(&self, py: Python<'_>, initramfs: bool, sources: bool) -> PyResult<Py<PyAny>> {
        let depth = if initramfs {
            Depth::Initramfs
        } else {
            Depth::Files
        };
        let sources = if sources {
            Sources::Included
        } else {
            Sources::Omitted
        };
        let document = detached(py, || Ok(self.session.inspect(depth, sources)?.to_string()))?;
        json::to_python(py, &document)
    }

    /// Applies a plan, and returns the document of `diskfs deploy`.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a reference to an object would need the interpreter's lock"
    )]
    fn deploy(
        &self,
        py: Python<'_>,
        plan: &str,
        dry_run: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let mut raised = None;
        let document = detached(py, || {
            if dry_run {
                return Ok(self.session.deploy_dry_run(plan)?.to_string());
            }
            let mut call = |done: u64, total: u64| match &progress {
                None => ControlFlow::Continue(()),
                Some(progress) => match Python::attach(|py| progress.call1(py, (done, total))) {
                    Ok(_) => ControlFlow::Continue(()),
                    Err(error) => {
                        raised = Some(error);
                        ControlFlow::Break(())
                    }
                },
            };
            Ok(self.session.deploy(plan, &mut call)?.to_string())
        });
        // The exception of the callback says more than that the work was cancelled.
        match raised {
            Some(error) => Err(error),
            None => json::to_python(py, &document?),
        }
    }

    /// Returns the metadata of a file as an `os.stat_result`.
    fn stat(
        &self,
        py: Python<'_>,
        volume: Option<&str>,
        path: &[u8],
        follow: bool,
    ) -> PyResult<Py<PyAny>> {
        let metadata = detached(py, || {
            let tree = self.session.tree(volume)?;
            if follow {
                tree.reader().metadata(path)
            } else {
                tree.reader().symlink_metadata(path)
            }
        })?;
        stat::to_python(py, &metadata)
    }

    /// Returns the names and types of the entries of a directory, sorted by name. A type is the
    /// bits of `S_IFMT`.
    fn list<'py>(
        &self,
        py: Python<'py>,
        volume: Option<&str>,
        path: &[u8],
    ) -> PyResult<Vec<(Bound<'py, PyBytes>, u32)>> {
        let entries = detached(py, || {
            let tree = self.session.tree(volume)?;
            let dir = tree.reader().node(path, Follow::All)?;
            let entries = dir.read_dir_sorted()?.into_iter().map(|entry| {
                let file_type = match entry.file_type {
                    Some(file_type) => file_type,
                    None => dir.below(&entry.name, entry.inode).metadata()?.file_type,
                };
                Ok((entry.name, file_type.mode_bits()))
            });
            entries.collect::<diskfs::Result<Vec<_>>>()
        })?;
        let entries = entries.into_iter();
        Ok(entries
            .map(|(name, bits)| (PyBytes::new(py, &name), bits))
            .collect())
    }

    /// Returns the target of a symlink.
    fn read_link<'py>(
        &self,
        py: Python<'py>,
        volume: Option<&str>,
        path: &[u8],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let target = detached(py, || self.session.tree(volume)?.reader().read_link(path))?;
        Ok(PyBytes::new(py, &target))
    }

    /// Returns the paths that match a shell pattern, sorted.
    fn glob<'py>(
        &self,
        py: Python<'py>,
        volume: Option<&str>,
        pattern: &[u8],
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let paths = detached(py, || self.session.tree(volume)?.reader().glob(pattern))?;
        Ok(paths.iter().map(|path| PyBytes::new(py, path)).collect())
    }

    /// Returns the value of each extended attribute.
    fn xattrs<'py>(
        &self,
        py: Python<'py>,
        volume: Option<&str>,
        path: &[u8],
    ) -> PyResult<Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let pairs = detached(py, || self.session.tree(volume)?.reader().xattrs(path))?;
        let pairs = pairs.iter();
        Ok(pairs
            .map(|(name, value)| (PyBytes::new(py, name), PyBytes::new(py, value)))
            .collect())
    }

    /// Opens a regular file. The mode is one of `r`, `r+`, `a`, `w` and `x`.
    fn open_file(
        &self,
        py: Python<'_>,
        volume: Option<&str>,
        path: &[u8],
        mode: &str,
    ) -> PyResult<File> {
        let mode = match mode {
            "r" => FileMode::Read,
            "r+" => FileMode::Write,
            "a" => FileMode::WriteOrCreate,
            "w" => FileMode::Truncate,
            "x" => FileMode::CreateNew,
            _ => return Err(PyValueError::new_err(format!("invalid mode {mode:?}"))),
        };
        let file = detached(py, || self.session.open_file(volume, path, mode))?;
        Ok(File::new(file))
    }

    /// Creates a directory; with `parents` also the missing ones above it.
    fn mkdir(
        &self,
        py: Python<'_>,
        volume: Option<&str>,
        path: &[u8],
        parents: bool,
    ) -> PyResult<()> {
        self.change(py, volume, |fs| {
            if parents {
                fs.mkdir_all(path)
            } else {
                fs.mkdir(path)
            }
        })
    }

    /// Removes a file or an empty directory; with `recursive` also what is below it.
    fn remove(
        &self,
        py: Python<'_>,
        volume: Option<&str>,
        path: &[u8],
        recursive: bool,
    ) -> PyResult<()> {
        self.change(py, volume, |fs| {
            if recursive {
                fs.remove_all(path)
            } else {
                fs.remove(path)
            }
        })
    }

    /// Renames a file or a directory.
    fn rename(&self, py: Python<'_>, volume: Option<&str>, from: &[u8], to: &[u8]) -> PyResult<()> {
        self.change(py, volume, |fs| fs.rename(from, to))
    }

    /// Creates a symlink.
    fn symlink(
        &self,
        py: Python<'_>,
        volume: Option<&str>,
        target: &[u8],
        path: &[u8],
    ) -> PyResult<()> {
        self.change(py, volume, |fs| fs.symlink(target, path))
    }

    /// Creates a hard link.
    fn hard_link(
        &self,
        py: Python<'_>,
        volume: Option<&str>,
        original: &[u8],
        path: &[u8],
    ) -> PyResult<()> {
        self.change(py, volume, |fs| fs.hard_link(original, path))
    }

    /// Sets the permissions of a file.
    fn chmod(
        &self,
        py: Python<'_>,
        volume: Option<&str>,
        path: &[u8],
        permissions: u16,
    ) -> PyResult<()> {
        self.change(py, volume, |fs| fs.set_permissions(path, permissions))
    }

    /// Sets the owner and the group of a file.
    fn chown(
        &self,
        py: Python<'_>,
        volume: Option<&str>,
        path: &[u8],
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> PyResult<()> {
        self.change(py, volume, |fs| fs.chown(path, uid, gid))
    }
}
