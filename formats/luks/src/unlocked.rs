//! The decrypted data of a volume as a device.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use diskfs_block::{BlockRead, BlockWrite, Error, Extent, Result, check_bounds, len_of};
use zeroize::Zeroizing;

use crate::header::Header;
use crate::key::VolumeKey;
use crate::problem::Problem;
use crate::sector_cipher::{SectorCipher, Sectors};

/// The number of bytes to read or encrypt at once: so many that the cost of a request below is
/// small, and so few that the data is still in the processor's cache when it is decrypted.
const PIECE_BYTES: usize = 256 * 1024;

/// The unit in which LUKS counts sectors for vectors, whatever the sector size is.
const IV_UNIT_BYTES: u64 = 512;

/// A LUKS volume with its key, as a device: reads decrypt and writes encrypt, in any number of
/// threads at once.
///
/// A write that covers a sector in part reads the rest first. Concurrent writes to parts of the
/// same sector are safe.
pub struct Unlocked<D: ?Sized = dyn BlockRead> {
    cipher: Box<dyn SectorCipher>,
    offset_bytes: u64,
    size: Size,
    sector_bytes: u64,
    iv_tweak: u64,
    allows_discards: bool,
    /// The lock for writes of partial sectors. Such a write takes it exclusively, all other
    /// requests shared: a sector must not change between being read and being written back, and
    /// must not be read while it is half written.
    partial_writes: RwLock<()>,
    inner: Arc<D>,
}

/// The length of the decrypted data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Bytes(u64),
    /// The length up to the end of the device below, which may grow.
    OfDevice,
}

impl<D: ?Sized> fmt::Debug for Unlocked<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unlocked")
            .field("offset_bytes", &self.offset_bytes)
            .field("size", &self.size)
            .field("sector_bytes", &self.sector_bytes)
            .finish_non_exhaustive()
    }
}

impl<D: BlockRead + ?Sized> Unlocked<D> {
    /// Opens the data that `header` describes on `data`. For a detached header `data` is another
    /// device than the header's.
    ///
    /// # Errors
    /// `Corrupt` if the data does not lie on the device; otherwise as for [`Header::problem`].
    pub fn new(data: Arc<D>, header: &Header, key: &VolumeKey) -> Result<Self> {
        let segment = &header.encrypted()?.segment;
        let device_bytes = data.size_bytes();
        let behind = device_bytes
            .checked_sub(segment.offset_bytes)
            .ok_or_else(|| cut(segment.offset_bytes, device_bytes))?;
        let len_bytes = segment.len_bytes.unwrap_or(behind);
        if len_bytes > behind {
            return Err(cut(
                segment.offset_bytes.saturating_add(len_bytes),
                device_bytes,
            ));
        }
        let whole = whole_sectors(len_bytes, segment.sector_bytes.into());
        Ok(Self {
            offset_bytes: segment.offset_bytes,
            size: Size::Bytes(whole),
            allows_discards: segment.allows_discards,
            ..Self::in_place(data, header, key)?
        })
    }

    /// Opens all of `file`; sectors are numbered by their offset in it. This is for an image with a
    /// LUKS header of its own, which describes the encryption but not where the data is. The caller
    /// must know which parts of the file are data.
    ///
    /// The file may grow. Nothing is ever discarded.
    ///
    /// # Errors
    /// As for [`Header::problem`].
    pub fn in_place(file: Arc<D>, header: &Header, key: &VolumeKey) -> Result<Self> {
        let segment = &header.encrypted()?.segment;
        let problem = |problem: Problem| problem.to_error();
        let len = len_of(key.as_bytes());
        segment.cipher.check_key_bytes(len).map_err(problem)?;
        Ok(Self {
            cipher: segment.cipher.with_key(key.as_bytes()).map_err(problem)?,
            offset_bytes: 0,
            size: Size::OfDevice,
            sector_bytes: segment.sector_bytes.into(),
            iv_tweak: segment.iv_tweak,
            allows_discards: false,
            partial_writes: RwLock::new(()),
            inner: file,
        })
    }

