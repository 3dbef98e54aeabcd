//! Sparse images, which are mostly zeroes.

use std::collections::BTreeMap;
use std::sync::Arc;

use diskfs_block::{BlockRead, Result, check_bounds};

/// A device that keeps only the blocks that are not zero.
///
/// The format of an input: eight bytes of magic, the size in eight bytes, and for each block its
/// number in four bytes and its 4096 bytes. Numbers are little-endian. A truncated last block is
/// padded with zeroes.
#[derive(Debug, Clone, Default)]
pub struct Sparse {
    size_bytes: u64,
    blocks: BTreeMap<u64, Arc<[u8; BLOCK]>>,
}

const BLOCK: usize = 4096;
const BLOCK_BYTES: u64 = 4096;
const MAGIC: &[u8; 8] = b"diskfs\0S";

/// The largest device that an input can specify. Parsers should see sizes of any magnitude.
const MAX_BYTES: u64 = 1 << 62;

impl Sparse {
    /// Returns a device of zeroes.
    pub fn zeroes(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            blocks: BTreeMap::new(),
        }
    }

    /// Reads a whole device.
    ///
    /// # Errors
    /// Read errors of the device.
    pub fn of(device: &dyn BlockRead) -> Result<Self> {
        let size_bytes = device.size_bytes();
        let mut sparse = Self::zeroes(size_bytes);
        let mut block = [0; BLOCK];
        for (number, at) in (0..).zip((0..size_bytes).step_by(BLOCK)) {
            let len = BLOCK_BYTES.min(size_bytes - at);
            let block = &mut block[..usize::try_from(len).unwrap_or(BLOCK)];
            device.read_at(at, block)?;
            sparse.put(number, block);
        }
        Ok(sparse)
    }

    /// Parses an input; `None` if the input is an image itself.
    pub fn from_input(data: &[u8]) -> Option<Self> {
        let (size, mut rest) = data.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
        let mut sparse = Self::zeroes(u64::from_le_bytes(*size).min(MAX_BYTES));
        while let Some((number, after)) = rest.split_first_chunk::<4>() {
            let len = after.len().min(BLOCK);
            sparse.put(u64::from(u32::from_le_bytes(*number)), &after[..len]);
            rest = &after[len..];
        }
        Some(sparse)
    }

    /// Returns the device in the format of an input.
    pub fn to_input(&self) -> Vec<u8> {
        let mut data = MAGIC.to_vec();
        data.extend(self.size_bytes.to_le_bytes());
        for (number, block) in &self.blocks {
            data.extend(u32::try_from(*number).unwrap_or(u32::MAX).to_le_bytes());
            data.extend(&block[..]);
        }
        data
    }

    /// Sets the start of a block to `bytes`.
    pub fn put(&mut self, number: u64, bytes: &[u8]) {
        if bytes.iter().any(|&byte| byte != 0) {
            let mut block = [0; BLOCK];
            block[..bytes.len()].copy_from_slice(bytes);
            self.blocks.insert(number, Arc::new(block));
        }
    }

    /// Writes bytes; those after the end of the device are dropped.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (at, &byte) in (offset..self.size_bytes).zip(bytes) {
            let block = self.blocks.entry(at / BLOCK_BYTES);
            let block = block.or_insert_with(|| Arc::new([0; BLOCK]));
            Arc::make_mut(block)[within(at)] = byte;
        }
    }

    /// Truncates the device, or extends it with zeroes.
    pub fn set_len(&mut self, size_bytes: u64) {
        if size_bytes < self.size_bytes {
            self.blocks
                .retain(|number, _| number * BLOCK_BYTES < size_bytes);
        }
        self.size_bytes = size_bytes.min(MAX_BYTES);
    }

    /// Returns the byte at `at`; zero after the end.
    pub fn byte(&self, at: u64) -> u8 {
        self.blocks
            .get(&(at / BLOCK_BYTES))
            .map_or(0, |block| block[within(at)])
    }

    /// Returns true if there is a byte other than zero in the sector of 512 bytes at `offset`.
    pub fn has_data(&self, offset: u64) -> bool {
        let start = within(offset);
        let sector = |block: &Arc<[u8; BLOCK]>| block[start..start + 512].iter().any(|b| *b != 0);
        self.blocks.get(&(offset / BLOCK_BYTES)).is_some_and(sector)
    }

    /// Returns the number of bytes in kept blocks.
    pub fn kept_bytes(&self) -> u64 {
        self.blocks.len() as u64 * BLOCK_BYTES
    }

    /// Returns the offsets of the kept blocks.
    pub fn block_offsets(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.keys().map(|number| number * BLOCK_BYTES)
    }
}

fn within(at: u64) -> usize {
    usize::try_from(at % BLOCK_BYTES).unwrap_or(0)
}

impl BlockRead for Sparse {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_bounds(offset, buf.len() as u64, self.size_bytes)?;
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let start = within(at);
            let len = (BLOCK - start).min(rest.len());
            let (piece, after) = rest.split_at_mut(len);
            match self.blocks.get(&(at / BLOCK_BYTES)) {
                Some(block) => piece.copy_from_slice(&block[start..start + len]),
                None => piece.fill(0),
            }
            at += len as u64;
            rest = after;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_through_an_input_and_back() {
        let mut sparse = Sparse::zeroes(100_000);
        sparse.write(4090, b"0123456789");
        sparse.write(99_998, b"abc");
        let back = Sparse::from_input(&sparse.to_input()).unwrap();
        let mut bytes = vec![1; 100_000];
        back.read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes[4088..4102], b"\0\x000123456789\0\0");
        assert_eq!(&bytes[99_996..], b"\0\0ab");
        assert!(back.read_at(99_999, &mut [0; 2]).is_err());
        assert!(Sparse::from_input(b"QFI\xfb").is_none());
    }
}
