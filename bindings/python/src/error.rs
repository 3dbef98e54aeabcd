//! Exceptions.

use diskfs::Error;
use pyo3::prelude::*;

/// Returns the exception for an error: an instance of a class of `diskfs._errors`.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let file = error.file().map(std::path::Path::as_os_str);
    let made = py.import("diskfs._errors").and_then(|module| {
        let arguments = (
            error.kind().name(),
            error.errno(),
            error.to_string(),
            file,
            error.guest_path(),
        );
        module.call_method1("make", arguments)
    });
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// Calls `act` without the interpreter's lock, and turns its error into an exception.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    act: impl FnOnce() -> diskfs::Result<T> + Send,
) -> PyResult<T> {
    py.detach(act).map_err(|error| exception(py, &error))
}
