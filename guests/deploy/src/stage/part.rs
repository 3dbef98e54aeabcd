//! A range of an unnamed temporary file.

use std::fs::File as HostFile;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The contents of a file in the guest, which are a part of a temporary file that several files
/// share.
#[derive(Debug, Clone)]
pub struct Part {
    file: Arc<HostFile>,
    offset: u64,
    size_bytes: u64,
    /// The hash of the contents. Parts with equal hashes are equal, wherever they are stored.
    sha256: [u8; 32],
}

impl Part {
    pub(in super::super) fn new(
        file: Arc<HostFile>,
        offset: u64,
        size_bytes: u64,
        sha256: [u8; 32],
    ) -> Self {
        Self {
            file,
            offset,
            size_bytes,
            sha256,
        }
    }

    /// Returns the size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns a reader of the contents.
    pub(in super::super) fn reader(&self) -> impl Read + '_ {
        Reader {
            part: self,
            position: 0,
        }
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        (self.size_bytes, self.sha256) == (other.size_bytes, other.sha256)
    }
}

impl Eq for Part {}

struct Reader<'p> {
    part: &'p Part,
    position: u64,
}

impl Read for Reader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.part.size_bytes - self.position;
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let at = self.part.offset + self.position;
        let read = self.part.file.read_at(&mut buf[..len], at)?;
        self.position += read as u64;
        Ok(read)
    }
}
