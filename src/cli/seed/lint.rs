//! Checks of what a guest would silently ignore.

use std::path::Path;

use diskfs::{Error, ErrorKind, Result};
use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::{Map, Value};

/// The first bytes of user data that cloud-init knows, besides `#cloud-config`.
const KNOWN: [&[u8]; 10] = [
    b"#!",
    b"#include",
    b"#cloud-boothook",
    b"#cloud-config-archive",
    b"#cloud-config-jsonp",
    b"#part-handler",
    b"## template: jinja",
    b"Content-Type: multipart",
    b"MIME-Version:",
    b"From nobody",
];

/// The start of a gzip file, which cloud-init decompresses.
const GZIP: &[u8] = b"\x1f\x8b";

/// Checks user data: `#cloud-config` must be a YAML mapping.
pub(super) fn user_data(path: &Path, text: &[u8], warnings: &mut Vec<String>) -> Result<()> {
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if first.trim_ascii_end() == b"#cloud-config" {
        return yaml_mapping(path, text, "user data").map(drop);
    }
    let is_known = KNOWN.iter().any(|known| text.starts_with(known));
    // Ignition and cloudbase-init have JSON and PowerShell.
    let is_other = text.starts_with(b"{") || text.starts_with(b"#ps1") || text.starts_with(GZIP);
    if !is_known && !is_other {
        let path = path.display();
        warnings.push(format!(
            "{path}: cloud-init ignores user data that begins neither with `#cloud-config` nor \
             with `#!`"
        ));
    }
    Ok(())
}

/// Checks the meta-data of NoCloud.
pub(super) fn meta_data(path: &Path, text: &[u8], warnings: &mut Vec<String>) -> Result<()> {
    let fields = yaml_mapping(path, text, "meta-data")?;
    if !fields.contains_key("instance-id") {
        let path = path.display();
        warnings.push(format!(
            "{path}: missing `instance-id`, by which cloud-init recognises a new guest"
        ));
    }
    Ok(())
}

/// Checks the network configuration of NoCloud.
pub(super) fn network_config(path: &Path, text: &[u8]) -> Result<()> {
    let fields = yaml_mapping(path, text, "network configuration")?;
    let inner = fields.get("network").and_then(Value::as_object);
    let version = inner
        .unwrap_or(&fields)
        .get("version")
        .and_then(Value::as_u64);
    if matches!(version, Some(1 | 2)) {
        return Ok(());
    }
    let reason = "invalid network configuration: expected `version: 1` or `version: 2`";
    Err(Error::new(ErrorKind::Invalid, reason).in_file(path))
}

/// Parses a JSON object.
pub(super) fn json_object(path: &Path, text: &[u8], what: &str) -> Result<Map<String, Value>> {
    serde_json::from_slice(text).map_err(|error| {
        let reason = format!("invalid {what}: expected a JSON object: {error}");
        Error::new(ErrorKind::Invalid, reason).in_file(path)
    })
}

/// Checks an answer file of Windows Setup: well-formed XML with the root `unattend`.
pub(super) fn answers(path: &Path, text: &[u8]) -> Result<()> {
    let invalid = |what: &str| {
        let reason = format!("invalid answer file: {what}");
        Error::new(ErrorKind::Invalid, reason).in_file(path)
    };
    let text = std::str::from_utf8(text).map_err(|_| invalid("expected UTF-8"))?;
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    let mut root = None;
    let mut depth = 0_usize;
    loop {
        match reader.read_event() {
            Err(error) => return Err(invalid(&error.to_string())),
            Ok(Event::Eof) => break,
            Ok(Event::Start(tag)) => {
                root.get_or_insert_with(|| tag.local_name().as_ref().to_owned());
                depth = depth.saturating_add(1);
            }
            Ok(Event::Empty(tag)) => {
                root.get_or_insert_with(|| tag.local_name().as_ref().to_owned());
            }
            Ok(Event::End(_)) => depth = depth.saturating_sub(1),
            Ok(_) => {}
        }
    }
    if depth != 0 {
        return Err(invalid("an element is not closed"));
    }
    if root.as_deref() != Some("unattend") {
        return Err(invalid("expected the element `unattend`"));
    }
    Ok(())
}

/// Parses a YAML mapping. An empty document is an empty mapping.
fn yaml_mapping(path: &Path, text: &[u8], what: &str) -> Result<Map<String, Value>> {
    let invalid = |detail: &str| {
        let reason = format!("invalid {what}: {detail}");
        Error::new(ErrorKind::Invalid, reason).in_file(path)
    };
    let text = std::str::from_utf8(text).map_err(|_| invalid("expected UTF-8"))?;
    let parsed = serde_saphyr::from_str::<Option<Value>>(text).map_err(|error| {
        // The rest of the message is an excerpt of the file, which can contain a password.
        let error = error.without_snippet().to_string();
        invalid(error.lines().next().unwrap_or_default())
    })?;
    match parsed {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(fields)) => Ok(fields),
        Some(_) => Err(invalid("expected a YAML mapping")),
    }
}
