//! Opening an image on another machine.

use std::path::{Path, PathBuf};

use diskfs_block::Result;

use super::Opener;
use crate::base::Identity;
use crate::gate::{Access, Gate};
use crate::source::Source;
use crate::{RemoteImage, RemoteImages, uri};

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

    /// Returns the backing file of the top of a chain as a source, if it is the image on another
    /// machine that the user named: the overlay has its URI without what may be secret.
    pub(super) fn remote_base(&mut self, name: &[u8]) -> Result<Option<Source>> {
        let named = self.options.remote_base.as_deref();
        let is_of_top = self.layers == 1;
        let Some(uri) = named.filter(|uri| is_of_top && uri::shown(uri).as_bytes() == name) else {
            return Ok(None);
        };
        self.remote_source(Path::new(uri), Access::Read)
    }
}

fn open(uri: &str, remote: &dyn RemoteImages, name: &Path, access: Access) -> Result<Source> {
    Ok(match access {
        Access::Read => {
            let RemoteImage { device, version } = remote.open(uri)?;
            let size_bytes = device.size_bytes();
            let identity = version.as_deref();
            Source {
                identity: identity.map(|version| Identity::of_version(version, size_bytes)),
                version,
                ..Source::of_device(name, device, None)
            }
        }
        Access::ReadWrite => {
            let device = remote.open_writable(uri)?;
            Source::of_device(name, device.clone(), Some(device))
        }
    })
}