    fn size(&self) -> u64 {
        match self.size {
            Size::Bytes(bytes) => bytes,
            Size::OfDevice => whole_sectors(self.inner.size_bytes(), self.sector_bytes),
        }
    }

    fn shared(&self) -> RwLockReadGuard<'_, ()> {
        self.partial_writes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the numbers of the sectors from `offset` on, at which a sector must begin.
    fn sectors_from(&self, offset: u64) -> Sectors {
        let units = |bytes: u64| bytes.checked_div(IV_UNIT_BYTES).unwrap_or(0);
        Sectors {
            first: self.iv_tweak.wrapping_add(units(offset)),
            step: units(self.sector_bytes),
            bytes: self.sector_len(),
        }
    }

    fn sector_len(&self) -> usize {
        usize::try_from(self.sector_bytes).unwrap_or(IV_UNIT_LEN)
    }

    /// Converts an offset in the decrypted data to one on the device below. `new` checked the sum
    /// for the last byte.
    fn below(&self, offset: u64) -> u64 {
        self.offset_bytes.saturating_add(offset)
    }

    /// Returns the distance from the start of the sector to `offset` in bytes.
    fn behind_sector_start(&self, offset: u64) -> u64 {
        offset.checked_rem(self.sector_bytes).unwrap_or(0)
    }

    /// Reads whole sectors.
    fn read_sectors(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut at = offset;
        for piece in buf.chunks_mut(PIECE_BYTES) {
            self.inner.read_at(self.below(at), piece)?;
            self.cipher.decrypt(self.sectors_from(at), piece);
            at = at.saturating_add(len_of(piece));
        }
        Ok(())
    }

    /// Reads a part of one sector.
    fn read_within_sector(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let (start, mut sector) = self.read_sector_of(offset)?;
        let part = part_of(&mut sector, offset.saturating_sub(start), buf.len())?;
        buf.copy_from_slice(part);
        Ok(())
    }

    /// Reads the sector that contains a byte; returns the sector's offset, too.
    fn read_sector_of(&self, offset: u64) -> Result<(u64, Zeroizing<Vec<u8>>)> {
        let start = offset.saturating_sub(self.behind_sector_start(offset));
        let mut sector = Zeroizing::new(vec![0; self.sector_len()]);
        self.read_sectors(start, &mut sector)?;
        Ok((start, sector))
    }

    /// Splits `len` bytes at `offset`: returns how many at the start belong to a partly covered
    /// sector, and how many after that are whole sectors.
    fn split(&self, offset: u64, len: usize) -> (usize, usize) {
        let sector = self.sector_len();
        let into = usize::try_from(self.behind_sector_start(offset)).unwrap_or(0);
        let head = match into {
            0 => 0,
            _ => sector.saturating_sub(into).min(len),
        };
        let rest = len.saturating_sub(head);
        let tail = rest.checked_rem(sector).unwrap_or(0);
        (head, rest.saturating_sub(tail))
    }
}

const IV_UNIT_LEN: usize = 512;

/// Rounds a length down to whole sectors; an incomplete sector at the end cannot be decrypted.
fn whole_sectors(len_bytes: u64, sector_bytes: u64) -> u64 {
    let rest = len_bytes.checked_rem(sector_bytes).unwrap_or(0);
    len_bytes.saturating_sub(rest)
}

fn cut(end: u64, device_bytes: u64) -> Error {
    let reason =
        format!("the encrypted data ends at byte {end}, but the device ends at {device_bytes}");
    Error::corrupt(reason).with_hint("the image was truncated, or the data is on another device")
}

/// Returns the bytes of a sector that a request covers. Callers split requests at sectors.
fn part_of(sector: &mut [u8], into: u64, len: usize) -> Result<&mut [u8]> {
    let start = usize::try_from(into).unwrap_or(usize::MAX);
    sector
        .get_mut(start..start.saturating_add(len))
        .ok_or_else(|| Error::invalid("the request goes past the end of its sector"))
}

