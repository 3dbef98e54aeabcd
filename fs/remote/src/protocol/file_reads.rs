//! The list of small files that one request reads whole.

use super::limits::{MAX_BULK, MAX_FILE_READS};
use super::{Checked, Violation};

/// The length of an encoded [`FileRead`].
const ENCODED_BYTES: usize = 12;

/// One file of [`Operation::ReadFiles`](super::Operation::ReadFiles).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRead {
    /// The inode number.
    pub inode: u64,
    /// The number of bytes to read from the beginning of the file.
    pub len: u32,
}

/// Encodes a list of files: for each, the inode number (u64) and the length (u32), little-endian.
pub fn encode_file_reads(files: &[FileRead]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(files.len().saturating_mul(ENCODED_BYTES));
    for file in files {
        bytes.extend_from_slice(&file.inode.to_le_bytes());
        bytes.extend_from_slice(&file.len.to_le_bytes());
    }
    bytes
}

/// Decodes a list of files. Returns also their total length.
///
/// # Errors
/// Fails if there are too many files, or if they are longer than the bulk of an answer.
pub fn decode_file_reads(bytes: &[u8]) -> Checked<(Vec<FileRead>, usize)> {
    const INVALID: Violation = Violation("invalid list of files");
    let (files, rest) = bytes.as_chunks::<ENCODED_BYTES>();
    if !rest.is_empty() || files.len() > MAX_FILE_READS {
        return Err(INVALID);
    }
    let mut total = 0_usize;
    let mut decoded = Vec::with_capacity(files.len());
    for &[i0, i1, i2, i3, i4, i5, i6, i7, len @ ..] in files {
        let file = FileRead {
            inode: u64::from_le_bytes([i0, i1, i2, i3, i4, i5, i6, i7]),
            len: u32::from_le_bytes(len),
        };
        total = total.saturating_add(usize::try_from(file.len).unwrap_or(usize::MAX));
        decoded.push(file);
    }
    if total > MAX_BULK {
        return Err(INVALID);
    }
    Ok((decoded, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_bounded() {
        let file = |len| FileRead {
            inode: 1 << 40,
            len,
        };
        let files = [file(5), file(0), file(1000)];
        let (back, total) = decode_file_reads(&encode_file_reads(&files)).unwrap();
        assert_eq!((back.as_slice(), total), (&files[..], 1005));
        let refused = |files: &[FileRead]| decode_file_reads(&encode_file_reads(files)).is_err();
        assert!(refused(&[file(1 << 20), file(1)]) && refused(&[file(u32::MAX); 3]));
        assert!(!refused(&[file(1); MAX_FILE_READS]) && refused(&[file(1); MAX_FILE_READS + 1]));
        assert!(decode_file_reads(&[0; 13]).is_err());
    }
}
