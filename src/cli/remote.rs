//! The images on other machines that commands open: exports of NBD.

mod broker;
mod brokered;
mod direct;

use std::sync::Arc;

use diskfs::RemoteImages;

use super::sandbox;

pub(crate) use broker::RemoteServer;
use brokered::BrokeredImages;
use direct::DirectImages;

/// Returns the opener of images on other machines: the broker, if this process is confined.
pub(crate) fn images() -> Arc<dyn RemoteImages> {
    match sandbox::broker() {
        Some(broker) => Arc::new(BrokeredImages(broker)),
        None => Arc::new(DirectImages),
    }
}
