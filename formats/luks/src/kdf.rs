//! Key derivation: from a passphrase to a key slot's key.

use argon2::{Algorithm, Argon2, Params, Version};
use diskfs_block::{Error, ErrorKind, Result};
use zeroize::Zeroizing;

use crate::hash::Hash;
use crate::limits::Budget;

/// A key derivation function with its costs and salt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kdf {
    Pbkdf2(Pbkdf2),
    Argon2 {
        variant: Variant,
        passes: u32,
        memory_kib: u32,
        lanes: u32,
        salt: Vec<u8>,
    },
}

/// The variants of Argon2 (RFC 9106) that LUKS2 uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    I,
    Id,
}

/// The parameters of PBKDF2, which key slots and digests use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pbkdf2 {
    pub(crate) hash: Hash,
    pub(crate) iterations: u32,
    pub(crate) salt: Vec<u8>,
}

impl Kdf {
    /// Derives a key of `key_bytes` bytes from the secret.
    pub(crate) fn derive(
        &self,
        secret: &[u8],
        key_bytes: usize,
        budget: &mut Budget,
    ) -> Result<Zeroizing<Vec<u8>>> {
        match self {
            Self::Pbkdf2(pbkdf2) => pbkdf2.derive(secret, key_bytes, budget),
            Self::Argon2 {
                variant,
                passes,
                memory_kib,
                lanes,
                salt,
            } => {
                budget.take_argon2(u64::from(*memory_kib).saturating_mul(1024), *passes)?;
                let algorithm = match variant {
                    Variant::I => Algorithm::Argon2i,
                    Variant::Id => Algorithm::Argon2id,
                };
                let params = Params::new(*memory_kib, *passes, *lanes, Some(key_bytes));
                let params = params.map_err(wrong_costs)?;
                argon2_key(algorithm, params, secret, salt, key_bytes)
            }
        }
    }
}

impl Pbkdf2 {
    pub(crate) fn derive(
        &self,
        secret: &[u8],
        key_bytes: usize,
        budget: &mut Budget,
    ) -> Result<Zeroizing<Vec<u8>>> {
        let pieces = key_bytes.div_ceil(self.hash.len_bytes().max(1));
        let pieces = u64::try_from(pieces).unwrap_or(u64::MAX);
        budget.take_pbkdf2(u64::from(self.iterations).saturating_mul(pieces))?;
        let mut key = Zeroizing::new(vec![0; key_bytes]);
        self.hash
            .pbkdf2(secret, &self.salt, self.iterations, &mut key);
        Ok(key)
    }
}

fn argon2_key(
    algorithm: Algorithm,
    params: Params,
    secret: &[u8],
    salt: &[u8],
    key_bytes: usize,
) -> Result<Zeroizing<Vec<u8>>> {
    let mut memory = Zeroizing::new(Vec::new());
    let count = params.block_count();
    memory.try_reserve_exact(count).map_err(|_| {
        let reason = format!(
            "cannot allocate the {} MiB of memory that Argon2 needs",
            count >> 10
        );
        Error::new(ErrorKind::NoSpace, reason)
    })?;
    memory.resize(count, argon2::Block::new());
    let mut key = Zeroizing::new(vec![0; key_bytes]);
    Argon2::new(algorithm, Version::V0x13, params)
        .hash_password_into_with_memory(secret, salt, &mut key, memory.as_mut_slice())
        .map_err(wrong_costs)?;
    Ok(key)
}

fn wrong_costs(e: argon2::Error) -> Error {
    Error::corrupt(format!(
        "invalid key slot: Argon2 cannot work with its parameters: {e}"
    ))
}
