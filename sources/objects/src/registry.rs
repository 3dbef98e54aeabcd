//! Registries of OCI images (OCI distribution specification 1.1).

mod auth;
mod blob;
mod challenge;
mod docker_config;
mod plain;
mod refusal;
mod upload;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use diskfs_block::{BlockRead, Error, ErrorKind, Memory, Result, len_of};
use diskfs_oci::{Digest, RegistryName, RegistryPart, RegistryReference};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};

use crate::device::Device;
use crate::http::answer::failure;
use crate::http::{SLOWEST, client};
use crate::object::FetchError;
use crate::options::Options;
use crate::retry::with_retries;
use crate::runtime;
use auth::Auth;
use plain::is_plain;

/// The media types of manifests and indexes, of OCI and of Docker.
const MANIFEST_TYPES: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json";

/// The header with the digest of a manifest.
const CONTENT_DIGEST: &str = "docker-content-digest";

/// The largest manifest (OCI distribution specification, "Pushing Manifests").
const MANIFEST_MAX_BYTES: u64 = 4 << 20;

/// The number of bytes to cache of a blob: an image has several.
const CACHE_BYTES: u64 = 32 << 20;

type Fetched<T> = std::result::Result<T, FetchError>;

/// The permissions that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistryAccess {
    /// Reading.
    Pull,
    /// Reading and writing.
    Push,
}

/// A repository of a registry.
#[derive(Debug, Clone)]
pub struct Registry {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    /// The URL below which the repository's manifests and blobs are.
    base: Url,
    name: RegistryName,
    auth: Auth,
    options: Options,
}

impl Registry {
    /// Prepares requests to the repository of an image. Nothing is sent yet.
    ///
    /// # Errors
    /// `Invalid` if the client cannot be set up.
    pub fn new(name: RegistryName, access: RegistryAccess, options: &Options) -> Result<Self> {
        // Docker's registry has two names, and official images are in one directory.
        let is_docker = ["docker.io", "index.docker.io"].contains(&&*name.host);
        let host = if is_docker {
            "registry-1.docker.io"
        } else {
            &name.host
        };
        let repository = if is_docker && !name.repository.contains('/') {
            format!("library/{}", name.repository)
        } else {
            name.repository.clone()
        };
        let scheme = if is_plain(&name.host) {
            "http"
        } else {
            "https"
        };
        let base = format!("{scheme}://{host}/v2/{repository}/");
        let base = base.parse();
        let base: Url = base.map_err(|e| Error::invalid(format!("invalid registry: {e}")))?;
        let options = Options {
            cache_bytes: options.cache_bytes.min(CACHE_BYTES),
            ..options.clone()
        };
        Ok(Self {
            shared: Arc::new(Shared {
                client: client::new(&options)?,
                auth: Auth::new(&name.host, &repository, access),
                base,
                name,
                options,
            }),
        })
    }

    /// Opens a part of the image: a document, which is read as a whole, or a blob, of which ranges
    /// are read. The digests of documents are verified; those of blobs are not.
    ///
    /// # Errors
    /// `NotFound` if the registry has no such part, `Denied` if it refuses, `Corrupt` for a wrong
    /// digest, `Io` if it cannot be reached.
    pub fn open(&self, part: &RegistryPart) -> Result<Arc<dyn BlockRead>> {
        let reference = match part {
            RegistryPart::Root => self.shared.name.reference.clone(),
            RegistryPart::Manifest(digest) => RegistryReference::Digest(digest.clone()),
            RegistryPart::Blob(digest) => {
                let opened = blob::open(&self.shared, digest)?;
                let name = digest.to_string();
                let device = Device::of(opened, (&name, &name), &self.shared.options)?;
                return Ok(Arc::new(device));
            }
        };
        let shared = Arc::clone(&self.shared);
        let bytes = runtime::wait(async move {
            let attempt = || shared.manifest(&reference);
            with_retries(shared.options.open_timeout, attempt).await
        })?;
        Ok(Arc::new(Memory::new(bytes.to_vec())))
    }

