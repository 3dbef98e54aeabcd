//! The disk of an image, of which only what a bitmap marks counts as stored.

use std::sync::Arc;

use diskfs_block::{BlockRead, Error, Extent, ExtentKind, Result, check_bounds};

use crate::description::BitmapState;
use crate::node::Node;
use crate::qcow2::bitmap_bits::BitmapBits;
use crate::{Image, bitmaps};

/// The largest number of runs to merge into one result of `stored_at`, which bounds its cost.
const MERGE_MAX: u32 = 64;

/// The disk of an image, of which only what a bitmap marks counts as stored: the source of an
/// incremental backup.
///
/// [`stored_at`](BlockRead::stored_at) returns what is not marked as unallocated, and marked zeroes
/// as zeroes. Reads return the whole disk.
///
/// ```
/// use std::ops::ControlFlow;
/// use diskfs_image::bitmaps::{self, MarkedDisk, NewBitmap};
/// use diskfs_image::convert::{ConvertOptions, Scope, convert};
/// use diskfs_image::{CreateOptions, Image, OpenOptions, create};
/// use diskfs_image::create::NewImage;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("disk.qcow2");
/// # create(&path, &CreateOptions::new(NewImage::Qcow2(Box::default()), Some(1 << 20)))?;
/// # bitmaps::add(&path, "monday", NewBitmap::default(), &OpenOptions::default())?;
/// let image = Image::open(&path, &OpenOptions::default())?;
/// let changes = MarkedDisk::new(&image, "monday")?;
/// assert_eq!(changes.marked_bytes()?, 0);
/// let options = ConvertOptions { scope: Scope::Stored, ..ConvertOptions::default() };
/// let new = dir.path().join("increment.qcow2");
/// convert(&changes, &new, &options, &mut |_| ControlFlow::Continue(()))?;
/// # Ok::<(), diskfs_block::Error>(())
/// ```
#[derive(Debug)]
pub struct MarkedDisk {
    disk: Arc<dyn BlockRead>,
    /// The file of the image, with the bits.
    file: Arc<dyn BlockRead>,
    bits: BitmapBits,
    /// The size of the disk when the bitmap was added, as far as it is known.
    old_bytes: u64,
}

impl MarkedDisk {
    /// Takes the marks of a bitmap that has recorded every write since it was added.
    ///
    /// # Errors
    /// * [`NotFound`](diskfs_block::ErrorKind::NotFound) if the image has no such bitmap.
    /// * [`Invalid`](diskfs_block::ErrorKind::Invalid) for a snapshot, and for a bitmap that may
    ///   have missed writes: it is disabled, was not saved properly, or is void.
    /// * [`Unsupported`](diskfs_block::ErrorKind::Unsupported) for an image of another format than
    ///   qcow2, and a bitmap of an unknown type.
    /// * [`Corrupt`](diskfs_block::ErrorKind::Corrupt), [`Io`](diskfs_block::ErrorKind::Io).
    pub fn new(image: &Image, bitmap: &str) -> Result<Self> {
        let path = &image.description().path;
        let Node::Qcow2(qcow2, _) = image.node() else {
            return Err(bitmaps::only_qcow2().in_file(path));
        };
        if qcow2.has_void_bitmaps() {
            let reason = format!(
                "bitmap `{}` is void: a program without support for bitmaps has written to the \
                 image",
                bitmap.escape_debug()
            );
            return Err(in_full(Error::invalid(reason)).in_file(path));
        }
        check(image, bitmap).map_err(|e| e.in_file(path))?;
        let (file, bits) = qcow2.bitmap_bits(bitmap)?;
        Ok(Self {
            disk: image.device(),
            file,
            bits,
            old_bytes: u64::MAX,
        })
    }

