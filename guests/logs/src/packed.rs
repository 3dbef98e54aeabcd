//! Text logs that rotation has compressed.

use std::fs::File as HostFile;
use std::io::{self, BufRead, BufReader, Read};

use diskfs_archive::unpack::{self, Limited, Streams};
use diskfs_disk::File;

/// The limit on the decompressed size of a log, the rest of which is skipped; rotated logs have
/// some hundred MiB at most.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// The size of a read from a compressed file.
const PIECE_BYTES: usize = 64 << 10;

/// The compression of a log according to its name; its first bytes show the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    /// A supported compression format.
    Known,
}

impl Packing {
    /// Returns the compression from a name, and the name without its suffix.
    pub(super) fn of(name: &str) -> (Self, &str) {
        let known = [
            (".gz", Self::Known),
            (".xz", Self::Known),
            (".zst", Self::Known),
            (".bz2", Self::Known),
        ];
        let found = known.into_iter().find_map(|(suffix, packing)| {
            let bare = name.strip_suffix(suffix)?;
            Some((packing, bare))
        });
        found.unwrap_or((Self::None, name))
    }

    /// Opens the text as a stream.
    pub(super) fn open(self, file: File) -> io::Result<Box<dyn Read>> {
        let mut file = BufReader::with_capacity(PIECE_BYTES, file);
        match self {
            Self::None => return Ok(Box::new(file)),
            Self::Known => {}
        }
        if file.fill_buf()?.is_empty() {
            return Ok(Box::new(file));
        }
        let text = unpack::stream(file, Streams::All)?.ok_or_else(unpack::unknown)?;
        Ok(Box::new(Limited::new(text, MAX_UNPACKED_BYTES)))
    }
}

/// Decompresses a log into an unnamed file, so that it can be read from its end. Also returns the
/// error that ended the decompression early.
pub(super) fn unpack(packing: Packing, file: File) -> io::Result<(HostFile, Option<io::Error>)> {
    let mut text = packing.open(file)?;
    let mut unpacked = tempfile::tempfile()?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match text.read(&mut piece) {
            Ok(0) => return Ok((unpacked, None)),
            Ok(len) => io::Write::write_all(&mut unpacked, &piece[..len])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Ok((unpacked, Some(error))),
        }
    }
}
