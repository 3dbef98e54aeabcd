//! Objects of S3, Google Cloud Storage and Azure Blob Storage.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use diskfs_block::{Error, ErrorKind, Result, len_of};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{
    Certificate, ClientConfigKey, ClientOptions, GetOptions, GetRange, GetResult, ObjectStore,
    ObjectStoreExt, RetryConfig,
};
use reqwest::Url;
use tokio_rustls::rustls::crypto::ring;
use tokio_stream::StreamExt;

use crate::http::client;
use crate::object::{FetchError, Fetching, Object, Opened};
use crate::options::Options;
use crate::retry::with_retries;
use crate::runtime;

/// The number of bytes of the first request, which finds out the size.
const FIRST_BYTES: u64 = 128 << 10;

/// The longest reason that a store gives for an error.
const MAX_REASON_CHARS: usize = 300;

/// The number of retries of one request, which the store's client makes.
const MAX_RETRIES: usize = 8;

/// An object of a store, in one version.
#[derive(Debug)]
struct StoredObject {
    store: Arc<dyn ObjectStore>,
    key: Path,
    size_bytes: u64,
    etag: Option<String>,
}

/// Opens the object of a URI.
pub(crate) fn open(uri: &str, options: &Options) -> Result<Opened> {
    // Another provider may be installed already; then that one is used.
    let _ = ring::default_provider().install_default();
    let url: Url = uri
        .parse()
        .map_err(|e| Error::invalid(format!("invalid URI: {e}")))?;
    let key = Path::from_url_path(url.path()).map_err(|e| Error::invalid(e.to_string()))?;
    if key.as_ref().is_empty() {
        let error = Error::invalid("missing the name of the object");
        return Err(error.with_hint("write it after the bucket, as in `s3://BUCKET/NAME`"));
    }
    let store = store_of(&url, options)?;
    let timeout = options.open_timeout;
    runtime::wait(async move {
        let first = || {
            let (store, key) = (Arc::clone(&store), key.clone());
            async move { get(store.as_ref(), &key, 0..FIRST_BYTES, None).await }
        };
        let (first, size_bytes, etag) = match with_retries(timeout, first).await {
            Ok(found) => found,
            // A range of an empty object cannot be asked for.
            Err(error) => {
                let head = store.head(&key).await.map_err(|_| error)?;
                if head.size != 0 {
                    return Err(Error::new(ErrorKind::Io, "the store serves no ranges"));
                }
                (Bytes::new(), 0, head.e_tag)
            }
        };
        if etag.is_none() {
            tracing::warn!(
                "the store names no version of the image: a change while it is read may stay unnoticed"
            );
        }
        Ok(Opened {
            size_bytes,
            version: etag
                .as_ref()
                .map(|etag| format!("etag {}", etag.escape_debug())),
            first,
            strong_version: etag.clone().filter(|etag| !etag.starts_with("W/")),
            object: Arc::new(StoredObject {
                store,
                key,
                size_bytes,
                etag,
            }),
        })
    })
}

/// Returns the store of a URI, with credentials and endpoint of the environment.
fn store_of(url: &Url, options: &Options) -> Result<Arc<dyn ObjectStore>> {
    let mut client = ClientOptions::new()
        .with_connect_timeout(options.connect_timeout)
        .with_timeout(options.retry_timeout)
        .with_pool_max_idle_per_host(options.max_requests);
    if let Some((bundle, pem)) = client::authorities()? {
        let invalid = |e| Error::invalid(format!("invalid certificates: {e}")).in_file(bundle);
        for certificate in Certificate::from_pem_bundle(&pem).map_err(invalid)? {
            client = client.with_root_certificate(certificate);
        }
    }
    if url.scheme() == "s3" {
        warn_of_http("AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP");
    }
    // A host without authorities can still speak to a store without TLS.
    let without_host = client
        .clone()
        .with_config(ClientConfigKey::NoSystemCertificates, "true");
    build(url, client, options)
        .or_else(|_| build(url, without_host, options))
        .map_err(|e| {
            let error = Error::invalid(reason(&e));
            error.with_hint("set the account and its key in the environment")
        })
}

fn build(
    url: &Url,
    client: ClientOptions,
    options: &Options,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let retry = RetryConfig {
        max_retries: MAX_RETRIES,
        retry_timeout: options.retry_timeout,
        ..RetryConfig::default()
    };
    let bucket = url.as_str();
    Ok(match url.scheme() {
        "s3" => {
            let builder = AmazonS3Builder::from_env()
                .with_url(bucket)
                .with_client_options(allow_http(client));
            Arc::new(builder.with_retry(retry).build()?)
        }
        "gs" => {
            let builder = GoogleCloudStorageBuilder::from_env()
                .with_url(bucket)
                .with_client_options(client);
            Arc::new(builder.with_retry(retry).build()?)
        }
        _ => {
            let builder = MicrosoftAzureBuilder::from_env()
                .with_url(bucket)
                .with_client_options(allow_http(client));
            Arc::new(builder.with_retry(retry).build()?)
        }
    })
}

