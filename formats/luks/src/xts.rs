//! The XTS mode (IEEE 1619): each block is masked before and after the cipher. The mask is the
//! encrypted sector number times x to the power of the block's index.

use zeroize::Zeroize;

use crate::iv::Iv;
use crate::sector_cipher::{Block, BlockCipher, SectorCipher, Sectors, blocks_of};

/// The number of blocks that are masked and encrypted together: the largest sector. Their bytes and
/// tweaks fit in the first-level cache, and there are enough of them to fill the cipher's pipeline.
const BATCH_BLOCKS: usize = 256;

pub(crate) struct Xts<C> {
    data: C,
    tweak: C,
    iv: Iv,
}

impl<C: BlockCipher> Xts<C> {
    pub(crate) fn new(data: C, tweak: C, iv: Iv) -> Self {
        Self { data, tweak, iv }
    }

    fn each_batch(&self, sectors: Sectors, buf: &mut [u8], crypt: impl Fn(&C, &mut [Block])) {
        let blocks_per_sector = sectors.bytes.checked_div(16).unwrap_or(1).max(1);
        let mut tweaks = [Block::default(); BATCH_BLOCKS];
        let mut index = 0;
        for batch in blocks_of(buf).chunks_mut(BATCH_BLOCKS) {
            let tweaks = tweaks.get_mut(..batch.len()).unwrap_or_default();
            index = self.fill(tweaks, blocks_per_sector, sectors, index);
            mask(batch, tweaks);
            crypt(&self.data, batch);
            mask(batch, tweaks);
        }
        for tweak in &mut tweaks {
            tweak.as_mut_slice().zeroize();
        }
    }

    /// Computes the tweaks of the blocks of the sectors from `index` on; returns the next index.
    fn fill(
        &self,
        tweaks: &mut [Block],
        blocks_per_sector: usize,
        sectors: Sectors,
        mut index: u64,
    ) -> u64 {
        // The first tweaks of all sectors are stored side by side, so that they are encrypted
        // together.
        let mut firsts = [Block::default(); BATCH_BLOCKS / 32];
        let count = tweaks.len().div_ceil(blocks_per_sector);
        let firsts = firsts.get_mut(..count).unwrap_or_default();
        for first in firsts.iter_mut() {
            *first = Block::from(*self.iv.of(sectors.number(index)));
            index = index.wrapping_add(1);
        }
        self.tweak.encrypt_blocks(firsts);
        for (sector, first) in tweaks.chunks_mut(blocks_per_sector).zip(firsts) {
            let mut value = u128::from_le_bytes((*first).into());
            for tweak in sector {
                *tweak = Block::from(value.to_le_bytes());
                value = times_x(value);
            }
        }
        index
    }
}

/// Multiplies by x modulo x^128 + x^7 + x^2 + x + 1.
fn times_x(value: u128) -> u128 {
    let carry = value >> 127;
    (value << 1) ^ carry.wrapping_mul(0x87)
}

fn mask(blocks: &mut [Block], tweaks: &[Block]) {
    for (block, tweak) in blocks.iter_mut().zip(tweaks) {
        let masked = u128::from_ne_bytes((*block).into()) ^ u128::from_ne_bytes((*tweak).into());
        *block = Block::from(masked.to_ne_bytes());
    }
}

impl<C: BlockCipher> SectorCipher for Xts<C> {
    fn encrypt(&self, sectors: Sectors, buf: &mut [u8]) {
        self.each_batch(sectors, buf, C::encrypt_blocks);
    }

    fn decrypt(&self, sectors: Sectors, buf: &mut [u8]) {
        self.each_batch(sectors, buf, C::decrypt_blocks);
    }
}

#[cfg(test)]
mod tests {
    use cipher::KeyInit;

    use super::*;

    fn xts(data: u8, tweak: u8) -> Xts<aes::Aes128> {
        let cipher = |byte| aes::Aes128::new_from_slice(&[byte; 16]).unwrap();
        Xts::new(cipher(data), cipher(tweak), Iv::Plain64)
    }

    /// IEEE 1619-2018, annex B, vectors 1 and 2.
    #[test]
    fn published_vectors() {
        let vectors: [(_, _, _, [u8; 32]); 2] = [
            (
                xts(0, 0),
                0,
                0,
                [
                    0x91, 0x7c, 0xf6, 0x9e, 0xbd, 0x68, 0xb2, 0xec, 0x9b, 0x9f, 0xe9, 0xa3, 0xea,
                    0xdd, 0xa6, 0x92, 0xcd, 0x43, 0xd2, 0xf5, 0x95, 0x98, 0xed, 0x85, 0x8c, 0x02,
                    0xc2, 0x65, 0x2f, 0xbf, 0x92, 0x2e,
                ],
            ),
            (
                xts(0x11, 0x22),
                0x33_3333_3333,
                0x44,
                [
                    0xc4, 0x54, 0x18, 0x5e, 0x6a, 0x16, 0x93, 0x6e, 0x39, 0x33, 0x40, 0x38, 0xac,
                    0xef, 0x83, 0x8b, 0xfb, 0x18, 0x6f, 0xff, 0x74, 0x80, 0xad, 0xc4, 0x28, 0x93,
                    0x82, 0xec, 0xd6, 0xd3, 0x94, 0xf0,
                ],
            ),
        ];
        for (xts, first, plain, encrypted) in vectors {
            let sectors = Sectors {
                first,
                step: 1,
                bytes: 32,
            };
            let mut bytes = [plain; 32];
            xts.encrypt(sectors, &mut bytes);
            assert_eq!(bytes, encrypted);
            xts.decrypt(sectors, &mut bytes);
            assert_eq!(bytes, [plain; 32]);
        }
    }

    #[test]
    fn many_sectors_are_as_each_alone() {
        for bytes in [512_usize, 1024, 2048, 4096] {
            let xts = xts(5, 6);
            let plain: Vec<u8> = (0..=250).cycle().take(bytes * 19).collect();
            let step = bytes as u64 / 512;
            let sectors = |first| Sectors { first, step, bytes };
            let mut all = plain.clone();
            xts.encrypt(sectors(7), &mut all);
            let mut each = plain.clone();
            for (index, sector) in (0..).zip(each.chunks_mut(bytes)) {
                xts.encrypt(sectors(7 + index * step), sector);
            }
            assert_eq!(all, each);
            xts.decrypt(sectors(7), &mut all);
            assert_eq!(all, plain);
        }
    }
}
