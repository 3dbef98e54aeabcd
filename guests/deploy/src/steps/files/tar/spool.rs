//! The contents of archive members until they are written: small ones in memory, others in an
//! unnamed temporary file.

use std::fs::File as HostFile;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::super::super::super::stage::{Contents, Part};
use diskfs_archive::Member;
use diskfs_disk::{Error, ErrorKind, Result};

/// Files up to this size are kept in memory, so that the diff shows their text.
const SHOWN_BYTES: u64 = 1 << 20;

/// The limit on memory for the contents of one archive.
const MEMORY_BYTES: u64 = 64 << 20;

/// The number of bytes that are copied at once.
const PIECE_BYTES: usize = 256 << 10;

/// A store for contents that are not yet written to the guest.
#[derive(Debug)]
pub(super) struct Spool {
    /// The path of the archive, for errors.
    archive: PathBuf,
    file: Option<Arc<HostFile>>,
    end: u64,
    memory_bytes: u64,
    /// The bytes that may still be unpacked: the guest's filesystem cannot hold more.
    left: u64,
}

impl Spool {
    pub(super) fn new(archive: PathBuf, limit_bytes: u64) -> Self {
        Self {
            archive,
            file: None,
            end: 0,
            memory_bytes: 0,
            left: limit_bytes,
        }
    }

    /// Stores the contents of a regular file.
    ///
    /// # Errors
    /// `NoSpace` about the guest, which names no file; errors of the archive or of the temporary
    /// file, which name theirs.
    pub(super) fn take(&mut self, member: &Member, from: &mut impl Read) -> Result<Contents> {
        let size = member.size_bytes;
        self.left = self.left.checked_sub(size).ok_or_else(|| {
            let reason =
                "no space left: the archive contains more than the guest's filesystem can hold";
            Error::new(ErrorKind::NoSpace, reason)
        })?;
        let is_small = size <= SHOWN_BYTES && self.memory_bytes + size <= MEMORY_BYTES;
        if is_small && member.runs.is_none() {
            self.memory_bytes += size;
            let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
            from.read_exact(&mut bytes)
                .map_err(|error| self.of_archive(error.into()))?;
            return Ok(Contents::from(bytes));
        }
        self.spool(member, from).map(Contents::Part)
    }

    fn spool(&mut self, member: &Member, from: &mut impl Read) -> Result<Part> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => Arc::new(tempfile::tempfile().map_err(of_the_temporary)?),
        };
        self.file = Some(Arc::clone(&file));
        let whole = [(0, member.stored_bytes)];
        let mut digest = Sha256::new();
        for (offset, len) in member.runs.as_deref().unwrap_or(&whole) {
            if offset
                .checked_add(*len)
                .is_none_or(|end| end > member.size_bytes)
            {
                let reason = "invalid map of a sparse file in the archive: a run ends after the \
                              end of the file";
                return Err(self.of_archive(Error::new(ErrorKind::Corrupt, reason)));
            }
            digest.update(offset.to_le_bytes());
            digest.update(len.to_le_bytes());
            self.copy(from, &file, self.end + offset, *len, &mut digest)?;
        }
        let start = self.end;
        self.end += member.size_bytes;
        // Holes at the end read as zeroes.
        file.set_len(self.end).map_err(of_the_temporary)?;
        Ok(Part::new(
            file,
            start,
            member.size_bytes,
            digest.finalize().into(),
        ))
    }

    fn copy(
        &self,
        from: &mut impl Read,
        to: &HostFile,
        mut at: u64,
        len_bytes: u64,
        digest: &mut Sha256,
    ) -> Result<()> {
        let mut from = from.take(len_bytes);
        let mut buffer = vec![0; PIECE_BYTES];
        let end = at + len_bytes;
        while at < end {
            let read = from.read(&mut buffer);
            let read = read.map_err(|error| self.of_archive(error.into()))?;
            if read == 0 {
                let reason = "the map of the sparse file is longer than its contents";
                return Err(self.of_archive(Error::new(ErrorKind::Corrupt, reason)));
            }
            let piece = &buffer[..read];
            digest.update(piece);
            to.write_all_at(piece, at).map_err(of_the_temporary)?;
            at += read as u64;
        }
        Ok(())
    }

    fn of_archive(&self, error: Error) -> Error {
        error.in_file(&self.archive)
    }
}

fn of_the_temporary(error: io::Error) -> Error {
    Error::from(error).in_file(std::env::temp_dir()).with_hint(
        "large files of an archive are stored there temporarily; set TMPDIR to a directory \
             with enough space",
    )
}
