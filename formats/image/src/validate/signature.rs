//! The signatures by which programs recognise formats, and those of a file.

use diskfs_block::{BlockRead, Result, read_within};
use diskfs_compressed::is_compressed;
use diskfs_ova::is_tar;

use crate::Format;
use crate::probe::{HEAD_BYTES, head_of, of_head};

/// The place of the first volume descriptor of ISO 9660 and UDF: its identifier is one byte later.
const DESCRIPTOR_AT: u64 = 16 * 2048 + 1;

/// The identifiers of volume descriptors: ISO 9660 (ECMA-119) and UDF (ECMA-167).
const DESCRIPTORS: [&[u8]; 4] = [b"CD001", b"BEA01", b"NSR02", b"NSR03"];

/// The sector sizes of disks: a GPT header is in the second sector.
const SECTORS: [u64; 2] = [512, 4096];

/// The signatures of images that no driver of ours reads.
const FOREIGN: &[(&str, &[u8])] = &[
    ("bochs", b"Bochs Virtual HD Image"),
    ("cloop", b"#!/bin/sh\n#V2.0 Format\nmodprobe cloop"),
    // The magic number and version 1, by which QEMU recognises LUKS.
    ("luks", b"LUKS\xba\xbe\0\x01"),
    ("luks", b"LUKS\xba\xbe\0\x02"),
];

/// The formats that a file looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The format with which the file is opened; `None` if no driver reads it.
    pub(super) format: Option<Format>,
    /// The name of the image format, if it is not raw.
    image: Option<&'static str>,
    /// The name of the package or compression, if programs unpack the file.
    pub(super) package: Option<&'static str>,
    /// True if the file has a volume descriptor of ISO 9660 or UDF.
    pub(super) is_iso: bool,
    /// True if the file has a GPT header.
    pub(super) is_gpt: bool,
}

impl Found {
    /// Returns the formats that the file looks like.
    ///
    /// # Errors
    /// As for [`BlockRead::read_at`].
    pub(super) fn of(device: &dyn BlockRead, claimed: Option<Format>) -> Result<Self> {
        let head = head_of(device)?;
        let mut image = of_image(&head);
        let mut format = of_head(&head).ok();
        // The footer of a fixed VHD is at the end, so only the sender can say that it is one.
        let may_be_fixed = claimed == Some(Format::Vhd) && format == Some(Format::Raw);
        if may_be_fixed && diskfs_vhd::ends_with_footer(device)? {
            (image, format) = (Some(Format::Vhd.name()), Some(Format::Vhd));
        }
        Ok(Self {
            format,
            image,
            package: package(&head),
            is_iso: has_descriptor(device)?,
            is_gpt: has_gpt(device)?,
        })
    }

    /// Returns the name of the format.
    pub(super) fn name(&self) -> &'static str {
        self.image.unwrap_or("raw")
    }

    /// Returns the names of everything that the file looks like, besides raw.
    pub(super) fn names(&self) -> Vec<&'static str> {
        let iso = self.is_iso.then_some("iso");
        let gpt = self.is_gpt.then_some("gpt");
        [self.image, iso, gpt].into_iter().flatten().collect()
    }

    /// Returns true if the file looks like an image, and not like a raw disk.
    pub(super) fn is_image(&self) -> bool {
        self.image.is_some()
    }
}

/// Returns the name of the image format by the first bytes; `None` for a raw disk.
pub(super) fn of_image(head: &[u8]) -> Option<&'static str> {
    let foreign = FOREIGN.iter().find(|(_, magic)| head.starts_with(magic));
    match (foreign, of_head(head)) {
        (Some((name, _)), _) => Some(name),
        (None, Ok(Format::Raw) | Err(_)) => None,
        (None, Ok(format)) => Some(format.name()),
    }
}

fn package(head: &[u8]) -> Option<&'static str> {
    if is_compressed(head) {
        return Some("compressed");
    }
    (head.len() == HEAD_BYTES && is_tar(head)).then_some("tar")
}

fn has_descriptor(device: &dyn BlockRead) -> Result<bool> {
    let identifier = read_within(device, DESCRIPTOR_AT, 5)?;
    Ok(identifier.is_some_and(|found| DESCRIPTORS.contains(&found.as_slice())))
}

fn has_gpt(device: &dyn BlockRead) -> Result<bool> {
    for at in SECTORS {
        if read_within(device, at, 8)?.as_deref() == Some(b"EFI PART") {
            return Ok(true);
        }
    }
    Ok(false)
}
