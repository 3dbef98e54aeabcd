//! The write-ahead log (section 4, "The Write-Ahead Log"): pages that are newer than those of the
//! main file. Only committed transactions are used.

use diskfs_block::bytes::{array, index, len_u64, part};
use diskfs_block::{BlockRead, Error, Result};

use crate::byte_order::ByteOrder;
use crate::window::Window;

const WAL_HEADER_BYTES: u64 = 32;

const FRAME_HEADER_BYTES: usize = 24;

/// The magic number without its last bit, which is the byte order of the checksums.
const MAGIC: u32 = 0x377f_0682;

const VERSION: u32 = 3_007_000;

/// The maximum number of frames. Real logs are shorter: SQLite writes the log back after a thousand
/// pages or one transaction. The frame numbers take 8 MiB, for 4 GiB of pages of the usual size.
const MAX_FRAMES: u64 = 1 << 20;

/// The last committed frame of each page.
#[derive(Debug)]
pub(super) struct Wal<'d> {
    device: &'d dyn BlockRead,
    page_bytes: usize,
    /// The pages with their frames, sorted by page.
    frames: Vec<(u32, u32)>,
    database_pages: u32,
}

impl<'d> Wal<'d> {
    /// Opens the log on `device`; `None` if it has no committed transaction.
    ///
    /// # Errors
    /// `Corrupt` if its page size differs from `page_bytes`; `Unsupported` if it is too long; the
    /// errors of the device.
    pub(super) fn open(device: &'d dyn BlockRead, page_bytes: usize) -> Result<Option<Self>> {
        let mut window = Window::new(device, FRAME_HEADER_BYTES.saturating_add(page_bytes));
        let Some(mut scan) = Scan::begin(device, &mut window)? else {
            return Ok(None);
        };
        if scan.page_bytes != page_bytes {
            let reason = format!(
                "invalid write-ahead log: page size is {}, that of the database {page_bytes}",
                scan.page_bytes
            );
            return Err(Error::corrupt(reason));
        }
        let mut frames = Vec::new();
        let mut committed = (0, 0);
        for number in 0..scan.frame_count(device)? {
            let Some((page, pages_after_commit)) = scan.frame(&mut window, number)? else {
                break;
            };
            frames.push((page, number));
            if pages_after_commit != 0 {
                committed = (frames.len(), pages_after_commit);
            }
        }
        let (len, database_pages) = committed;
        frames.truncate(len);
        Ok((len > 0).then(|| Self {
            device,
            page_bytes,
            frames: newest(frames),
            database_pages,
        }))
    }

    pub(super) fn device(&self) -> &'d dyn BlockRead {
        self.device
    }

    /// Returns the number of the database's pages after the last commit.
    pub(super) fn database_pages(&self) -> u32 {
        self.database_pages
    }

    /// Returns the number of different pages in the log.
    pub(super) fn page_count(&self) -> u32 {
        u32::try_from(self.frames.len()).unwrap_or(u32::MAX)
    }

    /// Returns the offset of a page in the log; `None` if the log does not have the page.
    pub(super) fn offset_of(&self, page: u32) -> Option<u64> {
        let found = self.frames.binary_search_by_key(&page, |(page, _)| *page);
        let (_, frame) = self.frames.get(found.ok()?)?;
        let start = frame_start(*frame, self.page_bytes);
        Some(start.saturating_add(len_u64(FRAME_HEADER_BYTES)))
    }
}

/// Returns the last frame of each page.
fn newest(mut frames: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    frames.sort_unstable_by_key(|(page, frame)| (*page, std::cmp::Reverse(*frame)));
    frames.dedup_by_key(|(page, _)| *page);
    frames.shrink_to_fit();
    frames
}

fn frame_start(number: u32, page_bytes: usize) -> u64 {
    let frame_bytes = len_u64(FRAME_HEADER_BYTES.saturating_add(page_bytes));
    let before = u64::from(number).saturating_mul(frame_bytes);
    WAL_HEADER_BYTES.saturating_add(before)
}

/// A scan of the frames. The first frame with a wrong checksum is from an older log and ends it.
struct Scan {
    page_bytes: usize,
    salts: [u8; 8],
    order: ByteOrder,
    sums: (u32, u32),
}

impl Scan {
    fn begin(device: &dyn BlockRead, window: &mut Window<'_>) -> Result<Option<Self>> {
        if device.size_bytes() < WAL_HEADER_BYTES {
            return Ok(None);
        }
        let header = window.get(0, index(WAL_HEADER_BYTES))?;
        Ok(Self::from_header(header))
    }

    fn from_header(header: &[u8]) -> Option<Self> {
        let field = |at| ByteOrder::Big.u32(header, at);
        let order = match field(0)?.checked_sub(MAGIC)? {
            0 => ByteOrder::Little,
            1 => ByteOrder::Big,
            _ => return None,
        };
        let sums = checksum(order, part(header, 0, 24)?, (0, 0));
        let is_whole = field(4)? == VERSION && sums == (field(24)?, field(28)?);
        is_whole.then_some(Self {
            page_bytes: index(field(8)?),
            salts: array(header, 16)?,
            order,
            sums,
        })
    }

    fn frame_count(&self, device: &dyn BlockRead) -> Result<u32> {
        let frame_bytes = len_u64(FRAME_HEADER_BYTES.saturating_add(self.page_bytes));
        let all_bytes = device.size_bytes().saturating_sub(WAL_HEADER_BYTES);
        let count = all_bytes.checked_div(frame_bytes).unwrap_or(0);
        if count > MAX_FRAMES {
            let reason =
                format!("write-ahead log is too large: {count} pages, at most {MAX_FRAMES}");
            return Err(Error::unsupported(reason));
        }
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Reads a frame. Returns its page and, if it commits a transaction, the size of the database
    /// in pages.
    fn frame(&mut self, window: &mut Window<'_>, number: u32) -> Result<Option<(u32, u32)>> {
        let start = frame_start(number, self.page_bytes);
        let len = FRAME_HEADER_BYTES.saturating_add(self.page_bytes);
        Ok(self.check(window.get(start, len)?))
    }

    fn check(&mut self, frame: &[u8]) -> Option<(u32, u32)> {
        let field = |at| ByteOrder::Big.u32(frame, at);
        let (head, page) = frame.split_at_checked(FRAME_HEADER_BYTES)?;
        let sums = checksum(self.order, part(head, 0, 8)?, self.sums);
        self.sums = checksum(self.order, page, sums);
        let is_next = array(frame, 8)? == self.salts && self.sums == (field(16)?, field(20)?);
        let number = field(0).filter(|number| is_next && *number != 0)?;
        Some((number, field(4)?))
    }
}

/// Continues the checksum (section 4.2, "Checksum Algorithm").
fn checksum(order: ByteOrder, bytes: &[u8], sums: (u32, u32)) -> (u32, u32) {
    let (words, _) = bytes.as_chunks::<4>();
    let (pairs, _) = words.as_chunks::<2>();
    pairs.iter().fold(sums, |(first, second), [one, two]| {
        let first = first.wrapping_add(order.word(*one)).wrapping_add(second);
        let second = second.wrapping_add(order.word(*two)).wrapping_add(first);
        (first, second)
    })
}
