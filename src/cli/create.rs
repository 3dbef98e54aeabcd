//! The command `diskfs create`.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;

use diskfs::image::create::{BackingCheck, CreateOptions, Existing, Preallocation};
use diskfs::{Format, Result};
use serde_json::{Map, Value};

use super::bytes;
use super::image_settings::{
    ImageSettings, create_image, implied_format, preallocation, refuse_others_names,
};
use super::new_key::NewKeyArgs;
use super::options::configured_and;
use super::progress::Progress;
use super::session::{Output, Session, stdout};
use super::show::json;

/// Create an empty image, or an overlay of another image
///
/// The image appears under its name only when it is complete and durable. An existing file is kept,
/// unlike with qemu-img: --force replaces it, if no process is using it.
#[derive(Debug, Args)]
#[command(
    after_help = "The options of -o are those of qemu-img: size, cluster_size, compat (0.10, 1.1), extended_l2,
lazy_refcounts, refcount_bits, compression_type (zlib, zstd), preallocation (off, metadata,
falloc, full), data_file, data_file_raw, backing_file, backing_fmt. Switches are on or off. Those of
vmdk, vhd, vdi and vhdx are listed by `diskfs convert --help`.

An image can only refer to a backing file below the image's own directory and with its owner, or
below a directory of --allow-backing. The format of the backing file must be given: if it were
detected, a guest could choose it by what it writes. A backing file must not be written to while it
has overlays: an overlay records the state of its backing file, and is refused if that has changed.
To write to an image with a data file, give --data-file to the command that writes.

With --encrypt, the options of -o can also be (the first of several is the default):
encrypt.cipher-alg=aes-256, aes-128, serpent-256 or twofish-256; encrypt.cipher-mode=xts or cbc;
encrypt.ivgen-alg=plain64, plain or essiv; encrypt.ivgen-hash-alg=sha256;
encrypt.hash-alg=sha256, sha512 or another; encrypt.iter-time=2000, the milliseconds that trying a
passphrase takes on this machine. An encrypted raw image is a LUKS1 volume, which cryptsetup and
QEMU open, too.

Examples:
  diskfs create disk.img 10G
  diskfs create disk.qcow2 100G -o cluster_size=1M,extended_l2=on
  diskfs create -b base.qcow2 -F qcow2 overlay.qcow2
  diskfs create --encrypt ask secret.qcow2 100G"
)]
pub(super) struct Create {
    /// The image file to create
    #[arg(value_name = "IMG")]
    path: PathBuf,

    /// The size of the guest's disk (suffixes k, M, G, T) [default: that of the backing file]
    #[arg(value_name = "SIZE", value_parser = bytes::parse)]
    size: Option<u64>,

    /// The format: raw, qcow2, vmdk, vhd, vdi or vhdx [default: that of the name's ending, qcow2
    /// with a backing file, else raw]
    #[arg(short, long, value_name = "FORMAT")]
    format: Option<Format>,

    /// The backing file, as the new image will refer to it
    #[arg(short, long, value_name = "FILE", requires = "backing_format")]
    backing: Option<PathBuf>,

    /// The format of the backing file
    #[arg(short = 'F', long, value_name = "FORMAT", requires = "backing")]
    backing_format: Option<Format>,

    /// Do not open the backing file; SIZE must be given
    #[arg(short, long)]
    unsafe_backing: bool,

    /// Let the new image refer to a backing file below DIR; can be repeated
    #[arg(long, value_name = "DIR")]
    allow_backing: Vec<PathBuf>,

    /// The cluster size of a qcow2 image, 512 to 2M [default: 64k]
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse)]
    cluster_size: Option<u64>,

    /// The preallocation mode: off, metadata, falloc or full
    #[arg(long, value_name = "HOW", value_parser = preallocation)]
    preallocation: Option<Preallocation>,

    /// Set options in the syntax of qemu-img; can be repeated
    #[arg(short, value_name = "NAME=VALUE,...")]
    options: Vec<String>,

    #[command(flatten)]
    key: NewKeyArgs,

    /// Replace an existing file with the new image
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &Create, session: &mut Session) -> Result<()> {
    let options = args.create_options()?;
    let total = match options.preallocation {
        Preallocation::Full => options.size_bytes,
        _ => None,
    };
    let mut progress = Progress::new(session.progress(), total);
    let created = create_image(&args.path, &options, &mut |bytes| {
        progress.advance(bytes);
        ControlFlow::Continue(())
    });
    progress.finish();
    let created = created?;
    if session.output() == Output::Json {
        let mut fields = Map::new();
        json::put_name(
            &mut fields,
            "path",
            args.path.as_os_str().as_encoded_bytes(),
        );
        let format = options.image.format().name();
        fields.insert("format".to_owned(), format.into());
        let numbers = [
            ("virtual_size_bytes", created.virtual_size_bytes),
            ("file_size_bytes", created.file_size_bytes),
        ];
        fields.extend(numbers.map(|(name, number)| (name.to_owned(), number.into())));
        let mut out = stdout()?;
        json::write(&mut out, session.command(), Value::Object(fields))?;
        out.flush()?;
    }
    Ok(())
}

