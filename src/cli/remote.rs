//! The images on other machines that commands open: exports of NBD, objects of HTTP servers and of
//! stores, and OCI images in registries.

mod broker;
mod brokered;
mod direct;
#[cfg(feature = "objects")]
mod push;
#[cfg(feature = "objects")]
mod registry;
#[cfg(feature = "objects")]
mod uploads;

use std::sync::Arc;

use diskfs::RemoteImages;
use diskfs::image::ImageSpec;

use super::sandbox;

pub(crate) use broker::RemoteServer;
use brokered::BrokeredImages;
use direct::DirectImages;
#[cfg(feature = "objects")]
pub(crate) use push::PushTarget;

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
