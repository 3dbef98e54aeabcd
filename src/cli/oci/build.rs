//! The command `diskfs oci build`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use diskfs::{Error, ErrorKind, Format, Result};
use diskfs_oci::{
    LayerCompression, NewConfig, NewDisk, NewImage, NewLayer, host_architecture, write_layer,
};
use serde_json::{Map, Value};

use super::source::DiskFile;
use super::target::Target;
use crate::cli::mkfs::source_date;
use crate::cli::operand::Operand;
use crate::cli::options::{ImageArgs, SourceArgs};
use crate::cli::progress::Progress;
use crate::cli::sandbox::Needs;
use crate::cli::session::{Output, Session, stdout};
use crate::cli::show::{json, time};

/// Build an OCI image with a disk, without a container engine
///
/// The image has one layer with one file, which belongs to the user of KubeVirt's QEMU and is
/// read-only. It is written as an OCI image layout, which `diskfs oci push`, skopeo, podman and others
/// copy to a registry: a directory, or a tar archive if the name of the target ends in .tar. The target appears
/// only when it is complete, and must not exist before. The same disk and options make the same
/// bytes; times are those of the environment variable `SOURCE_DATE_EPOCH`, else 1970.
#[derive(Debug, Args)]
#[command(
    after_help = "The disk is stored as it is. It must be raw or qcow2, which KubeVirt runs, and complete: without a
backing file and a data file. -O converts any other image.

A compressed layer has parts that can be decompressed by themselves, so that diskfs reads the disk
without unpacking it: members of gzip of 64 KiB (BGZF), or frames of zstd of 1 MiB with a seek
table. To other programs it is an ordinary layer. zstd is faster, and of a layer in a registry
only the needed parts are read, but Docker's formats and old programs don't know it.

Examples:
  diskfs oci build disk.qcow2 -o web --tag 41
  diskfs oci build overlay.qcow2 -O qcow2 -o web.tar --label org.example.build=7
  diskfs oci build disk.raw -o raw-web --arch arm64 --chown 107:107 --compress zstd"
)]
pub(super) struct Build {
    /// The image with the disk
    #[arg(value_name = "IMG")]
    image: Operand,

    /// The new image layout: a directory, or a file that ends in .tar
    #[arg(short, long, value_name = "TARGET")]
    output: PathBuf,

    /// The tag of the image, or its name with a tag
    #[arg(long, value_name = "REF", default_value = "latest")]
    tag: String,

    /// Convert the disk to this format: raw or qcow2
    #[arg(short = 'O', long, value_name = "FORMAT")]
    output_format: Option<Format>,

    /// The path of the disk in the image [default: the name of IMG below /disk]
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// The owner and the group of the disk
    #[arg(long, value_name = "UID:GID", default_value = "107:107", value_parser = owner)]
    chown: (u32, u32),

    /// The compression of the layer: gzip, zstd or none
    #[arg(
        long,
        value_name = "HOW",
        default_value = "gzip",
        hide_possible_values = true
    )]
    compress: Compression,

    /// The architecture, with the names of Go: amd64, arm64 [default: that of this machine]
    #[arg(long)]
    arch: Option<String>,

    /// Add a label; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    label: Vec<(String, String)>,

    /// Add an environment variable, of which KubeVirt makes labels; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,

    #[command(flatten)]
    options: ImageArgs,
}

/// The compression of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Compression {
    /// Frames of zstd
    Zstd,
    /// Members of gzip
    Gzip,
    /// No compression
    None,
}

impl From<Compression> for LayerCompression {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::Zstd => Self::Zstd,
            Compression::Gzip => Self::Gzip,
            Compression::None => Self::None,
        }
    }
}