/// Says why an endpoint without TLS will be refused.
fn warn_of_http(endpoint: &str, allow: &str) {
    let is_http = std::env::var(endpoint).is_ok_and(|url| url.starts_with("http://"));
    if is_http && !is_set(allow) {
        tracing::warn!("{endpoint} is an endpoint without TLS, which needs {allow}=true");
    }
}

fn is_set(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| matches!(&*value, "1" | "true"))
}

/// Allows endpoints without TLS if the environment does, with the variable that the store's client
/// reads.
fn allow_http(client: ClientOptions) -> ClientOptions {
    client.with_allow_http(is_set("AWS_ALLOW_HTTP") || is_set("AZURE_ALLOW_HTTP"))
}

/// Reads a range. Returns it with the size and the `ETag` of the object.
async fn get(
    store: &dyn ObjectStore,
    key: &Path,
    range: Range<u64>,
    etag: Option<String>,
) -> std::result::Result<(Bytes, u64, Option<String>), FetchError> {
    let asked = GetOptions {
        range: Some(GetRange::Bounded(range.clone())),
        if_match: etag,
        ..GetOptions::default()
    };
    let result = store.get_opts(key, asked).await.map_err(|e| failure(&e))?;
    let (size_bytes, etag) = (result.meta.size, result.meta.e_tag.clone());
    let expected = range.start..range.end.min(size_bytes);
    if result.range != expected {
        let reason = "the store answered with another range than the one it was asked for";
        return Err(Error::new(ErrorKind::Io, reason).into());
    }
    let len_bytes = expected.end.saturating_sub(expected.start);
    Ok((body(result, len_bytes).await?, size_bytes, etag))
}

/// Reads the bytes of an answer, which must be `len_bytes`.
async fn body(result: GetResult, len_bytes: u64) -> std::result::Result<Bytes, FetchError> {
    let mut parts = result.into_stream();
    let mut body = BytesMut::new();
    while let Some(part) = parts.next().await {
        let part = part.map_err(|e| FetchError::passing(reason(&e)))?;
        if len_of(&body).saturating_add(len_of(&part)) > len_bytes {
            let reason = "the store sent more bytes than it was asked for";
            return Err(Error::new(ErrorKind::Io, reason).into());
        }
        body.extend_from_slice(&part);
    }
    if len_of(&body) == len_bytes {
        return Ok(body.freeze());
    }
    let reason = format!("the store sent {} of {len_bytes} bytes", body.len());
    Err(FetchError::passing(reason))
}

/// Returns the failure of a request, which the store's client has repeated already.
fn failure(error: &object_store::Error) -> FetchError {
    use object_store::Error as Store;
    let reason = reason(error);
    let kind = match error {
        Store::Precondition { .. } | Store::NotModified { .. } => {
            return FetchError::changed("it has another version");
        }
        Store::NotFound { .. } => {
            return Error::new(ErrorKind::NotFound, "the store has no such object").into();
        }
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => {
            let error = Error::new(ErrorKind::Denied, reason);
            return error
                .with_hint("set the credentials of the store in the environment")
                .into();
        }
        Store::NotSupported { .. } | Store::NotImplemented { .. } => ErrorKind::Unsupported,
        _ => ErrorKind::Io,
    };
    Error::new(kind, reason).into()
}

/// Returns an error of a store in one line, without the document that the store has sent, whose text
/// could change a terminal.
fn reason(error: &object_store::Error) -> String {
    let text = error.to_string();
    let text = text.split(": <").next().unwrap_or_default();
    let words: Vec<_> = text.split_whitespace().collect();
    words
        .join(" ")
        .chars()
        .take(MAX_REASON_CHARS)
        .flat_map(char::escape_debug)
        .collect()
}

impl Object for StoredObject {
    fn fetch(self: Arc<Self>, range: Range<u64>) -> Fetching {
        Box::pin(async move {
            let etag = self.etag.clone();
            let got = get(self.store.as_ref(), &self.key, range, etag).await;
            let (bytes, size_bytes, etag) = got?;
            if size_bytes != self.size_bytes {
                return Err(FetchError::changed("it has another size"));
            }
            if etag != self.etag {
                return Err(FetchError::changed("it has another version"));
            }
            Ok(bytes)
        })
    }
}
