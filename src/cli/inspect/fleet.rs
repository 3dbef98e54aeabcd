//! Inspection of many images in parallel, with one line of JSON each.
//!
//! A line is `{"image": PATH, "systems": [...]}`, as for a single image, or `{"image": PATH,
//! "error": {...}}`. Lines are in the order of the images. A broken image does not stop the others.

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
use crate::cli::sandbox::Needs;
use crate::cli::session::{Session, stdout};

pub(super) fn run(args: &Inspect, images: &Path, session: &mut Session) -> Result<()> {
    let mut images = fleet::listed(images)?;
    if let Some(shard) = args.shard {
        shard.retain(&mut images, Clone::clone);
    }
    let mut out: Box<dyn Write> = match &args.output {
        None => Box::new(stdout()?),
        Some(path) if is_standard(path) => {
            if args.resume {
                let reason = "--resume cannot continue standard output; give a file with --output";
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
    let named = images.iter().map(Into::into).collect();
    let needs = Needs::reading_images(named, &args.source);
    session.while_confined(&needs, |session| inspect(args, images, &mut *out, session))
}

fn inspect(
    args: &Inspect,
    images: Vec<PathBuf>,
    out: &mut dyn Write,
    session: &mut Session,
) -> Result<()> {
    let look = |image: &PathBuf| {
        let disk = args.source.open(image.as_os_str())?;
        Ok(json(args, &guests(args, &disk)?))
    };
    let failed = "images could not be inspected";
    fleet::run(
        session,
        out,
        images,
        args.jobs,
        look,
        |image, it| line(image, it),
        failed,
    )
}

fn line(image: &Path, result: std::result::Result<Value, Value>) -> Value {
    let mut line = Map::new();
    line.insert("image".to_owned(), image.to_string_lossy().into());
    match result {
        Ok(Value::Object(fields)) => line.extend(fields),
        Ok(_) => {}
        Err(error) => {
            line.insert("error".to_owned(), error);
        }
    }
    Value::Object(line)
}

/// Opens the output file, and returns the images that it has an answer for. A truncated last line
/// and the lines of failed images are removed.
fn open_output(path: &Path, resume: bool) -> io::Result<(File, HashSet<String>)> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true);
    let mut file = options.truncate(!resume).open(path)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    // The new file is created beside the old one and replaces it atomically, so finished answers
    // are never lost.
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

/// The members of an earlier line that matter here.
#[derive(Deserialize)]
struct EarlierLine {
    image: String,
    #[expect(
        dead_code,
        reason = "its presence distinguishes an answer from an error"
    )]
    systems: IgnoredAny,
}

/// Copies the lines with answers. Returns their images, and true if there were no other lines.
fn keep_answers(mut from: impl BufRead, mut to: impl Write) -> io::Result<(HashSet<String>, bool)> {
    let (mut done, mut is_whole) = (HashSet::new(), true);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        match serde_json::from_slice::<EarlierLine>(&line) {
            Ok(earlier) if line.ends_with(b"\n") => {
                to.write_all(&line)?;
                done.insert(earlier.image);
            }
            _ => is_whole = false,
        }
        line.clear();
    }
    to.flush()?;
    Ok((done, is_whole))
}
