//! The command `diskfs map`.

use std::io::Write;

use clap::Args;
use diskfs::image::{Description, MapEntry};
use diskfs::{Error, ErrorKind, Result};
use serde_json::{Map as Object, Value};

use super::operand::Operand;
use super::options::SourceArgs;
use super::sandbox::Needs;
use super::session::{Output, Session, stdout};
use super::show::json::{self, List};
use super::show::name::message;

/// Show where an image stores each range of its disk
///
/// One line is printed for each range: its offset in the disk, its length, how it is stored, and
/// the offset in the file that stores it. The ranges cover the whole disk, also if it is an overlay.
#[derive(Debug, Args)]
#[command(
    after_help = "Ranges are data, compressed data, zeroes (which the image marks as such, or
holes of its file), or unallocated: neither the image nor a backing file stores them, and they read
as zeroes.

Examples:
  diskfs map overlay.qcow2
  diskfs map --json disk.qcow2"
)]
pub(super) struct Map {
    /// The image
    #[arg(value_name = "IMG")]
    image: Operand,

    #[command(flatten)]
    source: SourceArgs,
}

pub(super) fn run(args: &Map, session: &mut Session) -> Result<()> {
    let image = args.image.image_alone("to map")?;
    let disk = args.source.open(&image)?;
    session.print_warnings(&disk);
    let image = disk.image().ok_or_else(|| {
        let reason = "the disk is not read from an image";
        Error::new(ErrorKind::Invalid, reason)
    })?;
    let mut out = stdout()?;
    match session.output() {
        Output::Json => {
            let mut list = List::begin(&mut out, session.command(), "extents")?;
            for entry in image.map() {
                list.push(&document(&entry?, disk.description()))?;
            }
            list.end()?;
        }
        Output::Text => {
            writeln!(
                out,
                "{:>16} {:>16}  {:<12} {:>16}  FILE",
                "OFFSET", "LENGTH", "KIND", "AT"
            )?;
            for entry in image.map() {
                write_line(&mut out, &entry?, disk.description())?;
            }
        }
    }
    Ok(out.flush()?)
}

impl Map {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        Needs::reading(std::slice::from_ref(&self.image), &self.source)
    }
}

const fn kind(entry: &MapEntry) -> &'static str {
    match entry {
        MapEntry { present: false, .. } => "unallocated",
        MapEntry { zero: true, .. } => "zero",
        MapEntry {
            compressed: true, ..
        } => "compressed",
        _ => "data",
    }
}

/// Returns the bytes of the path of the file that stores a range.
fn file<'d>(entry: &MapEntry, top: &'d Description) -> &'d [u8] {
    let mut image = top;
    for _ in 0..entry.depth {
        let Some(backing) = image.backing.as_deref() else {
            break;
        };
        image = backing;
    }
    let data_file = image
        .qcow2
        .as_ref()
        .and_then(|qcow2| qcow2.data_file.as_ref());
    let path = data_file.unwrap_or(&image.path);
    path.as_os_str().as_encoded_bytes()
}

fn write_line(out: &mut dyn Write, entry: &MapEntry, top: &Description) -> Result<()> {
    let (start, len, kind) = (entry.start, entry.len_bytes, kind(entry));
    match entry.host_offset.filter(|_| entry.data) {
        Some(at) => {
            let file = String::from_utf8_lossy(file(entry, top));
            let file = message(&file);
            writeln!(out, "{start:>16} {len:>16}  {kind:<12} {at:>16}  {file}")?;
        }
        None => writeln!(out, "{start:>16} {len:>16}  {kind}")?,
    }
    Ok(())
}

fn document(entry: &MapEntry, top: &Description) -> Value {
    let mut fields = Object::new();
    let numbers = [
        ("offset_bytes", Some(entry.start)),
        ("length_bytes", Some(entry.len_bytes)),
        ("depth", Some(entry.depth.into())),
        ("host_offset_bytes", entry.host_offset),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            fields.insert(name.to_owned(), number.into());
        }
    }
    fields.insert("kind".to_owned(), kind(entry).into());
    if entry.present {
        json::put_name(&mut fields, "file", file(entry, top));
    }
    Value::Object(fields)
}
