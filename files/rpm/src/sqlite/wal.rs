//! The write-ahead log (section 4, "The Write-Ahead Log"): pages that are newer than those of the main
//! file, as far as a transaction with them was committed.

use diskfs_block::bytes::{array, index, len_u64, part};
use diskfs_block::{BlockRead, Error, Result};

use crate::byte_order::ByteOrder;
use crate::window::Window;

const WAL_HEADER_BYTES: u64 = 32;

const FRAME_HEADER_BYTES: usize = 24;

/// The magic number without its last bit, which is the byte order of checksums.
const MAGIC: u32 = 0x377f_0682;

const VERSION: u32 = 3_007_000;

/// More frames than a log of rpm has: SQLite writes it back after a thousand pages, or a transaction.
/// Their numbers take 8 MiB, 4 GiB of pages of the usual size.
const MAX_FRAMES: u64 = 1 << 20;

/// Which committed frame is the last of each page.
#[derive(Debug)]
pub(super) struct Wal<'d> {
    device: &'d dyn BlockRead,
    page_bytes: usize,
    /// Pages and their frames, by page.
    frames: Vec<(u32, u32)>,
    database_pages: u32,
}

impl<'d> Wal<'d> {
    /// The log on `device`, or `None` when it has nothing that was committed.
    ///
    /// # Errors
    /// `Corrupt` when its pages are not of that size; `Unsupported` when it is too long; what the
    /// device answers when it cannot be read.
    pub(super) fn open(device: &'d dyn BlockRead, page_bytes: usize) -> Result<Option<Self>> {
        let mut window = Window::new(device, FRAME_HEADER_BYTES.saturating_add(page_bytes));
        let Some(mut scan) = Scan::begin(device, &mut window)? else {
            return Ok(None);
        };
        if scan.page_bytes != page_bytes {
            let reason = format!(
                "the pages of its log have {} bytes, and its own {page_bytes}",
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

    /// How many pages the database has since the last commit.
    pub(super) fn database_pages(&self) -> u32 {
        self.database_pages
    }

    /// How many different pages it has.
    pub(super) fn page_count(&self) -> u32 {
        u32::try_from(self.frames.len()).unwrap_or(u32::MAX)
    }

    /// Where a page lies in it, if it has it.
    pub(super) fn offset_of(&self, page: u32) -> Option<u64> {
        let found = self.frames.binary_search_by_key(&page, |(page, _)| *page);
        let (_, frame) = self.frames.get(found.ok()?)?;
        let start = frame_start(*frame, self.page_bytes);
        Some(start.saturating_add(len_u64(FRAME_HEADER_BYTES)))
    }
}

/// The last frame of each page.
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

/// Goes through the frames: the first that its checksum does not belong to is of an older log.
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
            let reason = format!("its log has {count} pages, more than {MAX_FRAMES}");
            return Err(Error::unsupported(reason));
        }
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// The page that the frame is of, and the database's size in pages where it commits.
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

/// Goes on with the sums (section 4.2, "Checksum Algorithm").
fn checksum(order: ByteOrder, bytes: &[u8], sums: (u32, u32)) -> (u32, u32) {
    let (words, _) = bytes.as_chunks::<4>();
    let (pairs, _) = words.as_chunks::<2>();
    pairs.iter().fold(sums, |(first, second), [one, two]| {
        let first = first.wrapping_add(order.word(*one)).wrapping_add(second);
        let second = second.wrapping_add(order.word(*two)).wrapping_add(first);
        (first, second)
    })
}
