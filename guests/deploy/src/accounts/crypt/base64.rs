//! The base64 of crypt(3), with its own alphabet and the low bits first.

const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Encodes bytes with six bits per character, without padding.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let places = group.iter().zip([0, 8, 16]);
        let mut bits: u32 = places.map(|(byte, place)| u32::from(*byte) << place).sum();
        // A group has one character more than bytes.
        for _ in 0..=group.len() {
            let at = usize::try_from(bits % 64).unwrap_or_default();
            text.push(ALPHABET.get(at).copied().map_or('.', char::from));
            bits /= 64;
        }
    }
    text
}

/// Returns the character of a number below 64.
pub(super) fn digit(number: u32) -> Option<char> {
    let at = usize::try_from(number).ok()?;
    ALPHABET.get(at).copied().map(char::from)
}

/// Decodes a text; `None` if the text is not a valid encoding.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for group in text.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for char in group.iter().rev() {
            let at = ALPHABET.iter().position(|known| known == char)?;
            bits = (bits << 6) | u32::try_from(at).ok()?;
        }
        let count = group.len().checked_sub(1).filter(|count| *count > 0)?;
        let all = bits.to_le_bytes();
        bytes.extend_from_slice(all.get(..count)?);
        // The remaining bits of the last character must be 0.
        if all.get(count..)?.iter().any(|byte| *byte != 0) {
            return None;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn there_and_back(bytes: Vec<u8>) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }

        #[test]
        fn any_text(text: String) {
            if let Some(bytes) = decode(&text) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }
    }
}
