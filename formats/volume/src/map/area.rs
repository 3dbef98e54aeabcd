//! Areas: the members of a segment.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Extent, Result, check_bounds, len_of};

use super::Mapped;

/// A part of a device, or of a volume that is itself assembled.
#[derive(Debug)]
pub(crate) struct Area<D: ?Sized> {
    source: Source<D>,
    start_bytes: u64,
    len_bytes: u64,
}

#[derive(Debug)]
pub(crate) enum Source<D: ?Sized> {
    Device(Arc<D>),
    Volume(Arc<Mapped<D>>),
}

impl<D: ?Sized> Clone for Source<D> {
    fn clone(&self) -> Self {
        match self {
            Self::Device(device) => Self::Device(Arc::clone(device)),
            Self::Volume(volume) => Self::Volume(Arc::clone(volume)),
        }
    }
}

impl<D: BlockRead + ?Sized> Source<D> {
    pub(crate) fn size_bytes(&self) -> u64 {
        match self {
            Self::Device(device) => device.size_bytes(),
            Self::Volume(volume) => volume.size_bytes(),
        }
    }
}

impl<D: ?Sized> Source<D> {
    /// Returns the devices below.
    pub(super) fn devices(&self) -> &[Arc<D>] {
        match self {
            Self::Device(device) => std::slice::from_ref(device),
            Self::Volume(volume) => &volume.devices,
        }
    }
}

impl<D: BlockRead + ?Sized> Area<D> {
    /// Creates an area of `len_bytes` bytes of `source` from `start_bytes` on.
    ///
    /// # Errors
    /// `OutOfBounds` if they do not lie within it.
    pub(crate) fn new(source: Source<D>, start_bytes: u64, len_bytes: u64) -> Result<Self> {
        check_bounds(start_bytes, len_bytes, source.size_bytes())?;
        Ok(Self {
            source,
            start_bytes,
            len_bytes,
        })
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    pub(crate) fn source(&self) -> &Source<D> {
        &self.source
    }

    /// Converts `offset` to an offset in the source, after checking it against the area's own end.
    fn below(&self, offset: u64, len_bytes: u64) -> Result<u64> {
        check_bounds(offset, len_bytes, self.len_bytes)?;
        // `new` checked the sum for the area's end, and `offset` is not past that.
        Ok(self.start_bytes.saturating_add(offset))
    }

    pub(crate) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let at = self.below(offset, len_of(buf))?;
        match &self.source {
            Source::Device(device) => device.read_at(at, buf),
            Source::Volume(volume) => volume.read_at(at, buf),
        }
    }

    pub(super) fn extent_at(&self, offset: u64) -> Result<Extent> {
        let at = self.below(offset, 1)?;
        match &self.source {
            Source::Device(device) => device.extent_at(at),
            Source::Volume(volume) => volume.extent_at(at),
        }
    }

    pub(super) fn stored_at(&self, offset: u64) -> Result<Extent> {
        let at = self.below(offset, 1)?;
        match &self.source {
            Source::Device(device) => device.stored_at(at),
            Source::Volume(volume) => volume.stored_at(at),
        }
    }

    pub(super) fn block_size(&self) -> u32 {
        match &self.source {
            Source::Device(device) => device.block_size(),
            Source::Volume(volume) => volume.block_size(),
        }
    }

    pub(super) fn will_need(&self, offset: u64, len_bytes: u64) {
        if let Ok(at) = self.below(offset, len_bytes) {
            match &self.source {
                Source::Device(device) => device.will_need(at, len_bytes),
                Source::Volume(volume) => volume.will_need(at, len_bytes),
            }
        }
    }
}

impl<D: BlockWrite + ?Sized> Area<D> {
    /// Checks that all of a range can be written in place.
    pub(super) fn check_write(&self, offset: u64, len_bytes: u64) -> Result<()> {
        let at = self.below(offset, len_bytes)?;
        match &self.source {
            Source::Device(_) => Ok(()),
            Source::Volume(volume) => volume.check_write(at, len_bytes),
        }
    }

    pub(super) fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let at = self.below(offset, len_of(buf))?;
        match &self.source {
            Source::Device(device) => device.write_at(at, buf),
            Source::Volume(volume) => volume.write_at(at, buf),
        }
    }

    pub(super) fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        let at = self.below(offset, len_bytes)?;
        match &self.source {
            Source::Device(device) => device.write_zeroes(at, len_bytes),
            Source::Volume(volume) => volume.write_zeroes(at, len_bytes),
        }
    }

    pub(super) fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        let at = self.below(offset, len_bytes)?;
        match &self.source {
            Source::Device(device) => device.discard(at, len_bytes),
            Source::Volume(volume) => volume.discard(at, len_bytes),
        }
    }
}
