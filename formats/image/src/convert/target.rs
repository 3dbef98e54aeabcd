//! The file of a copy, by its format.

use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;

use diskfs_block::{BlockRead, Error, ImageLayout, Result};
use diskfs_vdi::{ImageType, VdiLayout, VdiOptions};
use diskfs_vhd::{VhdLayout, VhdOptions};
use diskfs_vhdx::{VhdxLayout, VhdxOptions};
use diskfs_vmdk::{SparseLayout, StreamWriter, WriteOptions};

use super::identity::Identity;
use super::layout::{GrainCopy, LayoutCopy};
use super::qcow2::{Qcow2Copy, Qcow2Image};
use super::stream::SPOOL_PREFIX;
use super::{ConvertOptions, Scope, by_writing};
use crate::create::{
    Allocation, NewImage, NewQcow2, NewVdi, NewVhd, NewVhdx, NewVmdk, Preallocation,
    UnfinishedImage, VmdkSubformat, new_header, whole_sectors,
};

/// The size of the buffer of a stream.
pub(super) const STREAM_BUFFER_BYTES: usize = 1 << 20;

/// The longest name that a VMDK's descriptor states.
const NAME_MAX_BYTES: usize = 255;

/// Reports the number of bytes that were done.
pub(super) type Progress<'a> = dyn FnMut(u64) -> ControlFlow<()> + 'a;

/// Copies a disk into a new image that does not have its name yet.
pub(super) fn converted(
    from: &dyn BlockRead,
    path: &Path,
    options: &ConvertOptions,
    progress: &mut Progress<'_>,
) -> Result<UnfinishedImage> {
    match &options.image {
        NewImage::Qcow2(image) if is_sequential(image, options) => {
            qcow2(from, path, image, options, progress)
        }
        _ if options.scope == Scope::Stored => {
            let reason = "a part of a disk can be copied only into a qcow2 image without \
                          preallocation, data file or encryption";
            Err(Error::invalid(reason))
        }
        NewImage::Raw | NewImage::Luks(_) | NewImage::Qcow2(_) => {
            by_writing(from, path, options, progress)
        }
        NewImage::Vmdk(image) if image.subformat == VmdkSubformat::StreamOptimized => {
            options.check_whole()?;
            stream(from, path, image, options, progress)
        }
        NewImage::Vmdk(image) => {
            let sparse = SparseLayout::new(vmdk_options(from, path, image, options)?)?;
            with_layout(from, path, sparse, options, progress)
        }
        NewImage::Vhd(image) => {
            let layout = VhdLayout::new(&vhd_options(from, *image, options)?)?;
            with_layout(from, path, layout, options, progress)
        }
        NewImage::Vdi(image) => {
            let layout = VdiLayout::new(vdi_options(from, *image, options)?)?;
            with_layout(from, path, layout, options, progress)
        }
        NewImage::Vhdx(image) => {
            let layout = VhdxLayout::new(&vhdx_options(from, *image, options)?)?;
            with_layout(from, path, layout, options, progress)
        }
    }
}

/// Returns true if an image can be written from its beginning to its end.
fn is_sequential(image: &NewQcow2, options: &ConvertOptions) -> bool {
    image.data_file.is_none()
        && image.encryption.is_none()
        && options.preallocation == Preallocation::Off
}

fn qcow2(
    from: &dyn BlockRead,
    path: &Path,
    image: &NewQcow2,
    options: &ConvertOptions,
    progress: &mut Progress<'_>,
) -> Result<UnfinishedImage> {
    let header = new_header(path, image, from.size_bytes())?;
    let new = UnfinishedImage::empty(path, options.existing)?;
    let hides_backing = header.backing.is_some() || options.scope == Scope::Stored;
    let mut written = Qcow2Image::new(header, hides_backing)?;
    let copy = Qcow2Copy {
        from,
        start: 0,
        file: new.file(),
        packing: options.packing,
        threads: options.threads(),
    };
    copy.run(&mut written, progress)?;
    written.finish(new.file())?;
    Ok(new)
}

