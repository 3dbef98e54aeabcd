//! A file's contents as whole lines, unpacked where that is wanted.

use std::io::{self, Read};

use diskfs::unpack::{self, Limited, Streams};
use diskfs::vfs::InodeNumber;
use diskfs::{Error, Filesystem, Result};

use crate::cli::session::Located;

/// Read at once.
const PIECE_BYTES: usize = 128 << 10;

/// A longer line is taken for several.
pub(super) const LINE_MAX_BYTES: usize = 4 << 20;

/// What is packed in a file may be no more than that: a few kilobytes can be packed to make any amount.
const UNPACKED_MAX_BYTES: u64 = 16 << 30;

/// A file, read from its beginning to its end.
struct Contents<'a> {
    filesystem: &'a Filesystem,
    inode: InodeNumber,
    path: &'a [u8],
    at: u64,
}

impl Read for Contents<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let fs = self.filesystem.as_fs();
        let len = buf.len() as u64;
        fs.will_need(self.inode, self.at, len.saturating_mul(4));
        let read = fs.read_at(self.inode, self.at, buf);
        let read = read.map_err(|e| self.filesystem.in_image(e.in_path(self.path)));
        let read = read.map_err(io::Error::other)?;
        self.at = self.at.saturating_add(read as u64);
        Ok(read)
    }
}

/// The contents of a file in pieces of whole lines.
pub(super) struct Lines<'a> {
    reader: Box<dyn Read + 'a>,
    place: &'a Located,
    path: &'a [u8],
    buffer: Vec<u8>,
    /// How much of the buffer was given out.
    given: usize,
    ended: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn open(
        place: &'a Located,
        inode: InodeNumber,
        path: &'a [u8],
        search_zip: bool,
    ) -> Result<Self> {
        let file = Contents {
            filesystem: &place.filesystem,
            inode,
            path,
            at: 0,
        };
        let reader = if search_zip {
            unpacked(file)
        } else {
            Ok(Box::new(file) as Box<dyn Read>)
        };
        Ok(Self {
            reader: reader.map_err(|e| failed(place, path, e))?,
            place,
            path,
            buffer: Vec::new(),
            given: 0,
            ended: false,
        })
    }

    /// The next piece: whole lines, but that the last of the file may have no end, and a line may be
    /// longer than they are allowed to be; and whether there is a zero byte in it, or in what was read
    /// behind it. `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(bool, &mut [u8])>> {
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
        let piece = self.buffer.get_mut(..self.given);
        Ok(piece
            .filter(|piece| !piece.is_empty())
            .map(|piece| (sees_zero, piece)))
    }

    fn fill(&mut self) -> Result<()> {
        let before = self.buffer.len();
        self.buffer.resize(before + PIECE_BYTES, 0);
        let read = self.reader.read(&mut self.buffer[before..]);
        let read = read.map_err(|e| failed(self.place, self.path, e))?;
        self.buffer.truncate(before + read);
        self.ended = read == 0;
        Ok(())
    }
}

/// An error of reading, which may be one of the filesystem on its way through an unpacker.
fn failed(place: &Located, path: &[u8], error: io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(ours) => ours,
        Err(error) => {
            let reason = format!("can't be unpacked: {error}");
            let error = diskfs::vfs::Error::new(diskfs::vfs::ErrorKind::Invalid, reason);
            place.filesystem.in_image(error.in_path(path))
        }
    }
}

/// The contents of what is packed, by its first bytes: gzip (RFC 1952), zstd (RFC 8878), xz, lz4's legacy frames.
fn unpacked<'a>(mut file: Contents<'a>) -> io::Result<Box<dyn Read + 'a>> {
    let mut magic = [0; 6];
    let read = file.read(&mut magic)?;
    file.at = 0;
    if !unpack::is_packed(magic.get(..read).unwrap_or_default()) {
        return Ok(Box::new(file));
    }
    let file = io::BufReader::with_capacity(PIECE_BYTES, file);
    let text = unpack::stream(file, Streams::All)?.ok_or_else(unpack::unknown)?;
    Ok(Box::new(Limited::new(text, UNPACKED_MAX_BYTES)))
}
