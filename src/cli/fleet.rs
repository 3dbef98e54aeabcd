//! Many images side by side: a line of JSON for each, in their order, as soon as it is known.

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

/// No image of a guest is smaller: a sector.
const SMALLEST_BYTES: u64 = 512;

/// The images of a directory, with those below it, by name; or those of a list.
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

/// What is hidden, or too small to be an image, is passed over; links to directories are not followed.
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

/// Does `work` on each of `things` and writes its line: what `tell` makes of the thing and its result. A failure stops
/// nothing; in the end `failed` says what could not be done, as in `images could not be looked at`.
pub(super) fn run<T: Send, R>(
    session: &mut Session,
    out: &mut dyn Write,
    things: Vec<T>,
    jobs: Option<NonZero<u8>>,
    work: impl Fn(&T) -> Result<R> + Sync,
    tell: impl Fn(&T, std::result::Result<R, Value>) -> Value + Sync,
    failed: &str,
) -> Result<()> {
    let threads = jobs.map_or_else(pool::default_threads, |jobs| jobs.get().into());
    let command = session.command();
    let mut progress = Progress::new(session.progress(), None);
    let (total, mut done, mut failures, mut exit_code) = (things.len(), 0, 0_usize, 0);
    let look = |thing: T| {
        let result = work(&thing);
        let failure = result.as_ref().err().map(|error| error.kind().exit_code());
        let result = result.map_err(|error| told(command, &error));
        // As text, which takes less room than what it is made from while it waits for those before it.
        (tell(&thing, result).to_string(), failure)
    };
    pool::in_order(things.into_iter(), threads, look, |(line, failure)| {
        if let Some(code) = failure {
            failures += 1;
            exit_code = if exit_code == 0 { code } else { exit_code };
        }
        done += 1;
        progress.set(done, 0);
        // A line at once, so that what was done is there when it ends early.
        writeln!(out, "{line}")?;
        out.flush()
    })?;
    progress.finish();
    if failures > 0 {
        session.warn(&format!(
            "{failures} of {total} {failed}: their lines say why"
        ));
        session.end_with(exit_code);
    }
    Ok(())
}

/// The member `error` of a line.
fn told(command: &str, error: &Error) -> Value {
    let mut told = error_json(command, error, error.kind().exit_code());
    told["error"].take()
}
