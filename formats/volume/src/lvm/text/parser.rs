//! The parser of LVM's text metadata into a tree of sections.

use super::lexer::{Lexer, Token};
use super::{Section, Text, Value};

/// The largest nesting depth: a group, its volumes, one of them and its segments are four levels.
const MAX_DEPTH: usize = 8;

/// The largest number of names and values. A logical volume has about thirty.
const MAX_NODES: usize = 400_000;

/// Parses a whole text.
///
/// # Errors
/// A syntax error, with its line.
pub(crate) fn parse(text: &str) -> Result<Section<'_>, String> {
    let mut parser = Parser {
        lexer: Lexer::new(text),
        nodes: 0,
    };
    parser
        .section(0)
        .map_err(|why| format!("line {}: {why}", parser.lexer.line()))
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    nodes: usize,
}

impl<'a> Parser<'a> {
    /// Parses the contents of a section up to its end: a `}`, or for the outermost section the end
    /// of the text.
    fn section(&mut self, depth: usize) -> Result<Section<'a>, String> {
        if depth > MAX_DEPTH {
            return Err(format!(
                "sections are nested too deeply: more than {MAX_DEPTH} levels"
            ));
        }
        let mut section = Section::default();
        loop {
            let name = match self.lexer.next()? {
                None if depth == 0 => return Ok(section),
                None => return Err("a section does not end".to_owned()),
                Some(Token::Mark('}')) if depth > 0 => return Ok(section),
                Some(Token::Word(word)) => Text(word),
                Some(Token::Quoted(quoted)) => Text(quoted),
                Some(Token::Mark(mark)) => {
                    return Err(format!("unexpected `{mark}`, expected a name"));
                }
            };
            self.count()?;
            match self.lexer.next()? {
                Some(Token::Mark('{')) => {
                    let inner = self.section(depth.saturating_add(1))?;
                    section.sections.push((name, inner));
                }
                Some(Token::Mark('=')) => {
                    let value = self.value()?;
                    section.values.push((name, value));
                }
                _ => return Err("expected `=` or `{` after a name".to_owned()),
            }
        }
    }

    fn value(&mut self) -> Result<Value<'a>, String> {
        match self.lexer.next()? {
            Some(Token::Mark('[')) => self.list(),
            Some(token) => self.single(token),
            None => Err("expected a value after `=`".to_owned()),
        }
    }

    /// Parses values up to a `]`, with commas between them.
    fn list(&mut self) -> Result<Value<'a>, String> {
        let mut list = Vec::new();
        loop {
            match self.lexer.next()? {
                Some(Token::Mark(']')) => return Ok(Value::List(list)),
                Some(Token::Mark(',')) => {}
                Some(token) => list.push(self.single(token)?),
                None => return Err("a list does not end".to_owned()),
            }
        }
    }

    fn single(&mut self, token: Token<'a>) -> Result<Value<'a>, String> {
        self.count()?;
        match token {
            Token::Quoted(text) => Ok(Value::Text(Text(text))),
            Token::Word(word) => Ok(word.parse().map_or(Value::Word(Text(word)), Value::Number)),
            Token::Mark(mark) => Err(format!("unexpected `{mark}`, expected a value")),
        }
    }

    fn count(&mut self) -> Result<(), String> {
        self.nodes = self.nodes.saturating_add(1);
        if self.nodes > MAX_NODES {
            return Err(format!("too many names and values: more than {MAX_NODES}"));
        }
        Ok(())
    }
}