impl Create {
    fn create_options(&self) -> Result<CreateOptions> {
        let mut wanted = self.wanted()?;
        if self.format.is_none() {
            refuse_others_names(&self.path)?;
        }
        let format = self.format(&wanted);
        wanted.encrypt_with(self.key.load()?.as_ref(), format)?;
        let image = wanted.image(format, || self.backing_check())?;
        Ok(CreateOptions {
            image,
            size_bytes: wanted.size,
            preallocation: wanted.preallocation,
            existing: if self.force {
                Existing::Replace
            } else {
                Existing::Keep
            },
        })
    }

    fn format(&self, wanted: &ImageSettings) -> Format {
        let needs_qcow2 = wanted.backing.is_some();
        let implied = || implied_format(&self.path, needs_qcow2);
        self.format.unwrap_or_else(implied)
    }

    /// Returns the settings. The options of `-o` are applied first: an option of its own overrides
    /// them.
    fn wanted(&self) -> Result<ImageSettings> {
        let mut wanted = ImageSettings::of(&self.options)?;
        wanted.size = self.size.or(wanted.size);
        wanted.preallocation = self.preallocation.unwrap_or(wanted.preallocation);
        if let Some(size) = self.cluster_size {
            wanted.qcow2.cluster_size_bytes = size;
            wanted.qcow2_only = Some("a cluster size".to_owned());
        }
        wanted.override_backing(self.backing.as_ref(), self.backing_format);
        Ok(wanted)
    }

    fn backing_check(&self) -> Result<BackingCheck> {
        if self.unsafe_backing {
            return Ok(BackingCheck::Skip);
        }
        configured_and(&self.allow_backing).map(BackingCheck::Open)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use diskfs::ErrorKind;
    use diskfs::image::create::{L2Entries, NewImage, RefcountUpdates};

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        create: Create,
    }

    fn options(words: &[&str]) -> Result<CreateOptions> {
        Program::parse_from(["create"].iter().chain(words))
            .create
            .create_options()
    }

    fn format(words: &[&str]) -> &'static str {
        options(words).unwrap().image.format().name()
    }

    #[test]
    fn the_format_follows_the_name_unless_given() {
        assert_eq!(format(&["a.img", "1G"]), "raw");
        assert_eq!(format(&["a.qcow2", "1G"]), "qcow2");
        assert_eq!(format(&["-f", "raw", "a.qcow2", "1G"]), "raw");
        assert_eq!(format(&["-b", "b", "-F", "raw", "a"]), "qcow2");
    }

    #[test]
    fn options_are_those_of_qemu_img() {
        let list = "cluster_size=1M,compat=v3,extended_l2,lazy_refcounts=on,data_file=a,,b,size=2k";
        let options = options(&["a.qcow2", "-o", list, "-o", "refcount_bits=8"]).unwrap();
        let NewImage::Qcow2(image) = options.image else {
            panic!("a qcow2 image");
        };
        assert_eq!(options.size_bytes, Some(2048));
        assert_eq!(
            (image.cluster_size_bytes, image.refcount_bits),
            (1 << 20, 8)
        );
        assert_eq!(image.l2_entries, L2Entries::Extended);
        assert_eq!(image.refcounts, RefcountUpdates::Lazy);
        assert_eq!(image.data_file.unwrap().name, PathBuf::from("a,b"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [
            &["a.img", "1G", "-o", "cluster_size=64k"][..],
            &["a.img", "1G", "--cluster-size", "64k"],
            &["a.qcow2", "1G", "-o", "nocow=on"],
            &["a.qcow2", "1G", "-o", "compat=2"],
            &["a.qcow2", "1G", "-o", "extended_l2=maybe"],
            &["a.qcow2", "-o", "backing_file=b"],
            &["a.qcow2", "1G", "-o", "data_file_raw=on"],
        ] {
            let error = options(words).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{words:?}");
        }
        let encrypted = options(&["a.qcow2", "1G", "-o", "encrypt.format=luks"]);
        assert_eq!(encrypted.unwrap_err().kind(), ErrorKind::Invalid);
        for words in [
            &["a.vdi", "1G", "--encrypt", "env:PATH"][..],
            &[
                "a.qcow2",
                "1G",
                "--encrypt",
                "env:PATH",
                "-o",
                "encrypt.format=aes",
            ],
            &[
                "a.qcow2",
                "1G",
                "--encrypt",
                "env:PATH",
                "-o",
                "encrypt.hash-alg=md5",
            ],
        ] {
            let error = options(words).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{words:?}");
        }
        assert!(Program::try_parse_from(["create", "a", "-b", "b"]).is_err());
    }
}
