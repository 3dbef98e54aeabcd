//! The numbers of a map of a sparse file in GNU format 1.0.

use std::io::Read;

use diskfs_disk::Result;

use crate::damage::wrong;

const BLOCK_BYTES: usize = 512;

/// A reader of numbers on lines, in blocks.
pub(crate) struct Numbers<R> {
    contents: R,
    /// The remaining bytes of the block, the last byte first.
    block: Vec<u8>,
}

impl<R: Read> Numbers<R> {
    pub(crate) fn new(contents: R) -> Self {
        Self {
            contents,
            block: Vec::new(),
        }
    }

    pub(crate) fn next(&mut self) -> Result<u64> {
        let mut number: u64 = 0;
        loop {
            if self.block.is_empty() {
                self.block.resize(BLOCK_BYTES, 0);
                self.contents.read_exact(&mut self.block)?;
                self.block.reverse();
            }
            match self.block.pop() {
                Some(b'\n') => return Ok(number),
                Some(digit @ b'0'..=b'9') => {
                    let next = number.checked_mul(10);
                    let next = next.and_then(|next| next.checked_add(u64::from(digit - b'0')));
                    number = next.ok_or_else(|| wrong("map of a sparse file"))?;
                }
                _ => return Err(wrong("map of a sparse file")),
            }
        }
    }
}
