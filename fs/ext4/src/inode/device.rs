//! Numbers of device nodes, in the first two words of `i_block`.
//!
//! Source: Linux, `include/linux/kdev_t.h`: an old number has 8 bits for each half; a new one has
//! 12 bits for the major number and 20 for the minor.

use diskfs_vfs::Device;

use crate::bytes::{le32, put};

/// Decodes the number: the first word contains an old number; if it is zero, the second word
/// contains a new number.
pub(super) fn decode(block: &[u8; 60]) -> Device {
    match le32(block, 0).unwrap_or(0) {
        0 => decode_new(le32(block, 4).unwrap_or(0)),
        old => Device {
            major: old.wrapping_shr(8) & 0xff,
            minor: old & 0xff,
        },
    }
}

fn decode_new(number: u32) -> Device {
    Device {
        major: number.wrapping_shr(8) & 0xfff,
        minor: (number & 0xff) | (number.wrapping_shr(12) & 0xf_ff00),
    }
}

/// Encodes a number in the words of `i_block`: in the old form if both halves fit, as Linux does.
pub(crate) fn encode(device: Device) -> [u8; 60] {
    let Device { major, minor } = device;
    let words = if major < 256 && minor < 256 {
        [major.wrapping_shl(8) | minor, 0]
    } else {
        let upper = (minor & 0xf_ff00).wrapping_shl(12);
        [0, (minor & 0xff) | (major & 0xfff).wrapping_shl(8) | upper]
    };
    let mut block = [0; 60];
    put(&mut block, 0, &words[0].to_le_bytes());
    put(&mut block, 4, &words[1].to_le_bytes());
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(words: [u32; 2]) -> [u8; 60] {
        let mut block = [0; 60];
        block[..4].copy_from_slice(&words[0].to_le_bytes());
        block[4..8].copy_from_slice(&words[1].to_le_bytes());
        block
    }

    #[test]
    fn old_and_new_numbers() {
        let device = |major, minor| Device { major, minor };
        assert_eq!(decode(&block([0x0801, 0])), device(8, 1));
        // mknod c 4095 1048575, the largest of both.
        assert_eq!(decode(&block([0, 0xffff_ffff])), device(4095, 1_048_575));
        assert_eq!(decode(&block([0, 0x0010_0300])), device(3, 256));
        for (major, minor) in [(0, 0), (8, 1), (4095, 1_048_575), (3, 256), (256, 3)] {
            assert_eq!(decode(&encode(device(major, minor))), device(major, minor));
        }
    }
}
