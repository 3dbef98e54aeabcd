//! The reference of plans, generated from their schema: as text, and as the man page
//! diskfs-plan(5).

use std::io::{self, Write};
use std::path::Path;

use roff::{Roff, bold, roman};
use serde_json::{Map, Value, json};

use diskfs::{Error, ErrorKind, Result};

use crate::cli::session::{Output, Session, stdout};
use crate::cli::show::json as document;

/// The JSON Schema of plans.
pub(super) const SCHEMA: &str = include_str!("schema.json");

/// The maximum nesting of keys within keys; the schema of plans has four levels.
const MAX_DEPTH: usize = 8;

/// An item of the reference: a step, a key, or one of several values.
struct Item {
    /// The number of items that this one is nested in.
    depth: usize,
    /// The name, and the form of the value.
    term: String,
    /// The description of the item.
    text: String,
}

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
        let items = items(&schema, name, step);
        let entries = items.iter().map(
            |item| json!({ "depth": item.depth, "term": item.term, "description": item.text }),
        );
        let body = json!({ "step": name, "items": entries.collect::<Vec<_>>() });
        document::write(&mut out, session.command(), body)?;
        return Ok(out.flush()?);
    }
    for item in items(&schema, name, step) {
        let indent = "    ".repeat(item.depth);
        writeln!(out, "{indent}{}", item.term)?;
        for line in item.text.lines() {
            writeln!(out, "{indent}        {line}")?;
        }
    }
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

fn write_item(page: &mut Roff, item: &Item) {
    let indent = (item.depth * 4).to_string();
    if item.depth > 0 {
        page.control("RS", [&*indent]);
    }
    page.control("TP", []);
    page.text([bold(&item.term)]);
    page.text([roman(item.text.replace('\n', " "))]);
    if item.depth > 0 {
        page.control("RE", []);
    }
}

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

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// Returns the items of a step: the step itself and everything in it.
fn items(schema: &Value, name: &str, step: &Value) -> Vec<Item> {
    let mut items = Vec::new();
    if let Some(value) = properties(step).and_then(|keys| keys.get(name)) {
        let chain = definitions(schema, value);
        let mut text = vec![plain(step)];
        text.extend(chain.iter().map(|value| plain(value)));
        text.dedup();
        items.push(Item {
            depth: 0,
            term: format!("{name}: {}", shape(schema, value)),
            text: text.join("\n"),
        });
        walk(schema, value, 1, &mut items);
    }
    items
}

/// Adds the items in a value: its keys, or the alternatives that it can be.
fn walk(schema: &Value, value: &Value, depth: usize, items: &mut Vec<Item>) {
    let value = resolve(schema, value);
    if depth > MAX_DEPTH {
        return;
    }
    if let Some(element) = value.get("items") {
        return walk(schema, element, depth, items);
    }
    for choice in choices(value) {
        if let Some(constant) = choice.get("const").and_then(Value::as_str) {
            items.push(Item {
                depth,
                term: constant.to_owned(),
                text: plain(choice),
            });
        } else {
            walk(schema, choice, depth, items);
        }
    }
    let Some(keys) = properties(value) else {
        return;
    };
    let is_needed = |key: &str| {
        let needed = value.get("required").and_then(Value::as_array);
        needed.is_some_and(|needed| needed.iter().any(|one| one == key))
    };
    let (needed, others): (Vec<_>, Vec<_>) = keys.iter().partition(|(key, _)| is_needed(key));
    for (key, below) in needed.into_iter().chain(others) {
        let needed = if is_needed(key) { " (required)" } else { "" };
        items.push(Item {
            depth,
            term: format!("{key}: {}{needed}", shape(schema, below)),
            text: plain(below),
        });
        walk(schema, below, depth + 1, items);
    }
}

/// Returns the last definition that a value refers to, or the value itself.
fn resolve<'a>(schema: &'a Value, value: &'a Value) -> &'a Value {
    definitions(schema, value).last().copied().unwrap_or(value)
}

/// Returns the chain of definitions that a value refers to, each by the one before it; only the
/// value itself if it refers to none.
fn definitions<'a>(schema: &'a Value, value: &'a Value) -> Vec<&'a Value> {
    let next = |value: &&'a Value| {
        let place = value.get("$ref").and_then(Value::as_str)?;
        schema.pointer(place.strip_prefix('#')?)
    };
    let first = next(&value).unwrap_or(value);
    std::iter::successors(Some(first), next)
        .take(MAX_DEPTH)
        .collect()
}

/// Returns the alternatives that a value can be.
fn choices(value: &Value) -> impl Iterator<Item = &Value> {
    let of = |key| value.get(key).and_then(Value::as_array);
    of("oneOf").into_iter().chain(of("anyOf")).flatten()
}

/// Returns the form of a value, such as `TEXT` or `[NUMBER, ...]`.
fn shape(schema: &Value, value: &Value) -> String {
    let value = resolve(schema, value);
    if let Some(element) = value.get("items") {
        return format!("[{}, ...]", shape(schema, element));
    }
    let choices: Vec<String> = choices(value)
        .map(|choice| match choice.get("const").and_then(Value::as_str) {
            Some(constant) => constant.to_owned(),
            None => shape(schema, choice),
        })
        .filter(|shape| !shape.is_empty())
        .collect();
    if !choices.is_empty() {
        return choices.join(" | ");
    }
    let kinds = match value.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(kind)) => vec![&**kind],
        _ => Vec::new(),
    };
    let names = kinds.into_iter().filter_map(|kind| match kind {
        "string" => Some("TEXT"),
        "integer" | "number" => Some("NUMBER"),
        "boolean" => Some("true | false"),
        "object" if value.get("properties").is_some() => Some("{...}"),
        "object" => Some("{KEY: VALUE, ...}"),
        _ => None,
    });
    names.collect::<Vec<_>>().join(" | ")
}

/// Returns the description of a value, without the brackets of rustdoc's links.
fn plain(value: &Value) -> String {
    let text = value.get("description").and_then(Value::as_str);
    let text = text.unwrap_or_default();
    text.replace("[`", "`").replace("`]", "`")
}
