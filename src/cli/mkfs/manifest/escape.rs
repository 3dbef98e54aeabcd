//! Names in a manifest, as vis(3) escapes them.

/// Returns the bytes that an escaped name stands for: `\040` is a blank.
///
/// # Errors
/// A reason, for an unknown escape.
pub(super) fn unescaped(name: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (byte, len) = escape(after).ok_or_else(|| {
            let shown = String::from_utf8_lossy(name).into_owned();
            format!("unknown escape in `{shown}`")
        })?;
        bytes.push(byte);
        rest = after.get(len..).unwrap_or_default();
    }
    Ok(bytes)
}

/// Returns the byte of the escape after a backslash, and the length of the escape.
fn escape(text: &[u8]) -> Option<(u8, usize)> {
    let byte = match *text.first()? {
        b'0'..=b'3' => {
            let digits = std::str::from_utf8(text.get(..3)?).ok()?;
            return Some((u8::from_str_radix(digits, 8).ok()?, 3));
        }
        b's' => b' ',
        b't' => b'\t',
        b'n' => b'\n',
        b'r' => b'\r',
        other @ (b'\\' | b'#' | b'*' | b'?' | b'[' | b'"' | b'\'' | b'=') => other,
        _ => return None,
    };
    Some((byte, 1))
}
