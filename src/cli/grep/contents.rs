//! A file's contents as whole lines, unpacked where that is wanted.

use std::io::{self, Read, Seek};

use diskfs::unpack::{self, Limited, Streams};
use diskfs::{Error, File, Node, Result};

/// Read at once.
const PIECE_BYTES: usize = 128 << 10;

/// A longer line is taken for several.
pub(super) const LINE_MAX_BYTES: usize = 4 << 20;

/// What is packed in a file may be no more than that: a few kilobytes can be packed to make any amount.
const UNPACKED_MAX_BYTES: u64 = 16 << 30;

/// Whole lines, but that the last of the file may have no end, and a line may be longer than they are
/// allowed to be.
pub(super) struct Piece<'a> {
    pub(super) text: &'a mut [u8],
    /// True if it contains a zero byte, or what was read behind it does.
    pub(super) sees_zero: bool,
}

/// The contents of a file in pieces of whole lines.
pub(super) struct Lines {
    reader: Box<dyn Read>,
    node: Node,
    buffer: Vec<u8>,
    /// How much of the buffer was given out.
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

    /// Returns the next piece; `None` at the end.
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
        self.buffer.resize(before + PIECE_BYTES, 0);
        let read = self.reader.read(&mut self.buffer[before..]);
        let read = read.map_err(|e| failed(&self.node, e))?;
        self.buffer.truncate(before + read);
        self.ended = read == 0;
        Ok(())
    }
}

/// An error of reading, which may be one of the filesystem on its way through an unpacker.
fn failed(node: &Node, error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(ours) => ours,
        Err(error) => {
            let reason = format!("can't be unpacked: {error}");
            let error = diskfs::vfs::Error::new(diskfs::vfs::ErrorKind::Invalid, reason);
            node.in_image(error)
        }
    }
}

/// The contents of what is packed, by its first bytes: gzip (RFC 1952), zstd (RFC 8878), xz, lz4's legacy frames.
fn unpacked(mut file: File) -> io::Result<Box<dyn Read>> {
    let mut magic = [0; 6];
    let read = file.read(&mut magic)?;
    file.rewind()?;
    if !unpack::is_packed(magic.get(..read).unwrap_or_default()) {
        return Ok(Box::new(file));
    }
    let file = io::BufReader::with_capacity(PIECE_BYTES, file);
    let text = unpack::stream(file, Streams::All)?.ok_or_else(unpack::unknown)?;
    Ok(Box::new(Limited::new(text, UNPACKED_MAX_BYTES)))
}
