//! The command `diskfs oci push`.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use diskfs::block::BlockRead;
use diskfs::image::{ImageSpec, LayoutImage, is_oci};
use diskfs::{Error, Result};
use diskfs_oci::{Descriptor, Digest, Hasher, RegistryName};
use serde_json::{Map, Value};

use crate::cli::operand::Operand;
use crate::cli::options::ImageArgs;
use crate::cli::progress::Progress;
use crate::cli::remote::PushTarget;
use crate::cli::sandbox::Needs;
use crate::cli::session::{Output, Session, stdout};
use crate::cli::show::json;

/// Push an OCI image to a registry
///
/// The blobs that the registry has are skipped; the others are uploaded, then the manifest by its
/// digest, and then the tag. A push that fails or is interrupted leaves the tag as it was. Of an
/// image for several platforms, the one for this machine is pushed.
#[derive(Debug, Args)]
#[command(
    after_help = "The login is that of Docker's config.json (`docker login`), in $DOCKER_CONFIG or ~/.docker. Credential
helpers are not run. Registries of this machine (localhost, 127.0.0.1, [::1]) are used without TLS,
and those that DISKFS_PLAIN_HTTP_REGISTRIES lists, separated by commas.

Examples:
  diskfs oci push web oci://registry.example.org/disks/web:41
  diskfs oci push oci-archive:web.tar:41 oci://localhost:5000/web:41
  diskfs ls oci://localhost:5000/web:41:/etc"
)]
pub(super) struct Push {
    /// The image layout: a directory or a tar archive, or oci-layout:DIR:TAG or oci-archive:FILE:TAG
    #[arg(value_name = "LAYOUT")]
    layout: OsString,

    /// The new image in the registry: `oci://REGISTRY/REPOSITORY:TAG`; the tag is `latest` by default
    #[arg(value_name = "URI")]
    uri: String,

    #[command(flatten)]
    options: ImageArgs,
}

/// The number of bytes that were uploaded, and of those that the registry had.
#[derive(Debug, Default)]
struct Totals {
    uploaded_bytes: u64,
    present_bytes: u64,
}

pub(super) fn run(args: &Push, session: &mut Session) -> Result<()> {
    let name = registry_name(&args.uri)?;
    let path = ImageSpec::parse(&args.image())?.path;
    let options = args.options.open_options()?;
    let layout = LayoutImage::open(&path, &options)?;
    let image = layout.image();
    let digest = image.digest();
    if let Some(wanted) = name.reference.digest().filter(|wanted| *wanted != digest) {
        let reason = format!("the image has the digest {digest}, not {wanted}");
        return Err(Error::new(diskfs::ErrorKind::Invalid, reason).in_file(&path));
    }
    let sizes = image.blobs().map(|blob| blob.size);
    let total = sizes.fold(0_u64, u64::saturating_add);
    let mut progress = Progress::new(session.progress(), Some(total));
    let mut target = PushTarget::new(&args.uri);
    let mut totals = Totals::default();
    let pushed = image.blobs().try_for_each(|descriptor| {
        let is_uploaded = blob(&layout, &path, &mut target, descriptor, &mut progress)?;
        let total = if is_uploaded {
            &mut totals.uploaded_bytes
        } else {
            &mut totals.present_bytes
        };
        *total = total.saturating_add(descriptor.size);
        Ok(())
    });
    let pushed: Result<()> =
        pushed.and_then(|()| target.manifest(digest, image.media_type(), image.document()));
    progress.finish();
    pushed?;
    session.print_done("pushed", args.uri.as_bytes());
    if session.output() == Output::Json {
        args.print_json(session, digest, &totals)?;
    }
    Ok(())
}

/// Uploads a blob, unless the registry has it; returns true if it was uploaded.
fn blob(
    layout: &LayoutImage<'_>,
    path: &Path,
    target: &mut PushTarget,
    descriptor: &Descriptor,
    progress: &mut Progress,
) -> Result<bool> {
    let digest = descriptor.digest()?;
    let open = || -> Result<Box<dyn Read>> {
        let blob = layout.blob(descriptor).map_err(|e| e.in_file(path))?;
        Ok(Box::new(Verified {
            path: path.to_owned(),
            hasher: digest.hasher(),
            expected: digest.clone(),
            blob,
            at: 0,
        }))
    };
    let mut advance = |bytes| progress.advance(bytes);
    target.blob(&digest, descriptor.size, &open, &mut advance)
}

/// The bytes of a blob. At their end, the digest is verified.
#[derive(Debug)]
struct Verified {
    /// The name of the image, for errors.
    path: PathBuf,
    blob: Arc<dyn BlockRead>,
    expected: Digest,
    hasher: Hasher,
    at: u64,
}

impl Read for Verified {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.blob.size_bytes().saturating_sub(self.at);
        let len = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        let buf = buf.get_mut(..len).unwrap_or_default();
        let in_file = |error: diskfs::block::Error| Error::from(error.in_file(&self.path));
        self.blob.read_at(self.at, buf).map_err(in_file)?;
        self.hasher.update(buf);
        self.at = self.at.saturating_add(len as u64);
        // The last bytes of a wrong blob are not sent.
        if self.at == self.blob.size_bytes() {
            let found = self.hasher.clone().finish();
            let verified = self.expected.verify_found(&found, "blob");
            verified.map_err(in_file)?;
        }
        Ok(len)
    }
}

/// Parses the name of the image in the registry.
fn registry_name(uri: &str) -> Result<RegistryName> {
    if RegistryName::is_uri(uri) {
        return Ok(RegistryName::parse(uri)?);
    }
    let reason = format!(
        "not the name of an image in a registry: `{}`",
        uri.escape_debug()
    );
    let error = Error::new(diskfs::ErrorKind::Invalid, reason);
    Err(error.with_hint("expected oci://REGISTRY/REPOSITORY:TAG"))
}

impl Push {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        let image = Operand::from(self.image());
        Needs::reading_whole(&image, &self.options).pushing(&self.uri)
    }

    /// Returns the name of the image, also if only the name of its layout was given.
    fn image(&self) -> OsString {
        let path = Path::new(&self.layout);
        let prefix = match path.metadata() {
            _ if is_oci(path) => "",
            Ok(metadata) if metadata.is_dir() => "oci-layout:",
            _ => "oci-archive:",
        };
        [OsStr::new(prefix), &self.layout].join(OsStr::new(""))
    }

    fn print_json(&self, session: &Session, digest: &Digest, totals: &Totals) -> Result<()> {
        let mut fields = Map::new();
        let texts = [
            ("uri", self.uri.clone()),
            ("manifest_digest", digest.to_string()),
        ];
        fields.extend(texts.map(|(name, text)| (name.to_owned(), text.into())));
        let numbers = [
            ("uploaded_bytes", totals.uploaded_bytes),
            ("present_bytes", totals.present_bytes),
        ];
        fields.extend(numbers.map(|(name, number)| (name.to_owned(), number.into())));
        let mut out = stdout()?;
        json::write(&mut out, session.command(), Value::Object(fields))?;
        Ok(out.flush()?)
    }
}
