//! Files that are not what they are called.
//!
//! A guest writes the content of its raw disk, and so it can write the header of a qcow2 image that
//! names other files of the host. Whoever opens that disk without a format would have it probed.

use std::path::Path;

use diskfs_block::{Error, ErrorKind, Result};
use rustix::fs::Stat;

use crate::Format;
use crate::probe::probe;
use crate::qcow2::Unopened;
use crate::source::Source;

/// The endings of names that raw disks have. `.img` is also what distributions call their qcow2
/// images, which name no other file.
const RAW_ENDINGS: [&str; 2] = ["raw", "img"];

fn ends_in(path: &Path, ending: &str) -> bool {
    let extension = path.extension();
    extension.is_some_and(|found| found.eq_ignore_ascii_case(ending))
}

/// Refuses a qcow2 image that was found by its content, is called like a raw disk, and names other
/// files.
pub(crate) fn refuse(image: &Unopened, path: &Path) -> Result<()> {
    let is_called_raw = RAW_ENDINGS.iter().any(|ending| ends_in(path, ending));
    if !is_called_raw || !image.names_files() {
        return Ok(());
    }
    let reason = "is called a raw disk, but looks like a qcow2 image that names other files: \
         a guest can write that to its disk";
    Err(Error::new(ErrorKind::Denied, reason)
        .in_file(path)
        .with_hint(
            "add `,format=raw` to its name if it is a raw disk, or `,format=qcow2` if it is not",
        ))
}

/// The warning for a file that is called `.raw`, was probed, and is another image.
pub(crate) fn warning(source: &Source) -> Option<String> {
    let is_odd = source.probed && ends_in(&source.path, "raw");
    is_odd.then(|| {
        "is called .raw, but looks like a qcow2 image, and is opened as one; \
         if it is a raw disk whose guest wrote that, add `,format=raw` to its name"
            .to_owned()
    })
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
    let reason = format!("data file `{name}` is not opened for writing: {what}");
    Err(Error::new(ErrorKind::Denied, reason)
        .in_file(image)
        .with_hint(
            "a data file holds a raw disk; convert the image with `qemu-img convert -O qcow2`",
        ))
}

/// The warning for a file that has other names: what is written to it changes under those, too, and
/// who can link a file to where an image names it needs no rights to read it.
pub(crate) fn links_warning(stat: &Stat, path: &Path, is_named: bool) -> Option<String> {
    let others = stat.st_nlink.checked_sub(1).filter(|&others| others > 0)?;
    let path = path.display();
    Some(if is_named {
        format!("{path} has {others} more hard links: make sure that the image may name that file")
    } else {
        format!(
            "has {others} more hard links: what is written to it changes under those names, too"
        )
    })
}
