//! A line of `file_contexts`: pattern, kind of file, context.

use crate::lines::Line;
use crate::{Context, FileKind};

/// What stands for "leave it as it is".
const NONE: &str = "<<none>>";

/// A line with something to say.
#[derive(Debug)]
pub(crate) struct SpecLine<'a> {
    pub(crate) pattern: &'a str,
    /// None: all kinds.
    pub(crate) kind: Option<FileKind>,
    /// None: no label.
    pub(crate) context: Option<Context>,
}

impl<'a> SpecLine<'a> {
    /// None for an empty line or a comment.
    pub(crate) fn parse(line: &Line<'a>) -> Result<Option<Self>, &'static str> {
        if line.is_too_long() {
            return Err("the line is too long");
        }
        let Some(mut fields) = line.fields() else {
            return Ok(None);
        };
        let mut field = || fields.next().map(ascii).transpose();
        let (pattern, second, third) = (field()?, field()?, field()?);
        let (Some(pattern), Some(second)) = (pattern, second) else {
            return Err("the context is missing");
        };
        let (kind, context) = match third {
            None => (None, second),
            Some(context) => {
                let kind = FileKind::from_field(second.as_bytes());
                (Some(kind.ok_or("there is no such kind of file")?), context)
            }
        };
        let context = match context {
            NONE => None,
            text => Some(Context::parse(text).ok_or("the context is not well-formed")?),
        };
        Ok(Some(Self {
            pattern,
            kind,
            context,
        }))
    }
}

fn ascii(field: &[u8]) -> Result<&str, &'static str> {
    let text = std::str::from_utf8(field).ok();
    text.filter(|text| text.is_ascii())
        .ok_or("there is a character beyond ASCII")
}
