//! The broker's end of uploads to a registry.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use diskfs::objects::{Registry, RegistryAccess};
use diskfs::{Error, ErrorKind, Result};
use diskfs_oci::{Digest, RegistryName, RegistryReference};
use serde::{Deserialize, Serialize};

use super::registry::connect;
use crate::cli::failure::Failure;

/// The longest manifest.
const MANIFEST_MAX_BYTES: u64 = 4 << 20;

/// A request for the upload of an item.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PushRequest {
    /// The URI of the image.
    pub(super) push_uri: String,
    pub(super) item: Item,
}

/// A blob or a manifest that is uploaded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Item {
    pub(super) digest: String,
    pub(super) size_bytes: u64,
    /// The media type of a manifest; `None` for a blob.
    pub(super) manifest: Option<String>,
    /// True if the tag then refers to the manifest.
    pub(super) is_tagged: bool,
}

/// An answer about an item, on a line of its own.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// The registry needs the item.
    Send,
    /// The registry has the item already.
    Exists,
    Done,
    Failed(Failure),
}

/// The end that speaks with the registry.
#[derive(Default)]
pub(super) struct Uploads {
    registry: Option<Registry>,
    current: Option<JoinHandle<()>>,
}

impl Uploads {
    /// Begins the upload of an item, whose bytes come over the returned socket.
    pub(super) fn begin(&mut self, request: PushRequest) -> Result<OwnedFd> {
        // One at a time: the other end has received the answer to the last one.
        if let Some(Err(_)) = self.current.take().map(JoinHandle::join) {
            return Err(Error::new(ErrorKind::Io, "an upload panicked"));
        }
        let registry = match &self.registry {
            Some(registry) => registry.clone(),
            None => connect(&request.push_uri, RegistryAccess::Push)?,
        };
        self.registry = Some(registry.clone());
        let (ours, theirs) = UnixStream::pair()?;
        let upload = thread::Builder::new()
            .name("upload".into())
            .spawn(move || {
                let uploaded = upload(&registry, &request, &ours);
                let reply = uploaded.unwrap_or_else(|error| Reply::Failed(Failure::of(&error)));
                // It fails only if the other end has gone.
                let _ = write(&ours, &reply);
            })?;
        self.current = Some(upload);
        Ok(theirs.into())
    }
}

/// Uploads an item, whose bytes come over the socket.
fn upload(registry: &Registry, request: &PushRequest, mut socket: &UnixStream) -> Result<Reply> {
    let item = &request.item;
    let digest = Digest::parse(&item.digest)?;
    let Some(media_type) = &item.manifest else {
        if registry.has_blob(&digest)? {
            return Ok(Reply::Exists);
        }
        write(socket, &Reply::Send)?;
        registry.upload(&digest, item.size_bytes, &mut socket)?;
        return Ok(Reply::Done);
    };
    if item.size_bytes > MANIFEST_MAX_BYTES {
        let reason = format!("unsupported manifest of more than {MANIFEST_MAX_BYTES} bytes");
        return Err(Error::new(ErrorKind::Unsupported, reason));
    }
    write(socket, &Reply::Send)?;
    let mut document = Vec::new();
    socket.take(item.size_bytes).read_to_end(&mut document)?;
    digest.verify(&document, "manifest")?;
    let reference = if item.is_tagged {
        RegistryName::parse(&request.push_uri)?.reference
    } else {
        RegistryReference::Digest(digest)
    };
    registry.put_manifest(&reference, media_type, document)?;
    Ok(Reply::Done)
}

fn write(mut socket: &UnixStream, reply: &Reply) -> io::Result<()> {
    let line = serde_json::to_vec(reply)?;
    socket.write_all(&[&line[..], b"\n"].concat())
}
