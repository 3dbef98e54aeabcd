//! The command `qemu-img snapshot`.

use std::ffi::OsString;
use std::io::Write;

use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use diskfs::image::snapshots;

use super::arguments::{OpenArgs, only};
use super::failure::{Failure, Result};
use super::size::human;
use crate::cli::show::name::message;
use crate::cli::show::time;
use crate::cli::snapshot::taken_at;

/// List, create, apply or delete the snapshots of an image
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("action"))]
pub(super) struct Snapshot {
    #[arg(value_name = "FILE")]
    names: Vec<OsString>,

    /// List the snapshots; this is the default
    #[arg(short, long, group = "action")]
    list: bool,

    /// Create a snapshot
    #[arg(short, long, value_name = "SNAPSHOT", group = "action")]
    create: Option<String>,

    /// Return the disk to a snapshot
    #[arg(short, long, value_name = "SNAPSHOT", group = "action")]
    apply: Option<String>,

    /// Delete a snapshot
    #[arg(short, long, value_name = "SNAPSHOT", group = "action")]
    delete: Option<String>,

    /// The format of the image
    #[arg(short, long, value_name = "FMT")]
    format: Option<String>,

    /// Print no messages but errors
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    open: OpenArgs,
}

impl Snapshot {
    pub(super) fn run(&self) -> Result<u8> {
        let name = only(&self.names, "snapshot")?;
        let source = self.open.source(name, self.format.as_deref())?;
        let options = source.open_options()?;
        let path = &source.path;
        if let Some(name) = &self.create {
            let failed = |e| Failure::at(&format!("Could not create snapshot '{name}'"), from(e));
            snapshots::create(path, name, &options).map_err(failed)?;
        } else if let Some(name) = &self.apply {
            let failed = |e| Failure::at(&format!("Could not apply snapshot '{name}'"), from(e));
            snapshots::apply(path, name, &options).map_err(failed)?;
        } else if let Some(name) = &self.delete {
            let failed = |e| Failure::at(&format!("Could not delete snapshot '{name}'"), from(e));
            snapshots::delete(path, name, &options).map_err(failed)?;
        } else {
            let failed = |e| Failure::to_open(path, from(e));
            let all = snapshots::list(path, &options).map_err(failed)?;
            let mut out = std::io::stdout().lock();
            if !all.is_empty() {
                writeln!(out, "Snapshot list:")?;
            }
            for line in lines(&all) {
                writeln!(out, "{line}")?;
            }
            out.flush()?;
        }
        Ok(0)
    }
}

fn from(error: diskfs::block::Error) -> diskfs::Error {
    error.into()
}

/// Returns a table of snapshots; no lines if there is none. Times are in UTC.
pub(super) fn lines(all: &[diskfs::image::Snapshot]) -> Vec<String> {
    if all.is_empty() {
        return Vec::new();
    }
    let line = |id: &str, tag: &str, rest: [&str; 4]| {
        let [size, date, clock, icount] = rest;
        format!("{id:<7} {tag:<16} {size:>8} {date:>19} {clock:>15} {icount:>10}")
    };
    let mut lines = vec![line("ID", "TAG", ["VM_SIZE", "DATE", "VM_CLOCK", "ICOUNT"])];
    lines.extend(all.iter().map(|snapshot| {
        let full = time::full(taken_at(snapshot));
        let clock = snapshot.vm_clock;
        let seconds = clock.as_secs();
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        let (seconds, millis) = (seconds % 60, clock.subsec_millis());
        line(
            &message(&snapshot.id),
            &message(&snapshot.name),
            [
                &human(snapshot.vm_state_bytes),
                full.get(..19).unwrap_or(&full),
                &format!("{hours:04}:{minutes:02}:{seconds:02}.{millis:03}"),
                &snapshot.icount.map_or(String::new(), |it| it.to_string()),
            ],
        )
    }));
    lines
}

pub(super) fn to_json(snapshot: &diskfs::image::Snapshot) -> Value {
    let taken = taken_at(snapshot);
    let mut document = json!({
        "id": snapshot.id,
        "name": snapshot.name,
        "vm-state-size": snapshot.vm_state_bytes,
        "date-sec": taken.seconds,
        "date-nsec": taken.nanoseconds,
        "vm-clock-sec": snapshot.vm_clock.as_secs(),
        "vm-clock-nsec": snapshot.vm_clock.subsec_nanos(),
    });
    if let (Some(icount), Some(fields)) = (snapshot.icount, document.as_object_mut()) {
        fields.insert("icount".to_owned(), icount.into());
    }
    document
}