pub(super) fn run(args: &Build, session: &mut Session) -> Result<()> {
    let seconds = source_seconds()?;
    let image = args.image.image_alone("to put into an OCI image")?;
    let mut target = Target::begin(&args.output)?;
    let disk = SourceArgs::of_image(&args.options).open(&image)?;
    session.print_warnings(&disk);
    let mut file = DiskFile::open(&disk, args.output_format, &args.options)?;
    let new = NewDisk {
        path: args
            .path
            .clone()
            .unwrap_or_else(|| format!("/disk/{}", file.name())),
        size_bytes: file.size_bytes(),
        owner: args.chown,
        seconds,
    };
    let mut progress = Progress::new(session.progress(), Some(new.size_bytes));
    let layer = write_layer(
        target.layer(),
        args.compress.into(),
        &new,
        &mut file,
        &mut |bytes| progress.advance(bytes),
    );
    progress.finish();
    let layer = layer.map_err(|e| Error::from(e).in_file(&args.output))?;
    let built = NewImage::new(&layer, &args.config(seconds), &args.tag)?;
    target.finish(&layer, &built, seconds)?;
    session.print_done("built", args.output.as_os_str().as_encoded_bytes());
    if session.output() == Output::Json {
        args.print_json(session, &new, (&layer, &built))?;
    }
    Ok(())
}

impl Build {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        let needs = Needs::reading_whole(&self.image, &self.options);
        let converts = self.output_format == Some(Format::Qcow2);
        needs.spooling(converts).writing(Some(&self.output))
    }

    fn config(&self, seconds: u32) -> NewConfig {
        let created = diskfs::vfs::Timestamp {
            seconds: seconds.into(),
            nanoseconds: 0,
        };
        let env = self
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        NewConfig {
            architecture: self
                .arch
                .clone()
                .unwrap_or_else(|| host_architecture().to_owned()),
            created: time::rfc3339_seconds(created),
            created_by: "diskfs oci build".to_owned(),
            env: env.collect(),
            labels: self.label.iter().cloned().collect::<BTreeMap<_, _>>(),
        }
    }

    fn print_json(
        &self,
        session: &Session,
        disk: &NewDisk,
        (layer, image): (&NewLayer, &NewImage),
    ) -> Result<()> {
        let mut fields = Map::new();
        json::put_name(
            &mut fields,
            "path",
            self.output.as_os_str().as_encoded_bytes(),
        );
        let texts = [
            ("tag", self.tag.clone()),
            ("manifest_digest", image.manifest.digest.to_string()),
            ("layer_digest", layer.digest.to_string()),
            ("disk_path", disk.path.clone()),
        ];
        fields.extend(texts.map(|(name, text)| (name.to_owned(), text.into())));
        let numbers = [
            ("disk_bytes", disk.size_bytes),
            ("layer_bytes", layer.size_bytes),
        ];
        fields.extend(numbers.map(|(name, number)| (name.to_owned(), number.into())));
        let mut out = stdout()?;
        json::write(&mut out, session.command(), Value::Object(fields))?;
        Ok(out.flush()?)
    }
}

/// Returns the time of the image's files.
fn source_seconds() -> Result<u32> {
    let date = source_date()?;
    Ok(date.map_or(0, |date| u32::try_from(date.seconds).unwrap_or(0)))
}

/// Parses `UID:GID`. The numbers must fit into the header of a tar archive.
fn owner(text: &str) -> Result<(u32, u32)> {
    const ID_MAX: u32 = 0o777_7777;
    let number = |text: &str| text.parse().ok().filter(|id: &u32| *id <= ID_MAX);
    let ids = text.split_once(':');
    let ids = ids.and_then(|(uid, gid)| Some((number(uid)?, number(gid)?)));
    ids.ok_or_else(|| {
        let reason = format!("expected two numbers of at most {ID_MAX}, such as 107:107");
        Error::new(ErrorKind::Invalid, reason)
    })
}

/// Parses `NAME=VALUE`.
fn pair(text: &str) -> Result<(String, String)> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) =
        pair.ok_or_else(|| Error::new(ErrorKind::Invalid, "expected NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}
