//! Open files.

use diskfs_session::OpenFile;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::detached;

/// The largest read or write that is done at once: between two of them, the interpreter can deliver
/// a signal.
const STEP_BYTES: usize = 8 << 20;

/// An open regular file with positional access.
#[pyclass(frozen, module = "diskfs._diskfs")]
pub(crate) struct File {
    file: OpenFile,
}

impl File {
    pub(crate) fn new(file: OpenFile) -> Self {
        Self { file }
    }
}

#[pymethods]
impl File {
    /// Returns the size in bytes.
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || self.file.size_bytes())
    }

    /// Returns true if the file was opened for writing.
    fn writable(&self) -> bool {
        self.file.is_writable()
    }

    /// Returns up to `length` bytes from byte `offset` on.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        length: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let left = detached(py, || self.file.size_bytes())?.saturating_sub(offset);
        let length = length.min(usize::try_from(left).unwrap_or(usize::MAX));
        // The bytes are new and nobody else knows them, so they can be filled without the lock.
        let mut data = vec![0; length.min(STEP_BYTES)];
        let mut read = detached(py, || self.file.read_at(offset, &mut data))?;
        while read == data.len() && read < length {
            py.check_signals()?;
            data.resize(length.min(read.saturating_add(STEP_BYTES)), 0);
            let at = offset.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
            let rest = data.get_mut(read..).unwrap_or_default();
            let step = detached(py, || self.file.read_at(at, rest))?;
            if step == 0 {
                break;
            }
            read = read.saturating_add(step);
        }
        data.truncate(read);
        Ok(PyBytes::new(py, &data))
    }

    /// Writes all of `data` at byte `offset`.
    fn write_at(&self, py: Python<'_>, offset: u64, data: &[u8]) -> PyResult<usize> {
        let mut offset = offset;
        for part in data.chunks(STEP_BYTES) {
            py.check_signals()?;
            detached(py, || self.file.write_at(offset, part))?;
            offset = offset.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
        }
        Ok(data.len())
    }

    /// Truncates the file, or extends it with a hole.
    fn set_len(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        detached(py, || self.file.set_len(size))
    }

    /// Makes the contents and the name durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.file.sync())
    }
}
