//! Documents as objects of Python.

use pyo3::prelude::*;

/// Returns a document as a dictionary.
pub(crate) fn to_python(py: Python<'_>, document: &str) -> PyResult<Py<PyAny>> {
    let module = py.import("json")?;
    Ok(module.call_method1("loads", (document,))?.unbind())
}
