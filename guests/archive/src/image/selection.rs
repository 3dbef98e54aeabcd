//! The choice of an image among those of a layout.

use std::path::{Path, PathBuf};

use diskfs_disk::{Error, ErrorKind};

use super::platform::Platform;
use crate::digest::Digest;

/// The limit on the images that an error lists.
const LISTED: usize = 50;

/// The choice of an image among those of a layout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// A tag (`latest`), a name with a tag (`debian:12`), or the digest of a manifest
    /// (`sha256:...`). Without it, the layout must contain only one image.
    pub reference: Option<String>,
    /// The platform. Without it, an image for several platforms must contain the host's.
    pub platform: Option<Platform>,
}

impl Selection {
    /// Splits `PATH`, `PATH:REFERENCE` or `PATH@DIGEST`. A path that exists is not split.
    pub fn split(text: &str) -> (PathBuf, Self) {
        let whole = (PathBuf::from(text), Self::default());
        if Path::new(text).exists() {
            return whole;
        }
        let digest = text.rsplit_once('@');
        let digest = digest.filter(|(_, digest)| Digest::parse(digest).is_ok());
        let colons = text.match_indices(':');
        let mut named = colons.filter_map(|(at, _)| text.split_at_checked(at));
        // A reference may contain a colon: the path is the longest start that exists.
        let named = named.rfind(|(path, _)| Path::new(path).exists());
        let named = named.and_then(|(path, rest)| Some((path, rest.strip_prefix(':')?)));
        let Some((path, reference)) = digest.or(named).or_else(|| text.rsplit_once(':')) else {
            return whole;
        };
        let selection = Self {
            reference: Some(reference.to_owned()),
            platform: None,
        };
        (PathBuf::from(path), selection)
    }

    /// Returns the platform that is selected, or the host's.
    pub(super) fn platform_or_host(&self) -> Platform {
        self.platform.clone().unwrap_or_else(Platform::host)
    }
}

/// Returns the error for a selection that matches several images.
pub(super) fn ambiguous(what: &str, choices: &[String]) -> Error {
    let reason = format!("{what}: {}", list(choices));
    Error::new(ErrorKind::Ambiguous, reason).with_hint("select one by its tag, digest or platform")
}

/// Returns the error for a selection that matches no image.
pub(super) fn not_found(what: &str, choices: &[String]) -> Error {
    let reason = format!("{what}; available: {}", list(choices));
    Error::new(ErrorKind::NotFound, reason)
}

fn list(choices: &[String]) -> String {
    if choices.is_empty() {
        return "no image".to_owned();
    }
    let shown: Vec<_> = choices.iter().take(LISTED).map(String::as_str).collect();
    let more = if choices.len() > LISTED { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_split_from_paths() {
        let dir = tempfile::tempdir().unwrap();
        let layout = dir.path().join("a:b");
        std::fs::create_dir(&layout).unwrap();
        let layout = layout.to_str().unwrap();
        let digest = Digest::of(b"").to_string();
        for (rest, reference) in [
            (String::new(), None),
            (":12".into(), Some("12")),
            (":debian:12".into(), Some("debian:12")),
            (format!("@{digest}"), Some(&*digest)),
        ] {
            let (path, selection) = Selection::split(&format!("{layout}{rest}"));
            assert_eq!(path.to_str(), Some(layout));
            assert_eq!(selection.reference.as_deref(), reference);
        }
        let (path, selection) = Selection::split("/missing/x:y");
        assert_eq!(path.to_str(), Some("/missing/x"));
        assert_eq!(selection.reference.as_deref(), Some("y"));
    }
}
