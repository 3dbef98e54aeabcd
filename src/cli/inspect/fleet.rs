//! Many images side by side, a line of JSON each.
//!
//! A line is `{"image": PATH, "systems": [...]}`, as of one image alone, or `{"image": PATH, "error": {...}}`, and in
//! the order of the images. A broken image stops nothing.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use diskfs::{Error, ErrorKind, Result};

use super::{Inspect, guests, json};
use crate::cli::fleet;
use crate::cli::out_file::is_standard;
use crate::cli::session::{Session, stdout};

pub(super) fn run(args: &Inspect, images: &Path, session: &mut Session) -> Result<()> {
    let mut images = fleet::listed(images)?;
    let mut out: Box<dyn Write> = match &args.output {
        None => Box::new(stdout()?),
        Some(path) if is_standard(path) => {
            if args.resume {
                let reason = "standard output is not read: --resume needs a file";
                return Err(Error::new(ErrorKind::Invalid, reason));
            }
            Box::new(stdout()?)
        }
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
