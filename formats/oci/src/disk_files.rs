//! The files of an image's layers that may be its disk.

use std::collections::BTreeMap;

use diskfs_block::{Error, ErrorKind, Result};

use crate::message::{list, shortened};

/// The directory of the disk (KubeVirt, "containerDisk").
const DIRECTORY: &str = "disk/";

/// The prefix of a whiteout, which removes a file of lower layers, and the marker that removes all
/// of a directory (OCI image specification, "Whiteouts").
const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";

/// The limit on files that may be the disk: there should be one.
const MAX_FILES: usize = 4096;

/// A file of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskFile {
    /// The name in the layer, or the path in the image, without a slash at its start.
    pub name: String,
    /// The number of the layer, from 0.
    pub layer: usize,
    /// The byte of the decompressed layer at which the contents begin.
    pub start: u64,
    /// The size of the contents in bytes.
    pub size_bytes: u64,
}

/// The files below `/disk` after all layers, and the one at the path that the user gave.
#[derive(Debug, Default)]
pub struct DiskFiles {
    /// The path in the image that the user gave, without a slash at its start.
    wanted: Option<String>,
    files: BTreeMap<String, DiskFile>,
}

impl DiskFiles {
    /// Creates an empty list for a disk at this path; without one, for the only file below `/disk`.
    ///
    /// # Errors
    /// `Invalid` for a path that leaves the image.
    pub fn new(path: Option<&str>) -> Result<Self> {
        let wanted = path.map(|path| {
            let invalid = || {
                let shown = shortened(path);
                Error::invalid(format!("invalid path in an image: `{shown}`"))
            };
            normal(path).filter(|it| !it.is_empty()).ok_or_else(invalid)
        });
        Ok(Self {
            wanted: wanted.transpose()?,
            files: BTreeMap::new(),
        })
    }

    /// Returns true if a file of a layer matters here. Others need not be given to
    /// [`apply`](Self::apply).
    pub fn is_of_interest(&self, name: &str) -> bool {
        normal(name)
            .is_some_and(|name| base(&name).starts_with(WHITEOUT) || self.may_be_disk(&name))
    }

    fn may_be_disk(&self, name: &str) -> bool {
        match &self.wanted {
            Some(wanted) => wanted == name,
            None => name.starts_with(DIRECTORY),
        }
    }

    /// Applies the next layer: its whiteouts remove files of the layers before it.
    ///
    /// # Errors
    /// `Unsupported` for too many files.
    pub fn apply(&mut self, layer: &[DiskFile]) -> Result<()> {
        let names = layer
            .iter()
            .filter_map(|file| Some((normal(&file.name)?, file)));
        let (whiteouts, files): (Vec<_>, Vec<_>) =
            names.partition(|(name, _)| base(name).starts_with(WHITEOUT));
        for (name, _) in whiteouts {
            self.remove(&name);
        }
        for (name, file) in files {
            if self.may_be_disk(&name) {
                let file = DiskFile {
                    name: name.clone(),
                    ..file.clone()
                };
                self.files.insert(name, file);
            }
        }
        if self.files.len() > MAX_FILES {
            let reason = format!("unsupported image with more than {MAX_FILES} files below /disk");
            return Err(Error::unsupported(reason));
        }
        Ok(())
    }

    /// Removes what a whiteout hides.
    fn remove(&mut self, whiteout: &str) {
        let base = base(whiteout);
        let directory = whiteout.strip_suffix(base).unwrap_or_default();
        if base == OPAQUE {
            self.files.retain(|name, _| !name.starts_with(directory));
            return;
        }
        let hidden = base.strip_prefix(WHITEOUT).unwrap_or_default();
        let hidden = format!("{directory}{hidden}");
        let below = format!("{hidden}/");
        self.files
            .retain(|name, _| *name != hidden && !name.starts_with(&below));
    }

    /// Returns the files after all layers.
    pub fn iter(&self) -> impl Iterator<Item = &DiskFile> {
        self.files.values()
    }

