//! A cached view of a volume's bytes, read on demand.

use std::cell::RefCell;

use diskfs_block::{BlockRead, Error, Result};

/// The size of the first read: nearly all kinds have their magic number here.
const HEAD_BYTES: u64 = 8192;

/// The end of the second read: all other common kinds have their magic number here.
const BODY_BYTES: u64 = 72 << 10;

/// The unit of reads elsewhere, so that neighbouring fields come with one read.
const PIECE_BYTES: u64 = 4096;

/// The volume that is probed. Bytes past its end are missing, and read as zero in numbers.
pub(super) struct View<'a> {
    device: &'a dyn BlockRead,
    size_bytes: u64,
    pieces: RefCell<Vec<ViewPiece>>,
    failure: RefCell<Option<Error>>,
}

struct ViewPiece {
    offset: u64,
    bytes: Vec<u8>,
}

impl ViewPiece {
    fn get(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }
}

impl<'a> View<'a> {
    pub(super) fn new(device: &'a dyn BlockRead) -> Self {
        Self {
            device,
            size_bytes: device.size_bytes(),
            pieces: RefCell::default(),
            failure: RefCell::default(),
        }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the result, or the first read error: a result after a failed read is worthless.
    pub(super) fn finish<T>(self, told: T) -> Result<T> {
        match self.failure.into_inner() {
            Some(error) => Err(error),
            None => Ok(told),
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// Calls `f` with `len` bytes; returns `None` unless all of them are on the volume.
    pub(super) fn with<T>(&self, offset: u64, len: usize, f: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let end = offset.checked_add(u64::try_from(len).ok()?)?;
        if end > self.size_bytes || self.has_failed() {
            return None;
        }
        let known = |pieces: &[ViewPiece]| pieces.iter().position(|p| p.get(offset, len).is_some());
        if known(&self.pieces.borrow()).is_none() {
            self.fetch(offset, end);
        }
        let pieces = self.pieces.borrow();
        pieces.iter().find_map(|p| p.get(offset, len)).map(f)
    }

    /// Reads the pieces around `offset..end`, which must be on the volume.
    fn fetch(&self, offset: u64, end: u64) {
        let (start, end) = match end {
            ..=HEAD_BYTES => (0, HEAD_BYTES),
            ..=BODY_BYTES if offset >= HEAD_BYTES => (HEAD_BYTES, BODY_BYTES),
            _ => (
                offset - offset % PIECE_BYTES,
                end.checked_next_multiple_of(PIECE_BYTES).unwrap_or(end),
            ),
        };
        let Ok(len) = usize::try_from(end.min(self.size_bytes).saturating_sub(start)) else {
            return; // No caller reads that much.
        };
        let mut bytes = vec![0; len];
        match self.device.read_at(start, &mut bytes) {
            Ok(()) => self.pieces.borrow_mut().push(ViewPiece {
                offset: start,
                bytes,
            }),
            Err(error) => *self.failure.borrow_mut() = Some(error),
        }
    }

    pub(super) fn has(&self, offset: u64, magic: &[u8]) -> bool {
        self.with(offset, magic.len(), |bytes| bytes == magic) == Some(true)
    }

    pub(super) fn array<const N: usize>(&self, offset: u64) -> [u8; N] {
        let found = self.with(offset, N, |bytes| bytes.first_chunk().copied());
        found.flatten().unwrap_or([0; N])
    }

    pub(super) fn u8(&self, offset: u64) -> u8 {
        let [byte] = self.array(offset);
        byte
    }

    pub(super) fn le16(&self, offset: u64) -> u16 {
        u16::from_le_bytes(self.array(offset))
    }

    pub(super) fn le32(&self, offset: u64) -> u32 {
        u32::from_le_bytes(self.array(offset))
    }

    pub(super) fn le64(&self, offset: u64) -> u64 {
        u64::from_le_bytes(self.array(offset))
    }

    pub(super) fn be32(&self, offset: u64) -> u32 {
        u32::from_be_bytes(self.array(offset))
    }

    pub(super) fn be64(&self, offset: u64) -> u64 {
        u64::from_be_bytes(self.array(offset))
    }

    pub(super) fn be16(&self, offset: u64) -> u16 {
        u16::from_be_bytes(self.array(offset))
    }

    /// Returns a name of at most `N` bytes that ends at a NUL or is padded with spaces.
    pub(super) fn label<const N: usize>(&self, offset: u64) -> Vec<u8> {
        let bytes: [u8; N] = self.array(offset);
        let name = bytes.split(|&b| b == 0).next().unwrap_or_default();
        name.trim_ascii_end().to_vec()
    }

    /// Returns a name of at most `len` bytes in UTF-16, little-endian, that ends at a zero.
    pub(super) fn utf16_le(&self, offset: u64, len: usize) -> Vec<u8> {
        self.utf16(offset, len, u16::from_le_bytes)
    }

    /// Returns a name of at most `len` bytes in UTF-16, big-endian, that ends at a zero.
    pub(super) fn utf16_be(&self, offset: u64, len: usize) -> Vec<u8> {
        self.utf16(offset, len, u16::from_be_bytes)
    }

    fn utf16(&self, offset: u64, len: usize, order: fn([u8; 2]) -> u16) -> Vec<u8> {
        let text = self.with(offset, len, |bytes| {
            let units = bytes.chunks_exact(2).map(|unit| order([unit[0], unit[1]]));
            let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
            String::from_utf16_lossy(&units)
        });
        text.unwrap_or_default().trim_ascii_end().into()
    }

    /// Returns a UUID in its usual form; `None` for zeroes.
    pub(super) fn uuid(&self, offset: u64) -> Option<String> {
        super::uuid::text(self.array(offset))
    }
}
