//! The CBC mode (NIST SP 800-38A, 6.2), restarted in each sector.

use crate::iv::Iv;
use crate::sector_cipher::{Block, BlockCipher, SectorCipher, Sectors, blocks_of};

/// The number of blocks that are decrypted together.
const BATCH_BLOCKS: usize = 32;

pub(crate) struct Cbc<C> {
    cipher: C,
    iv: Iv,
}

impl<C: BlockCipher> Cbc<C> {
    pub(crate) fn new(cipher: C, iv: Iv) -> Self {
        Self { cipher, iv }
    }

    fn each_sector(&self, sectors: Sectors, buf: &mut [u8], crypt: impl Fn(&C, Block, &mut [u8])) {
        for (index, sector) in (0..).zip(buf.chunks_mut(sectors.bytes.max(1))) {
            let iv = Block::from(*self.iv.of(sectors.number(index)));
            crypt(&self.cipher, iv, sector);
        }
    }
}

fn xor(block: &mut Block, other: &Block) {
    for (byte, other) in block.iter_mut().zip(other) {
        *byte ^= other;
    }
}

impl<C: BlockCipher> SectorCipher for Cbc<C> {
    fn encrypt(&self, sectors: Sectors, buf: &mut [u8]) {
        self.each_sector(sectors, buf, |cipher, mut before, sector| {
            for block in blocks_of(sector) {
                xor(block, &before);
                cipher.encrypt_block(block);
                before = *block;
            }
        });
    }

    fn decrypt(&self, sectors: Sectors, buf: &mut [u8]) {
        self.each_sector(sectors, buf, |cipher, mut before, sector| {
            let mut encrypted = [Block::default(); BATCH_BLOCKS];
            for batch in blocks_of(sector).chunks_mut(BATCH_BLOCKS) {
                for (copy, block) in encrypted.iter_mut().zip(batch.iter()) {
                    *copy = *block;
                }
                cipher.decrypt_blocks(batch);
                for (block, encrypted) in batch.iter_mut().zip(&encrypted) {
                    xor(block, &before);
                    before = *encrypted;
                }
            }
        });
    }
}
