//! Lines of `file_contexts`: pattern, file type, context.

use crate::lines::Line;
use crate::{Context, FileKind};

/// The context of files that keep their label.
const NONE: &str = "<<none>>";

/// A parsed line with a specification.
#[derive(Debug)]
pub(crate) struct SpecLine<'a> {
    pub(crate) pattern: &'a str,
    /// The file type; `None` for all types.
    pub(crate) kind: Option<FileKind>,
    /// The context; `None` for no label.
    pub(crate) context: Option<Context>,
}

impl<'a> SpecLine<'a> {
    /// Parses a line. Returns `None` for an empty line or a comment.
    pub(crate) fn parse(line: &Line<'a>) -> Result<Option<Self>, &'static str> {
        if line.is_too_long() {
            return Err("line is too long: at most 16 KiB");
        }
        let Some(mut fields) = line.fields() else {
            return Ok(None);
        };
        let mut field = || fields.next().map(ascii).transpose();
        let (pattern, second, third) = (field()?, field()?, field()?);
        let (Some(pattern), Some(second)) = (pattern, second) else {
            return Err("missing context");
        };
        let (kind, context) = match third {
            None => (None, second),
            Some(context) => {
                let kind = FileKind::from_field(second.as_bytes());
                (
                    Some(kind.ok_or("unknown file type; known: --, -d, -l, -c, -b, -p, -s")?),
                    context,
                )
            }
        };
        let context = match context {
            NONE => None,
            text => Some(
                Context::parse(text)
                    .ok_or("invalid context: expected user:role:type or user:role:type:range")?,
            ),
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
        .ok_or("invalid character: expected ASCII")
}
