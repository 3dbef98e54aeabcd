//! The copy that `diskfs convert --resume` continues.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use diskfs::block::BlockRead;
use diskfs::image::Description;
use diskfs::image::convert::{ConvertOptions, convert_resumable};
use diskfs::{Disk, Error, Result};

use super::Convert;
use super::files::chain;

impl Convert {
    /// Copies a disk from where an earlier call was interrupted.
    pub(super) fn resume(
        &self,
        (disk, device): (&Disk, &Arc<dyn BlockRead>),
        options: &ConvertOptions,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let state = self.state(disk.description())?;
        let copied = convert_resumable(device, &self.target, &state, options, progress);
        Ok(copied?)
    }

    /// Describes the state of the source and the options of the copy, to find out whether they are
    /// the same.
    fn state(&self, top: &Description) -> Result<String> {
        let mut state = String::new();
        for image in chain(top) {
            let data_file = image.qcow2.as_ref().and_then(|it| it.data_file.as_deref());
            for path in [Some(image.path.as_path()), data_file]
                .into_iter()
                .flatten()
            {
                add_file(&mut state, path).map_err(|e| Error::from(e).in_file(path))?;
            }
        }
        let (source, format) = (&self.source, self.format());
        let snapshot = &source.image.snapshot;
        let _ = writeln!(state, "{:?} {snapshot:?} {:?}", self.image, source.volume);
        let _ = writeln!(state, "{format} {:?} {}", self.options, self.sparse);
        if self.compress {
            let _ = writeln!(state, "compressed {:?}", self.level);
        }
        Ok(state)
    }
}

/// Adds a file with its size and its modification time.
fn add_file(state: &mut String, path: &Path) -> std::io::Result<()> {
    let (path, metadata) = (path.canonicalize()?, path.metadata()?);
    let (size, seconds, nanoseconds) = (metadata.len(), metadata.mtime(), metadata.mtime_nsec());
    let _ = writeln!(
        state,
        "{} {size} {seconds}.{nanoseconds:09}",
        path.display()
    );
    Ok(())
}
