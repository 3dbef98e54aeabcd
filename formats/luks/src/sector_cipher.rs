//! The common interface of the cipher modes: encryption of whole, numbered sectors.

use cipher::consts::U16;
use cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt};

/// An initialisation vector: one block of a cipher.
pub(crate) type Vector = [u8; 16];

/// A block of a cipher. All ciphers of LUKS have blocks of 16 bytes.
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

/// A block cipher that encrypts one block, as initialisation vectors need it.
pub(crate) trait BlockEncrypt: Send + Sync {
    fn encrypt_block(&self, block: &mut Vector);
}

impl<C: BlockCipher> BlockEncrypt for C {
    fn encrypt_block(&self, block: &mut Vector) {
        BlockCipherEncrypt::encrypt_block(self, Array::cast_from_core_mut(block));
    }
}

/// The numbers of consecutive sectors, in the unit of their vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sectors {
    /// The number of the first sector.
    pub(crate) first: u64,
    /// The difference between the numbers of neighbouring sectors: vectors count in units of 512
    /// bytes for larger sectors, too.
    pub(crate) step: u64,
    /// The sector size, a multiple of the block size.
    pub(crate) bytes: usize,
}

impl Sectors {
    /// Returns the number of the sector with this index. Numbers wrap as in dm-crypt.
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

/// Splits the bytes into blocks; the length is a multiple of the block size.
pub(crate) fn blocks_of(bytes: &mut [u8]) -> &mut [Block] {
    Block::slice_as_chunks_mut(bytes).0
}
