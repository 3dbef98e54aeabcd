//! The command `diskfs fetch`.

mod copy;
mod record;
mod target;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use diskfs::objects::{Download, Options, is_uri};
use diskfs::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

use super::bytes;
use super::checksum::{Checksum, ExpectedChecksum};
use super::convert::output::file_sizes;
use super::out_file::is_standard;
use super::remote::shown;
use super::session::{Output, Session, stdout};
use super::show::json;
use target::{NewTarget, Place};

/// Copy a file of a web server or an object store, as it is
///
/// The file is fetched by several requests at once, and blocks of zeroes are stored as holes. All of
/// it is of one version: if it changes on the server meanwhile, the copy fails. FILE appears only
/// when it is complete, its checksum is the expected one, and it is durable. `diskfs serve images`
/// sends files compressed, and doesn't send their holes. `diskfs import` makes an image of another
/// format.
#[derive(Debug, Args)]
#[command(
    after_help = "The URL is one of http, https, s3, gs or az. Credentials come from the environment and
from ~/.netrc, as for other commands.

--checksum is sha256: or sha512: with the digest in hexadecimal digits, or the URL of a list as
sha256sum(1) writes it, in which the last part of the file's URL is looked for.

With --resume, an unfinished copy is called FILE.partial, and FILE.resume records how far it is. After
an error, a kill or a power cut, the same call continues there, if the server still has the same
version of the file. To give up, remove both files.

Examples:
  diskfs fetch https://example.org/debian.qcow2 -o debian.qcow2
  diskfs fetch --resume --size-limit 20G https://example.org/debian.raw -o debian.raw
  diskfs fetch https://example.org/d.qcow2 --checksum https://example.org/SHA256SUMS -o d.qcow2"
)]
pub(super) struct Fetch {
    /// The URL of the file
    #[arg(value_name = "URL")]
    url: String,

    /// The file to make
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// The checksum of the file: sha256:HEX, sha512:HEX, or the URL of a list of checksums
    #[arg(long, value_name = "CHECKSUM")]
    checksum: Option<ExpectedChecksum>,

    /// Refuse files that are larger (suffixes k, M, G, T)
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    size_limit: Option<u64>,

    /// The number of requests at once
    #[arg(long, value_name = "N", default_value = "6",
          value_parser = clap::value_parser!(u8).range(1..=64))]
    connections: u8,

    /// Continue a copy that was interrupted, or begin one that can be continued
    #[arg(long)]
    resume: bool,

    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// A file that was copied.
struct Fetched {
    size_bytes: u64,
    /// The number of bytes that an earlier call had copied.
    resumed_bytes: u64,
    checksum: Option<Checksum>,
}

pub(super) fn run(args: &Fetch, session: &mut Session) -> Result<()> {
    check_url(&args.url)?;
    refuse_stream(&args.output)?;
    let fetched = args.fetch(session)?;
    match session.output() {
        Output::Json => args.print_json(&fetched, session),
        Output::Text => Ok(()),
    }
}

/// Refuses other things than URLs of objects.
pub(super) fn check_url(url: &str) -> Result<()> {
    if is_uri(url) {
        return Ok(());
    }
    let error = Error::new(ErrorKind::Invalid, "not a URL of a server or a store");
    let error = error.with_hint("expected http://, https://, s3://, gs:// or az://");
    Err(error.in_file(shown(url)))
}

/// Refuses standard output, which could not take back what turns out to be wrong.
pub(super) fn refuse_stream(output: &Path) -> Result<()> {
    if is_standard(output) {
        let error = Error::new(ErrorKind::Invalid, "the copy must be a file");
        return Err(error.with_hint("give -o the name of a file"));
    }
    Ok(())
}

/// Refuses a file that is larger than the limit.
fn check_size(size_bytes: u64, limit_bytes: Option<u64>, url: &str) -> Result<()> {
    match limit_bytes.filter(|limit| size_bytes > *limit) {
        None => Ok(()),
        Some(limit) => {
            let reason = format!("the file has {size_bytes} bytes, at most {limit} are accepted");
            Err(Error::new(ErrorKind::Denied, reason).in_file(shown(url)))
        }
    }
}

impl Fetch {
    fn fetch(&self, session: &Session) -> Result<Fetched> {
        let place = Place::of(&self.output, self.force)?;
        let options = Options {
            max_requests: self.connections.into(),
            ..Options::default()
        };
        let download = Download::open(&self.url, &shown(&self.url), &options)?;
        check_size(download.size_bytes(), self.size_limit, &self.url)?;
        let expected = self.checksum.as_ref();
        let checksum = expected.map(|it| it.resolve(&self.url)).transpose()?;
        let target = if self.resume {
            NewTarget::resumable(place, &self.source(&download)?, download.size_bytes())?
        } else {
            NewTarget::unnamed(place, download.size_bytes())?
        };
        let resumed_bytes = target.done_bytes();
        let progress = session.progress();
        copy::run(&download, target, checksum.as_ref(), progress)?;
        Ok(Fetched {
            size_bytes: download.size_bytes(),
            resumed_bytes,
            checksum,
        })
    }

    /// Describes the version of the file, for the record of an unfinished copy.
    fn source(&self, download: &Download) -> Result<String> {
        let Some(version) = download.version() else {
            let reason = "the server names no version of the file, so a copy cannot be continued";
            let error = Error::new(ErrorKind::Unsupported, reason).in_file(shown(&self.url));
            return Err(error.with_hint("leave out --resume"));
        };
        let size_bytes = download.size_bytes();
        Ok(format!("{}\n{size_bytes} {version}\n", shown(&self.url)))
    }

    fn print_json(&self, fetched: &Fetched, session: &Session) -> Result<()> {
        let mut fields = Map::new();
        let path = self.output.as_os_str().as_encoded_bytes();
        json::put_name(&mut fields, "path", path);
        let allocated_bytes = file_sizes(&self.output)?.1;
        let checksum = fetched.checksum.as_ref().map(ToString::to_string);
        fields.insert("size_bytes".to_owned(), fetched.size_bytes.into());
        fields.insert("allocated_bytes".to_owned(), allocated_bytes.into());
        fields.insert("resumed_bytes".to_owned(), fetched.resumed_bytes.into());
        fields.insert("checksum".to_owned(), checksum.into());
        let mut out = stdout()?;
        json::write(&mut out, session.command(), Value::Object(fields))?;
        Ok(out.flush()?)
    }
}
