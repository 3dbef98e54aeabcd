//! A valid entry of the log.

use diskfs_block::{Error, Result, bytes};

use crate::log::SECTOR_BYTES;
use crate::log::data_sector;
use crate::log::descriptor::{Descriptor, ParsedDescriptor};
use crate::log::entry_header::{EntryHeader, HEADER_BYTES};
use crate::log::ring::Ring;

/// The length of a descriptor in bytes.
const DESCRIPTOR_BYTES: usize = 32;

/// An entry whose checksum, descriptors and data sectors are valid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// The sector at which it begins.
    pub(crate) start: usize,
    header: EntryHeader,
}

impl std::ops::Deref for Entry {
    type Target = EntryHeader;

    fn deref(&self) -> &EntryHeader {
        &self.header
    }
}

impl Entry {
    /// Checks an entry whose header is valid.
    pub(crate) fn check(ring: &Ring, start: usize, header: EntryHeader) -> Option<Self> {
        let entry = Self { start, header };
        let is_valid = entry.checksum(ring) == header.checksum && entry.data_matches(ring)?;
        is_valid.then_some(entry)
    }

    /// Returns the CRC-32C of the entry, with zeroes in place of the checksum.
    fn checksum(&self, ring: &Ring) -> u32 {
        let first = crate::checksum::checksum(ring.sector(self.start, 0));
        (1..self.header.sectors).fold(first, |crc, n| {
            crc32c::crc32c_append(crc, ring.sector(self.start, n))
        })
    }

    /// Returns true if there is one valid data sector for each data descriptor; `None` if a
    /// descriptor is invalid.
    fn data_matches(&self, ring: &Ring) -> Option<bool> {
        let mut data = 0_usize;
        for descriptor in self.parsed(ring) {
            if let ParsedDescriptor::Data { .. } = descriptor? {
                data = data.saturating_add(1);
            }
        }
        let first = self.header.descriptor_sectors();
        let sectors = first..self.header.sectors;
        let number = self.header.sequence_number;
        let mut stored = sectors.clone().map(|n| ring.sector(self.start, n));
        let are_valid = stored.all(|sector| data_sector::data(sector, number).is_some());
        Some(sectors.len() == data && are_valid)
    }

    fn parsed<'a>(&self, ring: &'a Ring) -> impl Iterator<Item = Option<ParsedDescriptor>> + 'a {
        let (start, number) = (self.start, self.header.sequence_number);
        (0..self.header.descriptors).map(move |n| {
            let at = n
                .saturating_mul(DESCRIPTOR_BYTES)
                .saturating_add(HEADER_BYTES);
            let sector = ring.sector(start, at / SECTOR_BYTES);
            let descriptor = bytes::part(sector, at % SECTOR_BYTES, DESCRIPTOR_BYTES)?;
            ParsedDescriptor::parse(descriptor, number)
        })
    }

    /// Returns the end of the last byte of the file that the entry changes.
    pub(crate) fn end_bytes(&self, ring: &Ring) -> u64 {
        let ends = self
            .parsed(ring)
            .flatten()
            .map(|descriptor| descriptor.end());
        ends.max().unwrap_or(0)
    }

    /// Returns the changes of the entry, in order.
    pub(crate) fn descriptors<'a>(
        &self,
        ring: &'a Ring,
    ) -> Result<impl Iterator<Item = Descriptor> + use<'a>> {
        let mut data = self.header.descriptor_sectors();
        let mut changes = Vec::new();
        for descriptor in self.parsed(ring).flatten() {
            let change = match descriptor {
                ParsedDescriptor::Zero { at, len_bytes } => Descriptor::Zero { at, len_bytes },
                ParsedDescriptor::Data {
                    at,
                    leading_bytes,
                    trailing_bytes,
                } => {
                    let sector = ring.sector(self.start, data);
                    data = data.saturating_add(1);
                    let middle = data_sector::data(sector, self.header.sequence_number);
                    // The entry was checked.
                    let middle = middle.ok_or_else(|| {
                        Error::corrupt("invalid data sector of the log").at(ring.place(self.start))
                    })?;
                    let update = [&leading_bytes[..], middle, &trailing_bytes].concat();
                    Descriptor::Data { at, update }
                }
            };
            changes.push(change);
        }
        Ok(changes.into_iter())
    }
}
