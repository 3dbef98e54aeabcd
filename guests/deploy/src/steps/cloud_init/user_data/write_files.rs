//! The key `write_files`.

use std::io::Read;

use base64ct::{Base64, Encoding};
use serde_json::{Map, Value};

use super::super::super::super::guest::Guest;
use super::super::super::super::text;
use super::super::super::files::{Append, Mode, Owner, Permissions, Write};
use super::{note_ignored, value};
use diskfs_archive::unpack::{Limited, Streams, stream};
use diskfs_disk::{Error, ErrorKind, Result};

/// The limit on the size of a decompressed file.
const MAX_BYTES: u64 = 16 << 20;

/// The default owner and mode of a file.
const OWNER: &str = "root:root";
const MODE: &str = "0644";

pub(super) fn write(guest: &mut Guest, file: Value) -> Result<()> {
    let Value::Object(mut file) = file else {
        return Err(guest.invalid("user data: invalid entry of write_files: expected a map"));
    };
    let Some(path) = value::take_text(&mut file, "path") else {
        return Err(guest.invalid("user data: missing key `path` of an entry of write_files"));
    };
    if file.contains_key("source") {
        note_ignored(guest, &format!("{path} with a `source`"));
        return Ok(());
    }
    let wrong = |reason: &str| format!("user data: {path}: {reason}");
    let content = value::take_text(&mut file, "content").unwrap_or_default();
    let encoding = value::take_text(&mut file, "encoding").unwrap_or_default();
    let bytes = decoded(&content, &encoding);
    let bytes = bytes.map_err(|error| guest.invalid(wrong(&error.reason())))?;
    let text = text::decode(&bytes);
    let mode = value::take_text(&mut file, "permissions").unwrap_or_else(|| MODE.to_owned());
    let mode = Some(Mode::parse(&mode).map_err(|reason| guest.invalid(wrong(&reason)))?);
    let owner = value::take_text(&mut file, "owner").unwrap_or_else(|| OWNER.to_owned());
    let owner = Some(Owner(owner));
    let is_more = value::take_flag(&mut file, "append") == Some(true);
    note_ignored_keys(guest, &path, file);
    if is_more {
        let to = path.clone();
        Append {
            path: to,
            text,
            only_if_missing: false,
            verbatim: false,
        }
        .apply(guest)?;
        return Permissions { path, mode, owner }.apply(guest);
    }
    Write {
        path,
        text,
        mode,
        owner,
        only_if_missing: false,
    }
    .apply(guest)
}

fn note_ignored_keys(guest: &mut Guest, path: &str, mut file: Map<String, Value>) {
    // All files exist before the guest boots, including those that may be deferred.
    file.remove("defer");
    for key in file.keys() {
        note_ignored(guest, &format!("`{key}` of the file {path}"));
    }
}

/// Decodes a text according to its encoding: base64, gzip or both.
fn decoded(content: &str, encoding: &str) -> Result<Vec<u8>> {
    let invalid = |reason: String| Error::new(ErrorKind::Invalid, reason);
    let (is_gzip, is_base64) = match &*encoding.trim().to_ascii_lowercase() {
        "" | "text/plain" => (false, false),
        "b64" | "base64" => (false, true),
        "gz" | "gzip" => (true, false),
        "gz+b64" | "gz+base64" | "gzip+b64" | "gzip+base64" => (true, true),
        other => return Err(invalid(format!("unknown encoding `{other}`"))),
    };
    let mut bytes = content.as_bytes().to_vec();
    if is_base64 {
        let base64: String = content.split_whitespace().collect();
        bytes = Base64::decode_vec(&base64).map_err(|_| invalid("invalid base64".to_owned()))?;
    }
    if !is_gzip {
        return Ok(bytes);
    }
    let stream = stream(&bytes[..], Streams::All)?;
    let stream = stream.ok_or_else(|| invalid("invalid gzip data".to_owned()))?;
    let mut plain = Vec::new();
    Limited::new(stream, MAX_BYTES).read_to_end(&mut plain)?;
    Ok(plain)
}
