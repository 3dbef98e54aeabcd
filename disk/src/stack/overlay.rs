//! A qcow2 overlay that takes the changes of an image.

use std::path::{Path, PathBuf};

use diskfs_image::create::{BackingCheck, CreateOptions, NewBacking, NewImage, NewQcow2, create};
use diskfs_image::{Description, Format, Image, OpenOptions, WritableImage};

use crate::{Error, ErrorKind, Result};

/// Opens `overlay` for writing, with `image` behind it. One that isn't there is made; one that is
/// there must be an overlay of this image.
pub(super) fn open(image: &Path, overlay: &Path, options: &OpenOptions) -> Result<WritableImage> {
    if let Some(name) = &options.snapshot {
        let reason = format!("an overlay is of the current state, not of snapshot `{name}`");
        return Err(Error::new(ErrorKind::Unsupported, reason)
            .in_file(image)
            .with_hint("copy the snapshot with `qemu-img convert -l` first"));
    }
    let format = format_of(image, options)?;
    let real = image
        .canonicalize()
        .map_err(|e| Error::from(e).in_file(image))?;
    // The user named it: only what it names itself is somebody else's word.
    let gate = options.gate.clone().allow_file(&real);
    let is_new = overlay.symlink_metadata().is_err();
    if is_new {
        let backing = NewBacking {
            name: name_from(overlay, &real),
            format,
            check: BackingCheck::Open(gate.clone()),
        };
        let new = NewQcow2 {
            backing: Some(backing),
            ..NewQcow2::default()
        };
        create(
            overlay,
            &CreateOptions::new(NewImage::Qcow2(Box::new(new)), None),
        )?;
    }
    let options = OpenOptions {
        format: Some(Format::Qcow2),
        backing_format: None,
        gate,
        ..options.clone()
    };
    let opened = open_overlay(overlay, &options, (image, format));
    opened.inspect_err(|_| {
        if is_new {
            // Of no use to anybody, and the next try would go on with it.
            let _ = std::fs::remove_file(overlay);
        }
    })
}

fn open_overlay(
    overlay: &Path,
    options: &OpenOptions,
    (image, format): (&Path, Format),
) -> Result<WritableImage> {
    let opened = WritableImage::open(overlay, options)
        .map_err(|e| Error::from(e).with_hint("an overlay is a new file, or one made so before"))?;
    check_backing(opened.description(), image, format)?;
    Ok(opened)
}

/// The image's format, also when it is not given: the overlay must name it.
fn format_of(image: &Path, options: &OpenOptions) -> Result<Format> {
    let opened = Image::open(image, options).map_err(|e| Error::from(e).in_file(image))?;
    let format = opened.description().format;
    format.ok_or_else(|| Error::new(ErrorKind::Unsupported, "unknown format").in_file(image))
}

/// The image's name from the overlay's directory on, where it is below that; else its whole path.
fn name_from(overlay: &Path, image: &Path) -> PathBuf {
    let dir = overlay.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = dir.unwrap_or(Path::new(".")).canonicalize();
    let below = dir
        .ok()
        .and_then(|dir| image.strip_prefix(dir).ok().map(Path::to_owned));
    // A colon before the first slash would be read as a protocol.
    let plain = below.filter(|name| !name.as_os_str().as_encoded_bytes().contains(&b':'));
    plain.unwrap_or_else(|| image.to_owned())
}

/// Fails unless `image` is right behind the overlay that says this of itself.
fn check_backing(overlay: &Description, image: &Path, format: Format) -> Result<()> {
    let wrong = |reason: String| {
        Err(Error::new(ErrorKind::Invalid, reason)
            .in_file(&overlay.path)
            .with_hint("name a new file, or the overlay's own image"))
    };
    match &overlay.backing {
        Some(backing) if !is_same_file(&backing.path, image) => wrong(format!(
            "is an overlay of {}, not of {}",
            backing.path.display(),
            image.display()
        )),
        Some(backing) if backing.format != Some(format) => wrong(format!(
            "takes {} for another format than {format}",
            image.display()
        )),
        Some(_) => Ok(()),
        None => wrong("is there already, and no overlay".to_owned()),
    }
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |path: &Path| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    id(a).is_some() && id(a) == id(b)
}