fn with_layout(
    from: &dyn BlockRead,
    path: &Path,
    mut layout: impl ImageLayout,
    options: &ConvertOptions,
    progress: &mut Progress<'_>,
) -> Result<UnfinishedImage> {
    options.check_whole()?;
    options.check_sparse()?;
    if options.packing.is_some() {
        let format = options.image.format();
        let reason = format!("compression is not supported for {format} images of this kind");
        return Err(Error::unsupported(reason)
            .with_hint("qcow2 images and VMDK streams (subformat=streamOptimized) have it"));
    }
    let new = UnfinishedImage::empty(path, options.existing)?;
    let copy = LayoutCopy {
        from,
        file: new.file(),
        sparse_bytes: options.sparse_bytes,
        threads: options.threads(),
    };
    copy.run(&mut layout, progress)?;
    Ok(new)
}

fn stream(
    from: &dyn BlockRead,
    path: &Path,
    image: &NewVmdk,
    options: &ConvertOptions,
    progress: &mut Progress<'_>,
) -> Result<UnfinishedImage> {
    let new = UnfinishedImage::empty(path, options.existing)?;
    let out = BufWriter::with_capacity(STREAM_BUFFER_BYTES, new.file());
    let stream = grain_stream(from, path, out, image, options)?;
    GrainCopy::new(from, options).run(stream, progress)?;
    Ok(new)
}

/// Begins a stream of compressed grains.
pub(super) fn grain_stream<W: Write>(
    from: &dyn BlockRead,
    path: &Path,
    out: W,
    image: &NewVmdk,
    options: &ConvertOptions,
) -> Result<StreamWriter<W>> {
    StreamWriter::new(out, vmdk_options(from, path, image, options)?)
}

fn vmdk_options(
    from: &dyn BlockRead,
    path: &Path,
    image: &NewVmdk,
    options: &ConvertOptions,
) -> Result<WriteOptions> {
    Ok(WriteOptions {
        capacity_bytes: whole_sectors(from.size_bytes())?,
        file_name: stated_name(path),
        content_id: Identity::new(options.identity)?.number(),
        adapter_type: image.adapter_type.clone(),
        hardware_version: image.hardware_version,
    })
}

fn vhd_options(
    from: &dyn BlockRead,
    image: NewVhd,
    options: &ConvertOptions,
) -> Result<VhdOptions> {
    let identity = Identity::new(options.identity)?;
    Ok(VhdOptions {
        size_bytes: from.size_bytes(),
        size_rule: image.size_rule(),
        is_fixed: image.allocation == Allocation::Fixed,
        id: identity.id(0),
        created: identity.created(),
    })
}

fn vdi_options(
    from: &dyn BlockRead,
    image: NewVdi,
    options: &ConvertOptions,
) -> Result<VdiOptions> {
    let identity = Identity::new(options.identity)?;
    Ok(VdiOptions {
        size_bytes: whole_sectors(from.size_bytes())?,
        image_type: match image.allocation {
            Allocation::Dynamic => ImageType::Dynamic,
            Allocation::Fixed => ImageType::Static,
        },
        id: identity.id(0),
        contents_id: identity.id(1),
    })
}

fn vhdx_options(
    from: &dyn BlockRead,
    image: NewVhdx,
    options: &ConvertOptions,
) -> Result<VhdxOptions> {
    let identity = Identity::new(options.identity)?;
    Ok(VhdxOptions {
        size_bytes: whole_sectors(from.size_bytes())?,
        is_fixed: image.allocation == Allocation::Fixed,
        block_bytes: image.block_size_bytes,
        log_bytes: image.log_size_bytes,
        ids: [0, 1, 2].map(|number| identity.id(number)),
    })
}

/// Returns the name of the file as the descriptor states it. No program opens the file by it, so a
/// name that a descriptor cannot state is replaced, and so is that of a stream.
fn stated_name(path: &Path) -> String {
    let name = path.file_name().and_then(|name| name.to_str());
    let is_quotable = |name: &&str| {
        name.len() <= NAME_MAX_BYTES
            && !name.starts_with(SPOOL_PREFIX)
            && !name.contains(|c: char| c == '"' || c.is_control())
    };
    name.filter(is_quotable).unwrap_or("disk.vmdk").to_owned()
}

impl ConvertOptions {
    /// Refuses preallocation for a format that has none.
    fn check_whole(&self) -> Result<()> {
        if self.preallocation == Preallocation::Off {
            return Ok(());
        }
        let format = self.image.format();
        let reason = format!("preallocation is not supported for {format} images");
        Err(Error::unsupported(reason))
    }
}