/// Splits `buf` into its three parts, with the offset of each.
macro_rules! split_at_sectors {
    ($self:ident, $offset:ident, $buf:ident, $split:ident) => {{
        let (head, whole) = $self.split($offset, $buf.len());
        let (first, rest) = $buf.$split(head);
        let (middle, last) = rest.$split(whole);
        let middle_at = $offset.saturating_add(len_of(first));
        let last_at = middle_at.saturating_add(len_of(middle));
        (first, (middle_at, middle), (last_at, last))
    }};
}

impl<D: BlockRead + ?Sized> BlockRead for Unlocked<D> {
    fn size_bytes(&self) -> u64 {
        self.size()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_bounds(offset, len_of(buf), self.size())?;
        let (first, (middle_at, middle), (last_at, last)) =
            split_at_sectors!(self, offset, buf, split_at_mut);
        let _shared = self.shared();
        if !first.is_empty() {
            self.read_within_sector(offset, first)?;
        }
        self.read_sectors(middle_at, middle)?;
        if !last.is_empty() {
            self.read_within_sector(last_at, last)?;
        }
        Ok(())
    }

    fn stored_at(&self, offset: u64) -> Result<Extent> {
        check_bounds(offset, 1, self.size())?;
        let extent = self.inner.stored_at(self.below(offset))?;
        let left = self.size().saturating_sub(offset);
        Ok(Extent {
            len_bytes: extent.len_bytes.min(left),
            ..extent
        })
    }

    fn block_size(&self) -> u32 {
        let sector = u32::try_from(self.sector_bytes).unwrap_or(512);
        self.inner.block_size().max(sector)
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        let len_bytes = len_bytes.min(self.size().saturating_sub(offset));
        if len_bytes > 0 {
            self.inner.will_need(self.below(offset), len_bytes);
        }
    }
}

impl<D: BlockWrite + ?Sized> Unlocked<D> {
    /// Writes whole sectors.
    fn write_sectors(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let mut encrypted = Vec::new();
        let mut at = offset;
        for piece in buf.chunks(PIECE_BYTES) {
            encrypted.clear();
            encrypted.extend_from_slice(piece);
            self.cipher.encrypt(self.sectors_from(at), &mut encrypted);
            self.inner.write_at(self.below(at), &encrypted)?;
            at = at.saturating_add(len_of(piece));
        }
        Ok(())
    }

    /// Writes a part of one sector; the caller holds the lock exclusively.
    fn write_within_sector(&self, offset: u64, buf: &[u8]) -> Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        let (start, mut sector) = self.read_sector_of(offset)?;
        let into = offset.saturating_sub(start);
        part_of(&mut sector, into, buf.len())?.copy_from_slice(buf);
        self.write_sectors(start, &sector)
    }
}

impl<D: BlockWrite + ?Sized> BlockWrite for Unlocked<D> {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        check_bounds(offset, len_of(buf), self.size())?;
        let (first, (middle_at, middle), (last_at, last)) =
            split_at_sectors!(self, offset, buf, split_at);
        if !middle.is_empty() {
            let _shared = self.shared();
            self.write_sectors(middle_at, middle)?;
        }
        if first.is_empty() && last.is_empty() {
            return Ok(());
        }
        let _alone = self.partial_writes.write();
        self.write_within_sector(offset, first)?;
        self.write_within_sector(last_at, last)
    }

    /// Passes discards on if the header allows them. They are visible on the device as ranges
    /// without encrypted bytes.
    fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        check_bounds(offset, len_bytes, self.size())?;
        if !self.allows_discards {
            return Ok(());
        }
        let into = self.behind_sector_start(offset);
        let head = match into {
            0 => 0,
            _ => self.sector_bytes.saturating_sub(into),
        };
        let rest = len_bytes.saturating_sub(head);
        let whole = rest.saturating_sub(rest.checked_rem(self.sector_bytes).unwrap_or(0));
        if whole == 0 {
            return Ok(());
        }
        let start = self.below(offset.saturating_add(head));
        let _shared = self.shared();
        self.inner.discard(start, whole)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }
}
