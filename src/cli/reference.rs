//! References of plans, generated from their JSON Schema: as text, as JSON, and as a part of a man
//! page.

use std::io::{self, Write};

use roff::{Roff, bold, roman};
use serde_json::{Map, Value, json};

/// The maximum nesting of keys within keys; the schema of plans has four levels.
const MAX_DEPTH: usize = 8;

/// An item of the reference: a step, a key, or one of several values.
pub(crate) struct Item {
    /// The number of items that this one is nested in.
    pub(crate) depth: usize,
    /// The name, and the form of the value.
    pub(crate) term: String,
    /// The description of the item.
    pub(crate) text: String,
}

/// Writes items as text, each indented by its depth.
pub(crate) fn write_items(out: &mut dyn Write, items: &[Item]) -> io::Result<()> {
    for item in items {
        let indent = "    ".repeat(item.depth);
        writeln!(out, "{indent}{}", item.term)?;
        for line in item.text.lines() {
            writeln!(out, "{indent}        {line}")?;
        }
    }
    Ok(())
}

/// Returns items as JSON.
pub(crate) fn json_items(items: &[Item]) -> Vec<Value> {
    let entries = items
        .iter()
        .map(|item| json!({ "depth": item.depth, "term": item.term, "description": item.text }));
    entries.collect()
}

pub(crate) fn write_item(page: &mut Roff, item: &Item) {
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

pub(crate) fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// Returns the items of a key: the key itself with its description, and everything in its value.
pub(crate) fn items(schema: &Value, name: &str, description: &str, value: &Value) -> Vec<Item> {
    let chain = definitions(schema, value);
    let mut text = vec![description.to_owned()];
    text.extend(chain.iter().map(|value| plain(value)));
    text.dedup();
    let mut items = vec![Item {
        depth: 0,
        term: format!("{name}: {}", shape(schema, value)),
        text: text.join("\n"),
    }];
    walk(schema, value, 1, &mut items, &mut Vec::new());
    items
}

/// Adds the items in a value: its keys, or the alternatives that it can be. A definition within
/// itself is not described again: `outer` has those around the value.
fn walk<'a>(
    schema: &'a Value,
    value: &'a Value,
    depth: usize,
    items: &mut Vec<Item>,
    outer: &mut Vec<&'a str>,
) {
    let name = value.get("$ref").and_then(Value::as_str);
    if depth > MAX_DEPTH || name.is_some_and(|name| outer.contains(&name)) {
        return;
    }
    outer.extend(name);
    walk_resolved(schema, resolve(schema, value), depth, items, outer);
    if name.is_some() {
        outer.pop();
    }
}

fn walk_resolved<'a>(
    schema: &'a Value,
    value: &'a Value,
    depth: usize,
    items: &mut Vec<Item>,
    outer: &mut Vec<&'a str>,
) {
    if let Some(element) = value.get("items") {
        return walk(schema, element, depth, items, outer);
    }
    for choice in choices(value) {
        if let Some(constant) = choice.get("const").and_then(Value::as_str) {
            items.push(Item {
                depth,
                term: constant.to_owned(),
                text: plain(choice),
            });
        } else {
            walk(schema, choice, depth, items, outer);
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
        walk(schema, below, depth + 1, items, outer);
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
pub(crate) fn plain(value: &Value) -> String {
    let text = value.get("description").and_then(Value::as_str);
    let text = text.unwrap_or_default();
    text.replace("[`", "`").replace("`]", "`")
}
