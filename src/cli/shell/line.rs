//! The syntax of a line: words with quotes as in a shell, then pipes and redirections.

/// The characters that begin a pipe or a redirection.
const REDIRECTING: [char; 3] = ['|', '<', '>'];

/// A line of input.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// The words of the command.
    pub(super) words: Vec<Vec<u8>>,
    /// The pipes and redirections, in the syntax of the host's shell.
    pub(super) redirection: Option<String>,
}

/// Splits a line. From the first `|`, `<` or `>` on, it belongs to the host's shell; `#` begins a
/// comment.
///
/// # Errors
/// The reason, if a quote is unclosed or no command comes before a pipe or a redirection.
pub(super) fn parse(line: &str) -> Result<Line, &'static str> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        if first == '#' {
            break;
        }
        if REDIRECTING.contains(&first) {
            if words.is_empty() {
                return Err("missing command before a pipe or a redirection");
            }
            return Ok(Line {
                words,
                redirection: Some(rest.to_owned()),
            });
        }
        let (word, after) = word(rest)?;
        words.push(word);
        rest = after.trim_start();
    }
    Ok(Line {
        words,
        redirection: None,
    })
}

/// Splits off the first word.
fn word(text: &str) -> Result<(Vec<u8>, &str), &'static str> {
    let mut word = String::new();
    let mut quote = None;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None | Some('"'), '\\') => {
                let (_, escaped) = characters.next().ok_or("nothing follows a `\\`")?;
                word.push(escaped);
            }
            (None, '"' | '\'') => quote = Some(character),
            (None, _) if character.is_whitespace() || REDIRECTING.contains(&character) => {
                return Ok((word.into(), text.get(at..).unwrap_or_default()));
            }
            (_, _) => word.push(character),
        }
    }
    match quote {
        Some(_) => Err("unclosed quote"),
        None => Ok((word.into(), "")),
    }
}

/// Splits the part of a line before the cursor. Returns the words, of which the last one is
/// unfinished and may be empty, and the byte at which it begins; `None` within a command of the host.
pub(super) fn unfinished(line: &str) -> Option<(Vec<String>, usize)> {
    if line.trim_start().starts_with('!') {
        return None;
    }
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    loop {
        let start = line.len().saturating_sub(rest.len());
        if rest.starts_with(REDIRECTING) {
            return None;
        }
        let (word, after) = match word(rest) {
            Ok(split) => split,
            // The quote is closed for the candidates, which have backslashes instead.
            Err(_) => (rest.trim_matches(['"', '\'', '\\']).into(), ""),
        };
        words.push(String::from_utf8(word).ok()?);
        if after.is_empty() {
            return Some((words, start));
        }
        rest = after.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> (Vec<String>, Option<String>) {
        let line = parse(line).unwrap();
        let words = line
            .words
            .into_iter()
            .map(|word| String::from_utf8(word).unwrap());
        (words.collect(), line.redirection)
    }

    #[test]
    fn words_are_those_of_a_shell() {
        let cases: [(&str, &[&str]); 6] = [
            ("  ls  -l /etc ", &["ls", "-l", "/etc"]),
            (
                r#"cat "/a b" '/c\d' /e\ f"#,
                &["cat", "/a b", "/c\\d", "/e f"],
            ),
            ("write /a ''", &["write", "/a", ""]),
            ("ls # the rest", &["ls"]),
            ("ls a#b", &["ls", "a#b"]),
            ("# nothing", &[]),
        ];
        for (line, words) in cases {
            assert_eq!(parsed(line).0, words, "{line}");
        }
    }

    #[test]
    fn redirections_belong_to_the_host() {
        let cases = [
            ("ls /|wc -l", "|wc -l"),
            ("cat '/a|b' > 'out file'", "> 'out file'"),
            ("write /a < in | cat", "< in | cat"),
        ];
        for (line, redirection) in cases {
            assert_eq!(parsed(line).1.unwrap(), redirection, "{line}");
        }
        assert_eq!(parsed("ls '|' \\>").1, None);
    }

    #[test]
    fn the_word_before_the_cursor_is_found() {
        // The words are joined by commas.
        let cases = [
            ("", Some((",", 0))),
            ("ls", Some(("ls,", 0))),
            ("ls ", Some(("ls,,", 3))),
            (" ls  /e", Some(("ls,/e,", 5))),
            ("cat 'a b", Some(("cat,a b,", 4))),
            ("ls | wc ", None),
            ("!ls /", None),
        ];
        for (line, expected) in cases {
            let found = unfinished(line).map(|(words, start)| (words.join(",") + ",", start));
            let expected = expected.map(|(words, start)| (words.to_owned(), start));
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn unfinished_lines_are_refused() {
        for line in ["cat 'a", "cat \"a", "cat a\\", "| wc"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
