//! The report of a build: the layout of the image as a table, or as JSON.

use std::io::Write;

use serde_json::{Value, json};

use diskfs::Result;
use diskfs::build::{Built, Layout, LayoutRow};

use crate::cli::session::{Output, Session, stdout};
use crate::cli::show::json as document;
use crate::cli::show::name::message;
use crate::cli::show::size::units;
use crate::cli::show::table::{Align, lay_out};

/// Writes the layout, and what was written; `None` in a dry run.
pub(super) fn write(session: &Session, layout: &Layout, built: Option<&Built>) -> Result<()> {
    let mut out = stdout()?;
    match session.output() {
        Output::Json => document::write(&mut out, session.command(), json(layout, built))?,
        Output::Text => out.write_all(text(layout, built).as_bytes())?,
    }
    Ok(out.flush()?)
}

fn json(layout: &Layout, built: Option<&Built>) -> Value {
    let mut body = json!(layout);
    body["dry_run"] = built.is_none().into();
    if let Some(built) = built {
        body["files"] = files(built).into();
        body["content_bytes"] = built.written.content_bytes.into();
        body["steps"] = json!(built.steps);
    }
    body
}

fn text(layout: &Layout, built: Option<&Built>) -> String {
    let heading = ["VOLUME", "START", "SIZE", "TYPE", "LABEL", "MOUNT", "UUID"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(layout.volumes.iter().map(row));
    let columns = [
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Left,
        Align::Left,
        Align::Left,
        Align::Left,
    ];
    let text = lay_out(&columns, &rows);
    let mut lines = vec![summary(layout, built)];
    for step in built.map_or(&[][..], |built| &built.steps) {
        let notes = step.notes.iter();
        lines.extend(notes.map(|note| format!("note: {}: {}", step.step, message(note))));
        let secrets = step.secrets.iter();
        lines.extend(secrets.map(|secret| format!("secret of {}: {}", secret.of, secret.secret)));
    }
    lines.push(String::new());
    text + &lines.join("\n")
}

/// Returns the line about the disk as a whole.
fn summary(layout: &Layout, built: Option<&Built>) -> String {
    let disk = format!("disk: {}", units(layout.size_bytes));
    let name = layout.bootloader.as_ref();
    let name = name.map(|name| format!("boot loader {name}"));
    let contents = built.map(|built| {
        let size = units(built.written.content_bytes);
        format!("{} files with {size}", files(built))
    });
    let parts = [Some(disk), name, contents];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn row(row: &LayoutRow) -> Vec<String> {
    vec![
        format!("{}{}", "  ".repeat(row.depth), row.volume),
        row.start_bytes.map(units).unwrap_or_default(),
        units(row.size_bytes),
        row.kind.to_owned(),
        message(&row.label),
        row.mount.as_deref().map(message).unwrap_or_default(),
        row.uuid.clone(),
    ]
}

fn files(built: &Built) -> u64 {
    let written = &built.written;
    let kinds = [
        written.regular_files,
        written.directories,
        written.symlinks,
        written.special_files,
    ];
    kinds.into_iter().fold(0, u64::saturating_add)
}
