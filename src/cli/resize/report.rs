//! The report of `diskfs resize`.

use std::io::Write as _;

use serde_json::{Map, Value, json};

use diskfs::{ResizeLayer, ResizeReport, ResizeStep, Result};

use crate::cli::session::{Output, Session, stdout};
use crate::cli::show::json as document;
use crate::cli::show::name::message;
use crate::cli::show::size::units;

pub(super) fn print(session: &Session, report: &ResizeReport, dry_run: bool) -> Result<()> {
    let mut out = stdout()?;
    match session.output() {
        Output::Text => out.write_all(text(report, dry_run).as_bytes())?,
        Output::Json => document::write(&mut out, session.command(), body(report, dry_run))?,
    }
    Ok(out.flush()?)
}

fn text(report: &ResizeReport, dry_run: bool) -> String {
    let mut text: String = report.steps.iter().map(line).collect();
    if !report.is_changed() {
        text.push_str("nothing to resize\n");
    }
    if let Some(bytes) = report.changed_bytes.filter(|_| dry_run) {
        text.extend([format!("{bytes} bytes of the disk would change\n")]);
    }
    text
}

/// Describes a step: `p2: ext4, 2 GiB -> 20 GiB`.
fn line(step: &ResizeStep) -> String {
    let name = match step.layer {
        ResizeLayer::Image => "image".to_owned(),
        _ => message(&step.name),
    };
    let (old, new) = (units(step.old_bytes), units(step.new_bytes));
    let sizes = if step.is_changed() {
        format!("{old} -> {new}")
    } else {
        new
    };
    let note = step.note.as_deref().map(message);
    let note = note.map_or_else(String::new, |note| format!(" ({note})"));
    format!("{name}: {}, {sizes}{note}\n", step.kind)
}

fn body(report: &ResizeReport, dry_run: bool) -> Value {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    put("volume", report.volume.as_str().into());
    put("type", report.kind.as_str().into());
    put("old_size_bytes", report.old_size_bytes().into());
    put("size_bytes", report.size_bytes.into());
    put("changed", report.is_changed().into());
    put("dry_run", dry_run.into());
    put("steps", report.steps.iter().map(step).collect());
    if let Some(bytes) = report.changed_bytes {
        put("changed_bytes", bytes.into());
    }
    Value::Object(fields)
}

fn step(step: &ResizeStep) -> Value {
    let mut fields = json!({
        "step": step.layer.name(),
        "name": step.name,
        "type": step.kind,
        "from_bytes": step.old_bytes,
        "to_bytes": step.new_bytes,
    });
    if let Some(note) = &step.note {
        fields["note"] = note.as_str().into();
    }
    fields
}
