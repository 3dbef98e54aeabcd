//! A tar archive that is read member by member.

use std::fmt;
use std::io::{self, BufRead, Read};
use std::ops::ControlFlow;

use tar::{EntryType, Header};

use diskfs_disk::{Error, ErrorKind, Result};
use diskfs_vfs::check_cancelled;

use crate::background::Background;
use crate::damage::{cut_short, not_tar, wrong};
use crate::member::Member;
use crate::pax::Pax;
use crate::sparse_map::Numbers;

const BLOCK_BYTES: usize = 512;

/// The limit on the size of a pax header or a long name: a hundred of the largest attributes.
const EXTENSION_MAX_BYTES: u64 = 8 << 20;

/// The limit on the size of a global pax header, whose records count for each following member: git
/// writes 52 bytes.
const GLOBAL_MAX_BYTES: u64 = 64 << 10;

/// The least number of bytes that are skipped without reading them: reading fewer is quicker.
const SKIPPED_MIN_BYTES: u64 = 128 << 10;

/// The stream of an archive.
pub(crate) trait Input: BufRead {
    /// Skips at most this number of bytes without reading them, and returns how many: 0 if the
    /// stream must be read.
    ///
    /// # Errors
    /// `Io`.
    fn skip(&mut self, _len_bytes: u64) -> io::Result<u64> {
        Ok(0)
    }
}

impl Input for io::BufReader<Box<dyn Read + '_>> {}
impl Input for Background {}

/// A tar archive that is being read.
pub struct Archive<'r> {
    input: Box<dyn Input + 'r>,
    /// The number of unread bytes of the current member: contents and padding.
    left: u64,
    padding: u64,
    /// The offset of the next byte in the input.
    position: u64,
    /// The pax keywords for all following members.
    global: Pax,
}

impl fmt::Debug for Archive<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl<'r> Archive<'r> {
    /// Returns an archive that starts at the current position of `input`.
    pub fn new(input: Box<dyn Read + 'r>) -> Self {
        Self::with_buffer(input, 1 << 20)
    }

    /// Returns an archive that another thread reads ahead, and decompresses if necessary. Waits for
    /// the first bytes.
    ///
    /// Nothing waits for the end of the thread: a pipe may stay open after the end of the archive.
    /// The thread ends at its next piece when the archive is dropped.
    ///
    /// # Errors
    /// `Io` if no thread can be started; the errors of reading the first bytes.
    pub fn read_ahead(input: impl Read + Send + 'static) -> Result<Self> {
        let mut stream = Background::start(move |to| {
            to.send_all(&mut crate::decompressed(input)?)?;
            Ok(())
        })?;
        stream.fill_buf()?;
        Ok(Self::of(Box::new(stream.detached())))
    }

    /// Returns an archive that reads this number of bytes at once.
    pub(crate) fn with_buffer(input: Box<dyn Read + 'r>, buffer_bytes: usize) -> Self {
        Self::of(Box::new(io::BufReader::with_capacity(buffer_bytes, input)))
    }

    /// Returns an archive that starts at the current position of `input`.
    pub(crate) fn of(input: Box<dyn Input + 'r>) -> Self {
        Self {
            input,
            left: 0,
            padding: 0,
            position: 0,
            global: Pax::default(),
        }
    }

