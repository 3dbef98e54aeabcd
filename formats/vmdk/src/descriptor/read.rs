//! Finds and reads the descriptor of an image.

use diskfs_block::bytes::index;
use diskfs_block::{BlockRead, Error, Result, read_within};

use super::{Descriptor, DescriptorPlace};
use crate::create_type::CreateType;
use crate::magic::{Magic, magic_of};
use crate::sectors::to_bytes;
use crate::sparse_header::SparseHeader;

/// The most bytes of a descriptor: QEMU's limit.
pub(crate) const MAX_DESCRIPTOR_BYTES: u64 = 1 << 20;

impl Descriptor {
    /// Reads the descriptor of an image: a descriptor file, or a sparse file with a descriptor in
    /// it.
    ///
    /// # Errors
    /// `Unsupported` for an extent without a descriptor: it is only a part of a disk. `Corrupt` if
    /// the image is not a VMDK, and as for [`Descriptor::parse`].
    pub fn read(image: &dyn BlockRead) -> Result<Self> {
        match magic_of(image)? {
            Some(Magic::Sparse) => embedded(image),
            Some(Magic::Cowd) => Err(lone_extent("COWD")),
            Some(Magic::SeSparse) => Err(lone_extent("seSparse")),
            None => descriptor_file(image),
        }
    }
}

fn descriptor_file(image: &dyn BlockRead) -> Result<Descriptor> {
    let len_bytes = image.size_bytes();
    if len_bytes > MAX_DESCRIPTOR_BYTES {
        let reason = "not a VMDK: no magic number, and more than 1 MiB for a descriptor";
        return Err(Error::corrupt(reason).at(0));
    }
    let text = read_within(image, 0, index(len_bytes))?.unwrap_or_default();
    Descriptor::parse(&text, 0, DescriptorPlace::File)
}

fn embedded(image: &dyn BlockRead) -> Result<Descriptor> {
    let header = SparseHeader::read(image)?;
    let Some(sectors) = &header.descriptor_sectors else {
        return Err(lone_extent("sparse"));
    };
    let start = to_bytes(sectors.start, "descriptorOffset", 0)?;
    let end = to_bytes(sectors.end, "descriptorSize", 0)?;
    let len_bytes = end.saturating_sub(start).min(MAX_DESCRIPTOR_BYTES);
    let text = read_within(image, start, index(len_bytes))?.ok_or_else(|| {
        let reason = "descriptor past the end of the file; the file may be truncated";
        Error::corrupt(reason).at(start)
    })?;
    if text.first().is_none_or(|byte| *byte == 0) {
        return Err(lone_extent("sparse"));
    }
    let mut descriptor = Descriptor::parse(&text, start, DescriptorPlace::Embedded)?;
    // A sparse header without data can stand before the descriptor of other files, as in QEMU.
    let is_single = matches!(
        descriptor.create_type,
        CreateType::MonolithicSparse | CreateType::StreamOptimized
    );
    if header.capacity_sectors == 0 && !is_single {
        descriptor.place = DescriptorPlace::File;
    } else if descriptor.extents.len() > 1 {
        let reason = "unsupported VMDK: a sparse file with the descriptor of several extents";
        return Err(Error::unsupported(reason).at(start));
    }
    Ok(descriptor)
}

fn lone_extent(kind: &str) -> Error {
    let reason = format!("unsupported VMDK: a {kind} extent without a descriptor");
    Error::unsupported(reason).with_hint("open the descriptor file that names this extent")
}
