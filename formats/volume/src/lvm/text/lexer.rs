//! The words of LVM's text metadata. LVM2, `libdm/libdm-config.c`; lvm.conf(5), "SYNTAX".

/// A word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name, or a number.
    Word(&'a str),
    /// What stands between quotes, its escapes still in it.
    Quoted(&'a str),
    /// One of `{ } [ ] = ,`.
    Mark(char),
}

/// The words of a text with the lines they are in.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            rest: text,
            line: 1,
        }
    }

    /// The line of the word that was given last.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// The text behind the word that was given last.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// The next word, `None` at the end.
    ///
    /// # Errors
    /// For a string that does not end.
    pub(super) fn next(&mut self) -> Result<Option<Token<'a>>, String> {
        self.skip_blanks();
        let Some(first) = self.rest.chars().next() else {
            return Ok(None);
        };
        match first {
            '{' | '}' | '[' | ']' | '=' | ',' => {
                self.take(1);
                Ok(Some(Token::Mark(first)))
            }
            '"' => self.quoted().map(Some),
            _ => {
                let ends = |c: char| c.is_whitespace() || "{}[]=,\"#".contains(c);
                let len = self.rest.find(ends).unwrap_or(self.rest.len());
                Ok(Some(Token::Word(self.take(len))))
            }
        }
    }

    /// Takes so many bytes, which end at a character's end.
    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(len).unwrap_or((self.rest, ""));
        self.rest = rest;
        let lines = taken.bytes().filter(|&b| b == b'\n').count();
        self.line = self.line.saturating_add(lines);
        taken
    }

    /// Blanks, and comments to the ends of their lines.
    fn skip_blanks(&mut self) {
        loop {
            let blanks = self
                .rest
                .find(|c: char| !c.is_whitespace())
                .unwrap_or(self.rest.len());
            self.take(blanks);
            if !self.rest.starts_with('#') {
                return;
            }
            self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
    }

    fn quoted(&mut self) -> Result<Token<'a>, String> {
        self.take(1);
        let mut escaped = false;
        let end = self.rest.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let Some(end) = end else {
            return Err("a string does not end".to_owned());
        };
        let text = self.take(end);
        self.take(1);
        Ok(Token::Quoted(text))
    }
}
