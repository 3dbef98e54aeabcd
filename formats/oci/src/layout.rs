//! The marker of an image layout (OCI image specification, "Image Layout").

use diskfs_block::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::blobs::parse;
use crate::message::shortened;

/// The name of the file that marks a layout.
pub const LAYOUT_NAME: &str = "oci-layout";

/// The name of the index of a layout.
pub const INDEX_NAME: &str = "index.json";

/// The contents of `oci-layout`.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Layout {
    #[serde(rename = "imageLayoutVersion")]
    pub(crate) version: String,
}

/// Refuses layouts of another version.
pub(crate) fn check(bytes: &[u8]) -> Result<()> {
    let layout: Layout = parse(bytes, LAYOUT_NAME)?;
    if layout.version.starts_with("1.") {
        return Ok(());
    }
    let version = shortened(&layout.version);
    let reason = format!("unsupported version of the image layout: `{version}`");
    Err(Error::unsupported(reason))
}
