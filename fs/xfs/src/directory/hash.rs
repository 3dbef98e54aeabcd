//! The hashes of names.
//!
//! Source: "XFS Algorithms & Data Structures", section "Directory Hash".

/// Returns the hash of a name of a directory entry or of an attribute: each byte is combined with
/// the hash so far, rotated by 7 bits.
pub(crate) fn da_hash(name: &[u8]) -> u32 {
    name.iter()
        .fold(0, |hash: u32, byte| u32::from(*byte) ^ hash.rotate_left(7))
}

/// Returns the hash of a name in a filesystem that ignores case.
pub(crate) fn folded_hash(name: &[u8]) -> u32 {
    name.iter().fold(0, |hash: u32, byte| {
        u32::from(fold(*byte)) ^ hash.rotate_left(7)
    })
}

/// Returns the lower case of a letter of ISO 8859-1, as Linux does since 6.4.
pub(super) fn fold(byte: u8) -> u8 {
    match byte {
        b'A'..=b'Z' | 0xc0..=0xd6 | 0xd8..=0xde => byte | 0x20,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hashes() {
        assert_eq!(da_hash(b"."), 0x2e);
        assert_eq!(da_hash(b".."), 0x172e);
        assert_eq!(da_hash(b"abcdefgh"), {
            let word = |a: u8, b: u8, c: u8, d: u8| {
                u32::from(a) << 21 ^ u32::from(b) << 14 ^ u32::from(c) << 7 ^ u32::from(d)
            };
            word(b'e', b'f', b'g', b'h') ^ word(b'a', b'b', b'c', b'd').rotate_left(28)
        });
        assert_eq!(folded_hash(b"ReadMe"), da_hash(b"readme"));
    }
}
