//! A qcow2 overlay that stores the changes of an image.

use std::path::{Path, PathBuf};

use diskfs_image::create::{BackingCheck, CreateOptions, NewBacking, NewImage, NewQcow2, create};
use diskfs_image::{Description, Format, Image, ImageSpec, OpenOptions, WritableImage, is_oci};

use crate::{Error, ErrorKind, Result};

/// Creates `overlay`, a qcow2 overlay of an image that is not opened: its format and size are
/// given.
///
/// # Errors
/// `Exists`, `NotFound`, `Denied`, `NoSpace`, `Io`.
pub fn create_overlay(overlay: &Path, image: &Path, format: Format, size_bytes: u64) -> Result<()> {
    refuse_unless_file(image)?;
    let real = image
        .canonicalize()
        .map_err(|e| Error::from(e).in_file(image))?;
    let new = NewQcow2 {
        backing: Some(NewBacking {
            name: name_from(overlay, &real),
            format,
            check: BackingCheck::ByCaller,
        }),
        ..NewQcow2::default()
    };
    let new = NewImage::Qcow2(Box::new(new));
    create(overlay, &CreateOptions::new(new, Some(size_bytes)))?;
    Ok(())
}

/// Refuses an overlay of a disk in an OCI image, and of an image on another machine.
fn refuse_unless_file(image: &Path) -> Result<()> {
    let spec = ImageSpec {
        path: image.to_owned(),
        ..ImageSpec::default()
    };
    if !is_oci(image) && spec.remote_uri().is_none() {
        return Ok(());
    }
    let reason = "an overlay needs an image in a file, because it stores the file's name";
    Err(Error::new(ErrorKind::Unsupported, reason)
        .in_file(spec.shown_path())
        .with_hint("copy the disk with `diskfs convert IMG new.qcow2`"))
}

/// Opens `overlay` for writing, with `image` as its backing file. A missing overlay is created; an
/// existing one must be an overlay of this image.
pub(super) fn open(image: &Path, overlay: &Path, options: &OpenOptions) -> Result<WritableImage> {
    if let Some(name) = &options.snapshot {
        let reason = format!("an overlay of snapshot `{name}` is not supported");
        return Err(Error::new(ErrorKind::Unsupported, reason)
            .in_file(image)
            .with_hint("copy the snapshot to a new image with `qemu-img convert -l`"));
    }
    refuse_unless_file(image)?;
    let (format, size_bytes) = format_and_size_of(image, options)?;
    let real = image
        .canonicalize()
        .map_err(|e| Error::from(e).in_file(image))?;
    // The user named this image, so it is trusted; the files that the image names are checked by
    // the gate.
    let gate = options.gate.clone().allow_file(&real);
    let is_new = overlay.symlink_metadata().is_err();
    if is_new {
        create_overlay(overlay, image, format, size_bytes)?;
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
            // An incomplete overlay is useless, and the next attempt would continue with it.
            let _ = std::fs::remove_file(overlay);
        }
    })
}

fn open_overlay(
    overlay: &Path,
    options: &OpenOptions,
    (image, format): (&Path, Format),
) -> Result<WritableImage> {
    let opened = WritableImage::open(overlay, options).map_err(|e| {
        Error::from(e).with_hint("give a new file, or an overlay that diskfs has created")
    })?;
    check_backing(opened.description(), image, format)?;
    Ok(opened)
}

/// Returns the image's format, probed if it is not given, and its size in bytes: the overlay must
/// record both.
fn format_and_size_of(image: &Path, options: &OpenOptions) -> Result<(Format, u64)> {
    let opened = Image::open(image, options).map_err(|e| Error::from(e).in_file(image))?;
    let description = opened.description();
    let unknown = || Error::new(ErrorKind::Unsupported, "unknown format").in_file(image);
    let format = description.format.ok_or_else(unknown)?;
    Ok((format, description.virtual_size_bytes))
}

/// Returns the image's path relative to the overlay's directory if it is below that, else its
/// absolute path.
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

/// Fails unless `image` is the direct backing file in the overlay's description.
fn check_backing(overlay: &Description, image: &Path, format: Format) -> Result<()> {
    let wrong = |reason: String| {
        Err(Error::new(ErrorKind::Invalid, reason)
            .in_file(&overlay.path)
            .with_hint("give a new file, or the image that the overlay belongs to"))
    };
    match &overlay.backing {
        Some(backing) if !is_same_file(&backing.path, image) => wrong(format!(
            "is an overlay of {}, not of {}",
            backing.path.display(),
            image.display()
        )),
        Some(backing) if backing.format != Some(format) => wrong(format!(
            "the overlay does not record {} as {format}",
            image.display()
        )),
        Some(_) => Ok(()),
        None => wrong("exists already and is not an overlay".to_owned()),
    }
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |path: &Path| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    id(a).is_some() && id(a) == id(b)
}
