//! The command `diskfs hash`.

mod digest;

use std::fmt::Write as _;
use std::io::Write;

use clap::Args;

use diskfs::Result;
use diskfs::vfs::Follow;

use super::operand::Operand;
use super::options::SourceArgs;
use super::pool;
use super::progress::{Holes, Progress, sizes_below};
use super::sandbox::Needs;
use super::session::{Located, Output, Session, stdout};
use super::show::json::{self, List, put_name};
use super::show::mode;
use super::show::name::{escape, join};
use super::show::time;
use digest::{Hashed, hex};

/// Print a manifest: the hash and the metadata of every file
#[derive(Debug, Args)]
#[command(
    after_help = "Prints one line for each file, in the order of names, with fields separated by tabs:
  1 SHA-256 of the contents, or - if it is not a regular file
  2 type (f d l b c p s)   3 mode, octal   4 uid   5 gid
  6 size in bytes (- for a directory; major:minor for a device)
  7 modification time, in seconds since 1970
  8 SHA-256 of all extended attributes, or - if there are none
  9 path; for a symlink, followed by a tab and its target
Nonprintable characters of names are written as \\n, \\t, \\\\ and octal escapes.
The hash of the attributes covers, in the order of their names: length of the name (8 bytes,
big-endian), name, length of the value, value.

Examples:
  diskfs hash disk.qcow2:/etc > before
  diskfs hash disk.qcow2:/etc | diff before -"
)]
pub(super) struct Hash {
    /// The directories or files to begin at; an image alone stands for its root directory
    #[arg(required = true, value_name = "IMG[:/PATH]")]
    paths: Vec<Operand>,

    /// The number of files to read in parallel
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,

    #[command(flatten)]
    source: SourceArgs,
}

impl Hash {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        Needs::reading(&self.paths, &self.source)
    }
}

pub(super) fn run(args: &Hash, session: &mut Session) -> Result<()> {
    let places = session.places(&args.paths, &args.source);
    let mut out = stdout()?;
    let starts = places
        .iter()
        .filter_map(|place| place.node(Follow::AllButLast).ok());
    let total = sizes_below(starts.collect(), Holes::Counted);
    let mut progress = Progress::new(session.progress(), total);
    match session.output() {
        Output::Json => {
            let mut list = List::begin(&mut out, session.command(), "entries")?;
            for place in &places {
                manifest(args, session, place, &mut progress, |hashed| {
                    Ok(list.push(&entry(place, hashed))?)
                })?;
            }
            list.end()?;
        }
        Output::Text => {
            for place in &places {
                manifest(args, session, place, &mut progress, |hashed| {
                    Ok(out.write_all(&line(place, hashed))?)
                })?;
            }
        }
    }
    progress.finish();
    Ok(out.flush()?)
}

/// Calls `report` for every file below `place` in order, while other files are being hashed.
fn manifest(
    args: &Hash,
    session: &mut Session,
    place: &Located,
    progress: &mut Progress,
    mut report: impl FnMut(&Hashed) -> Result<()>,
) -> Result<()> {
    let start = match place.node(Follow::AllButLast) {
        Ok(start) => start,
        Err(error) => {
            session.report(&error);
            return Ok(());
        }
    };
    let threads = args.threads.map_or_else(pool::default_threads, usize::from);
    let work = |entry: Result<_>| digest::hash(&start, entry?);
    pool::in_order(start.walk_sorted(), threads, work, |hashed| {
        match hashed {
            Ok(hashed) => {
                progress.file();
                if hashed.contents.is_some() {
                    progress.advance(hashed.entry.metadata.size_bytes);
                }
                report(&hashed)?;
            }
            Err(error) => session.report(&error),
        }
        Ok(())
    })
}

fn line(place: &Located, hashed: &Hashed) -> Vec<u8> {
    let m = &hashed.entry.metadata;
    let dash = || "-".to_owned();
    let size = match m.device {
        Some(device) => format!("{}:{}", device.major, device.minor),
        None if m.is_dir() => dash(),
        None => m.size_bytes.to_string(),
    };
    let mut text = String::new();
    let _ = write!(
        text, // Writing to a String cannot fail.
        "{}\t{}\t{:04o}\t{}\t{}\t{size}\t{}\t{}\t",
        hashed.contents.as_ref().map_or_else(dash, hex),
        mode::find_letter(m.file_type),
        m.permissions,
        m.uid,
        m.gid,
        time::decimal(m.modified),
        hashed.xattrs_hash().as_ref().map_or_else(dash, hex),
    );
    let mut line = text.into_bytes();
    line.extend_from_slice(&escape(&join(&place.path, &hashed.entry.path)));
    if let Some(target) = &hashed.target {
        line.push(b'\t');
        line.extend_from_slice(&escape(target));
    }
    line.push(b'\n');
    line
}

fn entry(place: &Located, hashed: &Hashed) -> serde_json::Value {
    let path = join(&place.path, &hashed.entry.path);
    let mut object = json::metadata(&path, &hashed.entry.metadata);
    if let Some(contents) = &hashed.contents {
        object.insert("sha256".to_owned(), hex(contents).into());
    }
    if let Some(target) = &hashed.target {
        put_name(&mut object, "target", target);
    }
    object.insert("xattrs".to_owned(), json::xattrs(&hashed.xattrs));
    object.into()
}
