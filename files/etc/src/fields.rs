//! Lines of fields separated by blanks, with escapes for blanks inside fields: fstab(5),
//! crypttab(5).

use crate::text::{decode, encode};

/// Returns the fields of a line with their escapes resolved: `\040` is a space. A comment has no
/// fields.
pub(crate) fn fields(line: &str) -> impl Iterator<Item = String> {
    let is_comment = line.trim_start_matches(is_blank).starts_with('#');
    let line = if is_comment { "" } else { line };
    let fields = line.split(is_blank).filter(|field| !field.is_empty());
    fields.map(unescape)
}

fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\t')
}

/// Resolves the escapes of getmntent(3): a backslash with three octal digits is a byte.
fn unescape(field: &str) -> String {
    if !field.contains('\\') {
        return field.to_owned();
    }
    let field = encode(field);
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = &field[..];
    while let Some((&byte, after)) = rest.split_first() {
        let code = escaped(byte, after);
        plain.push(code.map_or(byte, |(code, _)| code));
        rest = code.map_or(after, |(_, after)| after);
    }
    decode(&plain)
}

fn escaped(byte: u8, after: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, after) = after.split_first_chunk::<3>()?;
    if byte != b'\\' || !digits.iter().all(|digit| matches!(digit, b'0'..=b'7')) {
        return None;
    }
    let digits = std::str::from_utf8(digits).ok()?;
    Some((u8::from_str_radix(digits, 8).ok()?, after))
}

/// Escapes the characters that would end a field or begin a comment.
pub(crate) fn escape(field: &str) -> String {
    let mut escaped = field
        .replace('\\', "\\134")
        .replace(' ', "\\040")
        .replace('\t', "\\011")
        .replace('\n', "\\012");
    if escaped.starts_with('#') {
        escaped.replace_range(..1, "\\043");
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_three_octal_digits() {
        let line = "\t/my\\040data /sr\\134v\t\\0 \\999 \\+12 \\777 \\303\\244";
        let all: Vec<_> = fields(line).collect();
        let expected = ["/my data", "/sr\\v", "\\0", "\\999", "\\+12", "\\777", "ä"];
        assert_eq!(all, expected);
        assert_eq!(fields("  # a b").count(), 0);
    }

    proptest! {
        #[test]
        fn what_is_escaped_is_one_field(bytes in prop::collection::vec(any::<u8>(), 1..16)) {
            let field = decode(&bytes);
            let line = escape(&field);
            prop_assert_eq!(fields(&line).collect::<Vec<_>>(), [field]);
        }
    }
}
