//! The units of a file: its parts that can be decompressed by themselves.

/// The largest unit, compressed or decompressed: more than the blocks of `xz -T`, 24 MiB. Two of
/// them are kept in memory.
pub(crate) const UNIT_MAX_BYTES: u64 = 32 << 20;
/// The largest number of units, for which 28 MiB of memory are needed: 64 GiB in the smallest usual
/// units, those of BGZF.
pub(crate) const UNITS_MAX: usize = 1 << 20;

/// A part of the file that can be decompressed by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unit {
    /// The offset of the first byte on the disk.
    pub(crate) start: u64,
    /// The offset in the file in bytes.
    pub(crate) offset: u64,
    /// The length in the file in bytes.
    pub(crate) stored_bytes: u32,
    /// The flags of the stream of xz that contains it.
    pub(crate) flags: u8,
}

/// All units of a file, in their order.
#[derive(Debug, Default)]
pub(crate) struct Units {
    all: Vec<Unit>,
    /// The checksums of the units; empty if they have none.
    checksums: Vec<u32>,
    size_bytes: u64,
}

impl Units {
    /// Adds a unit after the others. Units without contents are left out. Returns false if the unit
    /// is too large, or is one too many: the file then has to be decompressed as a whole.
    #[must_use]
    pub(crate) fn push(
        &mut self,
        offset: u64,
        stored_bytes: u64,
        unpacked_bytes: u64,
        flags: u8,
    ) -> bool {
        if unpacked_bytes == 0 {
            return true;
        }
        let is_small = unpacked_bytes.max(stored_bytes) <= UNIT_MAX_BYTES;
        let (true, Ok(stored_bytes)) = (
            is_small && self.all.len() < UNITS_MAX,
            u32::try_from(stored_bytes),
        ) else {
            return false;
        };
        self.all.push(Unit {
            start: self.size_bytes,
            offset,
            stored_bytes,
            flags,
        });
        self.size_bytes = self.size_bytes.saturating_add(unpacked_bytes);
        true
    }

    /// Adds a unit with the checksum of its contents, at the place in the file with this length. All
    /// units must have one.
    #[must_use]
    pub(crate) fn push_with_checksum(
        &mut self,
        (offset, stored_bytes): (u64, u64),
        unpacked_bytes: u64,
        checksum: u32,
    ) -> bool {
        if unpacked_bytes > 0 {
            self.checksums.push(checksum);
        }
        self.push(offset, stored_bytes, unpacked_bytes, 0)
    }

    /// Returns the checksum of the unit that is stored at the offset in the file.
    pub(crate) fn checksum_at(&self, offset: u64) -> Option<u32> {
        let found = self.all.binary_search_by_key(&offset, |unit| unit.offset);
        self.checksums.get(found.ok()?).copied()
    }

    /// Returns the size of the decompressed disk in bytes.
    pub(crate) const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the unit that contains the byte of the disk, and the offset of its end.
    pub(crate) fn at(&self, byte: u64) -> Option<(&Unit, u64)> {
        let after = self.all.partition_point(|unit| unit.start <= byte);
        self.with_end(after.checked_sub(1)?)
            .filter(|(_, end)| byte < *end)
    }

    /// Returns the unit that is stored at the offset in the file, and the offset of its end on the
    /// disk.
    pub(crate) fn stored_at(&self, offset: u64) -> Option<(&Unit, u64)> {
        let found = self.all.binary_search_by_key(&offset, |unit| unit.offset);
        self.with_end(found.ok()?)
    }

    /// Returns the length of the largest unit in bytes, decompressed.
    pub(crate) fn largest_bytes(&self) -> u64 {
        let starts = self.all.iter().map(|unit| unit.start);
        let ends = starts.clone().skip(1).chain([self.size_bytes]);
        let lengths = starts
            .zip(ends)
            .map(|(start, end)| end.saturating_sub(start));
        lengths.max().unwrap_or(0)
    }

    fn with_end(&self, index: usize) -> Option<(&Unit, u64)> {
        let unit = self.all.get(index)?;
        let next = self.all.get(index.saturating_add(1));
        Some((unit, next.map_or(self.size_bytes, |next| next.start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_found_by_its_bytes() {
        let mut units = Units::default();
        for (offset, stored, unpacked) in [(12, 5, 10), (17, 9, 0), (30, 5, 7)] {
            assert!(units.push(offset, stored, unpacked, 0));
        }
        assert_eq!(
            (units.len(), units.size_bytes(), units.largest_bytes()),
            (2, 17, 10)
        );
        let offset = |byte| units.at(byte).map(|(unit, end)| (unit.offset, end));
        assert_eq!(offset(9), Some((12, 10)));
        assert_eq!(offset(10), Some((30, 17)));
        assert_eq!(offset(17), None);
        assert_eq!(units.stored_at(30).unwrap().0.start, 10);
        assert!(units.stored_at(17).is_none());
        assert!(!units.push(40, 5, UNIT_MAX_BYTES + 1, 0));
    }
}
