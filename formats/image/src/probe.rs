//! Probing of an image's format by its first bytes.
//!
//! Probing trusts the content, but a guest writes the content of its own raw disk. So a probed raw
//! image must never get the magic of another format (see
//! [`Description::probed`](crate::Description)), and a file that an image names is never probed.

use diskfs_block::{BlockRead, Error, Result};

use crate::Format;
use crate::numbers::{to_u64, to_usize};

/// The number of bytes to probe: the magics of all formats below are in the first 512 bytes.
pub const HEAD_BYTES: usize = 512;

/// Returns the format of `device` by its first bytes. Formats whose structures are only at the end
/// of a file (fixed VHDs, DMGs) are raw here, because a guest can write there.
///
/// # Errors
/// [`ErrorKind::Unsupported`](diskfs_block::ErrorKind::Unsupported) for the magic of another image
/// format; otherwise as for [`BlockRead::read_at`].
pub fn probe(device: &dyn BlockRead) -> Result<Format> {
    of_head(&head_of(device)?)
}

/// Returns the first [`HEAD_BYTES`] bytes of a device, or all that it has.
pub(crate) fn head_of(device: &dyn BlockRead) -> Result<Vec<u8>> {
    let len = device.size_bytes().min(to_u64(HEAD_BYTES));
    let mut head = vec![0; to_usize(len)];
    device.read_at(0, &mut head)?;
    Ok(head)
}

/// Returns the format by the first [`HEAD_BYTES`] bytes, like [`probe`].
///
/// # Errors
/// As for [`probe`].
pub fn of_head(head: &[u8]) -> Result<Format> {
    if is_qcow2(head) {
        return Ok(Format::Qcow2);
    }
    if let Some((format, ..)) = KNOWN.iter().find(|(_, at, magic)| has(head, *at, magic)) {
        return Ok(*format);
    }
    match FOREIGN.iter().find(|(_, at, magic)| has(head, *at, magic)) {
        None => Ok(Format::Raw),
        Some((name, ..)) => Err(
            Error::unsupported(format!("unsupported image format {name}")).with_hint(
                "convert it with `qemu-img convert -O qcow2`, or use format=raw if it is \
                 a raw disk",
            ),
        ),
    }
}

/// Returns true for qcow2: its magic and a version of at least 2. Version 1 is another format.
fn is_qcow2(head: &[u8]) -> bool {
    head.starts_with(b"QFI\xfb") && !head.starts_with(b"QFI\xfb\0\0\0\x01")
}

fn has(head: &[u8], at: usize, magic: &[u8]) -> bool {
    head.get(at..).is_some_and(|rest| rest.starts_with(magic))
}

/// The formats besides qcow2, in a fixed order: format, offset of the magic, and the magic.
const KNOWN: &[(Format, usize, &[u8])] = &[
    (Format::Qcow, 0, b"QFI\xfb\0\0\0\x01"),
    (Format::Qed, 0, b"QED\0"),
    (Format::Vhdx, 0, b"vhdxfile"),
    (Format::Vmdk, 0, b"KDMV"),
    (Format::Vmdk, 0, b"COWD"),
    (Format::Vmdk, 0, b"\xbe\xba\xfe\xca\0\0\0\0"),
    (Format::Vmdk, 0, b"# Disk DescriptorFile"),
    // A fixed VHD has its footer only at the end: raw bytes followed by a sector.
    (Format::Vhd, 0, b"conectix"),
    (Format::Vdi, 0x40, &[0x7f, 0x10, 0xda, 0xbe]),
    (Format::Parallels, 0, b"WithoutFreeSpace"),
    (Format::Parallels, 0, b"WithouFreSpacExt"),
];

/// The formats that are not read, and must not be probed as raw.
const FOREIGN: &[(&str, usize, &[u8])] = &[
    ("Bochs", 0, b"Bochs Virtual HD Image"),
    ("cloop", 0, b"#!/bin/sh\n#V2.0 Format\nmodprobe cloop"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use diskfs_block::ErrorKind;

    #[test]
    fn knows_its_formats() {
        assert_eq!(of_head(b"QFI\xfb\0\0\0\x03").unwrap(), Format::Qcow2);
        // A future version is still qcow2; opening it fails with its version.
        assert_eq!(of_head(b"QFI\xfb\0\0\0\x09").unwrap(), Format::Qcow2);
        for raw in [
            &b""[..],
            b"QFI",
            &[0; 512],
            b"LUKS\xba\xbe\0\x02",
            b"\x55\xaa",
        ] {
            assert_eq!(of_head(raw).unwrap(), Format::Raw);
        }
    }

    #[test]
    fn knows_the_magics_of_other_formats() {
        for (format, at, magic) in KNOWN {
            let mut head = vec![0; 512];
            head[*at..*at + magic.len()].copy_from_slice(magic);
            assert_eq!(of_head(&head).unwrap(), *format);
            let cut = &head[..at + magic.len() - 1];
            assert!(
                matches!(of_head(cut), Ok(Format::Raw | Format::Qcow2)),
                "{format}"
            );
        }
    }

    #[test]
    fn names_what_it_does_not_read() {
        for (name, at, magic) in FOREIGN {
            let mut head = vec![0; 512];
            head[*at..*at + magic.len()].copy_from_slice(magic);
            let e = of_head(&head).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Unsupported);
            assert!(e.to_string().contains(name), "{e}");
            // A part of a magic does not count.
            let cut = &head[..at + magic.len() - 1];
            assert!(of_head(cut).is_ok(), "{name}");
        }
    }
}
