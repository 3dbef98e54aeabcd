//! Lists of names and values as ZFS stores them: `nvlist`, encoded in XDR (RFC 4506).

/// A value, of the types that are used here.
pub(super) enum Value<'a> {
    Number(u64),
    Text(&'a [u8]),
    Other,
}

/// Returns the pairs of the outermost list, up to the first invalid one.
pub(super) fn pairs(list: &[u8]) -> impl Iterator<Item = (&[u8], Value<'_>)> {
    const XDR: u8 = 1;
    // Skips the encoding and three more bytes, and the list's version and flags.
    let mut rest = list
        .get(12..)
        .filter(|_| list.first() == Some(&XDR))
        .unwrap_or_default();
    std::iter::from_fn(move || {
        let len = usize::try_from(number(rest)?).ok()?;
        let pair = rest.get(..len).filter(|_| len >= 8)?;
        rest = rest.get(len..)?;
        parsed(pair.get(8..)?) // the encoded and the decoded size
    })
}

fn parsed(pair: &[u8]) -> Option<(&[u8], Value<'_>)> {
    const UINT64: u32 = 8;
    const STRING: u32 = 9;
    let (name, rest) = text(pair)?;
    let value = rest.get(8..)?; // type and number of elements
    let value = match number(rest)? {
        UINT64 => Value::Number(u64::from_be_bytes(*value.first_chunk()?)),
        STRING => Value::Text(text(value)?.0),
        _ => Value::Other,
    };
    Some((name, value))
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.first_chunk()?))
}

/// Returns a text that follows its length and is padded to four bytes, and the bytes after it.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = usize::try_from(number(bytes)?).ok()?;
    let bytes = bytes.get(4..)?;
    Some((
        bytes.get(..len)?,
        bytes.get(len.checked_next_multiple_of(4)?..)?,
    ))
}
