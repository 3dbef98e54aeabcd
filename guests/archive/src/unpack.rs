//! Decompression of files of guests: kernels, initramfs images, modules, rotated logs.

use std::io::{self, Read};

use diskfs_disk::{Error, ErrorKind};

pub use diskfs_compressed::{Streams, is_compressed, stream};

/// A reader that fails after a number of bytes: a few kilobytes can decompress to any size.
#[derive(Debug)]
pub struct Limited<R> {
    reader: R,
    left: u64,
    limit_bytes: u64,
}

impl<R> Limited<R> {
    /// Returns a reader with a limit.
    pub fn new(reader: R, limit_bytes: u64) -> Self {
        Self {
            reader,
            left: limit_bytes,
            limit_bytes,
        }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buf)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            let reason = format!(
                "the decompressed data is too large, at most {} bytes",
                self.limit_bytes
            );
            io::Error::other(Error::new(ErrorKind::Unsupported, reason))
        })?;
        Ok(read)
    }
}

/// Returns the error for an unsupported compression format.
pub fn unknown() -> Error {
    let reason = "unknown compression format; known: gzip, bzip2, xz, lz4, zstd";
    Error::new(ErrorKind::Unsupported, reason)
}

/// Reads until `buf` is full or the end is reached. Returns the number of bytes.
pub fn read_up_to(reader: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match reader.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_more_than_there_may_be_fails() {
        let mut plain = Vec::new();
        assert!(Limited::new(&[0; 9][..], 9).read_to_end(&mut plain).is_ok());
        assert!(
            Limited::new(&[0; 9][..], 8)
                .read_to_end(&mut plain)
                .is_err()
        );
    }
}
