//! The reference of plans, generated from their schema: as text, and as the man page
//! diskfs-plan(5).

use std::io::{self, Write};
use std::path::Path;

use roff::{Roff, roman};
use serde_json::{Value, json};

use diskfs::{Error, ErrorKind, Result};

use crate::cli::reference::{self, Item, json_items, plain, properties, write_item, write_items};
use crate::cli::session::{Output, Session, stdout};
use crate::cli::show::json as document;

/// The JSON Schema of plans.
pub(super) const SCHEMA: &str = include_str!("schema.json");

/// Prints one line for each step.
pub(super) fn list_steps(session: &Session) -> Result<()> {
    let mut out = stdout()?;
    let schema = schema()?;
    if session.output() == Output::Json {
        let steps = steps(&schema);
        let entries = steps
            .iter()
            .map(|(name, step)| json!({ "name": name, "description": plain(step) }));
        let body = json!({ "steps": entries.collect::<Vec<_>>() });
        document::write(&mut out, session.command(), body)?;
        return Ok(out.flush()?);
    }
    for (name, step) in steps(&schema) {
        writeln!(out, "{name:<18} {}", plain(step))?;
    }
    Ok(out.flush()?)
}

/// Prints the description of one step and of everything in it.
pub(super) fn describe(name: &str, session: &Session) -> Result<()> {
    let schema = schema()?;
    let steps = steps(&schema);
    let Some((name, step)) = steps.iter().find(|(known, _)| *known == name) else {
        let error = Error::new(ErrorKind::Invalid, format!("unknown step `{name}`"));
        return Err(error.with_hint("`diskfs deploy --list-steps` lists the steps"));
    };
    let mut out = stdout()?;
    if session.output() == Output::Json {
        let body = json!({ "step": name, "items": json_items(&items(&schema, name, step)) });
        document::write(&mut out, session.command(), body)?;
        return Ok(out.flush()?);
    }
    write_items(&mut out, &items(&schema, name, step))?;
    Ok(out.flush()?)
}

/// Writes the man page diskfs-plan.5 into the directory.
pub(in crate::cli) fn write_page(directory: &Path) -> io::Result<()> {
    let schema = schema().map_err(io::Error::other)?;
    let mut page = Roff::new();
    page.control("TH", ["diskfs-plan", "5"])
        .control("SH", ["NAME"])
        .text([roman("diskfs-plan - the plans of diskfs deploy")])
        .control("SH", ["DESCRIPTION"])
        .text([roman(
            "A plan is a document in YAML or JSON with one key, steps: a list of steps, each of which has one key, its name. \
             The steps are worked out in their order. Then either all of their changes are written, or none.",
        )])
        .control("SH", ["EXAMPLE"])
        .control("nf", [])
        .text([roman(EXAMPLE)])
        .control("fi", [])
        .control("SH", ["STEPS"]);
    for (name, step) in steps(&schema) {
        for item in items(&schema, name, step) {
            write_item(&mut page, &item);
        }
    }
    page.control("SH", ["SEE ALSO"])
        .text([roman("diskfs-deploy(1)")]);
    std::fs::write(directory.join("diskfs-plan.5"), page.render())
}

/// An example of a plan.
const EXAMPLE: &str = "steps:
  - hostname: web1.example.org
  - user: {name: ann, password: {random: true}, sudo: nopasswd}
  - network: {interfaces: [{mac: 52:54:00:12:34:56, dhcp4: true}]}
  - write: {path: /etc/motd, text: \"Welcome\\n\", mode: 0644}";

fn schema() -> Result<Value> {
    serde_json::from_str(SCHEMA).map_err(|error| {
        Error::new(
            ErrorKind::Invalid,
            format!("cannot parse the schema of plans: {error}"),
        )
    })
}

/// Returns the names of all steps.
pub(in crate::cli) fn names() -> Vec<Vec<u8>> {
    let schema = schema().unwrap_or_default();
    let names = steps(&schema).into_iter();
    names.map(|(name, _)| name.into()).collect()
}

/// Returns each step's name and its schema.
fn steps(schema: &Value) -> Vec<(&str, &Value)> {
    let all = schema
        .pointer("/$defs/Step/oneOf")
        .and_then(Value::as_array);
    all.into_iter()
        .flatten()
        .filter_map(|step| Some((properties(step)?.keys().next()?.as_str(), step)))
        .collect()
}

/// Returns the items of a step: the step itself and everything in it.
fn items(schema: &Value, name: &str, step: &Value) -> Vec<Item> {
    let value = properties(step).and_then(|keys| keys.get(name));
    value.map_or(Vec::new(), |value| {
        reference::items(schema, name, &plain(step), value)
    })
}