    /// Returns the length of the run from `offset` on that is all marked or all unmarked, and whether
    /// it is marked. Runs need not be maximal.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn mark_at(&self, offset: u64) -> Result<(u64, bool)> {
        let run = self.bits.run_at(self.file.as_ref(), offset)?;
        Ok((run.len_bytes, run.is_marked))
    }

    /// States the size of the disk when the bitmap was added: that of the previous backup. Data past
    /// it counts as stored, too. QEMU does not mark what a disk shows when it grows, which can be
    /// old data of its last cluster.
    #[must_use]
    pub fn grown_from(self, old_bytes: u64) -> Self {
        Self { old_bytes, ..self }
    }

    /// Returns the number of bytes of the disk that the bitmap marks.
    ///
    /// # Errors
    /// [`Corrupt`](diskfs_block::ErrorKind::Corrupt), [`Io`](diskfs_block::ErrorKind::Io).
    pub fn marked_bytes(&self) -> Result<u64> {
        let mut marked = 0_u64;
        self.bits.for_each_marked(self.file.as_ref(), |range| {
            marked = marked.saturating_add(range.end.saturating_sub(range.start));
        })?;
        Ok(marked)
    }
}

impl MarkedDisk {
    /// Returns the run from `offset` on, which lies within the disk, up to where anything changes.
    fn run_at(&self, offset: u64) -> Result<Extent> {
        let run = self.bits.run_at(self.file.as_ref(), offset)?;
        if !run.is_marked && offset < self.old_bytes {
            let left = self.old_bytes.saturating_sub(offset);
            return Ok(Extent {
                len_bytes: run.len_bytes.min(left),
                kind: ExtentKind::Unallocated,
            });
        }
        let there = self.disk.extent_at(offset)?;
        let kind = match there.kind {
            ExtentKind::Data => ExtentKind::Data,
            _ if run.is_marked => ExtentKind::Zero,
            // The previous backup reads as zeroes past its end.
            _ => ExtentKind::Unallocated,
        };
        Ok(Extent {
            len_bytes: there.len_bytes.min(run.len_bytes),
            kind,
        })
    }
}

/// Fails if the disk is not the current one, or the bitmap may have missed writes.
fn check(image: &Image, name: &str) -> Result<()> {
    let Some(details) = &image.description().qcow2 else {
        return Ok(());
    };
    if details.opened_snapshot.is_some() {
        let reason = "bitmaps mark changes of the current state, not of a snapshot";
        return Err(Error::invalid(reason));
    }
    let mut all = details.bitmaps.iter();
    let Some(bitmap) = all.find(|bitmap| bitmap.name == name) else {
        return Ok(()); // Reading it reports this.
    };
    let name = name.escape_debug();
    if bitmap.state == BitmapState::Inconsistent {
        let reason = format!(
            "bitmap `{name}` is inconsistent: the image is in use, or was not closed properly"
        );
        return Err(in_full(Error::invalid(reason)));
    }
    if !bitmap.recording {
        let reason =
            format!("bitmap `{name}` is disabled, so it may have missed writes to the disk");
        return Err(Error::invalid(reason).with_hint(
            "make a full backup, or merge it with `diskfs bitmap merge` into an enabled bitmap \
             that is as old as the time at which it was disabled",
        ));
    }
    Ok(())
}

fn in_full(error: Error) -> Error {
    error.with_hint(
        "if no program uses the image, remove the bitmap with `diskfs bitmap remove`, add a new \
         one, and make a full backup",
    )
}

impl BlockRead for MarkedDisk {
    fn size_bytes(&self) -> u64 {
        self.disk.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.disk.read_at(offset, buf)
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        self.disk.extent_at(offset)
    }

    fn stored_at(&self, offset: u64) -> Result<Extent> {
        check_bounds(offset, 1, self.size_bytes())?;
        let first = self.run_at(offset)?;
        let mut len_bytes = first.len_bytes;
        // A run that ends within a cluster would make the rest of the cluster data.
        for _ in 0..MERGE_MAX {
            let at = offset.saturating_add(len_bytes);
            if at >= self.size_bytes() {
                break;
            }
            let next = self.run_at(at)?;
            if next.kind != first.kind {
                break;
            }
            len_bytes = len_bytes.saturating_add(next.len_bytes);
        }
        Ok(Extent { len_bytes, ..first })
    }

    fn block_size(&self) -> u32 {
        self.disk.block_size()
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        self.disk.will_need(offset, len_bytes);
    }
}
