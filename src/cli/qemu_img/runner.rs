//! Confinement of the commands that only read images.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::arguments::Source;
use super::failure::Result;
use crate::cli::sandbox::Needs;
use crate::cli::session::Session;
use crate::cli::{GlobalArgs, ProgressMode};

/// Does work that reads these images, and creates `output`, in a process that can open nothing
/// else: the images may belong to an attacker.
pub(super) fn confined<T>(
    sources: &[&Source],
    output: Option<&Path>,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let Some(first) = sources.first() else {
        return work();
    };
    let global = GlobalArgs {
        json: false,
        progress: ProgressMode::None,
        no_sandbox: false,
        verbose: 0,
    };
    let images = sources.iter().map(|source| spec(&source.path)).collect();
    let needs = Needs::reading_images(images, &first.args).writing(output);
    let session = Session::new(&global, super::NAME);
    let confined = session.confine(&needs, &mut || {})?;
    let done = work();
    if let Some(confined) = confined {
        confined.finish();
    }
    done
}

/// Returns the spec of an image at this path: commas are doubled.
fn spec(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes().iter();
    let doubled = bytes.flat_map(|byte| {
        let times = if *byte == b',' { 2 } else { 1 };
        std::iter::repeat_n(*byte, times)
    });
    let doubled: Vec<u8> = doubled.collect();
    OsString::from_vec(doubled)
}

/// Returns a path as text.
pub(super) fn text(path: impl AsRef<OsStr>) -> String {
    path.as_ref().to_string_lossy().into_owned()
}
