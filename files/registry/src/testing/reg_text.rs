//! The text of `.reg` files (Microsoft, "How to add, modify, or delete registry subkeys and values
//! by using a .reg file"). Only additions are supported.

use std::fmt;

use super::{HiveBuilder, wide};
use crate::DataType;

/// An invalid line of a `.reg` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegTextError {
    /// The line number, from 1.
    pub line: usize,
}

impl fmt::Display for RegTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid line {}", self.line)
    }
}

impl std::error::Error for RegTextError {}

pub(super) fn read(
    builder: &mut HiveBuilder,
    text: &str,
    prefix: &str,
) -> Result<(), RegTextError> {
    let mut key = String::new();
    let mut joined = String::new();
    for (number, line) in (1..).zip(text.lines()) {
        let error = RegTextError { line: number };
        let line = line.trim();
        joined.push_str(line.trim_end_matches('\\'));
        if line.ends_with('\\') && joined.contains("hex") {
            continue;
        }
        let line = std::mem::take(&mut joined);
        if line.is_empty() || line.starts_with([';', 'W']) {
            continue;
        }
        if let Some(path) = line.strip_prefix('[') {
            let path = path
                .strip_suffix(']')
                .and_then(|path| path.strip_prefix(prefix));
            path.ok_or(error)?.clone_into(&mut key);
            builder.key(&key);
            continue;
        }
        let (name, data_type, data) = value(&line).ok_or(error)?;
        builder.value(&key, &name, data_type, &data);
    }
    Ok(())
}

/// Parses `"NAME"=VALUE` or `@=VALUE`.
fn value(line: &str) -> Option<(String, DataType, Vec<u8>)> {
    let (name, value) = match line.strip_prefix('@') {
        Some(rest) => (String::new(), rest),
        None => quoted(line)?,
    };
    let value = value.strip_prefix('=')?;
    if value.starts_with('"') {
        let (text, _) = quoted(value)?;
        return Some((name, DataType::STRING, wide(&text)));
    }
    if let Some(number) = value.strip_prefix("dword:") {
        let number = u32::from_str_radix(number, 16).ok()?;
        return Some((name, DataType::DWORD, number.to_le_bytes().to_vec()));
    }
    let (data_type, bytes) = value.strip_prefix("hex")?.split_once(':')?;
    let data_type = match data_type {
        "" => DataType::BINARY,
        number => {
            let number = number.strip_prefix('(')?.strip_suffix(')')?;
            DataType(u32::from_str_radix(number, 16).ok()?)
        }
    };
    let bytes = bytes
        .split(',')
        .map(str::trim)
        .filter(|byte| !byte.is_empty());
    let bytes: Option<Vec<u8>> = bytes
        .map(|byte| u8::from_str_radix(byte, 16).ok())
        .collect();
    Some((name, data_type, bytes?))
}

/// Returns the text in quotes, and the rest after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut inner = String::new();
    let mut chars = text.strip_prefix('"')?.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((inner, &text[at + 2..])),
            '\\' => inner.push(chars.next()?.1),
            _ => inner.push(c),
        }
    }
    None
}
