//! Text logs that rotation has packed.

use std::fs::File as HostFile;
use std::io::{self, BufRead, BufReader, Read};

use diskfs_archive::unpack::{self, Limited, Streams};
use diskfs_disk::File;

/// More of a packed log is left out: logs that are rotated have some hundred MiB at most.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// What a packed file is read in.
const PIECE_BYTES: usize = 64 << 10;

/// Whether a log is packed, by its name. How it is, its first bytes tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    /// In a way that is read.
    Known,
    Bzip2,
}

impl Packing {
    /// That of a name, and the name without it.
    pub(super) fn of(name: &str) -> (Self, &str) {
        let known = [
            (".gz", Self::Known),
            (".xz", Self::Known),
            (".zst", Self::Known),
            (".bz2", Self::Bzip2),
        ];
        let found = known.into_iter().find_map(|(suffix, packing)| {
            let bare = name.strip_suffix(suffix)?;
            Some((packing, bare))
        });
        found.unwrap_or((Self::None, name))
    }

    /// The text in order.
    pub(super) fn open(self, file: File) -> io::Result<Box<dyn Read>> {
        let mut file = BufReader::with_capacity(PIECE_BYTES, file);
        match self {
            Self::None => return Ok(Box::new(file)),
            Self::Bzip2 => return Err(io::Error::other("packed with bzip2, which is not read")),
            Self::Known => {}
        }
        if file.fill_buf()?.is_empty() {
            return Ok(Box::new(file));
        }
        let text = unpack::stream(file, Streams::All)?.ok_or_else(unpack::unknown)?;
        Ok(Box::new(Limited::new(text, MAX_UNPACKED_BYTES)))
    }
}

/// The text of a packed log in a file without a name, to be read from its end; with what kept the rest from being
/// unpacked.
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
