//! An overlay's contents, written into the image behind it.

use std::ops::ControlFlow;
use std::path::Path;

use diskfs_block::{BlockWrite, Error, File, Result, go_on};

use crate::base::Identity;
use crate::create::{
    BackingCheck, Compat, CreateOptions, Existing, L2Entries, NewBacking, NewImage, NewQcow2,
    RefcountUpdates,
};
use crate::description::Description;
use crate::lock::lock_for_writing;
use crate::map::MapEntry;
use crate::numbers::to_usize;
use crate::qcow2::base_record;
use crate::{Image, OpenOptions, Share, WritableImage, create};

/// Read and written at once.
const PIECE_BYTES: u64 = 1 << 20;

/// What becomes of the overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlay {
    /// It is made anew, with nothing in it.
    Emptied,
    /// It stays as it is. The disk that it shows is the same.
    Kept,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// Bytes of the disk that were written, zeroes among them.
    pub bytes: u64,
    /// Whether the overlay is empty now: one with snapshots, bitmaps, a data file or a
    /// key stays.
    pub overlay: Overlay,
}

/// Writes what the overlay at `path` holds into its backing file, and empties it when all of that is
/// durable: at every moment the overlay shows the same disk. Tells `progress` how many bytes more
/// were written, and how many there are in all.
///
/// # Errors
/// As [`WritableImage::open`] of both; [`Invalid`](diskfs_block::ErrorKind::Invalid) without a
/// backing file; [`Unsupported`](diskfs_block::ErrorKind::Unsupported) when that is smaller;
/// [`Cancelled`](diskfs_block::ErrorKind::Cancelled) when `progress` says so: the overlay shows the same disk as before.
pub fn commit(
    path: &Path,
    overlay: Overlay,
    options: &OpenOptions,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Committed> {
    // The chain is read without locks, as its second file is about to be written to by us.
    let locked = File::open_read_write(path)?;
    lock_for_writing(&locked, path)?;
    let unlocked = OpenOptions {
        share: Share::Force,
        ..options.clone()
    };
    let image = Image::open(path, &unlocked)?;
    image.refuse_shared_l2_tables()?;
    let description = image.description().clone();
    let Some(below) = &description.backing else {
        let reason = "has no backing file to commit to";
        return Err(Error::invalid(reason).in_file(path));
    };
    let options = OpenOptions {
        format: below.format,
        snapshot: None,
        ..options.clone()
    };
    let backing = WritableImage::open(&below.path, &options)?;
    let size_bytes = image.device().size_bytes();
    if size_bytes > backing.device().size_bytes() {
        let reason = format!("is smaller than the overlay's {size_bytes} bytes");
        return Err(Error::unsupported(reason)
            .in_file(&below.path)
            .with_hint(format!("`qemu-img resize` it to {size_bytes} first")));
    }
    base_record::make_void(&locked)?;
    let bytes = copy(&image, backing.device().as_ref(), progress)?;
    backing.close()?;
    drop((image, locked));
    let emptied = overlay == Overlay::Emptied && empty(path, &description)?;
    if let Some(identity) = Identity::of_file(&below.path) {
        // The emptied overlay is another file.
        let file = File::open_read_write(path)?;
        lock_for_writing(&file, path)?;
        base_record::renew(&file, identity)?;
    }
    Ok(Committed {
        bytes,
        overlay: if emptied {
            Overlay::Emptied
        } else {
            Overlay::Kept
        },
    })
}

/// Writes what the top of the chain itself holds.
pub(crate) fn copy(
    image: &Image,
    to: &dyn BlockWrite,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<u64> {
    let device = image.device();
    let mut buffer = vec![0; to_usize(PIECE_BYTES)];
    let mut bytes = 0_u64;
    let total = own_runs(image).try_fold(0_u64, |sum, run| {
        run.map(|run| sum.saturating_add(run.len_bytes))
    })?;
    for run in own_runs(image) {
        let run = run?;
        let end = run.start.saturating_add(run.len_bytes);
        let mut at = run.start;
        while at < end {
            let len = PIECE_BYTES.min(end.saturating_sub(at));
            if run.zero {
                to.write_zeroes(at, len)?;
            } else {
                let piece = buffer.get_mut(..to_usize(len)).unwrap_or_default();
                device.read_at(at, piece)?;
                to.write_at(at, piece)?;
            }
            at = at.saturating_add(len);
            bytes = bytes.saturating_add(len);
            go_on(progress(len, total))?;
        }
    }
    to.flush()?;
    Ok(bytes)
}

/// The runs that the top of the chain itself holds.
fn own_runs(image: &Image) -> impl Iterator<Item = Result<MapEntry>> {
    image
        .map()
        .filter(|run| !matches!(run, Ok(run) if run.depth > 0 || !run.present))
}

/// Puts an empty overlay of the same form in place of this one. Returns whether it could.
fn empty(path: &Path, old: &Description) -> Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let file = path.symlink_metadata()?;
    let (Some(qcow2), Some(below)) = (&old.qcow2, &old.backing) else {
        return Ok(false);
    };
    let keeps_more = !qcow2.snapshots.is_empty() || !qcow2.bitmaps.is_empty();
    let (Some(name), Some(format)) = (&qcow2.backing_name, below.format) else {
        return Ok(false);
    };
    // A new one would have other keys, or none.
    let is_encrypted = qcow2.encryption.is_some();
    if keeps_more || is_encrypted || qcow2.data_file.is_some() || !file.is_file() {
        return Ok(false);
    }
    let image = NewQcow2 {
        compat: if qcow2.version < 3 {
            Compat::V0_10
        } else {
            Compat::V1_1
        },
        cluster_size_bytes: qcow2.cluster_size_bytes,
        refcount_bits: qcow2.refcount_bits,
        l2_entries: if qcow2.extended_l2 {
            L2Entries::Extended
        } else {
            L2Entries::Standard
        },
        refcounts: if qcow2.lazy_refcounts {
            RefcountUpdates::Lazy
        } else {
            RefcountUpdates::Eager
        },
        compression: qcow2.compression,
        backing: Some(NewBacking {
            name: name.into(),
            format,
            check: BackingCheck::Skip,
        }),
        data_file: None,
    };
    let options = CreateOptions {
        existing: Existing::Replace,
        ..CreateOptions::new(
            NewImage::Qcow2(Box::new(image)),
            Some(old.virtual_size_bytes),
        )
    };
    create(path, &options)?;
    std::fs::set_permissions(path, file.permissions())?;
    // Only root gives files away; the emptied overlay is ours then, as what qemu-img makes is.
    let _ = std::os::unix::fs::chown(path, Some(file.uid()), Some(file.gid()));
    Ok(true)
}
