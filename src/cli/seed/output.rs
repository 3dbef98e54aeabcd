//! The image file of a seed, and the report.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use diskfs::vfs::copy_out::{Existing, NewFile};
use diskfs::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

use super::Seed;
use crate::cli::out_file::is_standard;
use crate::cli::session::{Output, Session, raw_stdout, stdout};
use crate::cli::show::json as document;

/// Writes the image; `-` is standard output. A file appears when it is complete and durable.
pub(super) fn write(path: &Path, force: bool, image: &[u8]) -> Result<()> {
    if is_standard(path) {
        return Ok(raw_stdout()?.write_all(image)?);
    }
    let in_file = |e: io::Error| match e.kind() {
        io::ErrorKind::AlreadyExists => Error::new(ErrorKind::Exists, "the file exists")
            .in_file(path)
            .with_hint("--force replaces it"),
        _ => Error::from(e).in_file(path),
    };
    create(path, force, image).map_err(in_file)
}

fn create(path: &Path, force: bool, image: &[u8]) -> io::Result<()> {
    // A symlink is kept, and the file that it points to is replaced.
    let target = path.canonicalize().ok().filter(|_| force);
    let path = target.as_deref().unwrap_or(path);
    if force && path.metadata().is_ok_and(|there| !there.is_file()) {
        return Err(io::Error::other("not a regular file, and not replaced"));
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let existing = if force {
        Existing::Replace
    } else {
        Existing::Keep
    };
    let dir = File::open(dir)?;
    let new = NewFile::create(dir.try_clone()?, name, existing, 0o666)?;
    let mut file = File::from(new.as_fd().try_clone_to_owned()?);
    file.write_all(image)?;
    file.sync_all()?;
    new.finish()?;
    dir.sync_all()
}

/// Prints the JSON document, if it is wanted and standard output is not the image.
pub(super) fn print(seed: &Seed<'_>, len_bytes: usize, session: &Session) -> Result<()> {
    let path = &seed.output.output;
    if session.output() != Output::Json || is_standard(path) {
        return Ok(());
    }
    let mut fields = Map::new();
    document::put_name(&mut fields, "path", path.as_os_str().as_encoded_bytes());
    let file = |file: &diskfs_iso9660::NewFile| json!({ "path": file.path, "size_bytes": file.contents.len() });
    let files: Vec<Value> = seed.files.iter().map(file).collect();
    fields.insert("kind".to_owned(), seed.kind.into());
    fields.insert("label".to_owned(), seed.label.into());
    fields.insert("size_bytes".to_owned(), len_bytes.into());
    fields.insert("files".to_owned(), files.into());
    let mut out = stdout()?;
    document::write(&mut out, session.command(), Value::Object(fields))?;
    Ok(out.flush()?)
}