    /// Returns the disk.
    ///
    /// # Errors
    /// `NotFound` without a file; `Invalid` for several files, with a list.
    pub fn disk(&self) -> Result<&DiskFile> {
        let mut files = self.files.values();
        match (files.next(), files.next(), &self.wanted) {
            (Some(file), None, _) => Ok(file),
            (None, _, Some(wanted)) => {
                let reason = format!("the image has no regular file `/{}`", shortened(wanted));
                Err(Error::new(ErrorKind::NotFound, reason))
            }
            (None, ..) => {
                let reason = "the image has no file below /disk";
                let hint =
                    "append `#/PATH` to the name of the image if its disk is at another path";
                Err(Error::new(ErrorKind::NotFound, reason).with_hint(hint))
            }
            (Some(_), Some(_), _) => {
                let names = self
                    .files
                    .keys()
                    .map(|name| format!("/{}", shortened(name)));
                let names: Vec<_> = names.collect();
                let reason = format!("the image has several files below /disk: {}", list(&names));
                let hint = "append `#/PATH` with one of them to the name of the image";
                Err(Error::invalid(reason).with_hint(hint))
            }
        }
    }
}

/// Returns the name of a file without its directory.
fn base(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, base)| base)
}

/// Returns a path without `.` and needless slashes; `None` if it has `..`.
fn normal(path: &str) -> Option<String> {
    let parts: Vec<_> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    (!parts.contains(&"..")).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(layers: &[&[&str]], path: Option<&str>) -> DiskFiles {
        let mut files = DiskFiles::new(path).unwrap();
        for (layer, names) in layers.iter().enumerate() {
            let file = |name: &&str| DiskFile {
                name: (*name).to_owned(),
                layer,
                start: 512,
                size_bytes: 1,
            };
            let all: Vec<_> = names.iter().map(file).collect();
            let all: Vec<_> = all
                .into_iter()
                .filter(|it| files.is_of_interest(&it.name))
                .collect();
            files.apply(&all).unwrap();
        }
        files
    }

    fn disk(layers: &[&[&str]], path: Option<&str>) -> Option<(String, usize)> {
        let files = files(layers, path);
        let disk = files.disk().ok()?;
        Some((disk.name.clone(), disk.layer))
    }

    #[test]
    fn layers_replace_and_remove_files() {
        let found = |name: &str, layer| Some((name.to_owned(), layer));
        assert_eq!(disk(&[&["./disk/a"]], None), found("disk/a", 0));
        assert_eq!(disk(&[&["/disk/a", "etc/x"]], None), found("disk/a", 0));
        assert_eq!(disk(&[&["disk/a"], &["disk/a"]], None), found("disk/a", 1));
        let replaced: &[&[&str]] = &[&["disk/a"], &["disk/.wh.a", "disk/b"]];
        assert_eq!(disk(replaced, None), found("disk/b", 1));
        // Whiteouts act on lower layers only.
        let same: &[&[&str]] = &[&["disk/a", "disk/.wh.a"]];
        assert_eq!(disk(same, None), found("disk/a", 0));
        for whiteout in ["disk/.wh..wh..opq", ".wh.disk", ".wh..wh..opq"] {
            let layers: &[&[&str]] = &[&["disk/a", "disk/b"], &[whiteout, "disk/c"]];
            assert_eq!(disk(layers, None), found("disk/c", 1), "{whiteout}");
        }
        assert_eq!(disk(&[&["disk/a", "disk/b"]], None), None);
        assert_eq!(disk(&[&["diskette", "disk"]], None), None);
        assert_eq!(disk(&[&["disk/../etc/a"]], None), None);
    }

    #[test]
    fn a_path_selects_any_file() {
        let layers: &[&[&str]] = &[&["disk/a", "disk/b", "vm/c"]];
        assert_eq!(disk(layers, Some("/disk/b")), Some(("disk/b".into(), 0)));
        assert_eq!(disk(layers, Some("vm/./c")), Some(("vm/c".into(), 0)));
        assert_eq!(disk(layers, Some("/vm")), None);
        for bad in ["", "/", "../x", "/disk/../../x"] {
            assert!(DiskFiles::new(Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn several_disks_are_listed() {
        let error = files(&[&["disk/a", "disk/b"]], None)
            .disk()
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("/disk/a, /disk/b") && error.contains("#/PATH"),
            "{error}"
        );
    }
}
