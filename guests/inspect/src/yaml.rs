//! Parsing of YAML, which netplan and cloud-init use.
//!
//! The library bounds the depth, the nodes, the anchors and the expansion of aliases, and does not
//! read files that a text names.

use serde_json::{Map, Value};

use super::files::Files;

/// The limit on files of one question: the largest file that is read takes a quarter of a second.
pub(super) const MAX_FILES: usize = 64;

/// Returns the document of a file; `None` if it is invalid, which becomes a problem.
pub(super) fn document(files: &Files<'_>, path: &str) -> Option<Value> {
    let text = files.text(path)?;
    match parse(&text) {
        Ok(document) => Some(document),
        Err(reason) => {
            files.add_problem(path, reason);
            None
        }
    }
}

/// Parses the document of a text.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text).map_err(|error| {
        // The lines after the first one quote the text itself.
        let error = error.to_string();
        error.lines().next().unwrap_or("invalid YAML").to_owned()
    })
}

/// Returns the mapping at a key, empty if it is missing.
pub(super) fn mapping<'v>(
    value: &'v Value,
    key: &str,
) -> impl Iterator<Item = (&'v str, &'v Value)> {
    let mapping = value.get(key).and_then(Value::as_object);
    mapping
        .into_iter()
        .flat_map(Map::iter)
        .map(|(key, value)| (key.as_str(), value))
}

/// Returns the text at a key; numbers and booleans are converted.
pub(super) fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(scalar)
}

/// Returns a scalar as text.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    }
}

/// Returns the texts at a key: those of a sequence, or a single scalar.
pub(super) fn texts(value: &Value, key: &str) -> Vec<String> {
    match value.get(key) {
        Some(Value::Array(sequence)) => sequence.iter().filter_map(scalar).collect(),
        Some(alone) => scalar(alone).into_iter().collect(),
        None => Vec::new(),
    }
}

/// Returns the sequence at a key, empty if it is missing.
pub(super) fn sequence<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    let sequence = value.get(key).and_then(Value::as_array);
    sequence.map(Vec::as_slice).unwrap_or_default()
}

/// Returns true if the value at a key is true, in any spelling of YAML 1.1.
pub(super) fn is_true(value: &Value, key: &str) -> bool {
    match value.get(key) {
        Some(Value::Bool(truth)) => *truth,
        Some(Value::String(word)) => {
            matches!(&*word.to_ascii_lowercase(), "yes" | "true" | "on" | "y")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn hostile_documents_are_refused_in_short() {
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..12 {
            let before = format!("*a{}", level - 1);
            let nine = vec![before; 9].join(",");
            writeln!(bomb, "a{level}: &a{level} [{nine}]").unwrap();
        }
        let deep = "[".repeat(100_000);
        for text in [bomb.as_str(), &deep, "a: 1\na: 2\n", "a: \"x"] {
            let reason = parse(text).unwrap_err();
            assert!(reason.len() < 200, "{reason}");
        }
    }

    #[test]
    fn words_of_truth() {
        let document = parse("a: yes\nb: 'yes'\nc: off\nd: [1, x]\ne: 7\n").unwrap();
        assert!(is_true(&document, "a") && is_true(&document, "b"));
        assert!(!is_true(&document, "c") && !is_true(&document, "none"));
        assert_eq!(texts(&document, "d"), ["1", "x"]);
        assert_eq!(texts(&document, "e"), ["7"]);
    }
}
