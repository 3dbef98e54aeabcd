//! The contents of a file as whole lines, optionally decompressed.

use std::io::{self, Read, Seek};

use diskfs::unpack::{self, Limited, Streams};
use diskfs::{Error, File, Node, Result};

/// The number of bytes per read.
const PIECE_BYTES: usize = 128 << 10;
static ZEROES: [u8; PIECE_BYTES] = [0; PIECE_BYTES];

/// The maximum length of a line. A longer line is treated as several.
pub(super) const LINE_MAX_BYTES: usize = 4 << 20;

/// The maximum size of decompressed contents: a few kilobytes can decompress to any amount.
const UNPACKED_MAX_BYTES: u64 = 16 << 30;

/// A piece of whole lines. The last line of the file may have no newline, and a line longer than
/// the maximum is split.
pub(super) struct Piece<'a> {
    pub(super) text: &'a mut [u8],
    /// True if a zero byte is in this piece, or in data that was read after it.
    pub(super) sees_zero: bool,
}

/// The contents of a file in pieces of whole lines.
pub(super) struct Lines {
    reader: Box<dyn Read>,
    node: Node,
    buffer: Vec<u8>,
    /// The number of bytes of the buffer that were returned.
    given: usize,
    ended: bool,
}

impl Lines {
    pub(super) fn open(file: File, search_zip: bool) -> Result<Self> {
        let node = file.node().clone();
        let reader = if search_zip {
            unpacked(file)
        } else {
            Ok(Box::new(file) as Box<dyn Read>)
        };
        Ok(Self {
            reader: reader.map_err(|e| failed(&node, e))?,
            node,
            buffer: Vec::new(),
            given: 0,
            ended: false,
        })
    }

    /// Returns the next piece, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Piece<'_>>> {
        self.buffer.drain(..self.given);
        self.given = 0;
        let mut searched = 0;
        loop {
            let new = self.buffer.get(searched..).unwrap_or_default();
            if let Some(at) = new.iter().rposition(|byte| *byte == b'\n') {
                self.given = searched + at + 1;
            } else if self.ended || self.buffer.len() >= LINE_MAX_BYTES {
                self.given = self.buffer.len();
            }
            if self.given > 0 || self.ended {
                break;
            }
            searched = self.buffer.len();
            self.fill()?;
        }
        let sees_zero = self.buffer.contains(&0);
        let text = self.buffer.get_mut(..self.given);
        let text = text.filter(|text| !text.is_empty());
        Ok(text.map(|text| Piece { text, sees_zero }))
    }

    fn fill(&mut self) -> Result<()> {
        let before = self.buffer.len();
        // A copy, which is fast also where the compiler optimises for size and `resize` is a loop.
        self.buffer.extend_from_slice(&ZEROES);
        let read = self.reader.read(&mut self.buffer[before..]);
        let read = read.map_err(|e| failed(&self.node, e))?;
        self.buffer.truncate(before + read);
        self.ended = read == 0;
        Ok(())
    }
}

/// Converts a read error, which can be an error of the filesystem that passed through a
/// decompressor.
fn failed(node: &Node, error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(ours) => ours,
        Err(error) => {
            let reason = format!("cannot decompress: {error}");
            let error = diskfs::vfs::Error::new(diskfs::vfs::ErrorKind::Invalid, reason);
            node.in_image(error)
        }
    }
}

/// Returns the decompressed contents, by the first bytes: gzip (RFC 1952), zstd (RFC 8878), xz,
/// lz4's legacy frames.
fn unpacked(mut file: File) -> io::Result<Box<dyn Read>> {
    let mut magic = [0; 6];
    let read = file.read(&mut magic)?;
    file.rewind()?;
    if !unpack::is_compressed(magic.get(..read).unwrap_or_default()) {
        return Ok(Box::new(file));
    }
    let file = io::BufReader::with_capacity(PIECE_BYTES, file);
    let text = unpack::stream(file, Streams::All)?.ok_or_else(unpack::unknown)?;
    Ok(Box::new(Limited::new(text, UNPACKED_MAX_BYTES)))
}
