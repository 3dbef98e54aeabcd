//! The lines of a text, as C functions read them.

/// The maximum length of a line; longer lines are skipped. A path has at most 4096 bytes, and so
/// has a context in the kernel.
pub(crate) const MAX_LINE_BYTES: usize = 16 << 10;

/// A line, up to its first NUL byte, where a C string ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    /// The line number, from 1.
    pub(crate) number: usize,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Line<'a> {
    pub(crate) const fn is_too_long(&self) -> bool {
        self.bytes.len() > MAX_LINE_BYTES
    }

    /// Returns the words of the line; `None` for an empty line or a comment.
    pub(crate) fn fields(&self) -> Option<impl Iterator<Item = &'a [u8]> + use<'a>> {
        let start = self.bytes.iter().position(|byte| !is_space(*byte))?;
        let rest = self.bytes.get(start..)?;
        let words = rest.split(|byte| is_space(*byte));
        (rest.first() != Some(&b'#')).then(|| words.filter(|word| !word.is_empty()))
    }
}

/// Iterates over the lines of a text.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = Line<'_>> {
    (1..)
        .zip(text.split(|byte| *byte == b'\n'))
        .map(|(number, line)| Line {
            number,
            bytes: line.split(|byte| *byte == 0).next().unwrap_or_default(),
        })
}

/// Returns true for the bytes that `isspace` accepts in the C locale, which include the vertical
/// tab.
pub(crate) const fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}
