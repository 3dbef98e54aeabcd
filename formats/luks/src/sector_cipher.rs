//! What the modes have in common: whole sectors, each with its number.

use cipher::consts::U16;
use cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt};

/// An initialisation vector: one block of a cipher.
pub(crate) type Vector = [u8; 16];

/// One block of a cipher. All that LUKS uses have blocks of 16 bytes.
pub(crate) type Block = Array<u8, U16>;

/// A block cipher with its key.
pub(crate) trait BlockCipher:
    BlockCipherEncrypt<BlockSize = U16> + BlockCipherDecrypt<BlockSize = U16> + Send + Sync
{
}

impl<C> BlockCipher for C where
    C: BlockCipherEncrypt<BlockSize = U16> + BlockCipherDecrypt<BlockSize = U16> + Send + Sync
{
}

/// A block cipher that encrypts one block: what a vector may take.
pub(crate) trait BlockEncrypt: Send + Sync {
    fn encrypt_block(&self, block: &mut Vector);
}

impl<C: BlockCipher> BlockEncrypt for C {
    fn encrypt_block(&self, block: &mut Vector) {
        BlockCipherEncrypt::encrypt_block(self, Array::cast_from_core_mut(block));
    }
}

/// The numbers of consecutive sectors, as their vectors count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sectors {
    /// The first one's.
    pub(crate) first: u64,
    /// How much more the next one has: the vectors of larger sectors count 512 bytes, too.
    pub(crate) step: u64,
    /// The size of a sector, a multiple of a block's.
    pub(crate) bytes: usize,
}

impl Sectors {
    /// The number of the sector with this index. Numbers wrap as those of dm-crypt do.
    pub(crate) fn number(&self, index: u64) -> u64 {
        self.first.wrapping_add(index.wrapping_mul(self.step))
    }
}

/// A cipher in a mode, with its keys: encrypts and decrypts whole sectors in place.
///
/// The buffer's length is a multiple of the sectors' size.
pub(crate) trait SectorCipher: Send + Sync {
    fn encrypt(&self, sectors: Sectors, buf: &mut [u8]);
    fn decrypt(&self, sectors: Sectors, buf: &mut [u8]);
}

/// The bytes as blocks; they have whole ones only.
pub(crate) fn blocks_of(bytes: &mut [u8]) -> &mut [Block] {
    Block::slice_as_chunks_mut(bytes).0
}
