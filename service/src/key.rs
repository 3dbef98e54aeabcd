//! Passwords in answers, encrypted as the callers of the host-deployer decrypt them.
//!
//! | for | form |
//! |---|---|
//! | an RSA key | RSA-OAEP with SHA-1 and no label |
//! | another SSH key | AES-256-CFB8; its key are the first 32 bytes of the public key's line |
//! | no key | AES-256-CFB8; its key is the guest's UUID |
//!
//! A key of AES that is shorter than 32 bytes is filled with `$`. The random initialization vector
//! precedes the ciphertext, and everything is in base64. Only the RSA form is a secret from those
//! who know the request; the others are there because callers expect them.

use aes::Aes256;
use base64ct::{Base64, Encoding};
use cipher::{BlockCipherEncrypt, KeyInit};
use diskfs_disk::{Error, ErrorKind, Result};
use rsa::{BoxedUint, Oaep, RsaPublicKey};
use sha1::Sha1;
use ssh_key::PublicKey;
use ssh_key::public::KeyData;

const BLOCK_BYTES: usize = 16;
const KEY_BYTES: usize = 32;

/// Fills a buffer with random bytes.
type Random = fn(&mut [u8]) -> Result<()>;

/// Encrypts a password for the owner of an SSH public key, or with the guest's UUID if there is no
/// public key.
///
/// # Errors
/// `Invalid` for an invalid public key, and for a password that is too long for an RSA key.
pub(crate) fn encrypt(public_key: &str, uuid: &str, password: &str) -> Result<String> {
    let public_key = public_key.trim();
    let secret = if public_key.is_empty() {
        with_text(uuid, password, random)?
    } else {
        for_key(public_key, password)?
    };
    Ok(Base64::encode_string(&secret))
}

fn for_key(public_key: &str, password: &str) -> Result<Vec<u8>> {
    let key = PublicKey::from_openssh(public_key)
        .map_err(|error| invalid(&format!("invalid SSH public key: {error}")))?;
    let KeyData::Rsa(rsa) = key.key_data() else {
        let mut words = public_key.split_whitespace();
        let line = [words.next(), words.next()].map(Option::unwrap_or_default);
        return with_text(&format!("{}\n", line.join(" ")), password, random);
    };
    let number = |bytes: &[u8]| BoxedUint::from_be_slice_vartime(bytes);
    let key = RsaPublicKey::new(number(rsa.n().as_bytes()), number(rsa.e().as_bytes()))
        .map_err(|error| invalid(&format!("invalid RSA public key: {error}")))?;
    let padding = Oaep::<Sha1>::new();
    key.encrypt(&mut KernelRandom, padding, password.as_bytes())
        .map_err(|error| invalid(&format!("cannot encrypt the password: {error}")))
}

fn invalid(reason: &str) -> Error {
    Error::new(ErrorKind::Invalid, reason)
}

/// Encrypts with AES-256-CFB8. The result starts with the initialization vector.
fn with_text(key: &str, password: &str, random: Random) -> Result<Vec<u8>> {
    let mut padded = [b'$'; KEY_BYTES];
    for (to, from) in padded.iter_mut().zip(key.bytes()) {
        *to = from;
    }
    let cipher = Aes256::new(&padded.into());
    let mut register = [0; BLOCK_BYTES];
    random(&mut register)?;
    let mut secret = register.to_vec();
    for byte in password.bytes() {
        let mut block = register.into();
        cipher.encrypt_block(&mut block);
        let encrypted = byte ^ block[0];
        register.rotate_left(1);
        register[BLOCK_BYTES - 1] = encrypted;
        secret.push(encrypted);
    }
    Ok(secret)
}

fn random(bytes: &mut [u8]) -> Result<()> {
    use rustix::rand::{GetRandomFlags, getrandom};
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let got = getrandom(rest, GetRandomFlags::empty()).map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot get random numbers: {error}"))
        })?;
        filled += got;
    }
    Ok(())
}

/// Returns random bytes.
///
/// # Errors
/// `Io` if the kernel has none.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    random(&mut bytes)?;
    Ok(bytes)
}

/// The kernel's random numbers.
struct KernelRandom;

impl rsa::rand_core::TryRng for KernelRandom {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> std::result::Result<u32, Self::Error> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> std::result::Result<u64, Self::Error> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> std::result::Result<(), Self::Error> {
        // OK to expect: getrandom(2) fails only before the kernel is initialised or with an invalid
        // pointer.
        random(bytes).expect("random numbers of the kernel");
        Ok(())
    }
}

impl rsa::rand_core::TryCryptoRng for KernelRandom {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encrypted with Python's `cryptography`: `Cipher(AES(key), CFB8(iv))`.
    #[test]
    fn cfb8_is_that_of_others() {
        let fixed = |bytes: &mut [u8]| {
            for (number, byte) in (0_u8..).zip(bytes) {
                *byte = number;
            }
            Ok(())
        };
        let secret = with_text("u1", "p$a\\ss\u{e4}", fixed).unwrap();
        assert_eq!(Base64::encode_string(&secret), CFB8);
    }

    const CFB8: &str = "AAECAwQFBgcICQoLDA0OD02WD088rZaZ";

    #[test]
    fn keys_are_checked() {
        assert!(encrypt("ssh-rsa AAAA", "u", "p").is_err());
        let key =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIpV2M6Yl2xDEhNOq3hdZPcgnS/yLBfEWvwEJAtyrddq u@h";
        let secret = Base64::decode_vec(&encrypt(key, "u", "p").unwrap()).unwrap();
        assert_eq!(secret.len(), BLOCK_BYTES + 1);
    }
}
