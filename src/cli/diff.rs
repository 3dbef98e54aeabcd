//! The command `diskfs diff`.

mod compare;
mod pairs;
mod report;
mod side;
mod stat;
mod unified;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use clap::Args;

use diskfs::{Error, ErrorKind, Result};

use super::exclude::ExcludeArgs;
use super::operand::Operand;
use super::options::SourceArgs;
use super::pool;
use super::progress::Progress;
use super::sandbox::Needs;
use super::session::{Output, Session, stdout};
use super::show::json::List;
use compare::{Comparison, Outcome};
use pairs::{Pairs, Selection};
use report::{Counts, Lines};
use side::Side;
use stat::Histogram;

/// The exit codes of diff(1) for a difference and for a failure.
const DIFFERENT: u8 = 1;
const TROUBLE: u8 = 2;

/// Compare the files of two images, snapshots, or directories
#[derive(Debug, Args)]
#[command(
    after_help = "Prints one line for each file that exists only in B (A for added), only in A (D for deleted), or in
both with differences (M for modified), followed by what differs: type, mode, owner, size, content,
xattrs, target, device, and with --times the modification time. If a directory exists on one side
only, all files in it are listed. Hard links are not compared.

Contents of the same size are read and compared, whatever the times say. They are not read if the
image shows that both sides are stored in the same place: in two snapshots of a qcow2 image, or in
an overlay and its backing file.

With -u, files of at most 8 MiB without zero bytes are shown as diff -uN shows them. --stat counts
their lines, as git diff --stat does; up to 24 changed lines are drawn one by one, more in proportion.

Exit codes, as in diff(1) and unlike other commands: 0 no difference, 1 differences, 2 failure.

Examples:
  diskfs diff before.qcow2 after.qcow2
  diskfs diff disk.qcow2 --from-snapshot before
  diskfs diff --stat disk.qcow2:/etc --from-snapshot before
  diskfs diff disk.qcow2:/etc --from-snapshot s1 --to-snapshot s2 -u
  diskfs diff -u --only etc/fstab before.qcow2 after.qcow2
  diskfs diff --backing overlay.qcow2 --exclude /var/log --exclude '*.pyc'
  diskfs diff -u a.img:/etc b.img:/etc | patch -p1 -d etc"
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one flag of the command line"
)]
pub(super) struct Diff {
    /// The old state; an image alone stands for its root directory
    #[arg(value_name = "A")]
    from: Operand,

    /// The new state [default: A itself, compared with one of its snapshots or its backing file]
    #[arg(value_name = "B")]
    to: Option<Operand>,

    /// Compare a snapshot of A
    #[arg(long, value_name = "NAME", conflicts_with = "snapshot")]
    from_snapshot: Option<String>,

    /// Compare with a snapshot of B (without B, of A) instead of the current state
    #[arg(long, value_name = "NAME", conflicts_with = "snapshot")]
    to_snapshot: Option<String>,

    /// Compare an overlay with its backing file, which is the old state
    #[arg(long, conflicts_with_all = ["to", "from_snapshot"])]
    backing: bool,

    /// Show the differences of text files, with N lines of context
    #[arg(
        short,
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "3",
        conflicts_with = "name_only"
    )]
    unified: Option<usize>,

    /// Print only the paths
    #[arg(long)]
    name_only: bool,

    /// Print how many lines of each file differ, with a histogram
    #[arg(long, conflicts_with_all = ["unified", "name_only"])]
    stat: bool,

    /// Also compare modification times
    #[arg(long)]
    times: bool,

    /// Treat files with the same size and modification time as equal, without reading them
    #[arg(long)]
    trust_times: bool,

    #[command(flatten)]
    exclude: ExcludeArgs,

    /// Compare only this file, or this directory with everything below it; PATH is relative to A and B
    #[arg(long, value_name = "PATH")]
    only: Option<OsString>,

    /// The number of files to read in parallel
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,

    #[command(flatten)]
    source: SourceArgs,
}

impl Diff {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        let mut operands = vec![self.from.clone()];
        operands.extend(self.to.clone());
        Needs::reading(&operands, &self.source)
    }
}

pub(super) fn run(args: &Diff, session: &mut Session) -> Result<()> {
    session.fail_with(TROUBLE);
    let (from, to) = sides(args, session)?;
    let mut out = stdout()?;
    let counts = match session.output() {
        Output::Json => {
            let mut list = List::begin(&mut out, session.command(), "differences")?;
            let counts = differences(args, session, &from, &to, |outcome| {
                let entry = report::entry(&from, &to, outcome, args.unified)?;
                Ok(list.push(&entry)?)
            })?;
            list.end_with("counts", &counts.json())?;
            counts
        }
        Output::Text if args.stat => {
            let mut histogram = Histogram::new();
            let counts = differences(args, session, &from, &to, |outcome| {
                histogram.write(&from, &to, outcome, &mut out)
            })?;
            histogram.end(&mut out)?;
            counts
        }
        Output::Text => {
            let lines = Lines::new(args.name_only, args.unified);
            differences(args, session, &from, &to, |outcome| {
                lines.write(&from, &to, outcome, &mut out)
            })?
        }
    };
    out.flush()?;
    if counts.differ() && session.exit_code() == 0 {
        session.set_exit_code(DIFFERENT);
    }
    Ok(())
}

