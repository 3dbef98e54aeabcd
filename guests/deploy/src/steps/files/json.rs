//! The step `json`: merges members into a JSON file.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::super::guest::Guest;
use super::super::super::stage::above;
use super::ownership::{self, Mode, Owner};
use diskfs_disk::Result;

/// The default indentation of a level.
const INDENT: &str = "  ";

/// Members to merge as in RFC 7396: members of objects are merged, other values are replaced, and
/// `null` removes a member. Unchanged parts keep their text and position. A missing file is
/// created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Json {
    /// The path of the file in the guest.
    pub path: String,
    /// The object to merge.
    pub merge: Map<String, Value>,
    /// The mode of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The owner of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// Leaves an existing file unchanged.
    #[serde(
        default,
        rename = "only-if-missing",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub only_if_missing: bool,
}

impl Json {
    pub(in super::super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let path = super::absolute(guest, &self.path)?;
        let before = guest.stage.bytes(path)?;
        if self.only_if_missing && before.is_some() {
            return Ok(());
        }
        let is_there = before.is_some();
        let before = before.unwrap_or_default();
        let merged = merged(&before, &self.merge)
            .map_err(|reason| guest.invalid(format!("{path}: {reason}")))?;
        if let Some(text) = merged.or_else(|| (!is_there).then(|| "{}\n".to_owned())) {
            guest.stage.make_dirs(above(path), 0o755)?;
            guest.stage.write(path, text.into_bytes())?;
        }
        ownership::set(guest, path, self.mode, self.owner.as_ref())
    }
}

/// Returns the merged text, or `None` if nothing changes.
fn merged(
    before: &[u8],
    patch: &Map<String, Value>,
) -> std::result::Result<Option<String>, String> {
    let text = std::str::from_utf8(before).map_err(|_| "not valid UTF-8".to_owned())?;
    let is_empty = text.trim().is_empty();
    let text = if is_empty { "{}" } else { text };
    // serde_json also limits the depth.
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("invalid JSON: {error}"))?;
    let Value::Object(object) = value else {
        return Err("cannot merge: the file is not a JSON object".to_owned());
    };
    if !is_empty && !changes(&object, patch) {
        return Ok(None);
    }
    let is_one_line = !is_empty && !object.is_empty() && !text.trim().contains('\n');
    let style = Style {
        indent: if is_one_line {
            None
        } else {
            Some(indent(text))
        },
    };
    let merged = style
        .object(text, patch, 0)
        .map_err(|error| format!("invalid JSON: {error}"))?;
    Ok(Some(format!("{merged}\n")))
}

/// Returns true if the merge changes the object.
fn changes(object: &Map<String, Value>, patch: &Map<String, Value>) -> bool {
    patch.iter().any(|(key, new)| match (object.get(key), new) {
        (old, Value::Null) => old.is_some(),
        (Some(Value::Object(old)), Value::Object(new)) => changes(old, new),
        (old, new) => old != Some(new),
    })
}

/// Returns the indentation of the first member.
fn indent(text: &str) -> &str {
    let inner = text.trim_start().strip_prefix('{').unwrap_or_default();
    let Some((_, line)) = inner.split_once('\n') else {
        return INDENT;
    };
    let rest = line.trim_start_matches([' ', '\t']);
    let indent = line.strip_suffix(rest).unwrap_or_default();
    if indent.is_empty() || !rest.starts_with('"') {
        INDENT
    } else {
        indent
    }
}

/// The style of a file: on one line, or with an indentation.
struct Style<'t> {
    indent: Option<&'t str>,
}

