//! The reference of plans of images, generated from their schema.

use std::io::Write;

use serde_json::{Map, Value, json};

use diskfs::{Error, ErrorKind, Result};

use crate::cli::reference::{items, json_items, plain, properties, write_items};
use crate::cli::session::{Output, Session, stdout};
use crate::cli::show::json as document;

/// The JSON Schema of plans.
const SCHEMA: &str = include_str!("schema.json");

/// Prints the JSON Schema of plans.
pub(super) fn print_schema(out: &mut dyn Write) -> Result<()> {
    out.write_all(SCHEMA.as_bytes())?;
    Ok(out.flush()?)
}

/// Prints one line for each key of plans, or describes one key and everything in it.
pub(super) fn describe(key: Option<&str>, session: &Session) -> Result<()> {
    let schema: Value = serde_json::from_str(SCHEMA).map_err(|error| {
        let reason = format!("cannot parse the schema of plans: {error}");
        Error::new(ErrorKind::Invalid, reason)
    })?;
    let none = Map::new();
    let keys = properties(&schema).unwrap_or(&none);
    match key {
        Some(key) => describe_one(&schema, keys, key, session),
        None => list(keys, session),
    }
}

fn list(keys: &Map<String, Value>, session: &Session) -> Result<()> {
    let mut out = stdout()?;
    if session.output() == Output::Json {
        let keys = keys.iter();
        let keys = keys.map(|(name, key)| json!({ "name": name, "description": plain(key) }));
        let body = json!({ "keys": keys.collect::<Vec<_>>() });
        document::write(&mut out, session.command(), body)?;
        return Ok(out.flush()?);
    }
    for (name, key) in keys {
        let text = plain(key).replace('\n', " ");
        let end = text.find(". ").map_or(text.len(), |end| end + 1);
        writeln!(out, "{name:<12} {}", text.get(..end).unwrap_or(&text))?;
    }
    Ok(out.flush()?)
}

fn describe_one(
    schema: &Value,
    keys: &Map<String, Value>,
    name: &str,
    session: &Session,
) -> Result<()> {
    let Some(value) = keys.get(name) else {
        let error = Error::new(ErrorKind::Invalid, format!("unknown key `{name}`"));
        return Err(error.with_hint("`diskfs build --describe` lists the keys of plans"));
    };
    let items = items(schema, name, &plain(value), value);
    let mut out = stdout()?;
    if session.output() == Output::Json {
        let body = json!({ "key": name, "items": json_items(&items) });
        document::write(&mut out, session.command(), body)?;
    } else {
        write_items(&mut out, &items)?;
    }
    Ok(out.flush()?)
}
