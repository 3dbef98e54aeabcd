//! A copy that is continued after an interruption.

use std::ffi::OsString;
use std::io::{ErrorKind as IoErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::{BlockRead, Error, ErrorKind, Result, Slice, check_cancelled};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::{ConvertOptions, Scope, convert_into};
use crate::create::{
    CreateOptions, Existing, NewImage, check_place, create, directory_of, sync_directory_of,
};
use crate::{Gate, OpenOptions, Repair, WritableImage, repair};

/// The least number of bytes that are copied between two records.
const STEP_BYTES: u64 = 1 << 30;
/// The largest number of records of one copy, each of which is flushed.
const STEPS_MAX: u64 = 1024;

/// The first line of a record.
const MAGIC: &str = "diskfs unfinished copy 1";
/// The longest record.
const RECORD_MAX_BYTES: u64 = 1 << 20;

/// Copies a disk into a new image like [`convert`](super::convert()), but can be called again after
/// it was interrupted, and then continues. The image is raw, or qcow2 without compression.
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
    let is_plain = match &options.image {
        NewImage::Raw => true,
        NewImage::Qcow2(new) => new.backing.is_none() && new.data_file.is_none(),
        _ => false,
    };
    if is_plain
        && options.packing.is_none()
        && options.bitmaps.is_none()
        && options.scope == Scope::Whole
    {
        return Ok(());
    }
    let reason = "a copy can be continued only into a raw or qcow2 image without compression, \
                  backing file, data file and bitmaps";
    Err(Error::invalid(reason))
}

/// A copy with the names of its files.
struct UnfinishedCopy<'a> {
    path: &'a Path,
    image_path: PathBuf,
    record_path: PathBuf,
    image: WritableImage,
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
        if is_new {
            // The record comes first: an image without one may be anybody's.
            write_record(&record_path, 0, source)?;
            let new = CreateOptions {
                image: options.image.clone(),
                size_bytes: Some(from.size_bytes()),
                preallocation: options.preallocation,
                existing: Existing::Keep,
            };
            create(&image_path, &new)?;
        }
        let open = open_options(options);
        // What an interrupted step has allocated and not yet used.
        if !is_new && matches!(options.image, NewImage::Qcow2(_)) {
            repair(&image_path, Repair::Leaks, &open)?;
        }
        let image = WritableImage::open(&image_path, &open)?;
        // Read while the image is locked: another process may have continued meanwhile.
        let done_bytes = read_record(&record_path, source).map_err(|error| {
            let paths = (image_path.display(), record_path.display());
            error.with_hint(format!("remove {} and {} to start again", paths.0, paths.1))
        })?;
        Ok(Self {
            path,
            image_path,
            record_path,
            image,
            source,
            done_bytes: done_bytes.min(from.size_bytes()),
        })
    }

    fn run(
        &mut self,
        from: &Arc<dyn BlockRead>,
        options: &ConvertOptions,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let to = self.image.device();
        let size_bytes = from.size_bytes();
        let step_bytes = (size_bytes / STEPS_MAX).next_multiple_of(1 << 20);
        let step_bytes = step_bytes.max(STEP_BYTES);
        while self.done_bytes < size_bytes {
            let start = self.done_bytes;
            let len_bytes = step_bytes.min(size_bytes.saturating_sub(start));
            let part = Slice::new(Arc::clone(from), start, len_bytes)?;
            let target = Slice::new(Arc::clone(&to), start, len_bytes)?;
            convert_into(&part, &target, true, options, progress)
                .map_err(|e| e.in_file(&self.image_path))?;
            self.done_bytes = start.saturating_add(len_bytes);
            write_record(&self.record_path, self.done_bytes, self.source)?;
        }
        Ok(())
    }

    /// Gives the image its name, durably, and removes the record.
    fn finish(self, existing: Existing) -> Result<()> {
        self.image.close()?;
        // A machine may have been started on an existing file meanwhile.
        check_place(self.path, existing).map_err(|e| e.in_file(self.path))?;
        rename(&self.image_path, self.path, existing).map_err(|e| e.in_file(self.path))?;
        sync_directory_of(self.path)?;
        let removed = std::fs::remove_file(&self.record_path);
        removed.map_err(|e| Error::from(e).in_file(&self.record_path))
    }
}

fn open_options(options: &ConvertOptions) -> OpenOptions {
    OpenOptions {
        format: Some(options.image.format()),
        gate: Gate::closed(),
        ..OpenOptions::default()
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

/// Replaces the record. A crash leaves the old one or the new one.
fn write_record(path: &Path, done_bytes: u64, source: &str) -> Result<()> {
    let write = || {
        let mut file = tempfile::Builder::new()
            .prefix(".diskfs-")
            .tempfile_in(directory_of(path))?;
        write!(file, "{MAGIC}\n{done_bytes}\n{source}")?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|e| e.error)
    };
    let written = write();
    written.map(drop).map_err(|e| Error::from(e).in_file(path))
}

/// Returns the number of bytes that are done, if the record is of this source.
fn read_record(path: &Path, source: &str) -> Result<u64> {
    let mut record = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(RECORD_MAX_BYTES).read_to_string(&mut record));
    match read {
        Err(e) if e.kind() == IoErrorKind::NotFound => {
            let reason = "the record of an unfinished copy is missing";
            return Err(Error::new(ErrorKind::Exists, reason).in_file(path));
        }
        other => other.map_err(|e| Error::from(e).in_file(path))?,
    };
    let mut lines = record.splitn(3, '\n');
    let is_record = lines.next() == Some(MAGIC);
    let done_bytes = lines.next().and_then(|number| number.parse().ok());
    match done_bytes.filter(|_| is_record) {
        None => Err(Error::invalid("not the record of an unfinished copy").in_file(path)),
        Some(_) if lines.next() != Some(source) => {
            let reason = "the unfinished copy is of another source or an earlier state of it, or \
                          was begun with other options";
            Err(Error::invalid(reason).in_file(path))
        }
        Some(done_bytes) => Ok(done_bytes),
    }
}
