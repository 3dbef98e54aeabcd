//! Processing of many images in parallel. The output is one line of JSON for each image, in their
//! order, as soon as it is known.

mod shard;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};

use diskfs::{Error, Result};
use serde_json::Value;

use super::out_file::is_standard;
use super::pool;
use super::progress::Progress;
use super::session::{Session, error_json};

pub(super) use shard::Shard;

/// The minimum size of an image: a sector.
const SMALLEST_BYTES: u64 = 512;

/// Returns the images of a directory and its subdirectories, sorted by name, or the images of a
/// list.
pub(super) fn listed(images: &Path) -> Result<Vec<PathBuf>> {
    let in_file = |error: io::Error| Error::from(error).in_file(images);
    if is_standard(images) {
        return Ok(lines(io::stdin().lock())?);
    }
    if !fs::metadata(images).map_err(in_file)?.is_dir() {
        let list = File::open(images).map_err(in_file)?;
        return lines(BufReader::new(list)).map_err(in_file);
    }
    let mut found = Vec::new();
    collect(images, &mut found).map_err(in_file)?;
    found.sort();
    Ok(found)
}

fn lines(list: impl BufRead) -> io::Result<Vec<PathBuf>> {
    let lines = list.lines();
    let paths = lines.filter(|line| line.as_ref().map_or(true, |line| !line.trim().is_empty()));
    paths.map(|line| line.map(PathBuf::from)).collect()
}

/// Collects the images of a directory. Hidden files, and files too small to be an image, are
/// skipped; symlinks to directories are not followed.
fn collect(dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect(&path, found)?;
        } else if fs::metadata(&path).is_ok_and(|it| it.is_file() && it.len() >= SMALLEST_BYTES) {
            found.push(path);
        }
    }
    Ok(())
}

/// Calls `work` for each of `things` and writes one line each, which `describe` makes from the
/// thing and its result. A failure does not stop the others. At the end, a warning counts the
/// failures; `failed` is its text, such as `images could not be inspected`.
pub(super) fn run<T: Send, R>(
    session: &mut Session,
    out: &mut dyn Write,
    things: Vec<T>,
    jobs: Option<NonZero<u8>>,
    work: impl Fn(&T) -> Result<R> + Sync,
    describe: impl Fn(&T, std::result::Result<R, Value>) -> Value + Sync,
    failed: &str,
) -> Result<()> {
    let threads = jobs.map_or_else(pool::default_threads, |jobs| jobs.get().into());
    let command = session.command();
    let mut progress = Progress::new(session.progress(), None);
    let (total, mut done, mut failures, mut exit_code) = (things.len(), 0, 0_usize, 0);
    let look = |thing: T| {
        let result = work(&thing);
        let failure = result.as_ref().err().map(|error| error.kind().exit_code());
        let result = result.map_err(|error| error_object(command, &error));
        // Results wait as text, which needs less memory than the values.
        (describe(&thing, result).to_string(), failure)
    };
    pool::in_order(things.into_iter(), threads, look, |(line, failure)| {
        if let Some(code) = failure {
            failures += 1;
            exit_code = if exit_code == 0 { code } else { exit_code };
        }
        done += 1;
        progress.set(done, 0);
        // Lines are flushed at once, so that an interrupted run leaves the results so far.
        writeln!(out, "{line}")?;
        out.flush()
    })?;
    progress.finish();
    if failures > 0 {
        session.warn(&format!(
            "{failures} of {total} {failed}; see `error` in their lines"
        ));
        session.set_exit_code(exit_code);
    }
    Ok(())
}

/// Returns the member `error` of a line.
fn error_object(command: &str, error: &Error) -> Value {
    let mut document = error_json(command, error, error.kind().exit_code());
    document["error"].take()
}
