//! Headers of tar archives: GNU's, 512 bytes.

use diskfs_block::bytes::{len_u64, put};
use diskfs_block::{Error, Result};

/// The size of a header, and the unit of all contents.
pub(crate) const BLOCK_BYTES: usize = 512;

/// The longest name that fits into a header.
const NAME_MAX_BYTES: usize = 100;

/// The largest size of 11 octal digits.
const OCTAL_MAX: u64 = 0o777_7777_7777;

/// The places of the fields.
const MODE: usize = 100;
const UID: usize = 108;
const GID: usize = 116;
const SIZE: usize = 124;
const TIME: usize = 136;
const CHECKSUM: usize = 148;
const TYPE_FLAG: usize = 156;
const MAGIC: usize = 257;

/// A member of a new archive.
#[derive(Debug, Clone, Default)]
pub struct TarMember {
    /// The name, without a slash at its start. That of a directory ends with a slash.
    pub name: String,
    /// The permissions.
    pub mode: u32,
    /// The numbers of the owner and of the group, at most 2097151.
    pub owner: (u32, u32),
    /// The time of the last change in seconds since 1970.
    pub seconds: u32,
    /// The size of the contents in bytes; 0 for a directory.
    pub size_bytes: u64,
}

impl TarMember {
    /// Returns the header.
    ///
    /// # Errors
    /// `Invalid` for a name that is too long.
    pub fn header(&self) -> Result<[u8; BLOCK_BYTES]> {
        if self.name.len() > NAME_MAX_BYTES || self.name.is_empty() {
            let reason = format!(
                "invalid path in an image: expected 1 to {NAME_MAX_BYTES} bytes, found {}",
                self.name.len()
            );
            return Err(Error::invalid(reason));
        }
        let is_directory = self.name.ends_with('/');
        let mut block = [0; BLOCK_BYTES];
        put(&mut block, 0, self.name.as_bytes());
        let octal = |value: u32| format!("{value:07o}\0");
        put(&mut block, MODE, octal(self.mode).as_bytes());
        put(&mut block, UID, octal(self.owner.0).as_bytes());
        put(&mut block, GID, octal(self.owner.1).as_bytes());
        put(&mut block, SIZE, &size(self.size_bytes));
        put(
            &mut block,
            TIME,
            format!("{:011o}\0", self.seconds).as_bytes(),
        );
        put(
            &mut block,
            TYPE_FLAG,
            if is_directory { b"5" } else { b"0" },
        );
        put(&mut block, MAGIC, b"ustar  \0");
        put(&mut block, CHECKSUM, b"        ");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        put(&mut block, CHECKSUM, format!("{sum:06o}\0 ").as_bytes());
        Ok(block)
    }

    /// Returns the number of zeroes after the contents.
    pub fn padding_bytes(&self) -> usize {
        let block = len_u64(BLOCK_BYTES);
        let padded = self.size_bytes.checked_next_multiple_of(block);
        let padding = padded
            .unwrap_or(self.size_bytes)
            .saturating_sub(self.size_bytes);
        diskfs_block::bytes::index(padding)
    }

    /// Returns the zeroes that end an archive.
    pub const fn end() -> &'static [u8] {
        &[0; 2 * BLOCK_BYTES]
    }
}

/// Returns the size field: octal, or in base 256 if it is too large for that.
fn size(size_bytes: u64) -> Vec<u8> {
    if size_bytes <= OCTAL_MAX {
        return format!("{size_bytes:011o}\0").into_bytes();
    }
    [&[0x80, 0, 0, 0][..], &size_bytes.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_sizes_are_binary() {
        assert_eq!(size(8), b"00000000010\0");
        assert_eq!(size(OCTAL_MAX), b"77777777777\0");
        assert_eq!(size(1 << 33), b"\x80\0\0\0\0\0\0\x02\0\0\0\0");
        let member = |name: &str| TarMember {
            name: name.into(),
            size_bytes: 513,
            ..TarMember::default()
        };
        assert_eq!(member("a").padding_bytes(), 511);
        assert!(member(&"a".repeat(101)).header().is_err());
    }
}
