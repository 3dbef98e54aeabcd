//! Texts of UDF: "OSTA Compressed Unicode" in a `dstring` (OSTA, UDF 2.60, 2.1.1 and 2.1.3).

/// Decodes a text whose last byte is its length.
pub(super) fn text(dstring: &[u8]) -> Vec<u8> {
    let (len, bytes) = dstring.split_last().unwrap_or((&0, &[]));
    let bytes = bytes.get(..usize::from(*len)).unwrap_or(bytes);
    decoded(bytes).trim_end().as_bytes().to_vec()
}

/// Returns the substitute for a UUID: the start of the volume set's name, which should be unique
/// hexadecimal digits. A name with other characters is encoded as bytes. mkudffs and `blkid` use
/// the same rule.
pub(super) fn uuid(volume_set: &[u8; 128]) -> Option<String> {
    let name = text(volume_set);
    let name = name.get(..16.min(name.len()))?;
    let digits = name
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    let part = |to: usize| String::from_utf8_lossy(&name[..to]).to_ascii_lowercase();
    match (digits, name.len()) {
        (_, ..8) => None,
        (16, _) => Some(part(16)),
        (8.., len) => {
            let mut rest = [0; 4];
            let bytes = &name[8..len.min(12)];
            rest[..bytes.len()].copy_from_slice(bytes);
            Some(part(8) + &super::uuid::hex(&rest))
        }
        _ => Some(super::uuid::hex(&name[..8])),
    }
}

fn decoded(bytes: &[u8]) -> String {
    match bytes.split_first() {
        Some((8 | 254, text)) => text
            .iter()
            .map(|byte| char::from(*byte))
            .take_while(|c| *c != '\0')
            .collect(),
        Some((16 | 255, text)) => {
            let units = text
                .chunks_exact(2)
                .map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
            let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
            String::from_utf16_lossy(&units)
        }
        _ => String::new(),
    }
}
