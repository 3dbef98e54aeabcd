//! Opening of objects, by the scheme of their URI.

use diskfs_block::Result;

use crate::object::Opened;
use crate::options::Options;
use crate::{http, store, uri};

/// Opens the object of a URI. `name` is its name in errors.
pub(crate) fn open(uri: &str, name: &str, options: &Options) -> Result<Opened> {
    let opened = if uri::is_http(uri) {
        http::open(uri, options)
    } else {
        store::open(uri, options)
    };
    opened.map_err(|error| error.in_file(name))
}
