//! LUKS volumes that are built byte by byte, so that every field can be wrong.

#![allow(dead_code, reason = "each test takes what it needs")]

use sha2::{Digest, Sha256};

/// The volume key of all test volumes.
pub(crate) const KEY: [u8; 64] = {
    let mut key = [7; 64];
    key[32] = 9;
    key
};

pub(crate) const COPY_BYTES: usize = 0x4000;

/// The metadata with one segment, one digest and one key slot that no passphrase opens.
pub(crate) const METADATA: &str = r#"{
 "keyslots": {"0": {"type": "luks2", "key_size": 64,
  "af": {"type": "luks1", "stripes": 4000, "hash": "sha256"},
  "area": {"type": "raw", "offset": "32768", "size": "258048",
           "encryption": "aes-xts-plain64", "key_size": 64},
  "kdf": {"type": "pbkdf2", "hash": "sha256", "iterations": 1, "salt": "c2FsdHNhbHQ="}}},
 "tokens": {},
 "segments": {"0": {"type": "crypt", "offset": "294912", "size": "dynamic", "iv_tweak": "0",
  "encryption": "aes-xts-plain64", "sector_size": 512}},
 "digests": {"0": {"type": "pbkdf2", "keyslots": ["0"], "segments": ["0"], "hash": "sha256",
  "iterations": 1, "salt": "c2FsdHNhbHQ=", "digest": "DIGEST"}},
 "config": {"json_size": "12288", "keyslots_size": "262144"}
}"#;

/// Returns the metadata with the digest of [`KEY`].
pub(crate) fn metadata() -> String {
    use base64ct::{Base64, Encoding as _};
    let mut digest = [0; 32];
    pbkdf2::pbkdf2_hmac::<Sha256>(&KEY, b"saltsalt", 1, &mut digest);
    METADATA.replace("DIGEST", &Base64::encode_string(&digest))
}

/// Returns a copy of a header with this metadata and a correct checksum.
fn copy(magic: [u8; 6], offset: u64, json: &str) -> Vec<u8> {
    let mut bytes = vec![0; COPY_BYTES.max((4096 + json.len()).next_power_of_two())];
    let len = bytes.len() as u64;
    bytes[..6].copy_from_slice(&magic);
    bytes[7] = 2;
    bytes[8..16].copy_from_slice(&len.to_be_bytes());
    bytes[72..78].copy_from_slice(b"sha256");
    bytes[256..264].copy_from_slice(&offset.to_be_bytes());
    bytes[4096..4096 + json.len()].copy_from_slice(json.as_bytes());
    let sum = Sha256::digest(&bytes);
    bytes[448..480].copy_from_slice(&sum);
    bytes
}

/// Returns a volume of 1 MiB with this metadata in both copies, and zeroes as data.
pub(crate) fn luks2(json: &str) -> Vec<u8> {
    let mut disk = copy(*b"LUKS\xba\xbe", 0, json);
    disk.extend(copy(*b"SKUL\xba\xbe", disk.len() as u64, json));
    disk.resize(disk.len().max(1 << 20), 0);
    disk
}

/// Returns a LUKS1 header on 1 MiB, whose key slot 0 no passphrase opens.
pub(crate) fn luks1() -> Vec<u8> {
    let mut disk = vec![0; 1 << 20];
    disk[..8].copy_from_slice(b"LUKS\xba\xbe\0\x01");
    disk[8..11].copy_from_slice(b"aes");
    disk[40..51].copy_from_slice(b"xts-plain64");
    disk[72..78].copy_from_slice(b"sha256");
    disk[104..108].copy_from_slice(&1024_u32.to_be_bytes());
    disk[108..112].copy_from_slice(&64_u32.to_be_bytes());
    disk[164..168].copy_from_slice(&1_u32.to_be_bytes());
    disk[208..212].copy_from_slice(&0x00ac_71f3_u32.to_be_bytes());
    disk[212..216].copy_from_slice(&1_u32.to_be_bytes());
    disk[248..252].copy_from_slice(&8_u32.to_be_bytes());
    disk[252..256].copy_from_slice(&4000_u32.to_be_bytes());
    disk
}
