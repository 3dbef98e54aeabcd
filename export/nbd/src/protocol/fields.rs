//! The fields of a message of variable length.

use super::limits::MAX_STRING_BYTES;
use super::violation::{TRUNCATED, Violation};

/// The fields of a message that have not been read yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Begins with the first field of a message.
    pub(super) const fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Violation> {
        let (field, rest) = self.0.split_first_chunk().ok_or(TRUNCATED)?;
        self.0 = rest;
        Ok(*field)
    }

    /// Reads a field of 16 bits.
    pub(super) fn u16(&mut self) -> Result<u16, Violation> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads a field of 32 bits.
    pub(super) fn u32(&mut self) -> Result<u32, Violation> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a field of 64 bits.
    pub(super) fn u64(&mut self) -> Result<u64, Violation> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a string with its length, 32 bits, before it.
    pub(super) fn string(&mut self) -> Result<String, Violation> {
        let len = self.u32()?;
        self.text(usize::try_from(len).map_err(|_| TRUNCATED)?)
    }

    /// Reads a string of `len` bytes.
    pub(super) fn text(&mut self, len: usize) -> Result<String, Violation> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(TRUNCATED)?;
        self.0 = rest;
        text(bytes)
    }

    /// Reads a string that ends with the message.
    pub(super) fn last_text(self) -> Result<String, Violation> {
        text(self.0)
    }

    /// Fails unless all fields have been read.
    pub(super) fn end(self) -> Result<(), Violation> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Violation("a message is longer than its fields"))
        }
    }
}

fn text(bytes: &[u8]) -> Result<String, Violation> {
    if bytes.len() > MAX_STRING_BYTES {
        return Err(Violation("a string is longer than 4096 bytes"));
    }
    let text = str::from_utf8(bytes).map_err(|_| Violation("a string is not UTF-8"))?;
    if text.contains('\0') {
        return Err(Violation("a string contains NUL"));
    }
    Ok(text.to_owned())
}

/// Appends a string with its length before it.
pub(super) fn put_string(out: &mut Vec<u8>, text: &str) {
    let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
    out.extend(len.to_be_bytes());
    out.extend(text.as_bytes());
}
