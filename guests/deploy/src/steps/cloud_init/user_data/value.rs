//! YAML values with cloud-init's conversions. Keys are looked up with underscores, and are also
//! found with dashes: `ssh-authorized-keys` is `ssh_authorized_keys`.

use serde_json::{Map, Value};

/// Returns a text; a number is converted to text.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns the texts of a list, or the parts of a text with commas.
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

/// Returns the texts of a list, or a single text unchanged.
pub(super) fn lines(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        other => texts(other),
    }
}

/// Returns a boolean, which may also be a word such as `yes`.
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

/// Removes a value from a map. `null` counts as missing. If both spellings of the key exist, the
/// one with underscores counts.
pub(super) fn take(map: &mut Map<String, Value>, key: &str) -> Option<Value> {
    let dashed = map.remove(&key.replace('_', "-"));
    let plain = map.remove(key).or(dashed);
    plain.filter(|value| !value.is_null())
}

/// Removes a text from a map.
pub(super) fn take_text(map: &mut Map<String, Value>, key: &str) -> Option<String> {
    take(map, key).as_ref().and_then(text)
}

/// Removes a boolean from a map.
pub(super) fn take_flag(map: &mut Map<String, Value>, key: &str) -> Option<bool> {
    take(map, key).as_ref().and_then(flag)
}

/// Removes a list from a map.
pub(super) fn take_list(map: &mut Map<String, Value>, key: &str) -> Vec<Value> {
    match take(map, key) {
        Some(Value::Array(list)) => list,
        Some(other) => vec![other],
        None => Vec::new(),
    }
}

/// Removes lines from a map.
pub(super) fn take_lines(map: &mut Map<String, Value>, key: &str) -> Vec<String> {
    take(map, key).as_ref().map(lines).unwrap_or_default()
}
