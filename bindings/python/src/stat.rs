//! The metadata of files.

use diskfs::vfs::{Metadata, Timestamp};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// The nanoseconds of a second.
const SECOND: i128 = 1_000_000_000;

/// Returns the metadata as an `os.stat_result`.
pub(crate) fn to_python(py: Python<'_>, metadata: &Metadata) -> PyResult<Py<PyAny>> {
    let times = [metadata.accessed, metadata.modified, metadata.changed];
    let sequence = PyTuple::new(
        py,
        [
            i128::from(metadata.mode()),
            i128::from(metadata.inode.0),
            0,
            i128::from(metadata.links),
            i128::from(metadata.uid),
            i128::from(metadata.gid),
            i128::from(metadata.size_bytes),
            i128::from(times[0].seconds),
            i128::from(times[1].seconds),
            i128::from(times[2].seconds),
        ],
    )?;
    let others = PyDict::new(py);
    for (name, time) in ["st_atime", "st_mtime", "st_ctime"].into_iter().zip(times) {
        let nanoseconds = nanoseconds(time);
        others.set_item(format!("{name}_ns"), nanoseconds)?;
        // A quotient of integers of Python is rounded only once.
        let seconds = nanoseconds.into_pyobject(py)?.div(SECOND)?;
        others.set_item(name, seconds)?;
    }
    others.set_item("st_blocks", metadata.allocated_bytes / 512)?;
    others.set_item("st_blksize", metadata.block_size)?;
    let device = metadata.device.unwrap_or_default();
    let makedev = py.import("os")?.getattr("makedev")?;
    let number = makedev.call1((device.major, device.minor))?;
    others.set_item("st_rdev", number)?;
    let class = py.import("os")?.getattr("stat_result")?;
    Ok(class.call1((sequence, others))?.unbind())
}

/// Returns the nanoseconds since 1970.
fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds)
        .saturating_mul(SECOND)
        .saturating_add(time.nanoseconds.into())
}
