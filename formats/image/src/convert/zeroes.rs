//! Detection of zeroes.

/// Returns true if all bytes are zero.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    // Most data differs early; the rest is compared in words by the vectorised loop of `align_to`'s
    // caller.
    let (head, rest) = bytes.split_at(bytes.len().min(64));
    if head.iter().any(|byte| *byte != 0) {
        return false;
    }
    rest.chunks(256)
        .all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_anywhere_is_found() {
        let mut bytes = vec![0; 1000];
        assert!(is_zero(&bytes) && is_zero(&[]));
        for at in [0, 63, 64, 65, 319, 320, 500, 999] {
            bytes[at] = 1;
            assert!(!is_zero(&bytes), "{at}");
            bytes[at] = 0;
        }
    }
}
