//! Splitting of an incomplete command line into words, and quoting of candidates.

/// Splits a line, up to the cursor, into words. The last word is the one to complete, and can be
/// empty. Quotes and backslashes work as in a shell; a quote may be unclosed.
pub(super) fn split(line: &[u8]) -> Vec<Vec<u8>> {
    let (mut words, mut word) = (Vec::new(), Vec::new());
    let (mut quote, mut escaped, mut begun) = (None, false, false);
    for &byte in line {
        match (escaped, quote, byte) {
            (true, _, byte) => {
                escaped = false;
                word.push(byte);
            }
            (_, Some(b'\'') | None, b'\\') if quote.is_none() => escaped = true,
            (_, Some(b'"'), b'\\') => escaped = true,
            (_, Some(open), byte) if open == byte => quote = None,
            (_, None, b'"' | b'\'') => {
                quote = Some(byte);
                begun = true;
            }
            (_, None, b' ' | b'\t') => {
                if begun || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            (_, _, byte) => word.push(byte),
        }
    }
    words.push(word);
    words
}

/// Formats a candidate for bash: only the part after the last colon, because a colon separates
/// words in bash.
pub(super) fn for_bash(word: &[u8]) -> Vec<u8> {
    let from = word.iter().rposition(|&byte| byte == b':');
    quoted(&word[from.map_or(0, |at| at + 1)..])
}

/// Returns a word with a backslash before each character that is special in a shell.
pub(in crate::cli) fn quoted(word: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(word.len());
    for &byte in word {
        let is_plain = byte.is_ascii_alphanumeric() || b"/._-+,=@%".contains(&byte) || byte >= 0x80;
        if !is_plain {
            quoted.push(b'\\');
        }
        quoted.push(byte);
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let words = |line: &str| {
            let words = split(line.as_bytes()).into_iter();
            let words = words.map(|word| String::from_utf8(word).unwrap());
            words.collect::<Vec<_>>()
        };
        assert_eq!(words("diskfs ls a.img:/e"), ["diskfs", "ls", "a.img:/e"]);
        assert_eq!(words("diskfs  ls "), ["diskfs", "ls", ""]);
        assert_eq!(
            words(r#"a "b c" 'd\' e\ f "g"#),
            ["a", "b c", "d\\", "e f", "g"]
        );
        assert_eq!(words("a '' b"), ["a", "", "b"]);
        assert_eq!(words(""), [""]);
    }

    #[test]
    fn bash_gets_what_is_behind_the_colon() {
        assert_eq!(for_bash(b"a.img:/my file"), b"/my\\ file");
        assert_eq!(for_bash(b"p1"), b"p1");
    }
}
