//! The version of an object, as its validators name it.

use reqwest::header::{ETAG, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED};

/// The validators of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    etag: Option<HeaderValue>,
    last_modified: Option<HeaderValue>,
}

impl Version {
    /// Returns the version that an answer names.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let get = |name: HeaderName| headers.get(name).cloned();
        Self {
            etag: get(ETAG),
            last_modified: get(LAST_MODIFIED),
        }
    }

    /// Returns false if nothing tells versions apart but the size.
    pub(super) fn is_known(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }

    /// Returns the validator that tells versions apart: the `ETag`, or else the time of the last
    /// modification.
    pub(super) fn name(&self) -> Option<String> {
        let (what, value) = match (&self.etag, &self.last_modified) {
            (Some(etag), _) => ("etag", etag),
            (None, Some(time)) => ("last-modified", time),
            (None, None) => return None,
        };
        Some(format!("{what} {}", value.as_bytes().escape_ascii()))
    }

    /// Returns the value of the header `If-Range`, which only strong validators may be in.
    pub(super) fn validator(&self) -> Option<HeaderValue> {
        let is_strong = |etag: &&HeaderValue| !etag.as_bytes().starts_with(b"W/");
        self.etag.as_ref().filter(is_strong).cloned()
    }

    /// Returns the strong validator as text, which tells versions apart for good.
    pub(super) fn strong(&self) -> Option<String> {
        let validator = self.validator()?;
        validator.to_str().ok().map(Into::into)
    }

    /// Returns true if an answer names this version.
    pub(super) fn is_same(&self, headers: &HeaderMap) -> bool {
        let found = Self::of(headers);
        match (&self.etag, &found.etag) {
            (Some(before), Some(now)) => before == now,
            (Some(_), None) | (None, Some(_)) => false,
            (None, None) => self.last_modified == found.last_modified,
        }
    }
}
