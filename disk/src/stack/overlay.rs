//! A qcow2 overlay that stores the changes of an image.

use std::path::{Path, PathBuf};

use diskfs_image::create::{BackingCheck, CreateOptions, NewBacking, NewImage, NewQcow2, create};
use diskfs_image::{
    Description, Format, Image, ImageSpec, OpenOptions, WritableImage, has_copied, is_oci,
};

use crate::{Error, ErrorKind, Result};

/// The properties of an image that its overlay records.
#[derive(Debug, Clone)]
pub struct OverlaidImage {
    /// The format of the image.
    pub format: Format,
    /// The size of its disk in bytes.
    pub size_bytes: u64,
    /// The length of the image in bytes.
    pub file_size_bytes: u64,
    /// The version of an image on another machine, if its server names one.
    pub version: Option<String>,
}

impl OverlaidImage {
    /// Returns the properties of an image that is open.
    ///
    /// # Errors
    /// `Unsupported` if its format is unknown.
    pub fn of(image: &Description) -> Result<Self> {
        let unknown = || Error::new(ErrorKind::Unsupported, "unknown format").in_file(&image.path);
        Ok(Self {
            format: image.format.ok_or_else(unknown)?,
            size_bytes: image.virtual_size_bytes,
            file_size_bytes: image.file_size_bytes,
            version: image.version.clone(),
        })
    }
}

/// Creates `overlay`, a qcow2 overlay of an image that is not opened.
///
/// # Errors
/// `Exists`, `NotFound`, `Denied`, `NoSpace`, `Io`; `Unsupported` for a disk in an OCI image.
pub fn create_overlay(overlay: &Path, path: &Path, image: &OverlaidImage) -> Result<()> {
    refuse_oci(path)?;
    let check = match remote_name(path) {
        Some(_) => BackingCheck::Remote {
            version: image.version.clone(),
            file_size_bytes: image.file_size_bytes,
        },
        None => BackingCheck::ByCaller,
    };
    let new = NewQcow2 {
        backing: Some(NewBacking {
            name: recorded_name(overlay, path)?,
            format: image.format,
            check,
        }),
        ..NewQcow2::default()
    };
    let new = NewImage::Qcow2(Box::new(new));
    create(overlay, &CreateOptions::new(new, Some(image.size_bytes)))?;
    Ok(())
}

/// Returns the name of the image as its overlay records it.
fn recorded_name(overlay: &Path, image: &Path) -> Result<PathBuf> {
    if let Some(name) = remote_name(image) {
        return Ok(name);
    }
    Ok(name_from(overlay, &real_path(image)?))
}

fn real_path(image: &Path) -> Result<PathBuf> {
    let real = image.canonicalize();
    real.map_err(|e| Error::from(e).in_file(image))
}

/// Returns true if the image was copied into its overlay, which works without it.
fn is_complete(overlay: &Path, image: &Path, options: &OpenOptions) -> bool {
    // What fails here fails when the overlay is opened, and is reported there.
    recorded_name(overlay, image)
        .is_ok_and(|name| has_copied(overlay, &name, options).unwrap_or(false))
}

/// Returns the name of an image on another machine as its overlay records it: without what may be
/// secret.
fn remote_name(image: &Path) -> Option<PathBuf> {
    let spec = spec_of(image);
    spec.remote_uri().is_some().then(|| spec.shown_path())
}

fn spec_of(image: &Path) -> ImageSpec {
    ImageSpec {
        path: image.to_owned(),
        ..ImageSpec::default()
    }
}

/// Refuses an overlay of a disk in an OCI image: its name is not that of an image.
fn refuse_oci(image: &Path) -> Result<()> {
    let spec = spec_of(image);
    if !is_oci(image) && !spec.is_in_registry() {
        return Ok(());
    }
    let reason = "an overlay of a disk in an OCI image is not supported";
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
    refuse_oci(image)?;
    let is_new = overlay.symlink_metadata().is_err();
    if !is_new && is_complete(overlay, image, options) {
        let options = OpenOptions {
            format: Some(Format::Qcow2),
            ..options.clone()
        };
        return Ok(WritableImage::open(overlay, &options)?);
    }
    let properties = properties_of(image, options)?;
    // The user named this image, so it is trusted; the files that the image names are checked by
    // the gate.
    let remote_base = spec_of(image).remote_uri().map(ToOwned::to_owned);
    let gate = if remote_base.is_some() {
        options.gate.clone()
    } else {
        options.gate.clone().allow_file(real_path(image)?)
    };
    if is_new {
        create_overlay(overlay, image, &properties)?;
    }
    let options = OpenOptions {
        format: Some(Format::Qcow2),
        backing_format: None,
        gate,
        remote_base,
        ..options.clone()
    };
    let opened = open_overlay(overlay, &options, (image, properties.format));
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

/// Opens the image for what the overlay must record: its format, probed if it is not given, its
/// sizes and its version.
fn properties_of(image: &Path, options: &OpenOptions) -> Result<OverlaidImage> {
    let shown = spec_of(image).shown_path();
    let opened = Image::open(image, options).map_err(|e| Error::from(e).in_file(shown))?;
    OverlaidImage::of(opened.description())
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
        Some(backing) if !is_same_image(&backing.path, image) => wrong(format!(
            "is an overlay of {}, not of {}",
            backing.path.display(),
            spec_of(image).shown_path().display()
        )),
        Some(backing) if backing.format != Some(format) => wrong(format!(
            "the overlay does not record {} as {format}",
            spec_of(image).shown_path().display()
        )),
        Some(_) => Ok(()),
        None => wrong("exists already and is not an overlay".to_owned()),
    }
}

fn is_same_image(recorded: &Path, image: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    if let Some(name) = remote_name(image) {
        return recorded == name;
    }
    let id = |path: &Path| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    id(recorded).is_some() && id(recorded) == id(image)
}
