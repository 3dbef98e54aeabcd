//! The lexer of LVM's text metadata. LVM2, `libdm/libdm-config.c`; lvm.conf(5), "SYNTAX".

/// A token of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name or a number.
    Word(&'a str),
    /// A quoted string, with its escapes.
    Quoted(&'a str),
    /// A mark: one of `{ } [ ] = ,`.
    Mark(char),
}

/// An iterator over the tokens of a text that tracks the line.
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

    /// Returns the line of the last token.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// Returns the text after the last token.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// Returns the next token, `None` at the end.
    ///
    /// # Errors
    /// A string that does not end.
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

    /// Takes `len` bytes, which must end at a character boundary.
    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(len).unwrap_or((self.rest, ""));
        self.rest = rest;
        let lines = taken.bytes().filter(|&b| b == b'\n').count();
        self.line = self.line.saturating_add(lines);
        taken
    }

    /// Skips blanks and comments.
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
