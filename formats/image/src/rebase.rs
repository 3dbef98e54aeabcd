//! Another backing file for an overlay, or none.

use std::ops::ControlFlow;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use diskfs_block::{BlockRead, BlockWrite, Error, File, Result, go_on};

use crate::base::Identity;
use crate::create::directory_of;
use crate::description::Description;
use crate::gate::Namer;
use crate::lock::lock_for_writing;
use crate::node::Node;
use crate::numbers::{shift_right, to_u64, to_usize};
use crate::open::Opener;
use crate::qcow2::backing_name;
use crate::qcow2::header::NamedBacking;
use crate::qcow2::units::SUBCLUSTERS_BITS;
use crate::{Format, OpenOptions, WritableImage};

/// Compared at once; a multiple of every cluster size.
const PIECE_BYTES: u64 = 2 << 20;

/// Runs that are looked for at once: 64 KiB of memory.
const RUNS_MAX: usize = 1 << 12;

/// The least that is compared and written by itself: smaller clusters are not worth a step each.
const UNIT_MIN_BYTES: u64 = 4096;

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
/// bytes more of the disk were compared, and how many there are in all.
///
/// With [`Contents::Kept`] the disk is the same at every moment, and what was written is durable
/// before the name changes. Returns how many bytes were written, zeroes among them; whole clusters of
/// those are stored as such, but in images of version 2.
///
/// # Errors
/// As [`WritableImage::open`], and as opening the new backing file through the gate;
/// [`Cancelled`](diskfs_block::ErrorKind::Cancelled) when `progress` says so: the overlay shows the same disk as before.
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
    let file = File::open_read_write(path)?;
    lock_for_writing(&file, path)?;
    let identity = base.and_then(|base| Identity::of_file(&directory_of(path).join(&base.name)));
    set_base(&file, base, identity).map_err(|e| e.in_file(path))?;
    Ok(written)
}

/// `identity` is what the new base is like, if that is known.
pub(crate) fn set_base(
    file: &dyn BlockWrite,
    base: Option<&NewBase>,
    identity: Option<Identity>,
) -> Result<()> {
    let named = base.map(|base| NamedBacking {
        name: base.name.as_os_str().as_bytes().to_vec(),
        format: base.format.name(),
        identity,
    });
    backing_name::set(file, named.as_ref())
}

/// Writes into the overlay, which is at `path`, what `base` would show otherwise, and closes it.
pub(crate) fn keep_contents(
    image: WritableImage,
    path: &Path,
    base: Option<&NewBase>,
    options: &OpenOptions,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<u64> {
    if image.description().qcow2.is_none() {
        return Err(Error::unsupported("only qcow2 images have backing files").in_file(path));
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
    let total = bytes_from_behind(&image, new.is_none())?;
    let told = &mut |bytes| progress(bytes, total);
    let mut at = 0;
    while at < image.device().size_bytes() {
        let (runs, end) = runs_from_behind(&image, at, new.is_none())?;
        for run in runs {
            comparison.run(run, told)?;
        }
        at = end;
    }
    let written = comparison.written;
    image.close()?;
    Ok(written)
}

/// What a zero flag is for, and not too little.
fn unit_bytes(description: &Description) -> u64 {
    let unit = match &description.qcow2 {
        Some(qcow2) if qcow2.extended_l2 => shift_right(qcow2.cluster_size_bytes, SUBCLUSTERS_BITS),
        Some(qcow2) => qcow2.cluster_size_bytes,
        None => 0,
    };
    unit.max(UNIT_MIN_BYTES)
}

/// How much of the disk is not the image's own.
fn bytes_from_behind(image: &WritableImage, may_be_zero: bool) -> Result<u64> {
    let (mut at, mut total) = (0, 0_u64);
    while at < image.device().size_bytes() {
        let (runs, end) = runs_from_behind(image, at, may_be_zero)?;
        let bytes = runs.iter().map(|run| run.end.saturating_sub(run.start));
        total = bytes.fold(total, u64::saturating_add);
        at = end;
    }
    Ok(total)
}

/// The next runs from byte `at` on that the overlay does not have itself, without those that read as
/// zeroes if they `may_be_zero`: joined where they meet, so that they begin and end with the overlay's
/// own clusters. With the byte up to which they were looked for: tables can have more runs than fit in
/// memory.
fn runs_from_behind(
    image: &WritableImage,
    at: u64,
    may_be_zero: bool,
) -> Result<(Vec<Range<u64>>, u64)> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for run in image.map_from(at) {
        let run = run?;
        if run.depth == 0 && run.present || run.zero && may_be_zero {
            continue;
        }
        let end = run.start.saturating_add(run.len_bytes);
        let is_full = runs.len() >= RUNS_MAX;
        match runs.last_mut() {
            Some(last) if last.end == run.start => last.end = end,
            _ if is_full => return Ok((runs, run.start)),
            _ => runs.push(run.start..end),
        }
    }
    Ok((runs, image.device().size_bytes()))
}

/// Writes into an image what another backing file would show otherwise.
struct Comparison<'a> {
    image: &'a WritableImage,
    new: Option<&'a Node>,
    /// What is compared, and written where it differs.
    unit_bytes: usize,
    written: u64,
}

/// What has to be done so that a unit stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Nothing,
    Zero,
    Write,
}

impl Step {
    fn of(old: &[u8], new: &[u8]) -> Self {
        if old == new {
            Self::Nothing
        } else if old.iter().all(|&byte| byte == 0) {
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
            go_on(progress(len))?;
        }
        Ok(())
    }

    fn piece(&mut self, at: u64, len_bytes: u64) -> Result<()> {
        let mut old = vec![0; to_usize(len_bytes)];
        self.image.device().read_at(at, &mut old)?;
        let new = self.new_bytes(at, len_bytes)?;
        let units = old.chunks(self.unit_bytes).zip(new.chunks(self.unit_bytes));
        let steps: Vec<_> = units
            .map(|(old, new)| (Step::of(old, new), old.len()))
            .collect();
        let mut offset = at;
        let mut rest = old.as_slice();
        for alike in steps.chunk_by(|(a, _), (b, _)| a == b) {
            let len = alike
                .iter()
                .fold(0_usize, |sum, (_, len)| sum.saturating_add(*len));
            let (bytes, after) = rest.split_at_checked(len).unwrap_or_default();
            let step = alike.first().map_or(Step::Nothing, |(step, _)| *step);
            self.take(step, offset, bytes)?;
            offset = offset.saturating_add(to_u64(len));
            rest = after;
        }
        Ok(())
    }

    /// What the new backing file shows; behind its end, zeroes.
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

    fn take(&mut self, step: Step, at: u64, bytes: &[u8]) -> Result<()> {
        let len = to_u64(bytes.len());
        match step {
            Step::Nothing => return Ok(()),
            Step::Zero => self.image.hide(at, len)?,
            Step::Write => self.image.device().write_at(at, bytes)?,
        }
        self.written = self.written.saturating_add(len);
        Ok(())
    }
}
