//! Description of an image without the files that it names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::Result;

use super::{Opener, describe};
use crate::Format;
use crate::description::Description;
use crate::qcow2::Unopened;
use crate::source::Source;

impl Opener<'_> {
    /// Describes the file that the user named. Of a qcow2 image, neither the backing file nor the
    /// data file is opened.
    pub(crate) fn describe_top(&mut self, path: &Path) -> Result<Description> {
        let source = self.top(path)?;
        let format = match self.options.format.or(source.format) {
            Some(format) => format,
            None => self.probed(&source).map_err(|e| e.in_file(&source.path))?,
        };
        let fits = self.options.check_disk(format);
        fits.map_err(|e| e.in_file(&source.path))?;
        match format {
            Format::Qcow2 => self
                .describe_qcow2(&source)
                .map_err(|e| e.in_file(&source.path)),
            _ => self.open_source(source).map(|opened| opened.1),
        }
    }

    fn describe_qcow2(&self, source: &Source) -> Result<Description> {
        let snapshot = self.options.snapshot.as_deref();
        let mut image = Unopened::read(Arc::clone(&source.device), snapshot)?;
        let mut description = describe(source, Format::Qcow2);
        description.probed = self.options.format.is_none();
        description.virtual_size_bytes = image.size_bytes();
        description.warnings.append(&mut image.warnings);
        let mut details = image.details();
        let data_file = image.data_file_name()?;
        details.data_file = data_file.map(|name| PathBuf::from(OsStr::from_bytes(name)));
        description.qcow2 = Some(details);
        Ok(description)
    }
}
