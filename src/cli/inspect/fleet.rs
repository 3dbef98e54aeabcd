//! Many images side by side, a line of JSON each.
//!
//! A line is `{"image": PATH, "systems": [...]}`, as of one image alone, or `{"image": PATH, "error": {...}}`, and in
//! the order of the images. A broken image stops nothing.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use diskfs::{Error, Result};

use super::{Inspect, guests, json};
use crate::cli::fleet;
use crate::cli::session::{Session, stdout};

/// No image of a guest is smaller: a sector.
const SMALLEST_BYTES: u64 = 512;

pub(super) fn run(args: &Inspect, images: &Path, session: &mut Session) -> Result<()> {
    let mut images = listed(images)?;
    let mut out: Box<dyn Write> = match &args.output {
        None => Box::new(stdout()?),
        Some(path) => {
            let (file, done) =
                open_output(path, args.resume).map_err(|error| Error::from(error).in_file(path))?;
            images.retain(|image| !done.contains(&*image.to_string_lossy()));
            Box::new(file)
        }
    };
    let look = |image: &PathBuf| {
        let disk = args.source.open(image.as_os_str())?;
        Ok(json(args, &guests(args, &disk)?))
    };
    let failed = "images could not be looked at";
    fleet::run(
        session,
        &mut *out,
        images,
        args.jobs,
        look,
        |image, it| line(image, it),
        failed,
    )
}

fn line(image: &Path, looked: std::result::Result<Value, Value>) -> Value {
    let mut line = Map::new();
    line.insert("image".to_owned(), image.to_string_lossy().into());
    match looked {
        Ok(Value::Object(told)) => line.extend(told),
        Ok(_) => {}
        Err(error) => {
            line.insert("error".to_owned(), error);
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

/// Opens the file that lines go to, and tells which images it has an answer for. A last line that was cut is taken off,
/// and so are those of images that failed.
fn open_output(path: &Path, resume: bool) -> io::Result<(File, HashSet<String>)> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true);
    let mut file = options.truncate(!resume).open(path)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    // Beside it, so that it can take its place at once: what was done is never gone.
    let kept = tempfile::NamedTempFile::new_in(dir.unwrap_or(Path::new(".")))?;
    let (done, is_whole) = keep_answers(BufReader::new(&file), BufWriter::new(&kept))?;
    if is_whole {
        file.seek(SeekFrom::End(0))?;
        return Ok((file, done));
    }
    kept.as_file()
        .set_permissions(file.metadata()?.permissions())?;
    Ok((kept.persist(path)?, done))
}

/// What is read of a line that was written before.
#[derive(Deserialize)]
struct Said {
    image: String,
    #[expect(dead_code, reason = "that it is there tells an answer from an error")]
    systems: IgnoredAny,
}

/// Copies the lines that are answers, and tells their images, and whether those are all lines that there are.
fn keep_answers(mut from: impl BufRead, mut to: impl Write) -> io::Result<(HashSet<String>, bool)> {
    let (mut done, mut is_whole) = (HashSet::new(), true);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        match serde_json::from_slice::<Said>(&line) {
            Ok(said) if line.ends_with(b"\n") => {
                to.write_all(&line)?;
                done.insert(said.image);
            }
            _ => is_whole = false,
        }
        line.clear();
    }
    to.flush()?;
    Ok((done, is_whole))
}
