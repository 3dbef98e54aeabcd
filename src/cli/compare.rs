//! The command `diskfs compare`.

use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;

use clap::Args;
use diskfs::block::BlockRead;
use diskfs::image::convert::compare;
use diskfs::{Disk, Error, ErrorKind, Result};
use serde_json::json;

use super::operand::Operand;
use super::options::SourceArgs;
use super::progress::Progress;
use super::sandbox::Needs;
use super::session::{Output, Session, stdout};
use super::show::json as document;

/// The exit codes of cmp(1) and `qemu-img compare` for a difference and for a failure.
const DIFFERENT: u8 = 1;
const TROUBLE: u8 = 2;

/// Compare the contents of two disks
///
/// The images can have any formats. Ranges that both are known to read as zeroes are not read. If one
/// disk is longer, the rest of it must be zeroes, unless --strict is given. To compare files, see
/// `diskfs diff`.
#[derive(Debug, Args)]
#[command(
    after_help = "An option before the comma applies to that image only, as in `a.img,format=raw`; the options below
apply to both.

Exit codes, as in cmp(1) and unlike other commands: 0 equal, 1 different, 2 failure.

Examples:
  diskfs compare disk.raw disk.qcow2
  diskfs compare --volume p1 before.qcow2 after.qcow2
  diskfs compare disk.qcow2,snapshot=before disk.qcow2"
)]
pub(super) struct Compare {
    /// The images to compare
    #[arg(required = true, num_args = 2, value_names = ["A", "B"])]
    images: Vec<Operand>,

    /// Disks of different sizes differ
    #[arg(short, long)]
    strict: bool,

    /// The number of threads [default: the number of processors]
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    #[command(flatten)]
    source: SourceArgs,
}

pub(super) fn run(args: &Compare, session: &mut Session) -> Result<()> {
    session.fail_with(TROUBLE);
    let [one, other] = args.images.as_slice() else {
        return Err(Error::new(ErrorKind::Invalid, "expected two images"));
    };
    let (one, other) = (args.device(one, session)?, args.device(other, session)?);
    let sizes = [one.size_bytes(), other.size_bytes()];
    let mut progress = Progress::new(session.progress(), sizes.into_iter().max());
    let first = if args.strict && one.size_bytes() != other.size_bytes() {
        sizes.into_iter().min()
    } else {
        compare(&*one, &*other, args.threads, &mut |bytes| {
            progress.advance(bytes);
            ControlFlow::Continue(())
        })?
    };
    progress.finish();
    if first.is_some() {
        session.set_exit_code(DIFFERENT);
    }
    let mut out = stdout()?;
    match (session.output(), first) {
        (Output::Json, _) => {
            let body = json!({
                "equal": first.is_none(),
                "first_difference_bytes": first,
                "size_bytes": sizes,
            });
            document::write(&mut out, session.command(), body)?;
        }
        (Output::Text, None) => {}
        (Output::Text, Some(at)) if sizes.contains(&at) => {
            writeln!(out, "different sizes: {} and {} bytes", sizes[0], sizes[1])?;
        }
        (Output::Text, Some(at)) => writeln!(out, "different at byte {at}")?,
    }
    Ok(out.flush()?)
}

impl Compare {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        Needs::reading(&self.images, &self.source)
    }

    /// Returns the disk of an image, or the selected volume.
    fn device(&self, image: &Operand, session: &mut Session) -> Result<Arc<dyn BlockRead>> {
        let image = image.image_alone("to compare")?;
        let disk: Disk = self.source.open(&image)?;
        session.print_warnings(&disk);
        self.source.volume.device(&disk)
    }
}
