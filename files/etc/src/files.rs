//! The interface through which a parser reads included files.

/// A reader of files for a parser that follows includes.
///
/// Paths are absolute. An implementation limits how much it reads of a single file or directory;
/// the parsers limit how many files they request.
pub trait Files {
    /// The reason why something cannot be read.
    type Error;

    /// Returns the text of a file, or `None` if it does not exist.
    ///
    /// # Errors
    /// The reason why the file cannot be read.
    fn text(&self, path: &str) -> Result<Option<String>, Self::Error>;

    /// Returns the names in a directory, sorted by bytes; no names if there is no directory.
    ///
    /// # Errors
    /// The reason why the directory cannot be read.
    fn names(&self, dir: &str) -> Result<Vec<String>, Self::Error>;

    /// Returns the paths that match a pattern (glob(7)), sorted by bytes.
    ///
    /// # Errors
    /// The reason why a directory cannot be read.
    fn expand(&self, pattern: &str) -> Result<Vec<String>, Self::Error>;
}

/// The number of files and bytes that includes may still read.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) files: usize,
    pub(crate) bytes: usize,
}

impl Budget {
    /// Subtracts a file from the budget. Returns false if the budget is exceeded.
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
