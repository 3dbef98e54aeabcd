//! The Rock Ridge entries of a record: SUSP (IEEE P1281) and RRIP (IEEE P1282).

use crate::date_time::SHORT_BYTES;

use super::push_both_32;

/// The mode of a file: only root can read it, because seeds contain passwords and keys.
const FILE_MODE: u32 = 0o100_400;
/// The mode of a directory.
const DIRECTORY_MODE: u32 = 0o040_555;

/// The flags of a `TF` entry: the times of the modification, the access and the change of
/// attributes.
const TIMES: u8 = 0b1110;

/// The identifier of Rock Ridge in its `ER` entry. The texts that can follow it are left out, so
/// that the entry fits in the record of the root.
const ROCK_RIDGE: &[u8] = b"RRIP_1991A";

/// A file, as its entries describe it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Posix<'a> {
    /// The name; `None` for the record of a directory in itself or in a child.
    pub(super) name: Option<&'a str>,
    pub(super) is_directory: bool,
    pub(super) links: u32,
    pub(super) time: [u8; SHORT_BYTES],
}

impl Posix<'_> {
    /// Returns the entries.
    pub(super) fn entries(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(name) = self.name {
            let mut data = vec![0];
            data.extend_from_slice(name.as_bytes());
            push(&mut bytes, *b"NM", &data);
        }
        let mode = if self.is_directory {
            DIRECTORY_MODE
        } else {
            FILE_MODE
        };
        let mut attributes = Vec::new();
        // Mode, links, user and group.
        for number in [mode, self.links, 0, 0] {
            push_both_32(&mut attributes, number);
        }
        push(&mut bytes, *b"PX", &attributes);
        let mut times = vec![TIMES];
        (0..TIMES.count_ones()).for_each(|_| times.extend_from_slice(&self.time));
        push(&mut bytes, *b"TF", &times);
        bytes
    }
}

/// Returns the first entries of the root's own record: `SP` and, last, `ER`, which declare that the
/// protocols are in use.
pub(super) fn declarations() -> [Vec<u8>; 2] {
    let (mut sp, mut er) = (Vec::new(), Vec::new());
    push(&mut sp, *b"SP", &[0xbe, 0xef, 0]);
    let len = u8::try_from(ROCK_RIDGE.len()).unwrap_or_default();
    // The lengths of the identifier, the descriptor and the source, and the version.
    let data = [&[len, 0, 0, 1], ROCK_RIDGE].concat();
    push(&mut er, *b"ER", &data);
    [sp, er]
}

/// Appends an entry: signature, length, version 1, data.
fn push(bytes: &mut Vec<u8>, signature: [u8; 2], data: &[u8]) {
    let len = data.len().saturating_add(4);
    bytes.extend_from_slice(&signature);
    bytes.push(u8::try_from(len).unwrap_or(u8::MAX));
    bytes.push(1);
    bytes.extend_from_slice(data);
}
