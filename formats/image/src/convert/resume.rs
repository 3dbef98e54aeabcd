//! A copy that is continued after an interruption.

mod packed;
mod partial;
mod record;

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::{BlockRead, Error, Result, Slice, check_cancelled};
use partial::PartialImage;
use record::{Progress, read_record, write_record};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::packer::Packer;
use super::{ConvertOptions, Scope};
use crate::create::{Existing, NewImage, Preallocation, check_place, sync_directory_of};

/// The least number of bytes that are copied between two records.
const STEP_BYTES: u64 = 1 << 30;
/// The largest number of records of one copy, each of which is flushed.
const STEPS_MAX: u64 = 1024;
/// The unit of a step: the largest cluster.
const STEP_UNIT_BYTES: u64 = 2 << 20;

/// Copies a disk into a new image like [`convert`](super::convert()), but can be called again after
/// it was interrupted, and then continues. The image is raw or qcow2, which can be compressed.
///
/// Until it is complete, the image is called `PATH.partial`, and `PATH.resume` records how far it
/// is. `source` describes the source and its state, in any form: a copy is only continued from
/// where it is the same.
///
/// # Errors
/// * `Invalid` for options that cannot be combined, and for an unfinished copy of another source.
/// * `Exists` if there is such a file, or if an unfinished copy has no record.
/// * `Locked` if another process makes the same copy.
/// * The errors of both files; `Cancelled`.
pub fn convert_resumable(
    from: &Arc<dyn BlockRead>,
    path: &Path,
    source: &str,
    options: &ConvertOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<()> {
    let in_file = |error: Error| error.in_file(path);
    check(options).map_err(in_file)?;
    check_place(path, options.existing).map_err(in_file)?;
    let mut copy = UnfinishedCopy::begin(from.as_ref(), path, source, options)?;
    check_cancelled(progress(copy.done_bytes))?;
    copy.run(from, options, progress)
        .map_err(|error| error.with_hint("the same call continues the copy"))?;
    copy.finish(options.existing)
}

fn check(options: &ConvertOptions) -> Result<()> {
    let is_possible = match (&options.image, options.packing) {
        (NewImage::Raw, None) => true,
        (NewImage::Qcow2(new), packing) => {
            if let Some(packing) = packing {
                Packer::new(new.compression, packing.level)?;
            }
            let is_whole = packing.is_none() || options.preallocation == Preallocation::Off;
            let is_alone = new.backing.is_none() && new.data_file.is_none();
            is_alone && new.encryption.is_none() && is_whole
        }
        _ => false,
    };
    if is_possible && options.bitmaps.is_none() && options.scope == Scope::Whole {
        return Ok(());
    }
    let reason = "a copy can be continued only into a raw image without compression, or a qcow2 \
                  image without backing file, data file, encryption, bitmaps, and preallocation if \
                  it is compressed";
    Err(Error::invalid(reason))
}

/// A copy with the names of its files.
struct UnfinishedCopy<'a> {
    path: &'a Path,
    image_path: PathBuf,
    record_path: PathBuf,
    image: PartialImage,
    source: &'a str,
    /// The number of bytes of the disk that are durable in the image.
    done_bytes: u64,
}

impl<'a> UnfinishedCopy<'a> {
    /// Opens what an earlier call has left, or creates the image.
    fn begin(
        from: &dyn BlockRead,
        path: &'a Path,
        source: &'a str,
        options: &ConvertOptions,
    ) -> Result<Self> {
        let image_path = with_suffix(path, ".partial");
        let record_path = with_suffix(path, ".resume");
        let is_new = !image_path
            .try_exists()
            .map_err(|e| Error::from(e).in_file(&image_path))?;
        let mut image = if is_new {
            // The record comes first: an image without one may be anybody's.
            write_record(&record_path, Progress::default(), source)?;
            PartialImage::create(&image_path, from.size_bytes(), options)?
        } else {
            PartialImage::open(&image_path, from.size_bytes(), options)?
        };
        // Read while the image is locked: another process may have continued meanwhile.
        let from_here = |error: Error| {
            let paths = (image_path.display(), record_path.display());
            error.with_hint(format!("remove {} and {} to start again", paths.0, paths.1))
        };
        let progress = read_record(&record_path, source).map_err(from_here)?;
        let done_bytes = progress.done_bytes.min(from.size_bytes());
        let restored = image.restore(&image_path, done_bytes, progress.end);
        restored.map_err(|e| from_here(e.in_file(&image_path)))?;
        Ok(Self {
            path,
            image_path,
            record_path,
            image,
            source,
            done_bytes,
        })
    }

    fn run(
        &mut self,
        from: &Arc<dyn BlockRead>,
        options: &ConvertOptions,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let size_bytes = from.size_bytes();
        let step_bytes = (size_bytes / STEPS_MAX).next_multiple_of(STEP_UNIT_BYTES);
        let step_bytes = step_bytes.max(STEP_BYTES);
        while self.done_bytes < size_bytes {
            let start = self.done_bytes;
            let len_bytes = step_bytes.min(size_bytes.saturating_sub(start));
            let part = Slice::new(Arc::clone(from), start, len_bytes)?;
            let copied = self.image.add(&part, start, options, progress);
            let end = copied.map_err(|e| e.in_file(&self.image_path))?;
            self.done_bytes = start.saturating_add(len_bytes);
            let done_bytes = self.done_bytes;
            write_record(&self.record_path, Progress { done_bytes, end }, self.source)?;
        }
        Ok(())
    }

    /// Gives the image its name, durably, and removes the record.
    fn finish(self, existing: Existing) -> Result<()> {
        let closed = self.image.close();
        closed.map_err(|e| e.in_file(&self.image_path))?;
        // A machine may have been started on an existing file meanwhile.
        check_place(self.path, existing).map_err(|e| e.in_file(self.path))?;
        rename(&self.image_path, self.path, existing).map_err(|e| e.in_file(self.path))?;
        sync_directory_of(self.path)?;
        let removed = std::fs::remove_file(&self.record_path);
        removed.map_err(|e| Error::from(e).in_file(&self.record_path))
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

fn rename(from: &Path, to: &Path, existing: Existing) -> Result<()> {
    if existing == Existing::Keep {
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Filesystems without this kind of rename, such as NFS.
            Err(Errno::INVAL | Errno::NOSYS) => {}
            other => return Ok(other?),
        }
    }
    Ok(std::fs::rename(from, to)?)
}
