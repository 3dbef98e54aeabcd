//! The compiled module of the Python package `diskfs`.
//!
//! The classes here take volumes and paths as bytes; `python/diskfs` wraps them in the manner of
//! `pathlib` and `io`. The interpreter's lock is released during each call of the library.

mod disk;
mod error;
mod file;
mod json;
mod options;
mod stat;

use pyo3::prelude::*;

/// The module `diskfs._diskfs`.
#[pymodule]
#[pyo3(name = "_diskfs")]
fn diskfs_module(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<disk::Disk>()?;
    module.add_class::<file::File>()?;
    Ok(())
}
