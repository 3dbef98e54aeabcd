//! Many images side by side, a line of JSON each.
//!
//! A line is `{"image": PATH, "systems": [...]}`, as of one image alone, or `{"image": PATH, "error": {...}}`, and in
//! the order of the images. A broken image stops nothing.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use diskfs::{Error, Result};

use super::{Inspect, guests, json};
use crate::cli::pool;
use crate::cli::progress::Progress;
use crate::cli::session::{Session, error_json, stdout};

/// No image of a guest is smaller: a sector.
const SMALLEST_BYTES: u64 = 512;

pub(super) fn run(args: &Inspect, images: &Path, session: &mut Session) -> Result<()> {
    let mut images = listed(images)?;
    let mut out: Box<dyn Write> = match &args.output {
        None => Box::new(stdout()?),
        Some(path) => {
            let (file, done) = Output::open(path, args.resume)
                .map_err(|error| Error::from(error).in_file(path))?;
            images.retain(|image| !done.contains(&*image.to_string_lossy()));
            Box::new(file)
        }
    };
    let threads = args
        .jobs
        .map_or_else(pool::default_threads, |jobs| jobs.get().into());
    let mut progress = Progress::new(session.progress(), None);
    let total = images.len();
    let command = session.command();
    let (mut failed, mut exit_code) = (0_usize, 0);
    let look = |image: PathBuf| {
        let looked = args.source.open(image.as_os_str());
        let looked = looked.and_then(|disk| guests(args, &disk));
        let failure = looked.as_ref().err().map(|error| error.kind().exit_code());
        // As text, which takes less room than what it is made from while it waits for those before it.
        let looked = looked.map(|guests| json(args, &guests));
        (line(command, &image, looked).to_string(), failure)
    };
    let mut done = 0;
    pool::in_order(images.into_iter(), threads, look, |(line, failure)| {
        if let Some(code) = failure {
            failed += 1;
            exit_code = if exit_code == 0 { code } else { exit_code };
        }
        done += 1;
        progress.set(done, 0);
        // A line at once, so that what was done is there when it ends early.
        writeln!(out, "{line}")?;
        out.flush()
    })?;
    progress.finish();
    if failed > 0 {
        session.warn(&format!(
            "{failed} of {total} images could not be looked at: their lines say why"
        ));
        session.end_with(exit_code);
    }
    Ok(())
}

fn line(command: &str, image: &Path, looked: Result<Value>) -> Value {
    let mut line = Map::new();
    line.insert("image".to_owned(), image.to_string_lossy().into());
    match looked {
        Ok(Value::Object(told)) => line.extend(told),
        Ok(_) => {}
        Err(error) => {
            let told = error_json(command, &error, error.kind().exit_code());
            line.insert("error".to_owned(), told["error"].clone());
        }
    }
    Value::Object(line)
}

/// The images of a directory, with those below it, by name; or those of a list.
fn listed(images: &Path) -> Result<Vec<PathBuf>> {
    let in_file = |error: io::Error| Error::from(error).in_file(images);
    if images == Path::new("-") {
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

/// The file that lines go to.
struct Output;

impl Output {
    /// Opens it, and tells which images it has an answer for. A last line that was cut is taken off, and so are those of
    /// images that failed.
    fn open(path: &Path, resume: bool) -> io::Result<(File, HashSet<String>)> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true);
        let mut file = options.truncate(!resume).open(path)?;
        let mut done = HashSet::new();
        let mut kept = Vec::new();
        let mut reader = BufReader::new(&file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            let said: Option<Value> = serde_json::from_slice(&line).ok();
            let said = said.filter(|said| line.ends_with(b"\n") && said.get("systems").is_some());
            if let Some(image) = said.as_ref().and_then(|said| said["image"].as_str()) {
                done.insert(image.to_owned());
                kept.extend_from_slice(&line);
            }
            line.clear();
        }
        let before = file.metadata()?.len();
        if kept.len() as u64 != before {
            replace(path, &kept)?;
            file = OpenOptions::new().write(true).open(path)?;
        }
        file.seek(SeekFrom::End(0))?;
        Ok((file, done))
    }
}

/// Writes a file anew beside itself: what was done is never gone.
fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let mut new = tempfile::NamedTempFile::new_in(dir.unwrap_or(Path::new(".")))?;
    new.write_all(contents)?;
    new.persist(path)?;
    Ok(())
}
