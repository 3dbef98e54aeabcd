//! A range of a file of this machine that has no name.

use std::fs::File as HostFile;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// What a file of the guest gets out of a temporary file that several have their contents in.
#[derive(Debug, Clone)]
pub struct Part {
    file: Arc<HostFile>,
    offset: u64,
    size_bytes: u64,
    /// Of what was put there: two with the same are the same, wherever they lie.
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

    /// How long it is.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// What it has, from its beginning.
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
