//! The command `diskfs validate`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use diskfs::image::ImageSpec;
use diskfs::image::validate::{BrokenRule, Policy, ValidateOptions, Verdict, validate};
use diskfs::{Error, ErrorKind, Format, Result};
use serde_json::{Map, Value, json};

use super::bytes;
use super::operand::Operand;
use super::options::ImageArgs;
use super::sandbox::Needs;
use super::session::{Output, Session, stdout};
use super::show::json as document;
use super::show::name::message;

/// The exit codes for an image that is refused, and for a failure.
const REFUSED: u8 = 1;
const TROUBLE: u8 = 2;

/// Check whether images from strangers may be accepted
///
/// An image from a stranger can name other files of the host (a backing file, a data file, extents of
/// a VMDK), can pretend to have another format, or can have tables so large that a program needs all
/// memory for them. The policy is that of the program which is to take the image:
///
/// kubevirt accepts raw and qcow2. cdi and glance accept raw, qcow2, vmdk, vdi, vhd (vpc) and vhdx.
/// cdi also refuses compressed files and archives, whose contents it would unpack, and glance hybrid
/// ISO images with a GPT.
///
/// Only the images themselves are opened, never a file that they name. A truncated or damaged image
/// is refused with the reason.
#[derive(Debug, Args)]
#[command(
    after_help = "Rules: format, format-mismatch, polyglot, nested-format, backing-file, data-file, extent-file,
vmdk-type, unknown-feature, metadata-size, corrupt, unsupported, size. The tables of the data are not
checked: `diskfs check` does that.

Exit codes, as in cmp(1) and unlike other commands: 0 all accepted, 1 one refused, 2 failure.

Examples:
  diskfs validate --policy kubevirt disk.qcow2
  diskfs validate --policy glance --format raw --size-limit 100G disk.raw
  diskfs validate --policy cdi --json disk.raw disk.qcow2"
)]
pub(super) struct Validate {
    /// The images to validate
    #[arg(value_name = "IMG", required = true)]
    images: Vec<Operand>,

    /// The rules of the program that takes the images: kubevirt, cdi or glance
    #[arg(long, value_name = "NAME")]
    policy: Policy,

    /// The format that the sender states: refuse an image that looks like another one
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,

    /// Refuse disks that are larger (suffixes k, M, G, T)
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    size_limit: Option<u64>,

    /// Read the images even if a running VM is using them
    #[arg(long)]
    force_share: bool,
}

/// An image with its verdict.
struct Validated {
    path: PathBuf,
    verdict: Verdict,
}

pub(super) fn run(args: &Validate, session: &mut Session) -> Result<()> {
    session.fail_with(TROUBLE);
    let mut validated = Vec::new();
    for image in &args.images {
        match args.validate(image) {
            Ok(image) => validated.push(image),
            Err(error) => session.report(&error),
        }
    }
    print(args, &validated, session)?;
    let is_refused = validated.iter().any(|image| !image.verdict.is_accepted());
    if is_refused && session.exit_code() == 0 {
        session.set_exit_code(REFUSED);
    }
    Ok(())
}

impl Validate {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        let names = self.images.iter().flat_map(|image| image.image_alone(""));
        Needs::reading_alone(names.collect(), &self.image_args())
    }

    fn image_args(&self) -> ImageArgs {
        ImageArgs {
            force_share: self.force_share,
            no_backing: true,
            ..ImageArgs::default()
        }
    }

    fn validate(&self, image: &Operand) -> Result<Validated> {
        let spec = ImageSpec::parse(&image.image_alone("to validate")?)?;
        if spec.snapshot.is_some() || spec.backing_format.is_some() {
            let reason = "expected an image as a whole, without the options snapshot= and \
                          backing.format=";
            return Err(Error::new(ErrorKind::Invalid, reason).in_file(spec.shown_path()));
        }
        diskfs_sandbox::act_if_planted();
        let options = spec.options_over(&self.image_args().open_options()?);
        let validation = ValidateOptions {
            policy: self.policy,
            claimed: spec.format.or(self.format),
            size_limit_bytes: self.size_limit,
        };
        let verdict = validate(&spec.path, &options, &validation)?;
        Ok(Validated {
            path: spec.shown_path(),
            verdict,
        })
    }
}

fn print(args: &Validate, validated: &[Validated], session: &Session) -> Result<()> {
    let mut out = stdout()?;
    match session.output() {
        Output::Json => {
            let is_complete = validated.len() == args.images.len();
            let body = json!({
                "policy": args.policy.name(),
                "accepted": is_complete && validated.iter().all(|image| image.verdict.is_accepted()),
                "images": validated.iter().map(Validated::document).collect::<Vec<_>>(),
            });
            document::write(&mut out, session.command(), body)?;
        }
        Output::Text => {
            for image in validated {
                image.write(&mut out)?;
            }
        }
    }
    Ok(out.flush()?)
}

impl Validated {
    fn write(&self, out: &mut dyn Write) -> Result<()> {
        let verdict = &self.verdict;
        let path = message(&self.path.to_string_lossy());
        let answer = if verdict.is_accepted() {
            "accepted"
        } else {
            "refused"
        };
        let size = verdict
            .virtual_size_bytes
            .map(|size| format!(", {size} bytes"));
        let size = size.unwrap_or_default();
        writeln!(out, "{path}: {answer} ({}{size})", verdict.format)?;
        for broken in &verdict.broken {
            writeln!(out, "  {}", line(broken))?;
        }
        for note in &verdict.notes {
            writeln!(out, "  note: {}", message(note))?;
        }
        Ok(())
    }

    fn document(&self) -> Value {
        let verdict = &self.verdict;
        let mut fields = Map::new();
        document::put_name(
            &mut fields,
            "image",
            self.path.as_os_str().as_encoded_bytes(),
        );
        let rules: Vec<Value> = verdict.broken.iter().map(rule).collect();
        fields.insert("accepted".to_owned(), verdict.is_accepted().into());
        fields.insert("format".to_owned(), verdict.format.into());
        let size = verdict.virtual_size_bytes;
        fields.insert("virtual_size_bytes".to_owned(), size.into());
        fields.insert("broken_rules".to_owned(), rules.into());
        fields.insert("notes".to_owned(), verdict.notes.clone().into());
        Value::Object(fields)
    }
}

fn line(broken: &BrokenRule) -> String {
    let place = broken.offset_bytes.map(|at| format!(" (byte {at})"));
    let place = place.unwrap_or_default();
    format!("{}: {}{place}", broken.rule.id(), message(&broken.message))
}

fn rule(broken: &BrokenRule) -> Value {
    json!({
        "rule": broken.rule.id(),
        "message": broken.message,
        "offset_bytes": broken.offset_bytes,
    })
}
