//! The command `diskfs amend`.

use std::ffi::OsString;
use std::io::Write;

use clap::Args;

use diskfs::image::amend::{Amend, amend};
use diskfs::{Error, ErrorKind, Result};
use serde_json::json;

use super::image_settings::{ImageSettings, options_in};
use super::options::ImageArgs;
use super::random;
use super::session::{Output, Session, stdout};
use super::show::json as document;
use super::snapshot::open_options;

mod keys;

use keys::KeyChangeArgs;

/// The options that `amend` changes.
const AMENDED: [&str; 4] = ["compat", "lazy_refcounts", "refcount_bits", "size"];
/// The options of a new image that `amend` does not change.
const FIXED: [&str; 6] = [
    "cluster_size",
    "compression_type",
    "data_file",
    "data_file_raw",
    "extended_l2",
    "preallocation",
];

/// Change the properties or the keys of an image in place
#[derive(Debug, Args)]
#[command(
    after_help = "The options of -o are those of `diskfs create`. These can be changed:
  compat=1.1           version 3 of the format, or version 2 (0.10) if the image uses nothing newer
  lazy_refcounts=on    write reference counts late, or not (off)
  refcount_bits=N      the width of a reference count: 1, 2, 4, 8, 16, 32 or 64
  size=SIZE            a larger size of the disk, as the only option

All changes are made at once: an interruption leaves the old properties or the new ones.

Keys are those of a qcow2 image with LUKS, or of a raw image that is a LUKS1 volume. A key is added
before others are removed, so that --key-add with --key-remove changes a passphrase. An interruption
leaves the old keys, the new ones, or both.

Examples:
  diskfs amend -o compat=1.1 disk.qcow2
  diskfs amend -o lazy_refcounts=on,refcount_bits=64 disk.qcow2
  diskfs amend --key disk.qcow2:ask --key-add file:recovery.key disk.qcow2
  diskfs amend --key-remove ask --key-add ask disk.qcow2"
)]
pub(super) struct AmendArgs {
    /// The qcow2 image, or the raw image that is a LUKS volume
    #[arg(value_name = "IMG")]
    image: OsString,

    /// The properties to change, as in `qemu-img amend`; can be repeated
    #[arg(
        short = 'o',
        long = "option",
        value_name = "NAME=VALUE,...",
        required_unless_present_any = ["key_add", "key_remove"]
    )]
    settings: Vec<String>,

    #[command(flatten)]
    keys: KeyChangeArgs,

    #[command(flatten)]
    options: ImageArgs,
}

pub(super) fn run(args: &AmendArgs, session: &mut Session) -> Result<()> {
    let keys = if args.keys.are_given() {
        let change = args.keys.change(&args.settings)?;
        let (path, options) = open_options(&args.image, &args.options)?;
        let known = args.options.keys.load()?.unwrap_or_default();
        let mut random = |buf: &mut [u8]| Ok(random::fill(buf)?);
        Some(known.change(&path, &change, &options, &mut random)?)
    } else {
        let change = change_of(&args.settings)?;
        let (path, options) = open_options(&args.image, &args.options)?;
        amend(&path, change, &options)?;
        None
    };
    if session.output() == Output::Json {
        let mut out = stdout()?;
        let names: Vec<String> = names(&args.settings);
        let keys = keys.as_ref().map(keys::document);
        let contents = json!({ "options": names, "keys": keys });
        document::write(&mut out, session.command(), contents)?;
        out.flush()?;
    }
    Ok(())
}

/// Returns the names of the options in these lists.
fn names(lists: &[String]) -> Vec<String> {
    let name = |option: String| option.split('=').next().unwrap_or_default().to_owned();
    options_in(lists).map(name).collect()
}

/// Returns the change that lists of options say.
pub(super) fn change_of(lists: &[String]) -> Result<Amend> {
    let names = names(lists);
    for name in &names {
        check_name(name)?;
    }
    let settings = ImageSettings::of(lists)?;
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    Ok(Amend {
        compat: has("compat").then_some(settings.qcow2.compat),
        refcounts: has("lazy_refcounts").then_some(settings.qcow2.refcounts),
        refcount_bits: has("refcount_bits").then_some(settings.qcow2.refcount_bits),
        size_bytes: settings.size,
    })
}

fn check_name(name: &str) -> Result<()> {
    let unsupported = || {
        let reason = format!("changing the option `{name}` is not supported");
        Error::new(ErrorKind::Unsupported, reason)
    };
    match name {
        _ if AMENDED.contains(&name) => Ok(()),
        "backing_file" | "backing_fmt" => Err(unsupported().with_hint("use `diskfs rebase`")),
        _ if FIXED.contains(&name) || name.starts_with("encrypt") => {
            Err(unsupported().with_hint("make a new image with `diskfs convert`"))
        }
        _ => {
            let reason = format!("unknown option `{}`", name.escape_debug());
            let error = Error::new(ErrorKind::Invalid, reason);
            Err(error.with_hint("`diskfs amend --help` lists the options"))
        }
    }
}
