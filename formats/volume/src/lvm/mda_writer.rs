//! A metadata area that is written: another text beside the one that counts, then the header that names it.

use diskfs_block::{BlockRead, BlockWrite, Error, Result};

use super::crc::crc;
use super::mda_header::{HEADER_BYTES, MdaHeader};
use super::raw_locn::{RAW_LOCN_BYTES, RawLocn};

/// Texts begin at multiples of this, as LVM's do (`MDA_ORIGINAL_ALIGNMENT`).
const ALIGNMENT: u64 = 512;

/// Where the header's list of texts begins.
const LOCNS_AT: usize = 40;

impl MdaHeader {
    /// Returns where the texts are, as a range of the area: all of it but the header.
    fn ring_bytes(&self) -> u64 {
        self.size_bytes.saturating_sub(header_bytes())
    }

    /// Whether two texts of up to `len_bytes`, and the present one beside one of them, have room.
    pub(super) fn has_room_for_two(&self, len_bytes: u64) -> bool {
        let longest = len_bytes.max(self.text.size_bytes);
        let aligned = ALIGNMENT.saturating_mul(2);
        let needed = longest.saturating_add(len_bytes).saturating_add(aligned);
        needed <= self.ring_bytes()
    }

    /// Writes a text behind the one that counts, around the end of the area where it must. Nothing refers to it
    /// before a header does.
    ///
    /// # Errors
    /// `NoSpace` when it would overwrite the one that counts; what the device answers.
    pub(super) fn write_text(&self, device: &dyn BlockWrite, text: &[u8]) -> Result<RawLocn> {
        let size_bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let offset = self.free_from(size_bytes).ok_or_else(|| {
            let reason = format!("the LVM metadata area has no room for {size_bytes} bytes more");
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
        Ok(RawLocn {
            offset,
            size_bytes,
            checksum: crc(&[text]),
            ignored: false,
        })
    }

    /// Returns where in the area a text of that length can be.
    fn free_from(&self, len_bytes: u64) -> Option<u64> {
        let ring = self.ring_bytes();
        let start = self.text.offset.checked_sub(header_bytes())?;
        let end = start.checked_add(self.text.size_bytes)?;
        // A text may go around the end itself.
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

    /// Returns the area's header with another text, and none that is precommitted.
    ///
    /// # Errors
    /// What the device answers.
    pub(super) fn header_with(&self, device: &dyn BlockRead, text: RawLocn) -> Result<Vec<u8>> {
        let mut header = vec![0; HEADER_BYTES];
        device.read_at(self.start, &mut header)?;
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
        Ok(header)
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
        // Area, present text (offset, length), length of the new one, where it goes.
        for (size, offset, len, new, place) in [
            (8192, 512, 1000, 1000, Some(1536)),
            (8192, 512, 1000, 8192 - 1536, Some(1536)),
            (8192, 512, 1000, 8192 - 1536 + 1, None),
            (8192, 4096, 1000, 3000 + 3584, Some(5120)),
            (8192, 4096, 1000, 3072 + 3585, None),
            // It ends at the end of the area, then goes around it.
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
