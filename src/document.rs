//! The JSON documents of `diskfs --json` that programs get through other bindings, too.
//!
//! Every document is an object that begins with `diskfs` (the version of the documents and the
//! command). Names are in `snake_case`, and contain the unit.

mod deployed;
mod info;
mod inspected;

use serde::Serialize;
use serde_json::{Map, Value, json};

pub use deployed::{Deployed, deployed};
pub use info::{VolumeReport, bitmap, info, statistics, taken_at};
pub use inspected::{InspectedSystem, Sources, inspected};

/// The version of the documents, which is raised when a field changes its meaning or is removed,
/// but not when one is added.
pub const VERSION: u32 = 1;

/// Returns the first member of every document: its version, and the command that prints it.
pub fn header(command: &str) -> Value {
    json!({ "version": VERSION, "command": command })
}

/// Returns the document that a command prints: an object that begins with the [`header`].
pub fn document(command: &str, body: Value) -> Map<String, Value> {
    let mut document = Map::new();
    document.insert("diskfs".to_owned(), header(command));
    if let Value::Object(fields) = body {
        document.extend(fields);
    }
    document
}

/// Inserts a name into `object` as a string. If it is not valid UTF-8, the string has U+FFFD for
/// each invalid part, and its bytes are added as `<field>_base64`.
pub fn put_name(object: &mut Map<String, Value>, field: &str, name: &[u8]) {
    object.insert(field.to_owned(), String::from_utf8_lossy(name).into());
    if std::str::from_utf8(name).is_err() {
        object.insert(format!("{field}_base64"), base64(name).into());
    }
}

/// Converts a value to JSON, which cannot fail for our types.
pub fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or(Value::Null)
}

/// Encodes bytes as base64 with padding (RFC 4648, section 4).
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |n: usize| u32::from(group.get(n).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let index = bits >> (18 - 6 * digit) & 0x3f;
            let shown = digit <= group.len();
            text.push(if shown {
                char::from(DIGITS[index as usize])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        // The test vectors of RFC 4648, section 10.
        for (text, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(text.as_bytes()), encoded);
        }
        assert_eq!(base64(b"\xff\xfe"), "//4=");
    }

    #[test]
    fn a_name_that_is_no_text_keeps_its_bytes() {
        let mut object = Map::new();
        put_name(&mut object, "path", b"/a");
        put_name(&mut object, "target", b"\xff");
        let expected = json!({ "path": "/a", "target": "\u{fffd}", "target_base64": "/w==" });
        assert_eq!(Value::Object(object), expected);
    }
}
