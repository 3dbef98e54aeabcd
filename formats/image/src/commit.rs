//! Committing an overlay: its contents are written into its backing file.

use std::ops::ControlFlow;
use std::path::Path;

use diskfs_block::{BlockWrite, Error, Result, check_cancelled};

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
use crate::{Access, Image, OpenOptions, Share, WritableImage, create};

/// The number of bytes to read and write at once.
const PIECE_BYTES: u64 = 1 << 20;

/// The state of the overlay after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlay {
    /// The overlay was recreated and is empty.
    Emptied,
    /// The overlay was kept. The disk that it shows is the same.
    Kept,
}

/// The result of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The number of bytes of the disk that were written, including zeroes.
    pub bytes: u64,
    /// The state of the overlay: one with snapshots, bitmaps, a data file or a key is kept.
    pub overlay: Overlay,
}

/// Writes the contents of the overlay at `path` into its backing file, and empties the overlay when
/// all of that is durable. At every moment the overlay shows the same disk. Calls `progress` with
/// the number of bytes written since the last call and the total.
///
/// # Errors
/// * As for [`WritableImage::open`], of both images.
/// * [`Invalid`](diskfs_block::ErrorKind::Invalid) without a backing file.
/// * [`Unsupported`](diskfs_block::ErrorKind::Unsupported) if the backing file is smaller.
/// * [`Cancelled`](diskfs_block::ErrorKind::Cancelled) if `progress` breaks; the overlay then shows
///   the same disk as before.
pub fn commit(
    path: &Path,
    overlay: Overlay,
    options: &OpenOptions,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Committed> {
    // The chain is read without locks, because we are about to write to its second file.
    let locked = options.files.open(path, Access::ReadWrite)?;
    lock_for_writing(&locked, path)?;
    let unlocked = OpenOptions {
        share: Share::Force,
        ..options.clone()
    };
    let image = Image::open(path, &unlocked)?;
    image.refuse_shared_l2_tables()?;
    let description = image.description().clone();
    let Some(below) = &description.backing else {
        let reason = "missing backing file: the image has none to commit to";
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
        let reason = format!("the backing file is smaller than the overlay ({size_bytes} bytes)");
        return Err(Error::unsupported(reason)
            .in_file(&below.path)
            .with_hint(format!(
                "run `qemu-img resize` to make it {size_bytes} bytes long first"
            )));
    }
    base_record::make_void(&locked)?;
    let bytes = copy(&image, backing.device().as_ref(), progress)?;
    backing.close()?;
    drop((image, locked));
    let emptied = overlay == Overlay::Emptied && empty(path, &description)?;
    if let Some(identity) = Identity::of_file(&below.path) {
        // Emptying the overlay created a new file.
        let file = options.files.open(path, Access::ReadWrite)?;
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

/// Writes what the top of the chain itself stores.
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
            check_cancelled(progress(len, total))?;
        }
    }
    to.flush()?;
    Ok(bytes)
}

/// Returns the runs that the top of the chain itself stores.
fn own_runs(image: &Image) -> impl Iterator<Item = Result<MapEntry>> {
    image
        .map()
        .filter(|run| !matches!(run, Ok(run) if run.depth > 0 || !run.present))
}

/// Replaces the overlay by an empty one of the same form. Returns whether it could.
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
    // A new image would have other keys, or none.
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
        encryption: None,
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
    // Only root can change a file's owner; for other users the emptied overlay belongs to the
    // caller, as after `qemu-img create`.
    let _ = std::os::unix::fs::chown(path, Some(file.uid()), Some(file.gid()));
    Ok(true)
}
