//! Reads of a file with checked offsets.

use std::fmt;
use std::sync::{Arc, Mutex};

use diskfs_block::{BlockRead, Cache, CacheOptions, Error, Result, check_bounds, len_of};
use zerocopy::{FromBytes, FromZeros, IntoBytes};
use zstd::zstd_safe::DCtx;

use crate::header::{Header, Raw};
use crate::object::Object;

/// The cache of an open file. Many entries share a value, which is stored where it was first used,
/// so a reader returns to it again and again.
const CACHE: CacheOptions = CacheOptions {
    budget_bytes: 4 << 20,
    block_bytes: 8192,
    bypass_bytes: 128 << 10,
};

/// An open journal file.
pub(crate) struct Reader {
    device: Cache,
    pub(crate) header: Header,
    /// The zstd context. It is kept because creating one takes longer than decompressing a message.
    pub(crate) zstd: Mutex<Option<DCtx<'static>>>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Reader");
        f.field("header", &self.header).finish_non_exhaustive()
    }
}

impl Reader {
    pub(crate) fn open(device: Arc<dyn BlockRead>) -> Result<Self> {
        let device = Cache::new(device, CACHE)?;
        let mut raw = Raw::new_zeroed();
        if device.size_bytes() < len_of(raw.as_bytes()) {
            return Err(Error::corrupt("not a journal file: it is too short").at(0));
        }
        device.read_at(0, raw.as_mut_bytes())?;
        Ok(Self {
            header: Header::from_raw(&raw)?,
            device,
            zstd: Mutex::new(None),
        })
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    pub(crate) fn is_compact(&self) -> bool {
        self.header.incompatible.is_compact()
    }

    /// Fills `buf` with the bytes at `offset`.
    pub(crate) fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.device.read_at(offset, buf)
    }

    /// Reads the fixed part of the object at `offset`. Fails unless the object has the expected
    /// type and is completely within the file.
    pub(crate) fn object<T: Object>(&self, offset: u64) -> Result<T> {
        let mut object = T::new_zeroed();
        self.check_place(offset, len_of(object.as_bytes()), T::KIND.name())?;
        self.read(offset, object.as_mut_bytes())?;
        self.check(offset, &object)?;
        Ok(object)
    }

    /// Reads an object as [`object`](Self::object) does, and the bytes after its fixed part into
    /// `buf`. Returns the filled part of `buf`.
    pub(crate) fn object_with<'a, T: Object + FromBytes>(
        &self,
        offset: u64,
        buf: &'a mut [u8],
    ) -> Result<(T, &'a [u8])> {
        let left = self.size_bytes().saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let buf = buf.get_mut(..len).unwrap_or_default();
        self.check_place(offset, len_of(buf).max(1), T::KIND.name())?;
        self.read(offset, buf)?;
        let cut = || misplaced(offset, T::KIND.name());
        let (object, rest) = T::read_from_prefix(buf).map_err(|_| cut())?;
        self.check(offset, &object)?;
        Ok((object, rest))
    }

    fn check_place(&self, offset: u64, len: u64, name: &'static str) -> Result<()> {
        let within = check_bounds(offset, len, self.size_bytes()).is_ok();
        if offset < self.header.objects_offset || !offset.is_multiple_of(8) || !within {
            return Err(misplaced(offset, name));
        }
        Ok(())
    }

    fn check<T: Object>(&self, offset: u64, object: &T) -> Result<()> {
        let header = object.header();
        let (kind, size) = (header.kind, header.size.get());
        let name = T::KIND.name();
        if kind != T::KIND.number() {
            let reason = format!("invalid object: type is {kind}, expected {name}");
            return Err(Error::corrupt(reason).at(offset));
        }
        if size < len_of(object.as_bytes())
            || check_bounds(offset, size, self.size_bytes()).is_err()
        {
            let reason =
                format!("invalid {name} object: size is {size}, which is not within the file");
            return Err(Error::corrupt(reason).at(offset));
        }
        Ok(())
    }
}

fn misplaced(offset: u64, name: &'static str) -> Error {
    Error::corrupt(format!("invalid offset of a {name} object")).at(offset)
}
