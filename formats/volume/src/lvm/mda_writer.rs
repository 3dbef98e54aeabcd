//! Writing to a metadata area: first a new text beside the committed one, then the header that
//! refers to it.

use diskfs_block::{BlockRead, BlockWrite, Error, Result};

use super::crc::crc;
use super::mda_header::{HEADER_BYTES, MdaHeader, new_header};
use super::raw_locn::{RAW_LOCN_BYTES, RawLocn};

/// The alignment of texts, as in LVM (`MDA_ORIGINAL_ALIGNMENT`).
const ALIGNMENT: u64 = 512;

/// The offset of the header's list of texts.
const LOCNS_AT: usize = 40;

impl MdaHeader {
    /// Returns the size of the ring buffer for texts: the whole area without the header.
    fn ring_bytes(&self) -> u64 {
        self.size_bytes.saturating_sub(header_bytes())
    }

    /// Returns true if two texts of up to `len_bytes` fit, and the current one beside one of them.
    pub(super) fn has_room_for_two(&self, len_bytes: u64) -> bool {
        let longest = len_bytes.max(self.text.size_bytes);
        let aligned = ALIGNMENT.saturating_mul(2);
        let needed = longest.saturating_add(len_bytes).saturating_add(aligned);
        needed <= self.ring_bytes()
    }

    /// Writes a text after the committed one, wrapping around at the end of the area if necessary.
    /// Nothing refers to it before a header does.
    ///
    /// # Errors
    /// `NoSpace` if it would overwrite the committed text; errors of the device.
    pub(super) fn write_text(&self, device: &dyn BlockWrite, text: &[u8]) -> Result<RawLocn> {
        let size_bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let offset = self.free_from(size_bytes).ok_or_else(|| {
            let reason =
                format!("no space left in the LVM metadata area for {size_bytes} more bytes");
            Error::new(diskfs_block::ErrorKind::NoSpace, reason).at(self.start)
        })?;
        let to_end = self.size_bytes.saturating_sub(offset);
        let first = text
            .len()
            .min(usize::try_from(to_end).unwrap_or(usize::MAX));
        let (first, second) = text.split_at_checked(first).unwrap_or((text, &[]));
        for (offset, part) in [(offset, first), (header_bytes(), second)] {
            if !part.is_empty() {
                device.write_at(self.start.saturating_add(offset), part)?;
            }
        }
        Ok(RawLocn::of(text, offset))
    }

    /// Returns the offset in the area for a text of that length.
    fn free_from(&self, len_bytes: u64) -> Option<u64> {
        let ring = self.ring_bytes();
        let start = self.text.offset.checked_sub(header_bytes())?;
        let end = start.checked_add(self.text.size_bytes)?;
        // The text may itself wrap around.
        let end = end.checked_sub(ring).unwrap_or(end);
        let next = end.checked_next_multiple_of(ALIGNMENT)?;
        let next = if next >= ring { 0 } else { next };
        let free = if next <= start {
            start.checked_sub(next)?
        } else {
            ring.checked_sub(next)?.checked_add(start)?
        };
        (len_bytes <= free).then(|| next.saturating_add(header_bytes()))
    }

    /// Returns a new area with this text at its start.
    pub(super) fn with_first_text(start: u64, size_bytes: u64, text: &[u8]) -> Self {
        Self {
            start,
            size_bytes,
            text: RawLocn::of(text, header_bytes()),
        }
    }

    /// Writes the area's header with its text, which is at the start of the area.
    ///
    /// # Errors
    /// Errors of the device.
    pub(super) fn write_whole(&self, device: &dyn BlockWrite, text: &[u8]) -> Result<()> {
        device.write_at(self.start, &[&self.to_bytes(), text].concat())
    }

    /// Returns the header of a new area with its text.
    fn to_bytes(self) -> Vec<u8> {
        let mut header = new_header(self.start, self.size_bytes);
        set_locn(&mut header, self.text);
        header
    }

    /// Returns the area's header with another committed text, and no precommitted one.
    ///
    /// # Errors
    /// Errors of the device.
    pub(super) fn header_with(&self, device: &dyn BlockRead, text: RawLocn) -> Result<Vec<u8>> {
        let mut header = vec![0; HEADER_BYTES];
        device.read_at(self.start, &mut header)?;
        set_locn(&mut header, text);
        Ok(header)
    }
}

/// Sets the committed text in a header, removes a precommitted one, and corrects the checksum.
fn set_locn(header: &mut [u8], text: RawLocn) {
    let mut locns = text.to_bytes();
    locns.resize(RAW_LOCN_BYTES.saturating_mul(2), 0);
    let stored = header.iter_mut().skip(LOCNS_AT);
    for (byte, new) in stored.zip(locns) {
        *byte = new;
    }
    let sum = crc(&[header.get(4..).unwrap_or_default()]);
    for (byte, new) in header.iter_mut().zip(sum.to_le_bytes()) {
        *byte = new;
    }
}

fn header_bytes() -> u64 {
    u64::try_from(HEADER_BYTES).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(size_bytes: u64, offset: u64, len_bytes: u64) -> MdaHeader {
        MdaHeader {
            start: 4096,
            size_bytes,
            text: RawLocn {
                offset,
                size_bytes: len_bytes,
                checksum: 0,
                ignored: false,
            },
        }
    }

    #[test]
    fn a_text_never_overwrites_the_one_that_counts() {
        // Area size, current text (offset, length), length of the new text, its offset.
        for (size, offset, len, new, place) in [
            (8192, 512, 1000, 1000, Some(1536)),
            (8192, 512, 1000, 8192 - 1536, Some(1536)),
            (8192, 512, 1000, 8192 - 1536 + 1, None),
            (8192, 4096, 1000, 3000 + 3584, Some(5120)),
            (8192, 4096, 1000, 3072 + 3585, None),
            // The text ends at the end of the area, then wraps around.
            (8192, 7168, 1024, 6656, Some(512)),
            (8192, 7680, 1024, 6656, Some(1024)),
            (8192, 7680, 1024, 6657, None),
            (8192, 7680, 1000, 6656, Some(1024)),
            (8192, 512, 7680, 1, None),
            // An area that ends within a sector.
            (8000, 7168, 832, 100, Some(512)),
        ] {
            let found = area(size, offset, len).free_from(new);
            assert_eq!(found, place, "{size} {offset} {len} {new}");
        }
        assert!(area(8192, 512, 1000).has_room_for_two(3328));
        assert!(!area(8192, 512, 1000).has_room_for_two(3329));
    }
}
