//! The command `diskfs log`.

mod boots;
mod filter;
mod format;
mod printable;
mod since;

use std::io::{IsTerminal, Write};

use clap::Args;

use diskfs::logs::{Fields, Logs, Order, Record, Window};
use diskfs::{Error, ErrorKind, Result};

use super::operand::Operand;
use super::options::SourceArgs;
use super::sandbox::Needs;
use super::session::{Output, Session, stdout};
use filter::{Filter, Priorities};
use format::{Format, Writer};

/// Show what a guest has logged: its journal, and its text logs
///
/// The journal files of systemd and the text logs in /var/log, with rotated ones, are shown as one
/// log in the order of time. No program of the guest is run. The options are those of
/// journalctl(1). Times are shown in UTC. A time in a text log without an offset is in the guest's
/// time zone (an hour that occurs twice, when clocks are set back, is taken as the first one), and
/// a time without a year is in the year before the log's last write. Text logs have no boots, units
/// or priorities: options that select these show the journal only.
#[derive(Debug, Args)]
#[command(
    // -p is the priority here, so --partition has no short form.
    mut_arg("partition", |arg| arg.short(None)),
    after_help = "Times are YYYY-MM-DD[ HH:MM[:SS]], HH:MM[:SS] of today, now, today, yesterday, tomorrow, @SECONDS
since 1970, or relative to now: -1h30min, +5min, 2 days ago.

Examples:
  diskfs log -n 20 debian.qcow2
  diskfs log debian.qcow2 -b -p err
  diskfs log debian.qcow2 -u ssh -S '2024-02-01 12:00' -U '2024-02-02'
  diskfs log debian.qcow2 -g 'failed|error' -o short-iso
  diskfs log --json debian.qcow2 | jq -r .MESSAGE
  diskfs log --file /var/log/apt/history.log debian.qcow2"
)]
pub(super) struct Log {
    /// The image to read the logs of
    #[arg(value_name = "IMG")]
    image: Operand,

    /// Show only the last N records
    #[arg(short = 'n', long, value_name = "N")]
    lines: Option<usize>,

    /// Show the newest records first
    #[arg(short, long)]
    reverse: bool,

    /// Show only records that were logged at this time or later
    #[arg(short = 'S', long, value_name = "TIME", value_parser = since::parse, allow_hyphen_values = true)]
    since: Option<u64>,

    /// Show only records that were logged at this time or earlier
    #[arg(short = 'U', long, value_name = "TIME", value_parser = since::parse, allow_hyphen_values = true)]
    until: Option<u64>,

    /// Show only records of a unit; can be repeated
    #[arg(short, long, value_name = "UNIT")]
    unit: Vec<String>,

    /// Show only records with this identifier; can be repeated
    #[arg(short = 't', long, value_name = "NAME")]
    identifier: Vec<String>,

    /// Show only records of this priority or more urgent (0 to 7, emerg to debug), or in a range
    /// (FROM..TO)
    #[arg(short, long, value_name = "PRIORITY")]
    priority: Option<Priorities>,

    /// Show only one boot: the last one, -1 for the one before it, 1 for the first, or a boot ID
    #[arg(
        short,
        long,
        value_name = "BOOT",
        num_args = 0..=1,
        default_missing_value = "0",
        allow_negative_numbers = true
    )]
    boot: Option<String>,

    /// Show only records of the kernel
    #[arg(short = 'k', long)]
    dmesg: bool,

    /// Show only records that match a regular expression; case is ignored if it has no capital
    /// letter
    #[arg(short, long, value_name = "REGEX")]
    grep: Option<String>,

    /// List the boots in the journal
    #[arg(long)]
    list_boots: bool,

    /// The output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Short)]
    output: Format,

    /// Show only this file of the guest: a journal file, or a text log
    #[arg(long, value_name = "PATH")]
    file: Option<String>,

    #[command(flatten)]
    source: SourceArgs,
}

impl Log {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        Needs::reading(std::slice::from_ref(&self.image), &self.source).reading_logs()
    }
}

pub(super) fn run(args: &Log, session: &mut Session) -> Result<()> {
    let image = args.image.image_alone("to read the logs of")?;
    let disk = session.disk(&image, &args.source)?;
    let filesystem = args.source.volume.filesystem(&disk)?;
    session.print_warnings(&disk);
    let logs = match &args.file {
        Some(path) => Logs::of_file(&filesystem, path)?,
        None => Logs::find(&filesystem),
    };
    if logs.is_empty() {
        let reason = "no journal and no known text log was found";
        let hint = "give a log file with --file";
        let error = Error::new(ErrorKind::NotFound, reason).with_hint(hint);
        return Err(error.in_file(disk.path()));
    }
    let mut out = stdout()?;
    if args.list_boots {
        boots::list(&logs, session, &mut out)?;
    } else {
        show(args, logs, session, &mut out)?;
    }
    Ok(out.flush()?)
}

/// A record, with its fields if they were read.
type LoggedRecord = (Record, Option<Fields>);

fn show(args: &Log, logs: Logs, session: &mut Session, out: &mut impl Write) -> Result<()> {
    let filter = Filter::new(args, &logs, session)?;
    let format = match session.output() {
        Output::Json => Format::Json,
        Output::Text => args.output,
    };
    let writer = Writer {
        format,
        is_terminal: std::io::stdout().is_terminal(),
    };
    let window = Window {
        since_us: args.since,
        until_us: args.until,
    };
    let order = if args.reverse || args.lines.is_some() {
        Order::NewestFirst
    } else {
        Order::OldestFirst
    };
    let mut left = args.lines.unwrap_or(usize::MAX);
    // The last records are searched from the end, and shown from the beginning.
    let is_turned = args.lines.is_some() && !args.reverse;
    let mut turned: Vec<Record> = Vec::new();
    let mut records = logs.records(order, window);
    while left > 0
        && let Some((record, fields)) = next(&mut records, &filter, format, session)
    {
        left -= 1;
        if is_turned {
            turned.push(record);
        } else {
            writer.write(out, &record, fields)?;
        }
    }
    for record in turned.iter().rev() {
        writer.write(out, record, None)?;
    }
    Ok(())
}

/// Returns the next matching record. Read errors are warnings.
fn next(
    records: &mut diskfs::logs::Records,
    filter: &Filter,
    format: Format,
    session: &mut Session,
) -> Option<LoggedRecord> {
    for found in records {
        let record = match found {
            Ok(record) => record,
            Err(problem) => {
                session.warn(&problem.to_string());
                continue;
            }
        };
        if !filter.takes_record(&record) {
            continue;
        }
        if !filter.asks_fields() {
            return Some((record, None));
        }
        let (fields, _) = record.fields(format.limit_bytes());
        if filter.takes(&fields) {
            return Some((record, Some(fields)));
        }
    }
    None
}
