//! Another backing file for an overlay, or none.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use diskfs_block::{BlockRead, BlockWrite, Error, File, Result};

use crate::lock::lock_for_writing;
use crate::node::Node;
use crate::numbers::{to_u64, to_usize};
use crate::open::Opener;
use crate::qcow2::backing_name;
use crate::qcow2::header::NamedBacking;
use crate::{Format, OpenOptions, WritableImage};

/// Compared at once; a multiple of every cluster size but the largest.
const PIECE_BYTES: u64 = 1 << 20;

/// Written at once where anything in it differs: small enough to copy little that does not.
const UNIT: usize = 64 << 10;

/// The backing file that an overlay gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBase {
    /// Its name as the overlay shall spell it: absolute, or from the overlay's directory on.
    pub name: PathBuf,
    /// Its format.
    pub format: Format,
}

/// Whether the disk that an overlay shows stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// What differs between the old backing file and the new one is written into the overlay first.
    Kept,
    /// Only the name is changed: for a file that was moved, or that is known to be the same.
    Trusted,
}

/// Has the overlay at `path` name `base` as its backing file, or none. Tells `progress` how many
/// bytes more of the disk were compared.
///
/// With [`Contents::Kept`] the disk is the same at every moment, and what was written is durable
/// before the name changes. Returns how many bytes were written.
///
/// # Errors
/// As [`WritableImage::open`], and as opening the new backing file through the gate.
pub fn rebase(
    path: &Path,
    base: Option<&NewBase>,
    contents: Contents,
    options: &OpenOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<u64> {
    let written = match contents {
        Contents::Kept => {
            let image = WritableImage::open(path, options)?;
            keep_contents(image, path, base, options, progress)?
        }
        Contents::Trusted => 0,
    };
    let file = File::open_read_write(path)?;
    lock_for_writing(&file, path)?;
    set_base(&file, base).map_err(|e| e.in_file(path))?;
    Ok(written)
}

pub(crate) fn set_base(file: &dyn BlockWrite, base: Option<&NewBase>) -> Result<()> {
    let named = base.map(|base| NamedBacking {
        name: base.name.as_os_str().as_bytes().to_vec(),
        format: base.format.name(),
    });
    backing_name::set(file, named.as_ref())
}

/// Writes into the overlay, which is at `path`, what `base` would show otherwise, and closes it.
pub(crate) fn keep_contents(
    image: WritableImage,
    path: &Path,
    base: Option<&NewBase>,
    options: &OpenOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<u64> {
    if image.description().qcow2.is_none() {
        return Err(Error::unsupported("only qcow2 images have backing files").in_file(path));
    }
    let new = base.map(|base| {
        let name = base.name.as_os_str().as_bytes();
        Opener::new(options)?
            .open_as_backing(path, name, base.format)
            .map(|opened| opened.0)
    });
    let new = new.transpose()?;
    let mut runs = Vec::new();
    for run in image.map() {
        let run = run?;
        let reads_zero = run.zero && new.is_none();
        if (run.depth > 0 || !run.present) && !reads_zero {
            runs.push((run.start, run.start.saturating_add(run.len_bytes)));
        }
    }
    let mut comparison = Comparison {
        image: &image,
        new: new.as_ref(),
        written: 0,
    };
    for (start, end) in runs {
        comparison.run(start, end, progress)?;
    }
    let written = comparison.written;
    image.close()?;
    Ok(written)
}

/// Writes into an image what another backing file would show otherwise.
struct Comparison<'a> {
    image: &'a WritableImage,
    new: Option<&'a Node>,
    written: u64,
}

impl Comparison<'_> {
    fn run(&mut self, start: u64, end: u64, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let mut at = start;
        while at < end {
            let len = PIECE_BYTES.min(end.saturating_sub(at));
            self.piece(at, len)?;
            at = at.saturating_add(len);
            progress(len);
        }
        Ok(())
    }

    fn piece(&mut self, at: u64, len_bytes: u64) -> Result<()> {
        let device = self.image.device();
        let mut old = vec![0; to_usize(len_bytes)];
        device.read_at(at, &mut old)?;
        let mut new = vec![0; to_usize(len_bytes)];
        if let Some(node) = self.new {
            // What is behind its end reads as zeroes.
            let left = node.size_bytes().saturating_sub(at).min(len_bytes);
            let front = new.get_mut(..to_usize(left)).unwrap_or_default();
            if !front.is_empty() {
                node.read_at(at, front)?;
            }
        }
        let mut offset = at;
        for (old, new) in old.chunks(UNIT).zip(new.chunks(UNIT)) {
            let len = to_u64(old.len());
            if old != new {
                // Zeroes, too, are written: what already reads as zeroes, because the old backing
                // file does, would be left to the new one.
                device.write_at(offset, old)?;
                self.written = self.written.saturating_add(len);
            }
            offset = offset.saturating_add(len);
        }
        Ok(())
    }
}
