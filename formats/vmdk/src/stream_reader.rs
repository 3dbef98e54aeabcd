//! The reader of stream-optimised images in order, without seeking.

use std::fmt;
use std::io::Read;

use diskfs_block::bytes::{index, len_u64};
use diskfs_block::{Error, Result};

use crate::descriptor::{Descriptor, DescriptorPlace, MAX_DESCRIPTOR_BYTES};
use crate::grain_map::max_stored_bytes;
use crate::inflate::Inflater;
use crate::layout::MAX_COMPRESSED_GRAIN_BYTES;
use crate::marker::{GRAIN_MARKER_BYTES, Marker, MetadataType};
use crate::sectors::{SECTOR_BYTES, to_bytes};
use crate::sparse_header::{Compression, HEADER_BYTES, SparseHeader};

/// A grain of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamGrain {
    /// The offset on the disk in bytes.
    pub offset: u64,
    /// The compressed data.
    pub compressed: Vec<u8>,
}

/// A reader of a stream-optimised image that comes in order, from a pipe or a network. It yields
/// the grains as they come, and ends after the end-of-stream marker.
///
/// The tables of the stream are skipped. What no grain has reads as zeroes.
pub struct StreamReader<R: Read> {
    input: Input<R>,
    header: SparseHeader,
    descriptor: Descriptor,
    inflater: Inflater,
    is_ended: bool,
}

/// The input, and how much of it was read.
struct Input<R> {
    input: R,
    /// The bytes read so far.
    position: u64,
}

impl<R: Read> fmt::Debug for StreamReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamReader")
            .field("descriptor", &self.descriptor)
            .field("position", &self.input.position)
            .finish_non_exhaustive()
    }
}

impl<R: Read> StreamReader<R> {
    /// Reads the header and the descriptor.
    ///
    /// # Errors
    /// `Unsupported` for an image that is not a stream: its grains have no markers. `Corrupt` for
    /// invalid ones, and the errors of reading.
    pub fn new(input: R) -> Result<Self> {
        let mut input = Input { input, position: 0 };
        let header = SparseHeader::parse(&input.read(HEADER_BYTES)?, 0)?;
        check_stream(&header)?;
        let descriptor = read_descriptor(&mut input, &header)?;
        input.skip_to(to_bytes(header.overhead_sectors, "overHead", 0)?)?;
        Ok(Self {
            input,
            header,
            descriptor,
            inflater: Inflater::default(),
            is_ended: false,
        })
    }

    /// Returns the descriptor.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Returns the size of the disk in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.header.capacity_sectors.saturating_mul(SECTOR_BYTES)
    }

    /// Returns the size of a grain in bytes.
    pub fn grain_bytes(&self) -> u64 {
        self.header.grain_sectors.saturating_mul(SECTOR_BYTES)
    }

    /// Returns the next grain; `None` after the last one.
    ///
    /// # Errors
    /// `Corrupt` for an invalid marker, and if the stream ends before its end-of-stream marker; the
    /// errors of reading. No grain follows an error.
    pub fn next_grain(&mut self) -> Result<Option<StreamGrain>> {
        let next = self.advance();
        self.is_ended |= next.is_err();
        next
    }

    fn advance(&mut self) -> Result<Option<StreamGrain>> {
        while !self.is_ended {
            let at = self.input.position;
            let mut bytes = self.input.read_up_to(GRAIN_MARKER_BYTES)?;
            // QEMU's images have the tables first, and no marker at the end.
            if bytes.is_empty() && self.header.directory_sector.is_some() {
                self.is_ended = true;
                break;
            }
            if bytes.len() < GRAIN_MARKER_BYTES {
                return Err(truncated(self.input.position));
            }
            if let Some(Marker::Grain { lba, len_bytes }) = Marker::parse(&bytes) {
                return self.grain(lba, len_bytes, at).map(Some);
            }
            let padding = index(SECTOR_BYTES).saturating_sub(GRAIN_MARKER_BYTES);
            bytes.extend(self.input.read(padding)?);
            match Marker::parse(&bytes) {
                Some(Marker::Metadata { kind, sectors }) => self.metadata(kind, sectors, at)?,
                _ => return Err(Error::corrupt("invalid marker of a stream").at(at)),
            }
        }
        Ok(None)
    }

    /// Decompresses a grain. The last grain of the disk is as long as the disk has it.
    ///
    /// # Errors
    /// `Corrupt` if the data are invalid.
    pub fn decompress(&self, grain: &StreamGrain) -> Result<Vec<u8>> {
        let left = self.size_bytes().saturating_sub(grain.offset);
        let needed_bytes = index(left.min(self.grain_bytes()));
        let grain_bytes = index(self.grain_bytes());
        self.inflater
            .run(&grain.compressed, grain_bytes, needed_bytes)
    }

    fn grain(&mut self, lba: u64, len_bytes: u32, at: u64) -> Result<StreamGrain> {
        let offset = lba.saturating_mul(SECTOR_BYTES);
        let is_place = lba < self.header.capacity_sectors
            && lba.checked_rem(self.header.grain_sectors) == Some(0);
        let is_len = u64::from(len_bytes) <= max_stored_bytes(self.grain_bytes());
        if !is_place || !is_len {
            let reason = format!("invalid grain marker: sector {lba}, {len_bytes} bytes");
            return Err(Error::corrupt(reason).at(at));
        }
        let compressed = self.input.read(index(len_bytes))?;
        self.input.align()?;
        Ok(StreamGrain { offset, compressed })
    }

    fn metadata(&mut self, kind: MetadataType, sectors: u64, at: u64) -> Result<()> {
        match kind {
            MetadataType::EndOfStream => self.is_ended = true,
            MetadataType::Other(number) => {
                let reason = format!("unsupported marker {number} in a stream");
                return Err(Error::unsupported(reason).at(at));
            }
            _ => {
                let len_bytes = to_bytes(sectors, "marker", at)?;
                self.input.skip(len_bytes)?;
            }
        }
        Ok(())
    }
}

