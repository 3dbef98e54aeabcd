//! Volume descriptors (ECMA-119, 8.3 to 8.5; Joliet Specification).

use super::date::Date;
use super::identifier::{Names, ucs2};
use super::{BLOCK_BYTES, push_both_16, push_both_32};

/// The program that made the volume, as its descriptor states it.
const APPLICATION: &str = "DISKFS";

/// The escape sequence of Joliet, level 3.
const JOLIET: &[u8] = b"%/E";

/// A date that is not specified (8.4.26.1).
const NO_DATE: &[u8; 17] = b"0000000000000000\0";

/// A primary descriptor, or the supplementary one of Joliet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Descriptor<'a> {
    pub(super) names: Names,
    pub(super) identifier: &'a str,
    pub(super) blocks: u32,
    pub(super) path_table_bytes: u32,
    /// The first blocks of the path tables of type L and M.
    pub(super) path_tables: [u32; 2],
    /// The root's record: 34 bytes.
    pub(super) root: &'a [u8],
    pub(super) date: Date,
}

impl Descriptor<'_> {
    /// Returns the bytes of the descriptor: one block.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = start(match self.names {
            Names::Plain => 1,
            Names::Joliet => 2,
        });
        bytes.push(0);
        self.push_text(&mut bytes, "", 32);
        self.push_text(&mut bytes, self.identifier, 32);
        bytes.extend_from_slice(&[0; 8]);
        push_both_32(&mut bytes, self.blocks);
        let mut escapes = match self.names {
            Names::Plain => Vec::new(),
            Names::Joliet => JOLIET.to_vec(),
        };
        escapes.resize(32, 0);
        bytes.extend_from_slice(&escapes);
        // One volume in the set, and this is the first.
        push_both_16(&mut bytes, 1);
        push_both_16(&mut bytes, 1);
        push_both_16(&mut bytes, u16::try_from(BLOCK_BYTES).unwrap_or_default());
        push_both_32(&mut bytes, self.path_table_bytes);
        let [little, big] = self.path_tables;
        // Each can have a second copy; there is none.
        bytes.extend_from_slice(&little.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&big.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(self.root);
        // The volume set, the publisher and the data preparer.
        for _ in 0..3 {
            self.push_text(&mut bytes, "", 128);
        }
        self.push_text(&mut bytes, APPLICATION, 128);
        // The files with the copyright, the abstract and the bibliography.
        for _ in 0..3 {
            self.push_text(&mut bytes, "", 37);
        }
        // Creation, modification, expiration, and the time from which it is effective.
        for date in [&self.date.long, &self.date.long, NO_DATE, NO_DATE] {
            bytes.extend_from_slice(date);
        }
        // The version of the file structure.
        bytes.push(1);
        bytes.resize(BLOCK_BYTES, 0);
        bytes
    }

    /// Appends a text, padded with spaces.
    fn push_text(&self, bytes: &mut Vec<u8>, text: &str, field_bytes: usize) {
        let (mut field, space) = match self.names {
            Names::Plain => (text.as_bytes().to_vec(), &b" "[..]),
            Names::Joliet => (ucs2(text), &b"\0 "[..]),
        };
        let padding = space.iter().copied().cycle();
        let missing = field_bytes.saturating_sub(field.len());
        field.extend(padding.take(missing));
        // An odd field of Joliet ends with a zero byte.
        if !field_bytes.is_multiple_of(2) && self.names == Names::Joliet {
            field.pop();
            field.push(0);
        }
        bytes.extend_from_slice(&field);
    }
}

/// Returns the descriptor that ends the list (8.3).
pub(super) fn terminator() -> Vec<u8> {
    let mut bytes = start(255);
    bytes.resize(BLOCK_BYTES, 0);
    bytes
}

/// Returns the start of every descriptor: type, identifier and version.
fn start(kind: u8) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(b"CD001");
    bytes.push(1);
    bytes
}
