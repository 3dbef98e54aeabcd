//! Rebasing: changing or removing the backing file of an overlay.

use std::ops::ControlFlow;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use diskfs_block::bytes::is_zero;
use diskfs_block::{BlockRead, BlockWrite, Error, Result, check_cancelled};

use crate::backing_runs::{PIECE_BYTES, bytes_from_backing, runs_from_backing, unit_bytes};
use crate::base::Identity;
use crate::create::directory_of;
use crate::gate::Namer;
use crate::lock::lock_for_writing;
use crate::node::Node;
use crate::numbers::{to_u64, to_usize};
use crate::open::Opener;
use crate::qcow2::backing_name;
use crate::qcow2::header::NamedBacking;
use crate::{Access, Format, OpenOptions, WritableImage};

/// The new backing file of an overlay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBase {
    /// The name as it is stored in the overlay: absolute, or relative to the overlay's directory.
    pub name: PathBuf,
    /// The format of the backing file.
    pub format: Format,
}

/// The effect of a rebase on the disk that the overlay shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Differences between the old and the new backing file are first written into the overlay.
    Kept,
    /// Only the name is changed: for a file that was moved, or that is known to have the same
    /// contents.
    Trusted,
}

/// Sets or removes the backing file of the overlay at `path`. Calls `progress` with the number of
/// bytes compared since the last call and the total.
///
/// With [`Contents::Kept`] the disk is the same at every moment, and the written data is durable
/// before the name changes. Returns how many bytes were written, including zeroes. Whole clusters
/// of zeroes are stored as zero clusters, except in images of version 2.
///
/// # Errors
/// As for [`WritableImage::open`], and for opening the new backing file through the gate;
/// [`Cancelled`](diskfs_block::ErrorKind::Cancelled) if `progress` breaks: the overlay then shows
/// the same disk as before.
pub fn rebase(
    path: &Path,
    base: Option<&NewBase>,
    contents: Contents,
    options: &OpenOptions,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<u64> {
    let written = match contents {
        Contents::Kept => {
            let image = WritableImage::open(path, options)?;
            keep_contents(image, path, base, options, progress)?
        }
        Contents::Trusted => 0,
    };
    let file = options.files.open(path, Access::ReadWrite)?;
    lock_for_writing(&file, path)?;
    let identity = base.and_then(|base| Identity::of_file(&directory_of(path).join(&base.name)));
    set_base(&file, base, identity).map_err(|e| e.in_file(path))?;
    Ok(written)
}

/// Sets the backing file. `identity` is its current state, if known.
pub(crate) fn set_base(
    file: &dyn BlockWrite,
    base: Option<&NewBase>,
    identity: Option<Identity>,
) -> Result<()> {
    let named = base.map(|base| NamedBacking {
        name: base.name.as_os_str().as_bytes().to_vec(),
        format: base.format.qemu_name(),
        identity,
    });
    backing_name::set(file, named.as_ref())
}

/// Writes the differences from `base` into the overlay at `path`, and closes it.
pub(crate) fn keep_contents(
    image: WritableImage,
    path: &Path,
    base: Option<&NewBase>,
    options: &OpenOptions,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<u64> {
    if image.description().qcow2.is_none() {
        return Err(Error::unsupported(
            "backing files are not supported for raw images, only for qcow2",
        )
        .in_file(path));
    }
    let new = base.map(|base| {
        let name = base.name.as_os_str().as_bytes();
        let owner = std::fs::metadata(path).map(|overlay| overlay.uid()).ok();
        Opener::new(options)?
            .open_as_backing(Namer { path, owner }, name, base.format)
            .map(|opened| opened.0)
    });
    let new = new.transpose()?;
    let mut comparison = Comparison {
        image: &image,
        new: new.as_ref(),
        unit_bytes: to_usize(unit_bytes(image.description())),
        written: 0,
    };
    let total = bytes_from_backing(image.node(), new.is_none())?;
    let told = &mut |bytes| progress(bytes, total);
    let mut at = 0;
    while at < image.device().size_bytes() {
        let (runs, end) = runs_from_backing(image.node(), at, new.is_none())?;
        for run in runs {
            comparison.run(run, told)?;
        }
        at = end;
    }
    let written = comparison.written;
    image.close()?;
    Ok(written)
}

/// A comparison of two backing files that writes the differences into an overlay.
struct Comparison<'a> {
    image: &'a WritableImage,
    new: Option<&'a Node>,
    /// The unit that is compared, and written if it differs.
    unit_bytes: usize,
    written: u64,
}

/// The change that keeps a unit the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnitChange {
    Nothing,
    Zero,
    Write,
}

impl UnitChange {
    fn of(old: &[u8], new: &[u8]) -> Self {
        if old == new {
            Self::Nothing
        } else if is_zero(old) {
            Self::Zero
        } else {
            Self::Write
        }
    }
}

impl Comparison<'_> {
    fn run(
        &mut self,
        run: Range<u64>,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut at = run.start;
        while at < run.end {
            let len = PIECE_BYTES.min(run.end.saturating_sub(at));
            self.piece(at, len)?;
            at = at.saturating_add(len);
            check_cancelled(progress(len))?;
        }
        Ok(())
    }

    fn piece(&mut self, at: u64, len_bytes: u64) -> Result<()> {
        let mut old = vec![0; to_usize(len_bytes)];
        self.image.device().read_at(at, &mut old)?;
        let new = self.new_bytes(at, len_bytes)?;
        let units = old.chunks(self.unit_bytes).zip(new.chunks(self.unit_bytes));
        let steps: Vec<_> = units
            .map(|(old, new)| (UnitChange::of(old, new), old.len()))
            .collect();
        let mut offset = at;
        let mut rest = old.as_slice();
        for alike in steps.chunk_by(|(a, _), (b, _)| a == b) {
            let len = alike
                .iter()
                .fold(0_usize, |sum, (_, len)| sum.saturating_add(*len));
            let (bytes, after) = rest.split_at_checked(len).unwrap_or_default();
            let change = alike
                .first()
                .map_or(UnitChange::Nothing, |(change, _)| *change);
            self.take(change, offset, bytes)?;
            offset = offset.saturating_add(to_u64(len));
            rest = after;
        }
        Ok(())
    }

    /// Returns the bytes of the new backing file; zeroes past its end.
    fn new_bytes(&self, at: u64, len_bytes: u64) -> Result<Vec<u8>> {
        let mut new = vec![0; to_usize(len_bytes)];
        let Some(node) = self.new else {
            return Ok(new);
        };
        let there = node.size_bytes().saturating_sub(at).min(len_bytes);
        let front = new.get_mut(..to_usize(there)).unwrap_or_default();
        if !front.is_empty() {
            node.read_at(at, front)?;
        }
        Ok(new)
    }

    fn take(&mut self, change: UnitChange, at: u64, bytes: &[u8]) -> Result<()> {
        let len = to_u64(bytes.len());
        match change {
            UnitChange::Nothing => return Ok(()),
            UnitChange::Zero => self.image.hide(at, len)?,
            UnitChange::Write => self.image.device().write_at(at, bytes)?,
        }
        self.written = self.written.saturating_add(len);
        Ok(())
    }
}
