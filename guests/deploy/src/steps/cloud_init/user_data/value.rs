//! Values of YAML, as cloud-init takes them. A key is asked for as it is written with underscores, and found also with
//! dashes: `ssh-authorized-keys` is `ssh_authorized_keys`.

use serde_json::{Map, Value};

/// A text, or a number as it would be written.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The texts of a list, or of one text with commas.
pub(super) fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(values) => values.iter().filter_map(text).collect(),
        Value::String(text) => {
            let parts = text.split(',').map(str::trim);
            parts
                .filter(|it| !it.is_empty())
                .map(str::to_owned)
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The texts of a list, or a single text as it is.
pub(super) fn lines(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        other => texts(other),
    }
}

/// Yes or no, also as words.
pub(super) fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => match &*text.to_ascii_lowercase() {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Takes a value out of a map, what is `null` being nothing. Of both spellings the one with underscores counts.
pub(super) fn take(map: &mut Map<String, Value>, key: &str) -> Option<Value> {
    let dashed = map.remove(&key.replace('_', "-"));
    let plain = map.remove(key).or(dashed);
    plain.filter(|value| !value.is_null())
}

/// Takes a text out of a map.
pub(super) fn take_text(map: &mut Map<String, Value>, key: &str) -> Option<String> {
    take(map, key).as_ref().and_then(text)
}

/// Takes yes or no out of a map.
pub(super) fn take_flag(map: &mut Map<String, Value>, key: &str) -> Option<bool> {
    take(map, key).as_ref().and_then(flag)
}

/// Takes a list out of a map.
pub(super) fn take_list(map: &mut Map<String, Value>, key: &str) -> Vec<Value> {
    match take(map, key) {
        Some(Value::Array(list)) => list,
        Some(other) => vec![other],
        None => Vec::new(),
    }
}

/// Takes lines out of a map.
pub(super) fn take_lines(map: &mut Map<String, Value>, key: &str) -> Vec<String> {
    take(map, key).as_ref().map(lines).unwrap_or_default()
}
