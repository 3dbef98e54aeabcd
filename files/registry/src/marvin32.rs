//! The Marvin32 hash of log entries. Microsoft, `SymCrypt`, `lib/marvin32.c`.

/// The seed of log entries. Specification, "Log entries", note 3.
pub(crate) const LOG_SEED: u64 =
    u64::from_le_bytes([0x82, 0xef, 0x4d, 0x88, 0x7a, 0x4e, 0x55, 0xc5]);

/// An incremental Marvin32 hash.
#[derive(Debug, Clone)]
pub(crate) struct Marvin32 {
    low: u32,
    high: u32,
    /// The bytes of an incomplete word, and their number.
    pending: [u8; 4],
    pending_len: usize,
}

impl Marvin32 {
    pub(crate) fn new(seed: u64) -> Self {
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(0);
        Self {
            low: half(seed),
            high: half(seed >> 32),
            pending: [0; 4],
            pending_len: 0,
        }
    }

    /// Returns the hash of `bytes`.
    pub(crate) fn of(seed: u64, bytes: &[u8]) -> u64 {
        let mut hash = Self::new(seed);
        hash.update(bytes);
        hash.finish()
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let mut bytes = bytes;
        while self.pending_len > 0
            && let Some((first, rest)) = bytes.split_first()
        {
            self.push(*first);
            bytes = rest;
        }
        let (words, rest) = bytes.as_chunks::<4>();
        for word in words {
            self.mix(u32::from_le_bytes(*word));
        }
        for byte in rest {
            self.push(*byte);
        }
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.pending.get_mut(self.pending_len) {
            *place = byte;
        }
        self.pending_len = self.pending_len.saturating_add(1);
        if self.pending_len == 4 {
            self.pending_len = 0;
            self.mix(u32::from_le_bytes(self.pending));
        }
    }

    /// Pads with a set bit after the last byte, as many hashes do, and returns the hash.
    pub(crate) fn finish(mut self) -> u64 {
        let mut last = [0; 4];
        for (place, byte) in last.iter_mut().zip(self.pending).take(self.pending_len) {
            *place = byte;
        }
        if let Some(end) = last.get_mut(self.pending_len) {
            *end = 0x80;
        }
        self.mix(u32::from_le_bytes(last));
        self.mix(0);
        u64::from(self.high) << 32 | u64::from(self.low)
    }

    fn mix(&mut self, word: u32) {
        let (mut low, mut high) = (self.low.wrapping_add(word), self.high);
        high ^= low;
        low = low.rotate_left(20).wrapping_add(high);
        high = high.rotate_left(9) ^ low;
        low = low.rotate_left(27).wrapping_add(high);
        high = high.rotate_left(19);
        (self.low, self.high) = (low, high);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first test vector is the self-test of `SymCrypt`, the others are from Microsoft's
    /// `security-utilities`.
    #[test]
    fn hashes_are_those_that_are_published() {
        const SEED: u64 = 0x004f_b61a_001b_dbcc;
        for (seed, bytes, hash) in [
            (0xd53c_d9ce_cd08_93b7, &b"abc"[..], 0x22c7_4339_4927_69bf),
            (
                0x0ddd_deee_efff_f000,
                b"abcdefghijklmnopqrstuvwxyz",
                0xa128_eb7e_7260_aca2,
            ),
            (SEED, b"", 0x30ed_35c1_00cd_3c7d),
        ] {
            assert_eq!(Marvin32::of(seed, bytes), hash, "{bytes:?}");
            let mut by_and_by = Marvin32::new(seed);
            for piece in bytes.chunks(3) {
                by_and_by.update(piece);
            }
            assert_eq!(by_and_by.finish(), hash, "{bytes:?}");
        }
    }
}