impl<R: Read> Input<R> {
    /// Skips the bytes before `position`. A position before the current one is the current one.
    fn skip_to(&mut self, position: u64) -> Result<()> {
        self.skip(position.saturating_sub(self.position))
    }

    /// Skips the rest of the sector.
    fn align(&mut self) -> Result<()> {
        let end = self.position.div_ceil(SECTOR_BYTES);
        self.skip_to(end.saturating_mul(SECTOR_BYTES))
    }

    fn skip(&mut self, len_bytes: u64) -> Result<()> {
        let mut skipped = self.input.by_ref().take(len_bytes);
        let count = std::io::copy(&mut skipped, &mut std::io::sink())?;
        if count < len_bytes {
            return Err(truncated(self.position.saturating_add(count)));
        }
        self.position = self.position.saturating_add(count);
        Ok(())
    }

    fn read(&mut self, len: usize) -> Result<Vec<u8>> {
        let bytes = self.read_up_to(len)?;
        if bytes.len() < len {
            return Err(truncated(self.position));
        }
        Ok(bytes)
    }

    /// Reads `len` bytes, which have a limit already, or what is left of the input.
    fn read_up_to(&mut self, len: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.input
            .by_ref()
            .take(len_u64(len))
            .read_to_end(&mut bytes)?;
        self.position = self.position.saturating_add(len_u64(bytes.len()));
        Ok(bytes)
    }
}

fn read_descriptor<R: Read>(input: &mut Input<R>, header: &SparseHeader) -> Result<Descriptor> {
    let sectors = header
        .descriptor_sectors
        .clone()
        .ok_or_else(|| Error::corrupt("invalid stream-optimised VMDK: no descriptor").at(0))?;
    let start = to_bytes(sectors.start, "descriptorOffset", 0)?;
    let end = to_bytes(sectors.end, "descriptorSize", 0)?;
    let len_bytes = end.saturating_sub(start).min(MAX_DESCRIPTOR_BYTES);
    input.skip_to(start)?;
    let text = input.read(index(len_bytes))?;
    Descriptor::parse(&text, start, DescriptorPlace::Embedded)
}

fn check_stream(header: &SparseHeader) -> Result<()> {
    if header.compression != Some(Compression::WithMarkers) {
        return Err(Error::unsupported("unsupported VMDK: not stream-optimised"));
    }
    let grain_bytes = header.grain_sectors.saturating_mul(SECTOR_BYTES);
    if grain_bytes > MAX_COMPRESSED_GRAIN_BYTES {
        let reason = format!("unsupported compressed grains of {grain_bytes} bytes");
        return Err(Error::unsupported(reason).at(0));
    }
    to_bytes(header.capacity_sectors, "capacity", 0).map(drop)
}

fn truncated(at: u64) -> Error {
    Error::corrupt("the stream ends before its end-of-stream marker").at(at)
}
