//! LVM's checksum: CRC-32 (IEEE 802.3, reflected) with an initial value of its own and without the
//! final inversion.

/// The initial value, `INITIAL_CRC` of LVM2's `lib/misc/crc.h`.
const INITIAL: u32 = 0xf597_a6cf;

/// Returns the checksum of several parts of a text.
pub(super) fn crc(parts: &[&[u8]]) -> u32 {
    // The crate inverts before and after, as is usual.
    let mut hasher = crc32fast::Hasher::new_with_initial(!INITIAL);
    for part in parts {
        hasher.update(part);
    }
    !hasher.finalize()
}

#[cfg(test)]
mod tests {
    #[test]
    fn agrees_with_a_label_that_pvcreate_wrote() {
        // Bytes 20 to 512 of a label sector of LVM 2.03.16, and its checksum.
        let mut covered = vec![0; 492];
        covered[..12].copy_from_slice(b"\x20\0\0\0LVM2 001");
        covered[12..44].copy_from_slice(b"xg9VYeBhZnEctgan0YrZRi0tS6HyWSix");
        covered[44..52].copy_from_slice(&0x0400_0000_u64.to_le_bytes());
        covered[52..60].copy_from_slice(&0x10_0000_u64.to_le_bytes());
        covered[84..92].copy_from_slice(&0x1000_u64.to_le_bytes());
        covered[92..100].copy_from_slice(&0xf_f000_u64.to_le_bytes());
        covered[116..124].copy_from_slice(b"\x02\0\0\0\x01\0\0\0");
        assert_eq!(super::crc(&[&covered]), 0xe663_c400);
        assert_eq!(super::crc(&[&covered[..7], &covered[7..]]), 0xe663_c400);
    }
}
