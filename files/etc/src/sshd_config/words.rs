//! Splitting of lines into words, as by `strdelim` and `argv_split` in OpenSSH's `misc.c`.

/// Returns the keyword of a line and the rest after it, or `None` for a comment or a keyword
/// without arguments. `Key value`, `Key=value`, `Key = value` and `"Key" value` are equivalent.
pub(super) fn keyword(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_matches(is_blank);
    if line.starts_with('#') {
        return None;
    }
    let (keyword, rest) = match line.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => line.split_at_checked(line.find(|char| is_blank(char) || char == '=')?)?,
    };
    let rest = rest.trim_start_matches(is_blank);
    let rest = rest.strip_prefix('=').unwrap_or(rest);
    let rest = rest.trim_start_matches(is_blank);
    (!keyword.is_empty() && !rest.is_empty()).then_some((keyword, rest))
}

/// Returns the arguments of a keyword: the words up to a comment, with quotes and backslashes
/// resolved.
pub fn arguments(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut chars = text.chars().peekable();
    loop {
        while chars.next_if(|char| is_blank(*char)).is_some() {}
        if chars.peek().is_none_or(|char| *char == '#') {
            return words;
        }
        words.push(word(&mut chars));
    }
}

fn word(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
    let mut word = String::new();
    let mut quote = None;
    while let Some(char) = chars.next_if(|char| quote.is_some() || !is_blank(*char)) {
        match (char, quote) {
            ('\\', _) => {
                let is_escaped = |next: &char| {
                    matches!(next, '\'' | '"' | '\\') || (*next == ' ' && quote.is_none())
                };
                word.push(chars.next_if(is_escaped).unwrap_or('\\'));
            }
            (_, Some(open)) if char == open => quote = None,
            ('"' | '\'', None) => quote = Some(char),
            _ => word.push(char),
        }
    }
    word
}

/// Returns true for blanks between words, and for characters that may end a line.
fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\t' | '\r' | '\u{c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_and_arguments() {
        for line in [
            "Key a",
            "\tKey=a",
            "Key = a # b",
            "\"Key\" \"a\"",
            "Key\t'a'\r",
        ] {
            let (keyword, rest) = keyword(line).unwrap();
            assert_eq!((keyword, arguments(rest)), ("Key", vec!["a".to_owned()]));
        }
        for line in ["", "#Key a", "Key", "Key ", "Key=", "= a", "\"Key a"] {
            assert_eq!(keyword(line), None, "{line}");
        }
        assert_eq!(
            arguments("a\\ b \"c d\"'e' \\x \"\\\"\" # f"),
            ["a b", "c de", "\\x", "\""]
        );
        assert_eq!(arguments("a#b \"open c"), ["a#b", "open c"]);
        assert_eq!(arguments("\"\""), [""]);
    }
}