    /// Returns the number of bytes of the archive that were read: after a header, the offset of the
    /// contents.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of unread bytes of the contents of the current member.
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.left
    }

    /// Skips the unread contents of the current member in pieces, and calls `progress` with the
    /// size of each.
    ///
    /// # Errors
    /// `Corrupt` for a truncated archive; `Io`; `Cancelled` if `progress` returns
    /// [`ControlFlow::Break`].
    pub(crate) fn skip(&mut self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<()> {
        while self.left > 0 {
            let mut piece_bytes = self.skip_unread()?;
            if piece_bytes == 0 {
                let available = self.input.fill_buf()?.len();
                if available == 0 {
                    return Err(cut_short());
                }
                piece_bytes = self.left.min(available as u64);
                self.input
                    .consume(usize::try_from(piece_bytes).unwrap_or(available));
            }
            self.left -= piece_bytes;
            self.position += piece_bytes;
            check_cancelled(progress(piece_bytes))?;
        }
        Ok(())
    }

    /// Skips contents that no buffer contains, if they are large. Returns their size.
    fn skip_unread(&mut self) -> Result<u64> {
        if self.left < SKIPPED_MIN_BYTES {
            return Ok(0);
        }
        Ok(self.input.skip(self.left)?.min(self.left))
    }

    /// Reads the rest of the input, which is after the end of the archive, so that a reader that
    /// verifies a digest sees all of it.
    ///
    /// # Errors
    /// `Io`, and the errors of the reader.
    pub(crate) fn finish(&mut self) -> Result<()> {
        io::copy(&mut self.input, &mut io::sink())?;
        Ok(())
    }

    /// Reads the header of the next member; returns `None` at the end. Unread contents of the
    /// previous member are skipped.
    ///
    /// # Errors
    /// `Corrupt` for a damaged archive, or for data that is not a tar archive; `Unsupported` for an
    /// unknown type of member. The next member can't be found after an error.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would not lend the contents"
    )]
    pub fn next(&mut self) -> Result<Option<Member>> {
        let mut pax = Pax::default();
        let mut long_name = None;
        let mut long_link = None;
        loop {
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            match header.entry_type() {
                EntryType::XHeader => {
                    pax = Pax::parse(&self.extension(&header, EXTENSION_MAX_BYTES)?)?;
                }
                EntryType::XGlobalHeader => {
                    self.global = Pax::parse(&self.extension(&header, GLOBAL_MAX_BYTES)?)?;
                }
                EntryType::GNULongName => long_name = Some(self.name(&header)?),
                EntryType::GNULongLink => long_link = Some(self.name(&header)?),
                _ => {
                    let pax = self.global.with(pax);
                    let mut member = Member::new(&header, &pax, long_name, long_link)?;
                    self.begin(member.stored_bytes);
                    if member.is_old_sparse {
                        self.old_sparse_map(&header, &mut member)?;
                    } else if member.has_map_in_front {
                        self.map_in_front(&mut member)?;
                    }
                    return Ok(Some(member));
                }
            }
        }
    }

    /// Returns the contents of the current member, as they are stored.
    pub fn contents(&mut self) -> Contents<'_, 'r> {
        Contents(self)
    }

    /// Counts bytes of the current member that were read.
    fn passed(&mut self, len: usize) {
        self.left -= len as u64;
        self.position += len as u64;
    }

    fn begin(&mut self, stored_bytes: u64) {
        self.left = stored_bytes;
        let partial = stored_bytes % BLOCK_BYTES as u64;
        self.padding = (BLOCK_BYTES as u64 - partial) % BLOCK_BYTES as u64;
    }

    fn block(&mut self) -> Result<Option<[u8; BLOCK_BYTES]>> {
        let mut block = [0; BLOCK_BYTES];
        let mut filled = 0;
        while filled < BLOCK_BYTES {
            match self.input.read(&mut block[filled..])? {
                0 if filled == 0 => return Ok(None),
                0 if self.position == 0 => return Err(not_tar("it is shorter than a header")),
                0 => return Err(cut_short()),
                read => filled += read,
            }
        }
        self.position += BLOCK_BYTES as u64;
        Ok(Some(block))
    }

    /// Reads the next header; `None` at the end, which is two blocks of zeroes or the end of the
    /// input.
    fn header(&mut self) -> Result<Option<Header>> {
        self.skip(&mut |_| ControlFlow::Continue(()))?;
        self.left = self.padding;
        self.skip(&mut |_| ControlFlow::Continue(()))?;
        self.begin(0);
        let Some(block) = self.block()? else {
            return Ok(None);
        };
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let header = Header::from_byte_slice(&block).clone();
        let sum: u32 = block
            .iter()
            .enumerate()
            .map(|(at, byte)| sum_of(at, *byte))
            .sum();
        if header.cksum().ok() != Some(sum) {
            return Err(not_tar("wrong checksum of a header"));
        }
        Ok(Some(header))
    }

    /// Reads the contents of a header that extends the next one.
    fn extension(&mut self, header: &Header, limit_bytes: u64) -> Result<Vec<u8>> {
        let size = header.entry_size()?;
        if size > limit_bytes {
            let reason =
                format!("the extended header is too large: {size} bytes, at most {limit_bytes}");
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        self.begin(size);
        let mut bytes = Vec::new();
        self.contents().read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn name(&mut self, header: &Header) -> Result<Vec<u8>> {
        let mut name = self.extension(header, EXTENSION_MAX_BYTES)?;
        if let Some(end) = name.iter().position(|byte| *byte == 0) {
            name.truncate(end);
        }
        Ok(name)
    }

    /// Reads the map of a sparse file in old GNU format: four runs in the header, and 21 in each
    /// following block.
    fn old_sparse_map(&mut self, header: &Header, member: &mut Member) -> Result<()> {
        let gnu = header
            .as_gnu()
            .ok_or_else(|| wrong("header of a sparse file"))?;
        let mut push = |block: &tar::GnuSparseHeader| -> Result<()> {
            if !block.is_empty() {
                member.push_run(block.offset()?, block.length()?)?;
            }
            Ok(())
        };
        gnu.sparse.iter().try_for_each(&mut push)?;
        let mut more = gnu.is_extended();
        while more {
            let block = self.block()?.ok_or_else(cut_short)?;
            let mut extended = tar::GnuExtSparseHeader::new();
            extended.as_mut_bytes().copy_from_slice(&block);
            extended.sparse.iter().try_for_each(&mut push)?;
            more = extended.is_extended();
        }
        member.size_bytes = gnu.real_size()?;
        Ok(())
    }

    /// Reads the map of GNU sparse format 1.0: decimal numbers, each on a line, in whole blocks
    /// before the data.
    fn map_in_front(&mut self, member: &mut Member) -> Result<()> {
        let mut numbers = Numbers::new(self.contents());
        let count = numbers.next()?;
        for _ in 0..count {
            let (offset, len) = (numbers.next()?, numbers.next()?);
            member.push_run(offset, len)?;
        }
        Ok(())
    }
}

/// Returns the contribution of a header byte to the checksum, whose own field counts as spaces.
fn sum_of(at: usize, byte: u8) -> u32 {
    if (148..156).contains(&at) {
        u32::from(b' ')
    } else {
        u32::from(byte)
    }
}

/// The stored contents of a member.
#[derive(Debug)]
pub struct Contents<'a, 'r>(&'a mut Archive<'r>);

impl Contents<'_, '_> {
    /// Returns `len` or the number of bytes that are left, whichever is less.
    fn limited(&self, len: usize) -> usize {
        usize::try_from(self.0.left).map_or(len, |left| left.min(len))
    }
}

impl Read for Contents<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.limited(buf.len());
        let read = self.0.input.read(&mut buf[..len])?;
        if read == 0 && len > 0 {
            return Err(cut_short().into());
        }
        self.0.passed(read);
        Ok(read)
    }
}

impl BufRead for Contents<'_, '_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let left = self.limited(usize::MAX);
        if left == 0 {
            return Ok(&[]);
        }
        let available = self.0.input.fill_buf()?;
        if available.is_empty() {
            return Err(cut_short().into());
        }
        Ok(&available[..left.min(available.len())])
    }

    fn consume(&mut self, len: usize) {
        self.0.input.consume(len);
        self.0.passed(len);
    }
}