/// Prints the files of a disk that differ from those before a change, as `diskfs diff` does.
#[cfg(feature = "microvm")]
pub(super) fn print_changes(
    before: diskfs::Disk,
    after: diskfs::Disk,
    source: &SourceArgs,
    session: &mut Session,
    out: &mut dyn Write,
) -> Result<()> {
    let from = Side::new(session, before, b"/".to_vec(), source)?;
    let to = Side::new(session, after, b"/".to_vec(), source)?;
    let comparison = Comparison {
        from: &from,
        to: &to,
        times: false,
        trust_times: true,
    };
    let lines = Lines::new(false, None);
    for pair in Pairs::new(&from, &to, &Selection::default()) {
        let outcome = comparison.outcome(pair?)?;
        if outcome.is_difference() {
            lines.write(&from, &to, &outcome, out)?;
        }
    }
    Ok(())
}

/// Opens both sides, the old state first.
fn sides(args: &Diff, session: &mut Session) -> Result<(Side, Side)> {
    let from = args.from.split();
    let path = from.path.clone().unwrap_or_else(|| b"/".to_vec());
    let (to_image, to_path) = match &args.to {
        Some(to) if to.is_bare_path() => (
            from.image.clone(),
            to.as_os_str().as_encoded_bytes().to_vec(),
        ),
        Some(to) => {
            let to = to.split();
            (to.image, to.path.unwrap_or_else(|| b"/".to_vec()))
        }
        None => (from.image.clone(), path.clone()),
    };
    let of_one = args.to.is_none();
    if of_one && !args.backing && args.from_snapshot.is_none() && args.to_snapshot.is_none() {
        let reason = format!(
            "missing a second image or snapshot to compare with {}",
            from.image.display()
        );
        return Err(Error::new(ErrorKind::Invalid, reason).with_hint(
            "name another image, or --from-snapshot NAME (see `diskfs snapshot list`), or --backing",
        ));
    }
    let to_source = with_snapshot(&args.source, args.to_snapshot.as_ref());
    let after = open(session, &to_image, &to_source)?;
    let (before, from_source) = if args.backing {
        (to_source.open_backing(&after)?, to_source.clone())
    } else {
        let source = with_snapshot(&args.source, args.from_snapshot.as_ref());
        (open(session, &from.image, &source)?, source)
    };
    let from = Side::new(session, before, path, &from_source)?;
    let to = Side::new(session, after, to_path, &to_source)?;
    Ok((from, to))
}

fn with_snapshot(source: &SourceArgs, snapshot: Option<&String>) -> SourceArgs {
    let mut source = source.clone();
    if snapshot.is_some() {
        source.image.snapshot = snapshot.cloned();
    }
    source
}

fn open(session: &mut Session, image: &OsString, source: &SourceArgs) -> Result<diskfs::Disk> {
    let image: &OsStr = image;
    session.disk(image, source)
}

/// Calls `report` for every difference in order, while other files are being compared.
fn differences(
    args: &Diff,
    session: &mut Session,
    from: &Side,
    to: &Side,
    mut report: impl FnMut(&Outcome) -> Result<()>,
) -> Result<Counts> {
    let mut progress = Progress::new(session.progress(), None);
    let comparison = Comparison {
        from,
        to,
        times: args.times,
        trust_times: args.trust_times,
    };
    let threads = args.threads.map_or_else(pool::default_threads, usize::from);
    let selection = Selection {
        exclude: args.exclude.clone(),
        only: args.only.as_ref().map(|path| path.as_bytes().to_vec()),
    };
    let pairs = Pairs::new(from, to, &selection);
    let mut counts = Counts::default();
    pool::in_order(
        pairs,
        threads,
        |pair| comparison.outcome(pair?),
        |outcome| {
            match outcome {
                Ok(outcome) => {
                    progress.file();
                    progress.advance(outcome.read_bytes);
                    counts.add(&outcome);
                    if outcome.is_difference() {
                        report(&outcome)?;
                    }
                }
                Err(error) => session.report(&error),
            }
            Ok::<_, Error>(())
        },
    )?;
    progress.finish();
    Ok(counts)
}
