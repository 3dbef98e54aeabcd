//! Files whose content does not match their name.
//!
//! A guest writes the content of its raw disk, so it can write the header of a qcow2 image that
//! names other files of the host. Opening that disk without a given format would probe it as qcow2.

use std::path::Path;

use diskfs_block::{Error, ErrorKind, Result};
use diskfs_compressed::is_compressed;
use diskfs_ova::is_tar;
use rustix::fs::Stat;

use crate::Format;
use crate::probe::{head_of, probe};
use crate::source::Source;

/// The file name extensions of raw disks. Distributions use `.img` for qcow2 images, too, but those
/// name no other files.
const RAW_ENDINGS: [&str; 2] = ["raw", "img"];

fn ends_in(path: &Path, ending: &str) -> bool {
    let extension = path.extension();
    extension.is_some_and(|found| found.eq_ignore_ascii_case(ending))
}

/// Refuses an image that was found by probing, is named like a raw disk, and names other files.
pub(crate) fn refuse(format: Format, path: &Path) -> Result<()> {
    let is_called_raw = RAW_ENDINGS.iter().any(|ending| ends_in(path, ending));
    if !is_called_raw {
        return Ok(());
    }
    let reason = format!(
        "is named like a raw disk, but looks like a {format} image that names other files: a \
         guest can write such a header to its disk"
    );
    Err(Error::new(ErrorKind::Denied, reason)
        .in_file(path)
        .with_hint(format!(
            "add `,format=raw` to its name if it is a raw disk, or `,format={format}` if it is not"
        )))
}

/// Returns a warning for a file that is named `.raw`, was probed, and is another format.
pub(crate) fn warning(source: &Source, format: Format) -> Option<String> {
    let is_odd = source.probed && ends_in(&source.path, "raw");
    is_odd.then(|| {
        format!(
            "is named .raw, but looks like a {format} image and is opened as one; if it is a raw \
             disk whose guest wrote that header, add `,format=raw` to its name"
        )
    })
}

/// The file name extensions of compressed files.
const COMPRESSED_ENDINGS: [&str; 6] = ["bz2", "gz", "lz4", "xz", "zst", "zstd"];

/// Returns the format of an image that is found by its name, too: a DMG, whose structures are only
/// at its end, or an OVA, an OVF or a compressed disk, whose first bytes a guest may have on a raw
/// disk.
pub(crate) fn named_by_extension(source: &Source) -> Result<Option<Format>> {
    let device = source.device.as_ref();
    let is_named = |ending| ends_in(&source.path, ending);
    if is_named("dmg") {
        return Ok(diskfs_dmg::ends_with_trailer(device)?.then_some(Format::Dmg));
    }
    let is_compressed_by_name = is_named_compressed(&source.path);
    if !is_named("ova") && !is_named("ovf") && !is_compressed_by_name {
        return Ok(None);
    }
    let head = head_of(device)?;
    Ok(if is_compressed_by_name {
        is_compressed(&head).then_some(Format::Compressed)
    } else {
        let is_package = if is_named("ova") {
            is_tar(&head)
        } else {
            head.starts_with(b"<") || head.starts_with(b"\xef\xbb\xbf<")
        };
        is_package.then_some(Format::Ova)
    })
}

/// Returns true if a file is named like a compressed one.
pub fn is_named_compressed(path: &Path) -> bool {
    COMPRESSED_ENDINGS
        .iter()
        .any(|ending| ends_in(path, ending))
}

/// Returns a warning for a file that was probed as raw, and may be a fixed VHD. Its footer is at
/// the end, where a guest can write, so only the user can decide.
pub(crate) fn vhd_warning(source: &Source) -> Result<Option<String>> {
    let is_odd = source.probed
        && (ends_in(&source.path, "vhd") || ends_in(&source.path, "vpc"))
        && diskfs_vhd::ends_with_footer(source.device.as_ref())?;
    Ok(is_odd.then(|| {
        "ends with the footer of a fixed VHD, and is opened as raw; if it is a VHD, add \
         `,format=vhd` to its name"
            .to_owned()
    }))
}

/// Refuses to write the guest's data over a file that is an image by itself.
pub(crate) fn refuse_image_as_data(data: &Source, image: &Path) -> Result<()> {
    let found = probe(data.device.as_ref());
    let what = match found {
        Ok(Format::Raw) => return Ok(()),
        Ok(format) => format!("it looks like a {format} image"),
        Err(error) if error.kind() == ErrorKind::Unsupported => error.reason().to_owned(),
        Err(error) => return Err(error.in_file(&data.path)),
    };
    let name = data.path.display();
    let reason = format!("refusing to write to data file `{name}`: {what}");
    Err(Error::new(ErrorKind::Denied, reason)
        .in_file(image)
        .with_hint(
            "a data file contains a raw disk; convert the image with `qemu-img convert -O qcow2`",
        ))
}

/// Returns a warning for a file with several names. Writes are visible under all of them, and
/// linking a file into a directory where an image can name it does not need the right to read it.
pub(crate) fn links_warning(stat: &Stat, path: &Path, is_named: bool) -> Option<String> {
    let others = stat.st_nlink.checked_sub(1).filter(|&others| others > 0)?;
    let path = path.display();
    Some(if is_named {
        format!("{path} has {others} more hard links; make sure that the image may use that file")
    } else {
        format!("has {others} more hard links; writes change the file under those names, too")
    })
}