impl Style<'_> {
    /// Merges a patch into an object, and returns the object's text.
    fn object(
        &self,
        text: &str,
        patch: &Map<String, Value>,
        depth: usize,
    ) -> serde_json::Result<String> {
        let Members(members) = serde_json::from_str(text)?;
        let mut out: Vec<(String, String)> = Vec::new();
        for (key, raw) in members {
            match patch.get(&key) {
                None => out.push((key, raw.get().to_owned())),
                Some(Value::Null) => {}
                // If several members have the same name, the last one counts.
                Some(new) => {
                    let new = self.value(Some(raw.get()), new, depth)?;
                    match out.iter_mut().find(|(known, _)| *known == key) {
                        Some((_, old)) => *old = new,
                        None => out.push((key, new)),
                    }
                }
            }
        }
        for (key, new) in patch.iter().filter(|(_, new)| !new.is_null()) {
            if !out.iter().any(|(known, _)| known == key) {
                out.push((key.clone(), self.value(None, new, depth)?));
            }
        }
        self.written(&out, depth)
    }

    /// Returns the text of a value that replaces another.
    fn value(&self, old: Option<&str>, new: &Value, depth: usize) -> serde_json::Result<String> {
        match new {
            Value::Object(patch) => {
                let old = old.filter(|old| old.starts_with('{')).unwrap_or("{}");
                self.object(old, patch, depth + 1)
            }
            Value::Array(values) if !values.is_empty() => {
                let mut parts = Vec::new();
                for value in values {
                    parts.push(self.whole(value, depth + 1)?);
                }
                Ok(self.list(['[', ']'], &parts, depth + 1))
            }
            other => serde_json::to_string(other),
        }
    }

    /// Returns the text of a value in an array, where `null` is a value.
    fn whole(&self, value: &Value, depth: usize) -> serde_json::Result<String> {
        let Value::Object(object) = value else {
            return self.value(None, value, depth);
        };
        let mut members = Vec::new();
        for (key, value) in object {
            members.push((key.clone(), self.whole(value, depth + 1)?));
        }
        self.written(&members, depth + 1)
    }

    fn written(&self, members: &[(String, String)], depth: usize) -> serde_json::Result<String> {
        let mut parts = Vec::new();
        for (key, value) in members {
            parts.push(format!("{}: {value}", serde_json::to_string(key)?));
        }
        Ok(self.list(['{', '}'], &parts, depth))
    }

    fn list(&self, [open, close]: [char; 2], parts: &[String], depth: usize) -> String {
        if parts.is_empty() {
            return format!("{open}{close}");
        }
        match self.indent {
            None => format!("{open}{}{close}", parts.join(", ")),
            Some(indent) => {
                let outer = indent.repeat(depth);
                let between = format!(",\n{outer}{indent}");
                let parts = parts.join(&between);
                format!("{open}\n{outer}{indent}{parts}\n{outer}{close}")
            }
        }
    }
}

/// The members of an object in their order, with their texts.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Members;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{after, apply, attributes, guest, text};

    const PATH: &str = "/etc/docker/daemon.json";

    fn json(before: &str, merge: &str) -> String {
        let tree = format!("-- {PATH} --\n{before}");
        let guest = after(&tree, &format!("- json: {{path: {PATH}, merge: {merge}}}"));
        text(&guest, PATH)
    }

    #[test]
    fn a_member_is_set_and_the_others_keep_their_text() {
        for (before, merge, expected) in [
            (
                "{\n    \"z\": 1.0e2,\n    \"log-opts\": {\"max-size\": \"1m\", \"x\": [ 1,2 ]},\n    \"mtu\": 9000\n}\n",
                "{mtu: 1450, log-opts: {max-size: 2m}}",
                "{\n    \"z\": 1.0e2,\n    \"log-opts\": {\n        \"max-size\": \"2m\",\n        \"x\": [ 1,2 ]\n    },\n    \"mtu\": 1450\n}\n",
            ),
            ("{\"a\": 1}\n", "{mtu: 1450}", "{\"a\": 1, \"mtu\": 1450}\n"),
            ("", "{mtu: 1450}", "{\n  \"mtu\": 1450\n}\n"),
            (
                "{}",
                "{a: {b: [1, {c: null}], d: null}}",
                "{\n  \"a\": {\n    \"b\": [\n      1,\n      {\n        \"c\": null\n      }\n    ]\n  }\n}\n",
            ),
            // A file that already has these members stays unchanged, whatever its style.
            (
                "{ \"mtu\"  :1450 }\n",
                "{mtu: 1450}",
                "{ \"mtu\"  :1450 }\n",
            ),
            (
                "{\n\t\"a\": 1,\n\t\"b\": {\"c\": 1}\n}",
                "{a: null, b: {c: null}}",
                "{\n\t\"b\": {}\n}\n",
            ),
            ("{\"a\": 1, \"a\": 2}\n", "{a: 3}", "{\"a\": 3}\n"),
            ("{\"a\": [1]}\n", "{a: {b: 1}}", "{\"a\": {\"b\": 1}}\n"),
        ] {
            assert_eq!(json(before, merge), expected, "{before} {merge}");
        }
    }

    #[test]
    fn a_missing_file_is_made() {
        let step = format!("- json: {{path: {PATH}, merge: {{mtu: 1450}}, mode: 0600}}");
        let made = after("-- /etc/passwd --\n", &step);
        assert_eq!(text(&made, PATH), "{\n  \"mtu\": 1450\n}\n");
        assert_eq!(attributes(&made, PATH), "0600 0:0");
        assert_eq!(attributes(&made, "/etc/docker"), "0755 0:0");
        let step = format!("- json: {{path: {PATH}, merge: {{mtu: 1450}}, only-if-missing: true}}");
        let kept = after(&format!("-- {PATH} --\n{{}}\n"), &step);
        assert_eq!(text(&kept, PATH), "{}\n");
    }

    #[test]
    fn what_is_no_object_is_refused() {
        let deep = "[".repeat(100_000);
        for before in ["[1]", "{\"a\": 1", "// x\n{}", "\u{fffd}", &deep] {
            let mut guest = guest(&format!("-- {PATH} --\n{before}\n"));
            let step = format!("- json: {{path: {PATH}, merge: {{mtu: 1450}}}}");
            let error = apply(&mut guest, &step).unwrap_err();
            assert!(error.to_string().contains(PATH), "{error}");
        }
    }
}
