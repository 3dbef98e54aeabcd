//! Configuration files in shell syntax: assignments with quotes and comments.

/// Returns the lines with their numbers, counted from 1. Empty lines and comments are skipped, and
/// surrounding blanks are removed.
pub fn settings(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Returns all assignments: line number, name and value.
pub fn assignments(text: &str) -> impl Iterator<Item = (usize, &str, String)> {
    settings(text).filter_map(|(number, line)| {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=')?;
        let name = name.trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let is_one = !name.is_empty() && name.chars().all(is_name);
        is_one.then(|| (number, name, unquote(value.trim())))
    })
}

/// Returns the line number and the value of the last assignment to a name. An empty value counts as
/// missing.
pub fn assigned(text: &str, name: &str) -> Option<(usize, String)> {
    let values = assignments(text).filter(|(_, found, _)| *found == name);
    let last = values.map(|(number, _, value)| (number, value)).last();
    last.filter(|(_, value)| !value.is_empty())
}

/// Returns a word as a shell reads it, up to a blank outside of quotes, with quotes and backslashes
/// removed.
pub fn unquote(value: &str) -> String {
    let mut plain = String::new();
    let mut quote = None;
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (_, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => quote = Some(c),
            ('\\', None | Some('"')) => plain.extend(chars.next()),
            (_, None) if c.is_whitespace() => break,
            _ => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_those_of_a_shell() {
        let text = "# LANG=x\nLANG=C\n export LANG=\"de_DE.UTF-8\" # all\nTZ='A b'\nNONE=\nif [ $a = b ]\n";
        assert_eq!(assigned(text, "LANG"), Some((3, "de_DE.UTF-8".to_owned())));
        assert_eq!(assigned(text, "TZ"), Some((4, "A b".to_owned())));
        assert_eq!(assigned(text, "NONE"), None);
        assert_eq!(assigned(text, "LAN"), None);
        assert_eq!(assignments(text).count(), 4);
    }

    #[test]
    fn words_are_unquoted() {
        for (value, expected) in [
            ("plain # no", "plain"),
            ("\"a \\\"b\\\"\"", "a \"b\""),
            ("'It'", "It"),
            ("'a\\b'", "a\\b"),
            ("a'b c'd", "ab cd"),
            ("\"open", "open"),
            ("a\\", "a"),
            ("", ""),
        ] {
            assert_eq!(unquote(value), expected, "{value}");
        }
    }
}
