//! The URIs of objects.

/// The schemes of HTTP.
const HTTP: [&str; 2] = ["http", "https"];

/// The schemes of object stores: Amazon S3 and what is compatible with it, Google Cloud Storage,
/// Azure Blob Storage.
const STORES: [&str; 4] = ["s3", "gs", "az", "azure"];

/// Returns true for a text that begins with a scheme of objects.
pub fn is_uri(text: &str) -> bool {
    has_scheme(text, &HTTP) || has_scheme(text, &STORES)
}

/// Returns true for a URI of HTTP.
pub(crate) fn is_http(uri: &str) -> bool {
    has_scheme(uri, &HTTP)
}

fn has_scheme(text: &str, schemes: &[&str]) -> bool {
    text.split_once("://")
        .is_some_and(|(scheme, _)| schemes.contains(&scheme))
}
