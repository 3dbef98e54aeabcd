//! The reader of the files that a file includes.

/// Reads files for a parser that follows includes.
///
/// Paths are absolute. An implementation bounds how much it reads of a single file or directory; the parsers
/// bound how many files they ask for.
pub trait Files {
    /// The reason why something can't be read.
    type Error;

    /// Returns the text of a file, or `None` when there is none.
    ///
    /// # Errors
    /// The reason why the file can't be read.
    fn text(&self, path: &str) -> Result<Option<String>, Self::Error>;

    /// Returns the names in a directory, sorted by bytes; none when there is no directory.
    ///
    /// # Errors
    /// The reason why the directory can't be read.
    fn names(&self, dir: &str) -> Result<Vec<String>, Self::Error>;

    /// Returns the paths that match a pattern (glob(7)), sorted by bytes.
    ///
    /// # Errors
    /// The reason why a directory can't be read.
    fn expand(&self, pattern: &str) -> Result<Vec<String>, Self::Error>;
}

/// Counts what includes may still read.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) files: usize,
    pub(crate) bytes: usize,
}

impl Budget {
    /// Takes a file out of the budget. Returns false if that is more than is left.
    pub(crate) fn take(&mut self, text: &str) -> bool {
        let files = self.files.checked_sub(1);
        let bytes = self.bytes.checked_sub(text.len());
        let (Some(files), Some(bytes)) = (files, bytes) else {
            *self = Self { files: 0, bytes: 0 };
            return false;
        };
        *self = Self { files, bytes };
        true
    }
}
