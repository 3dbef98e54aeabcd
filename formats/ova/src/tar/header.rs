//! The header of a member: `struct posix_header`, 512 bytes.

use diskfs_block::bytes::part;
use diskfs_block::{Error, Result};

/// The size of a header, and the unit of all places.
pub(super) const BLOCK_BYTES: u64 = 512;

/// The kind of a member, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    /// A file with holes (GNU tar).
    Sparse,
    /// The name of the next member (GNU tar).
    LongName,
    /// An extended header for the next member (pax).
    Extended,
    /// A header that says nothing about names and sizes: a global header, a long link target.
    Ignored,
    /// A directory, a link, a device.
    Other,
}

/// A parsed header.
#[derive(Debug, Clone)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) name: Vec<u8>,
    /// The bytes of contents that follow.
    pub(super) size_bytes: u64,
}

/// Returns true if a file that begins with `start` (at least 512 bytes) is a tar archive.
pub fn is_tar(start: &[u8]) -> bool {
    part(start, 0, 512).is_some_and(|block| matches!(Header::parse(block, 0), Ok(Some(_))))
}

impl Header {
    /// Parses a header; `None` for a block of zeroes, which ends an archive.
    ///
    /// # Errors
    /// `Corrupt` for a wrong checksum or an invalid size.
    pub(super) fn parse(block: &[u8], at: u64) -> Result<Option<Self>> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let invalid = |what: &str| Error::corrupt(format!("invalid tar header: {what}")).at(at);
        let field = |start, len| part(block, start, len).unwrap_or_default();
        let stored = number(field(148, 8));
        if stored.is_none_or(|it| it != checksum(block)) {
            return Err(invalid("wrong checksum"));
        }
        let type_flag = block.get(156).copied().unwrap_or_default();
        let size_bytes = match type_flag {
            // Links, devices, directories and FIFOs have no contents, whatever the size.
            b'1'..=b'6' => 0,
            _ => number(field(124, 12)).ok_or_else(|| invalid("invalid size"))?,
        };
        Ok(Some(Self {
            kind: Kind::of(type_flag),
            name: name(block),
            size_bytes,
        }))
    }
}

impl Kind {
    fn of(type_flag: u8) -> Self {
        match type_flag {
            b'0' | 0 | b'7' => Self::File,
            b'S' => Self::Sparse,
            b'L' => Self::LongName,
            b'x' | b'X' => Self::Extended,
            b'g' | b'K' => Self::Ignored,
            _ => Self::Other,
        }
    }
}

/// Returns the name, with the prefix of POSIX before it.
fn name(block: &[u8]) -> Vec<u8> {
    let text = |start, len| until_nul(part(block, start, len).unwrap_or_default());
    let name = text(0, 100);
    // GNU's old format has other fields in place of the prefix, and other bytes after the magic.
    let prefix = match part(block, 257, 6) {
        Some(b"ustar\0") => text(345, 155),
        _ => &[],
    };
    if prefix.is_empty() {
        return name.to_vec();
    }
    [prefix, b"/", name].concat()
}

pub(super) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Parses a number: octal digits between spaces, or base 256 if the first bit is set.
fn number(field: &[u8]) -> Option<u64> {
    let (first, rest) = field.split_first()?;
    if first & 0x80 != 0 {
        // The second bit is the sign.
        return rest.iter().try_fold(u64::from(first & 0x7f), |sum, byte| {
            sum.checked_mul(256)?.checked_add(u64::from(*byte))
        });
    }
    let text = std::str::from_utf8(until_nul(field)).ok()?.trim();
    if text.is_empty() {
        return Some(0);
    }
    let is_octal = text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    is_octal
        .then(|| u64::from_str_radix(text, 8).ok())
        .flatten()
}

/// Returns the sum of all bytes, with spaces in place of the checksum itself.
fn checksum(block: &[u8]) -> u64 {
    let value = |(at, byte): (usize, &u8)| {
        let is_checksum = (148..156).contains(&at);
        u64::from(if is_checksum { b' ' } else { *byte })
    };
    block.iter().enumerate().map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_binary() {
        assert_eq!(number(b"00000001750\0"), Some(1000));
        assert_eq!(number(b"   1750 \0\0\0\0"), Some(1000));
        assert_eq!(number(b"\0\0\0\0"), Some(0));
        assert_eq!(number(b"12x4"), None);
        assert_eq!(number(b"+17"), None);
        assert_eq!(
            number(b"\x80\0\0\0\0\0\x01\0\0\0\0\x02"),
            Some((1 << 40) + 2)
        );
        assert_eq!(number(&[0xff; 12]), None);
    }

    #[test]
    fn a_header_needs_its_checksum() {
        let mut block = [0; 512];
        assert!(!is_tar(&block));
        block[..4].copy_from_slice(b"name");
        block[124..127].copy_from_slice(b"17 ");
        assert!(!is_tar(&block));
        let sum = format!("{:06o}\0 ", checksum(&block));
        block[148..156].copy_from_slice(sum.as_bytes());
        assert!(is_tar(&block));
        let header = Header::parse(&block, 0).unwrap().unwrap();
        assert_eq!((header.kind, header.size_bytes), (Kind::File, 15));
        assert_eq!(header.name, b"name");
    }
}
