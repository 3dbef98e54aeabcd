//! Parsing of the ciphers in headers: `aes-xts-plain64`, `aes-cbc-essiv:sha256`.

use cipher::KeyInit;

use crate::cbc::Cbc;
use crate::hash::Hash;
use crate::iv::Iv;
use crate::problem::Problem;
use crate::sector_cipher::{BlockCipher, BlockEncrypt, SectorCipher};
use crate::xts::Xts;

/// A cipher, its mode, and the kind of its initialisation vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CipherSpec {
    cipher: Cipher,
    mode: Mode,
    iv: IvKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cipher {
    Aes,
    Serpent,
    Twofish,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Xts,
    Cbc,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IvKind {
    Plain,
    Plain64,
    Essiv(Hash),
}

impl CipherSpec {
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        let unknown = || {
            let reason = format!("unsupported cipher `{}`", text.escape_debug());
            Problem::unsupported(reason)
        };
        let mut parts = text.splitn(3, '-');
        let (Some(cipher), Some(mode), Some(iv)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(unknown());
        };
        Ok(Self {
            cipher: match cipher {
                "aes" => Cipher::Aes,
                "serpent" => Cipher::Serpent,
                "twofish" => Cipher::Twofish,
                _ => return Err(unknown()),
            },
            mode: match mode {
                "xts" => Mode::Xts,
                "cbc" => Mode::Cbc,
                _ => return Err(unknown()),
            },
            iv: match iv.split_once(':') {
                None if iv == "plain" => IvKind::Plain,
                None if iv == "plain64" => IvKind::Plain64,
                Some(("essiv", hash)) => IvKind::essiv(hash)?,
                _ => return Err(unknown()),
            },
        })
    }

    /// Fails if the cipher does not support keys of this length.
    pub(crate) fn check_key_bytes(self, key_bytes: u64) -> Result<usize, Problem> {
        let per_cipher = match self.mode {
            Mode::Xts if key_bytes.is_multiple_of(2) => key_bytes / 2,
            Mode::Xts => 0,
            Mode::Cbc => key_bytes,
        };
        usize::try_from(key_bytes)
            .ok()
            .filter(|_| matches!(per_cipher, 16 | 24 | 32))
            .ok_or_else(|| {
                Problem::corrupt(format!(
                    "invalid key length: no cipher has a key of {key_bytes} bytes"
                ))
            })
    }

    /// Creates the cipher with a key whose length was checked.
    pub(crate) fn with_key(self, key: &[u8]) -> Result<Box<dyn SectorCipher>, Problem> {
        let per_cipher = match self.mode {
            Mode::Xts => key.len() / 2,
            Mode::Cbc => key.len(),
        };
        match (self.cipher, per_cipher) {
            (Cipher::Aes, 16) => self.build::<aes::Aes128>(key),
            (Cipher::Aes, 24) => self.build::<aes::Aes192>(key),
            (Cipher::Aes, _) => self.build::<aes::Aes256>(key),
            (Cipher::Serpent, _) => self.build::<serpent::Serpent>(key),
            (Cipher::Twofish, _) => self.build::<twofish::Twofish>(key),
        }
    }

    fn build<C: BlockCipher + KeyInit + 'static>(
        self,
        key: &[u8],
    ) -> Result<Box<dyn SectorCipher>, Problem> {
        let iv = self.iv(key)?;
        Ok(match self.mode {
            Mode::Xts => {
                let (data, tweak) = key.split_at(key.len() / 2);
                Box::new(Xts::new(keyed::<C>(data)?, keyed::<C>(tweak)?, iv))
            }
            Mode::Cbc => Box::new(Cbc::new(keyed::<C>(key)?, iv)),
        })
    }

    fn iv(self, key: &[u8]) -> Result<Iv, Problem> {
        let hash = match self.iv {
            IvKind::Plain => return Ok(Iv::Plain),
            IvKind::Plain64 => return Ok(Iv::Plain64),
            IvKind::Essiv(hash) => hash,
        };
        // The hash's length, not the data cipher's, selects the key length of the vectors' cipher.
        let salt = hash.digest(&[key]);
        let cipher: Box<dyn BlockEncrypt> = match (self.cipher, salt.len()) {
            (Cipher::Aes, 16) => Box::new(keyed::<aes::Aes128>(&salt)?),
            (Cipher::Aes, 24) => Box::new(keyed::<aes::Aes192>(&salt)?),
            (Cipher::Aes, _) => Box::new(keyed::<aes::Aes256>(&salt)?),
            (Cipher::Serpent, _) => Box::new(keyed::<serpent::Serpent>(&salt)?),
            (Cipher::Twofish, _) => Box::new(keyed::<twofish::Twofish>(&salt)?),
        };
        Ok(Iv::Essiv(cipher))
    }
}

impl IvKind {
    /// Returns ESSIV with a hash of 32 bytes. The hash is a key for the cipher; the kernel has no
    /// cipher for other lengths either.
    fn essiv(hash: &str) -> Result<Self, Problem> {
        let hash = Hash::parse(hash)?;
        if hash.len_bytes() == 32 {
            Ok(Self::Essiv(hash))
        } else {
            let reason = "unsupported ESSIV hash: its length is not 32 bytes";
            Err(Problem::unsupported(reason))
        }
    }
}

fn keyed<C: KeyInit>(key: &[u8]) -> Result<C, Problem> {
    C::new_from_slice(key).map_err(|_| {
        Problem::corrupt(format!(
            "invalid key length: no cipher has a key of {} bytes",
            key.len()
        ))
    })
}
