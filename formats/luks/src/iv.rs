//! Initialisation vectors, which make equal sectors encrypt differently. The names are those of
//! `dm-crypt` (kernel documentation, admin-guide/device-mapper/dm-crypt, and the comments of
//! `drivers/md/dm-crypt.c`).

use zeroize::Zeroizing;

use crate::sector_cipher::{BlockEncrypt, Vector};

/// The rule that computes the vector of a sector from its number.
pub(crate) enum Iv {
    /// The lower 32 bits of the sector number.
    Plain,
    /// The sector number.
    Plain64,
    /// The sector number, encrypted with a hash of the key.
    Essiv(Box<dyn BlockEncrypt>),
}

impl Iv {
    pub(crate) fn of(&self, sector_number: u64) -> Zeroizing<Vector> {
        let mut iv = Zeroizing::new([0; 16]);
        let number = match self {
            Self::Plain => sector_number & u64::from(u32::MAX),
            Self::Plain64 | Self::Essiv(_) => sector_number,
        };
        for (byte, value) in iv.iter_mut().zip(number.to_le_bytes()) {
            *byte = value;
        }
        if let Self::Essiv(cipher) = self {
            cipher.encrypt_block(&mut iv);
        }
        iv
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_forgets_the_upper_half() {
        let number = 0x0102_0304_0506_0708;
        assert_eq!(Iv::Plain.of(number)[..8], [8, 7, 6, 5, 0, 0, 0, 0]);
        assert_eq!(Iv::Plain64.of(number)[..9], [8, 7, 6, 5, 4, 3, 2, 1, 0]);
    }
}
