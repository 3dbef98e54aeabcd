//! The command `qemu-img map`.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use serde_json::{Value, json};

use diskfs::image::{Description, MapEntry};

use super::arguments::{OpenArgs, OutputForm, Source, only, size};
use super::failure::{Failure, Result};
use super::runner::{confined, text};
use crate::cli::show::name::message;

/// Show where an image stores each range of its disk
#[derive(Debug, Args)]
pub(super) struct Map {
    #[arg(value_name = "FILE")]
    names: Vec<OsString>,

    /// The format of the image
    #[arg(short, long, value_name = "FMT")]
    format: Option<String>,

    /// The form of the output
    #[arg(long, value_enum, default_value_t)]
    output: OutputForm,

    /// The first byte to show
    #[arg(short, long, value_name = "OFFSET")]
    start_offset: Option<String>,

    /// The number of bytes to show
    #[arg(short = 'l', long, value_name = "LENGTH")]
    max_length: Option<String>,

    #[command(flatten)]
    open: OpenArgs,
}

impl Map {
    pub(super) fn run(&self) -> Result<u8> {
        let name = only(&self.names, "map")?;
        let source = self.open.source(name, self.format.as_deref())?;
        confined(&[&source], None, || self.print(&source))?;
        Ok(0)
    }

    fn print(&self, source: &Source) -> Result<()> {
        let image = source.open()?;
        let start = self.start_offset.as_deref().map_or(Ok(0), size)?;
        let length = self.max_length.as_deref().map_or(Ok(u64::MAX), size)?;
        let end = start.saturating_add(length);
        let mut out = std::io::stdout().lock();
        let mut is_first = true;
        if self.output == OutputForm::Human {
            writeln!(
                out,
                "{:<16}{:<16}{:<16}File",
                "Offset", "Length", "Mapped to"
            )?;
        }
        for entry in image.map() {
            let Some(mut entry) = within(&entry?, start, end) else {
                continue;
            };
            if source.is_luks {
                entry.host_offset = None;
            }
            match self.output {
                OutputForm::Json => {
                    out.write_all(if is_first { b"[" } else { b",\n" })?;
                    is_first = false;
                    write_json(&mut out, &entry)?;
                }
                OutputForm::Human => write_line(&mut out, &entry, image.description())?,
            }
        }
        if self.output == OutputForm::Json {
            if is_first {
                out.write_all(b"[")?;
                write_json(&mut out, &nothing_at(start))?;
            }
            out.write_all(b"]\n")?;
        }
        Ok(out.flush()?)
    }
}

/// Returns the part of a range between two offsets.
fn within(entry: &MapEntry, start: u64, end: u64) -> Option<MapEntry> {
    let from = entry.start.max(start);
    let to = entry.start.saturating_add(entry.len_bytes).min(end);
    let skipped = from.saturating_sub(entry.start);
    (from < to).then(|| MapEntry {
        start: from,
        len_bytes: to.saturating_sub(from),
        host_offset: entry.host_offset.map(|at| at.saturating_add(skipped)),
        ..*entry
    })
}

/// Returns the entry that qemu-img writes if there is none.
const fn nothing_at(start: u64) -> MapEntry {
    MapEntry {
        start,
        len_bytes: 0,
        depth: 0,
        present: false,
        zero: false,
        data: false,
        compressed: false,
        host_offset: None,
    }
}

/// Writes a range with qemu-img's spaces, which its callers' expressions may contain.
fn write_json(out: &mut impl Write, entry: &MapEntry) -> Result<()> {
    let value = |value: Value| value.to_string();
    let mut fields = vec![
        ("start", value(entry.start.into())),
        ("length", value(entry.len_bytes.into())),
        ("depth", value(entry.depth.into())),
        ("present", value(entry.present.into())),
        ("zero", value(entry.zero.into())),
        ("data", value(entry.data.into())),
        ("compressed", value(entry.compressed.into())),
    ];
    fields.extend(entry.host_offset.map(|at| ("offset", value(json!(at)))));
    let fields = fields.into_iter();
    let fields: Vec<String> = fields
        .map(|(name, value)| format!("\"{name}\": {value}"))
        .collect();
    Ok(write!(out, "{{ {}}}", fields.join(", "))?)
}

/// Writes a range that stores data; others have no line.
fn write_line(out: &mut impl Write, entry: &MapEntry, image: &Description) -> Result<()> {
    if !entry.data || entry.zero {
        return Ok(());
    }
    let (Some(at), false) = (entry.host_offset, entry.compressed) else {
        return Err(Failure::new(
            "File contains external, encrypted or compressed clusters.",
        ));
    };
    let mut file = Some(image);
    for _ in 0..entry.depth {
        file = file.and_then(|image| image.backing.as_deref());
    }
    let data_file = file.and_then(|image| image.qcow2.as_ref()?.data_file.as_ref());
    let path = data_file.or(file.map(|image| &image.path));
    let columns = [entry.start, entry.len_bytes, at].map(|number| {
        let hex = if number == 0 {
            "0".to_owned()
        } else {
            format!("{number:#x}")
        };
        format!("{hex:<16}")
    });
    let path = path.map(|path| message(&text(path))).unwrap_or_default();
    Ok(writeln!(out, "{}{path}", columns.concat())?)
}
