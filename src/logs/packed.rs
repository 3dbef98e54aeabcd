//! Text logs that rotation has packed.

use std::fs::File as HostFile;
use std::io::{self, BufReader, Read};

use crate::File;

/// More of a packed log is left out: logs that are rotated have some hundred MiB at most.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// xz packs with 64 MiB at its highest level.
const XZ_MEMORY_KIB: u32 = 80 << 10;

/// zstd packs with 8 MiB (2^23) at its highest ordinary level, and with 2^27 by `--ultra`.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// What a packed file is read in.
const PIECE_BYTES: usize = 64 << 10;

/// How a log is packed, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Gzip,
    Xz,
    Zstd,
    Bzip2,
}

impl Packing {
    /// That of a name, and the name without it.
    pub(super) fn of(name: &str) -> (Self, &str) {
        let known = [
            (".gz", Self::Gzip),
            (".xz", Self::Xz),
            (".zst", Self::Zstd),
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
        let file = BufReader::with_capacity(PIECE_BYTES, file);
        Ok(match self {
            Self::None => Box::new(file),
            Self::Gzip => limited(flate2::bufread::MultiGzDecoder::new(file)),
            Self::Xz => limited(lzma_rust2::XzReader::new_mem_limit(
                file,
                true,
                XZ_MEMORY_KIB,
            )),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(file)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                limited(decoder)
            }
            Self::Bzip2 => return Err(io::Error::other("packed with bzip2, which is not read")),
        })
    }
}

fn limited(decoder: impl Read + 'static) -> Box<dyn Read> {
    Box::new(Limited {
        decoder,
        left: MAX_UNPACKED_BYTES,
    })
}

/// Fails where there is too much.
struct Limited<R> {
    decoder: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(buf)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::other(format!(
                "more than {MAX_UNPACKED_BYTES} bytes when unpacked"
            ))
        })?;
        Ok(read)
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