    /// Stores a manifest. With a tag, the tag then refers to it.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn put_manifest(
        &self,
        reference: &RegistryReference,
        media_type: &str,
        document: Vec<u8>,
    ) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let url = shared.url(&format!("manifests/{reference}"))?;
        let (media_type, document) = (media_type.to_owned(), Bytes::from(document));
        runtime::wait(async move {
            let attempt = || async {
                let put = |url: Url| {
                    let request = shared.request(Method::PUT, url, len_of(&document));
                    let request = request.header(CONTENT_TYPE, &media_type);
                    request.body(document.clone())
                };
                let response = shared.send(&url, put).await?;
                shared.accept(response, &[StatusCode::CREATED]).await
            };
            with_retries(shared.options.retry_timeout, attempt).await?;
            Ok(())
        })
    }

    /// Returns true if the repository has a blob.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), except `NotFound`.
    pub fn has_blob(&self, digest: &Digest) -> Result<bool> {
        let shared = Arc::clone(&self.shared);
        let url = shared.url(&format!("blobs/{digest}"))?;
        runtime::wait(async move {
            let attempt = || async {
                let head = |url: Url| shared.request(Method::HEAD, url, 0);
                let response = shared.send(&url, head).await?;
                // Storage to which a registry redirects may only know GET.
                if response.status() == StatusCode::NOT_FOUND || !shared.is_ours(response.url()) {
                    return Ok(response.status().is_success());
                }
                shared.accept(response, &[StatusCode::OK]).await?;
                Ok(true)
            };
            with_retries(shared.options.open_timeout, attempt).await
        })
    }
}

impl Shared {
    fn url(&self, path: &str) -> Result<Url> {
        let invalid = |e| Error::invalid(format!("invalid URL: {e}"));
        self.base.join(path).map_err(invalid)
    }

    /// Returns true for a URL of the registry itself, which gets the credentials.
    fn is_ours(&self, url: &Url) -> bool {
        url.origin() == self.base.origin()
    }

    /// Creates a request that has time for a body of this length.
    fn request(&self, method: Method, url: Url, len_bytes: u64) -> RequestBuilder {
        let slow = Duration::from_secs(len_bytes.checked_div(SLOWEST).unwrap_or(0));
        let timeout = self.options.stall_timeout.saturating_add(slow);
        self.client.request(method, url).timeout(timeout)
    }

    /// Sends a request, with credentials if it goes to the registry itself. If the registry asks
    /// for others, gets a token and sends the request once more.
    async fn send(&self, url: &Url, make: impl Fn(Url) -> RequestBuilder) -> Fetched<Response> {
        if !self.is_ours(url) {
            return make(url.clone()).send().await.map_err(failure);
        }
        let (request, generation) = self.auth.add_to(make(url.clone()));
        let response = request.send().await.map_err(failure)?;
        if response.status() != StatusCode::UNAUTHORIZED || !self.is_ours(response.url()) {
            return Ok(response);
        }
        let answer = self.auth.renew(self, response.headers(), generation).await;
        answer?;
        let (request, _) = self.auth.add_to(make(url.clone()));
        request.send().await.map_err(failure)
    }

    /// Returns an answer that has one of these statuses; fails with the registry's reason otherwise.
    async fn accept(&self, response: Response, statuses: &[StatusCode]) -> Fetched<Response> {
        if statuses.contains(&response.status()) {
            return Ok(response);
        }
        Err(refusal::of(response, &self.auth).await)
    }

    /// Gets a manifest or an index, and verifies its digest.
    async fn manifest(&self, reference: &RegistryReference) -> Fetched<Bytes> {
        let url = self.url(&format!("manifests/{reference}"))?;
        let get = |url: Url| {
            let request = self.request(Method::GET, url, MANIFEST_MAX_BYTES);
            request.header(ACCEPT, MANIFEST_TYPES)
        };
        let response = self.send(&url, get).await?;
        let response = self.accept(response, &[StatusCode::OK]).await?;
        let digest = match reference {
            RegistryReference::Digest(digest) => Some(digest.clone()),
            RegistryReference::Tag(_) => {
                let header = response.headers().get(CONTENT_DIGEST);
                let text = header.and_then(|value| value.to_str().ok());
                text.map(Digest::parse).transpose()?
            }
        };
        let bytes = bounded(response, MANIFEST_MAX_BYTES, "manifest").await?;
        if let Some(digest) = digest {
            digest.verify(&bytes, "manifest")?;
        }
        Ok(bytes)
    }
}

/// Reads an answer of at most `most` bytes. `what` names it in the error.
async fn bounded(mut response: Response, most: u64, what: &str) -> Fetched<Bytes> {
    let mut body = BytesMut::new();
    while let Some(part) = response.chunk().await.map_err(failure)? {
        if len_of(&body).saturating_add(len_of(&part)) > most {
            let reason = format!("unsupported {what} of more than {most} bytes");
            return Err(Error::unsupported(reason).into());
        }
        body.extend_from_slice(&part);
    }
    Ok(body.freeze())
}

/// Returns the error of a registry that does not keep to its protocol.
fn violation(reason: &'static str) -> FetchError {
    Error::new(ErrorKind::Io, reason).into()
}
