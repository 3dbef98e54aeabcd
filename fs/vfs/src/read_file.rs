//! Reading of a file: whole, or as a stream.

use std::io;

use crate::numbers::len_u64;
use crate::{Error, ErrorKind, FileType, FsRead, InodeNumber, Metadata, ReadAhead, Result};

/// Reads a whole regular file of at most `limit_bytes`.
///
/// # Errors
/// `IsADirectory`; `Invalid` for another type of file, or for one that is larger than the limit;
/// the errors of the filesystem.
pub fn read_file(fs: &dyn FsRead, inode: InodeNumber, limit_bytes: u64) -> Result<Vec<u8>> {
    let metadata = regular(fs, inode)?;
    let size = metadata.size_bytes;
    let fits = usize::try_from(size).ok().filter(|_| size <= limit_bytes);
    let Some(len) = fits else {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("the file is too large: {size} bytes, at most {limit_bytes}"),
        )
        .in_inode(inode));
    };
    let mut contents = vec![0; len];
    let read = fs.read_at(inode, 0, &mut contents)?;
    contents.truncate(read);
    Ok(contents)
}

fn regular(fs: &dyn FsRead, inode: InodeNumber) -> Result<Metadata> {
    let metadata = fs.metadata(inode)?;
    let kind = match metadata.file_type {
        FileType::Regular => return Ok(metadata),
        FileType::Directory => ErrorKind::IsADirectory,
        _ => ErrorKind::Invalid,
    };
    let error = match kind {
        ErrorKind::Invalid => Error::new(kind, "not a regular file"),
        kind => kind.into(),
    };
    Err(error.in_inode(inode))
}

/// A regular file as a stream. It announces its reads to the filesystem.
///
/// `FileReader` does not buffer: pass a large buffer to `read`, or wrap it in [`io::BufReader`].
#[derive(Debug)]
pub struct FileReader<'a> {
    fs: &'a dyn FsRead,
    inode: InodeNumber,
    size_bytes: u64,
    position: u64,
    read_ahead: ReadAhead,
}

impl<'a> FileReader<'a> {
    /// Opens `inode` at its first byte.
    ///
    /// # Errors
    /// `IsADirectory`; `Invalid` for another type of file.
    pub fn open(fs: &'a dyn FsRead, inode: InodeNumber) -> Result<Self> {
        let size_bytes = regular(fs, inode)?.size_bytes;
        Ok(Self {
            fs,
            inode,
            size_bytes,
            position: 0,
            read_ahead: ReadAhead::at(0),
        })
    }

    /// Returns the file's size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Reads into `buf` as [`FsRead::read_at`] does, and moves the position.
    ///
    /// # Errors
    /// The errors of the filesystem.
    pub fn read_next(&mut self, buf: &mut [u8]) -> Result<usize> {
        let len_bytes = len_u64(buf.len());
        let end_of_read = self.position.saturating_add(len_bytes);
        self.read_ahead
            .before_read(self.fs, self.inode, end_of_read, self.size_bytes);
        let read = self.fs.read_at(self.inode, self.position, buf)?;
        let read_bytes = len_u64(read);
        self.position = self.position.saturating_add(read_bytes);
        Ok(read)
    }
}

impl io::Read for FileReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.read_next(buf).map_err(io::Error::from)
    }
}

impl From<Error> for io::Error {
    /// Keeps the whole message: the kind follows from the errno, and the [`Error`] is the source.
    fn from(error: Error) -> Self {
        let kind = io::Error::from_raw_os_error(error.kind().errno()).kind();
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::testing::MemoryFs;

    #[test]
    fn reads_a_whole_file_up_to_the_limit() {
        let mut fs = MemoryFs::new();
        let file = fs.file("/f", b"12345");
        assert_eq!(read_file(&fs, file, 5).unwrap(), b"12345");
        let error = read_file(&fs, file, 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(
            error.to_string(),
            "the file is too large: 5 bytes, at most 4 (inode 11)"
        );
    }

    #[test]
    fn refuses_what_is_no_file() {
        let mut fs = MemoryFs::new();
        let link = fs.symlink("/l", "x");
        let kind = |inode| read_file(&fs, inode, 9).unwrap_err().kind();
        assert_eq!(kind(fs.root()), ErrorKind::IsADirectory);
        assert_eq!(kind(link), ErrorKind::Invalid);
    }

    #[test]
    fn streams_and_announces_what_comes() {
        let mut fs = MemoryFs::new();
        let contents: Vec<u8> = (0..10_000_000_u32).map(|n| (n % 251) as u8).collect();
        let file = fs.file("/f", &contents);
        let mut reader = FileReader::open(&fs, file).unwrap();
        assert_eq!(reader.size_bytes(), 10_000_000);
        let mut seen = Vec::new();
        let mut buf = vec![0; 1 << 20];
        while let n @ 1.. = reader.read(&mut buf).unwrap() {
            seen.extend_from_slice(&buf[..n]);
        }
        assert_eq!(seen, contents);
        let hints = fs.take_hints();
        assert!(hints.len() < 6, "{hints:?}");
        let mut next = 1 << 20;
        for (inode, offset, len) in hints {
            assert_eq!((inode, offset), (file, next));
            next = offset + len;
        }
        assert_eq!(next, 10_000_000);
    }

    #[test]
    fn a_small_file_is_read_without_hints() {
        let mut fs = MemoryFs::new();
        let file = fs.file("/f", b"small");
        let mut seen = String::new();
        let mut reader = io::BufReader::new(FileReader::open(&fs, file).unwrap());
        reader.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "small");
        assert!(fs.take_hints().is_empty());
    }
}
