//! Opening an image on another machine.

use std::path::{Path, PathBuf};

use diskfs_block::Result;

use super::Opener;
use crate::gate::{Access, Gate};
use crate::source::Source;
use crate::{RemoteImages, uri};

impl Opener<'_> {
    /// Returns the image of a URI as a source, and `None` for the path of a file. From now on, no
    /// image may name files: an image on another machine is in no directory.
    pub(super) fn remote_source(&mut self, path: &Path, access: Access) -> Result<Option<Source>> {
        let (Some(uri), Some(remote)) = (uri::of(path), &self.options.remote) else {
            return Ok(None);
        };
        self.gate = Gate::closed();
        let name = PathBuf::from(uri::shown(uri));
        open(uri, remote.as_ref(), &name, access)
            .map(Some)
            .map_err(|e| e.in_file(name))
    }
}

fn open(uri: &str, remote: &dyn RemoteImages, name: &Path, access: Access) -> Result<Source> {
    Ok(match access {
        Access::Read => Source::of_device(name, remote.open(uri)?, None),
        Access::ReadWrite => {
            let device = remote.open_writable(uri)?;
            Source::of_device(name, device.clone(), Some(device))
        }
    })
}
