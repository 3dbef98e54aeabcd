//! The images on other machines that commands open: exports of NBD, and objects of HTTP servers and
//! of stores.

mod broker;
mod brokered;
mod direct;

use std::sync::Arc;

use diskfs::RemoteImages;
use diskfs::image::ImageSpec;

use super::sandbox;

pub(crate) use broker::RemoteServer;
use brokered::BrokeredImages;
use direct::DirectImages;

/// Returns the name of an image for messages: its URI without secrets.
pub(super) fn shown(uri: &str) -> String {
    let spec = ImageSpec {
        path: uri.into(),
        ..ImageSpec::default()
    };
    spec.shown_path().to_string_lossy().into_owned()
}

/// Returns the opener of images on other machines: the broker, if this process is confined.
pub(crate) fn images() -> Arc<dyn RemoteImages> {
    match sandbox::broker() {
        Some(broker) => Arc::new(BrokeredImages(broker)),
        None => Arc::new(DirectImages),
    }
}
