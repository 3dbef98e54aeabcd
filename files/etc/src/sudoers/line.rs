//! The lines of sudoers(5), without comments and with continued lines joined.

use crate::text::lines;

/// Returns the non-empty lines, with the numbers of their first lines and without surrounding
/// blanks.
pub(super) fn logical_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut physical = lines(text);
    std::iter::from_fn(move || {
        loop {
            let first = physical.next()?;
            let mut line = String::new();
            let mut part = Some(first.body);
            while let Some(body) = part {
                let (body, is_open) = part_of(body, line.is_empty());
                line.push_str(body);
                part = None;
                if is_open {
                    line.push(' ');
                    part = physical.next().map(|next| next.body);
                }
            }
            let line = line.trim_matches(is_blank);
            if !line.is_empty() {
                return Some((first.number, line.to_owned()));
            }
        }
    })
}

/// Returns a line up to its comment, and true if it continues on the next line. A comment is never
/// continued.
fn part_of(body: &str, is_first: bool) -> (&str, bool) {
    if is_first && body.starts_with("#include") {
        return (body, false);
    }
    if let Some(comment) = comment(body) {
        return (body.get(..comment).unwrap_or_default(), false);
    }
    // Blanks are allowed after the backslash.
    let start = body.trim_end_matches(is_blank);
    let count = start
        .len()
        .saturating_sub(start.trim_end_matches('\\').len());
    if count % 2 == 1 {
        return (start.strip_suffix('\\').unwrap_or(start), true);
    }
    (body, false)
}

/// Returns the start of a line's comment: a `#` outside of quotes that is not followed by a number,
/// which would be a user ID.
fn comment(body: &str) -> Option<usize> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (at, char) in body.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '#' if !is_quoted && !is_number(body.get(at.saturating_add(1)..)?) => return Some(at),
            _ => {}
        }
    }
    None
}

fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    text.starts_with(|char: char| char.is_ascii_digit())
}

/// Returns a word with quotes and backslashes resolved.
pub(super) fn unquote(word: &str) -> String {
    let mut plain = String::with_capacity(word.len());
    let mut chars = word.chars();
    while let Some(char) = chars.next() {
        match char {
            '"' => {}
            '\\' => plain.extend(chars.next()),
            _ => plain.push(char),
        }
    }
    plain
}

pub(super) fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_comments_are_not() {
        let text = "# a \\\nb \\\n  c # d \\\ne\n\n#5 f\\\\\n\"#\" \\#g\\ \r\nh\\";
        let all: Vec<_> = logical_lines(text).collect();
        let expected = [
            (2, "b    c"),
            (4, "e"),
            (6, "#5 f\\\\"),
            (7, "\"#\" \\#g h"),
        ];
        assert_eq!(all, expected.map(|(line, text)| (line, text.to_owned())));
    }
}
