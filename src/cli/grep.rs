//! `diskfs grep`.

mod contents;
mod matcher;
mod printer;
mod record;
mod search;

use std::ffi::{OsStr, OsString};
use std::io::Write;

use clap::Args;

use diskfs::vfs::glob::Pattern;
use diskfs::vfs::{FileType, Follow};
use diskfs::{Error, ErrorKind, Result, SortedEntry};

use super::exclude::pattern;
use super::operand::Operand;
use super::options::SourceArgs;
use super::pool;
use super::progress::Progress;
use super::session::{Located, Output, Session, stdout};
use super::show::json::List;
use super::show::name::join;
use matcher::{Matcher, Wanted};
use printer::{JsonPrinter, TextPrinter};
use record::{Found, Record};
use search::{Binary, Matters, Search};

/// The exit code without a match, and the one for trouble: those of grep(1).
const NO_MATCH: u8 = 1;
const TROUBLE: u8 = 2;

/// Search the contents of files
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    override_usage = "diskfs grep [OPTIONS] PATTERN IMG[:/PATH]...\n       \
                      diskfs grep [OPTIONS] -e PATTERN... IMG[:/PATH]..."
)]
#[command(
    after_help = "Everything below a directory is searched, as by grep -r: regular files alone, in the order of
names; symlinks are followed only where they are named. A pattern is an extended regular expression
without back-references, in Unicode; with line ends in it, it is several. A file with a zero byte is
binary: that it matches is said on standard error, unless -a is given. A line of more than 4 MiB is
taken for several, so that a file without line ends needs no memory.

Exit codes: 0 something was found, 1 nothing, 2 trouble; as grep(1), and not as other commands.

Examples:
  diskfs grep -n PermitRootLogin disk.qcow2:/etc/ssh
  diskfs grep -il 'out of memory' --include '*.log*' --search-zip disk.qcow2:/var/log
  diskfs grep -oh -E '[0-9]+(\\.[0-9]+){3}' disk.qcow2:/var/log/auth.log
  diskfs grep --json -F -e password -e secret disk.qcow2:/home"
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one flag of the command line"
)]
pub(super) struct Grep {
    /// What to search for, unless -e says it; then images, and where to begin in them
    #[arg(required = true, value_name = "PATTERN|IMG[:/PATH]")]
    words: Vec<OsString>,

    /// What to search for; may be given again
    #[arg(
        short = 'e',
        long = "regexp",
        value_name = "PATTERN",
        allow_hyphen_values = true
    )]
    patterns: Vec<String>,

    /// Patterns are texts, and no regular expressions
    #[arg(short = 'F', long, conflicts_with = "extended_regexp")]
    fixed_strings: bool,

    /// Patterns are extended regular expressions, as they are anyway
    #[arg(short = 'E', long)]
    extended_regexp: bool,

    /// Upper and lower case are the same
    #[arg(short, long)]
    ignore_case: bool,

    /// Lines that don't match
    #[arg(short = 'v', long)]
    invert_match: bool,

    /// Only whole words match
    #[arg(short, long)]
    word_regexp: bool,

    /// Only whole lines match
    #[arg(short = 'x', long)]
    line_regexp: bool,

    /// How many lines of each file match
    #[arg(short, long)]
    count: bool,

    /// The names of files that match
    #[arg(short = 'l', long, conflicts_with = "count")]
    files_with_matches: bool,

    /// The names of files that don't
    #[arg(short = 'L', long, conflicts_with_all = ["count", "files_with_matches"])]
    files_without_match: bool,

    /// What matches of a line, each on a line of its own
    #[arg(short, long)]
    only_matching: bool,

    /// Say nothing, and end at the first match: the exit code tells
    #[arg(short, long, visible_alias = "silent")]
    quiet: bool,

    /// Say nothing of files that can't be read
    #[arg(short = 's', long)]
    no_messages: bool,

    /// Numbers of lines
    #[arg(short = 'n', long)]
    line_number: bool,

    /// The file's name before each line, as it is anyway with several files
    #[arg(short = 'H', long)]
    with_filename: bool,

    /// No names of files before lines
    #[arg(short = 'h', long, overrides_with = "with_filename")]
    no_filename: bool,

    /// Stop in each file after N lines
    #[arg(short, long, value_name = "N")]
    max_count: Option<u64>,

    /// So many lines after each match, too
    #[arg(short = 'A', long, value_name = "N")]
    after_context: Option<u64>,

    /// So many lines before each match, too
    #[arg(short = 'B', long, value_name = "N")]
    before_context: Option<u64>,

    /// So many lines around each match, too
    #[arg(short = 'C', long, value_name = "N")]
    context: Option<u64>,

    /// Binary files are texts
    #[arg(short = 'a', long)]
    text: bool,

    /// Binary files don't match
    #[arg(short = 'I')]
    skip_binary: bool,

    /// Also in what is packed by gzip, zstd, xz or lz4 (legacy frames), by its first bytes
    #[arg(long)]
    search_zip: bool,

    /// Only files with such a name; may be given again
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    include: Vec<Pattern>,

    /// No files with such a name; may be given again
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    exclude: Vec<Pattern>,

    /// No directories with such a name, and nothing below them; may be given again
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    exclude_dir: Vec<Pattern>,

    /// Everything below directories, as it is anyway
    #[arg(short, long)]
    recursive: bool,

    /// How many files are read side by side
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,

    /// Say what is done; twice for more (what is -v elsewhere, which is -v of grep(1) here)
    #[arg(long, id = "verbose", action = clap::ArgAction::Count, help_heading = "Output options")]
    verbose: u8,

    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,

    #[command(flatten)]
    source: SourceArgs,
}

pub(super) fn run(args: &Grep, session: &mut Session) -> Result<()> {
    session.fail_with(TROUBLE);
    let (patterns, operands) = args.words()?;
    let search = Search {
        matcher: Matcher::new(&patterns, args.wanted())?,
        invert: args.invert_match,
        before: args.lines(args.before_context),
        after: args.lines(args.after_context),
        max_count: args.max_count,
        matters: args.matters(),
        binary: match (args.text, args.skip_binary) {
            (true, _) => Binary::Text,
            (false, true) => Binary::Skip,
            (false, false) => Binary::Tell,
        },
        unpack: args.search_zip,
    };
    let places = session.places(&operands, &args.source);
    if args.no_messages {
        session.silence();
    }
    let mut out = stdout()?;
    let matched = match session.output() {
        Output::Json => {
            let mut list = List::begin(&mut out, session.command(), "matches")?;
            let mut printer = JsonPrinter::new(args, &mut list);
            let matched = grep(args, session, &search, &places, &mut |found| {
                printer.print(found)
            })?;
            list.end()?;
            matched
        }
        Output::Text => {
            let mut printer = TextPrinter::new(args, &places, &mut out);
            grep(args, session, &search, &places, &mut |found| {
                printer.print(found)
            })?
        }
    };
    out.flush()?;
    match (matched, session.exit_code()) {
        (true, _) if args.quiet => session.end_with(0),
        (false, 0) => session.end_with(NO_MATCH),
        _ => {}
    }
    Ok(())
}

impl Grep {
    /// The patterns, and the operands behind them.
    fn words(&self) -> Result<(Vec<String>, Vec<Operand>)> {
        let mut words = self.words.as_slice();
        let mut patterns = self.patterns.clone();
        if patterns.is_empty()
            && let Some((first, rest)) = words.split_first()
        {
            patterns.push(text(first)?);
            words = rest;
        }
        if words.is_empty() {
            let reason = "no image is named to search in";
            return Err(Error::new(ErrorKind::Invalid, reason)
                .with_hint("write `diskfs grep PATTERN IMG:/PATH`"));
        }
        let operands = words.iter().cloned().map(Operand::from).collect();
        Ok((patterns, operands))
    }

    fn matters(&self) -> Matters {
        if self.quiet || self.files_with_matches || self.files_without_match {
            Matters::Any
        } else if self.count {
            Matters::Count
        } else {
            Matters::Lines
        }
    }

    fn wanted(&self) -> Wanted {
        Wanted {
            fixed: self.fixed_strings,
            ignore_case: self.ignore_case,
            words: self.word_regexp,
            lines: self.line_regexp,
        }
    }

    /// How many lines of context; what is more than a usize is all of them.
    fn lines(&self, own: Option<u64>) -> usize {
        let lines = own.or(self.context).unwrap_or(0);
        usize::try_from(lines).unwrap_or(usize::MAX)
    }

    /// Whether a file's contents are to be searched, by its name.
    fn wants(&self, entry: &SortedEntry, place: &Located) -> bool {
        let path = join(&place.path, &entry.path);
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let is_one = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(name));
        entry.metadata.file_type == FileType::Regular
            && (self.include.is_empty() || is_one(&self.include))
            && !is_one(&self.exclude)
    }

    /// The same of a directory, also of one that is named as an operand.
    fn wants_dir(&self, entry: &SortedEntry, place: &Located) -> bool {
        let path = join(&place.path, &entry.path);
        let path = path.strip_suffix(b"/").unwrap_or(&path);
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        !self.exclude_dir.iter().any(|pattern| pattern.matches(name))
    }
}

fn text(word: &OsStr) -> Result<String> {
    let text = word.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::new(ErrorKind::Invalid, "the pattern is no UTF-8"))
}

/// Searches all places in order. Returns whether anything was found.
fn grep(
    args: &Grep,
    session: &mut Session,
    search: &Search,
    places: &[Located],
    print: &mut dyn FnMut(Found<'_>) -> Result<()>,
) -> Result<bool> {
    let mut progress = Progress::new(session.progress(), None);
    let mut matched = false;
    for place in places {
        if search.max_count == Some(0) || args.quiet && matched {
            break;
        }
        let mut below = Below {
            args,
            search,
            place,
            progress: &mut progress,
        };
        match below.search(session, print) {
            Ok(found) => matched |= found,
            Err(Stop::Quiet) => matched = true,
            Err(Stop::Failed(error)) if error.is_broken_pipe() => return Err(error),
            Err(Stop::Failed(error)) => session.report(&error),
        }
    }
    progress.finish();
    Ok(matched)
}

/// Why a search ends early.
enum Stop {
    /// One match is enough.
    Quiet,
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

struct Below<'a> {
    args: &'a Grep,
    search: &'a Search,
    place: &'a Located,
    progress: &'a mut Progress,
}

impl Below<'_> {
    /// Searches the files at and below the place side by side, and prints them in order.
    fn search(
        &mut self,
        session: &mut Session,
        print: &mut dyn FnMut(Found<'_>) -> Result<()>,
    ) -> std::result::Result<bool, Stop> {
        let (args, search, place) = (self.args, self.search, self.place);
        let start = place.node(Follow::All)?;
        let mut walk = start.walk_sorted();
        let files = std::iter::from_fn(|| {
            loop {
                match walk.next()? {
                    Ok(entry) if entry.metadata.is_dir() => {
                        if !args.wants_dir(&entry, place) {
                            walk.skip_dir();
                        }
                    }
                    Ok(entry) if !args.wants(&entry, place) => {}
                    Ok(entry) => return Some(Ok(entry)),
                    Err(error) => return Some(Err(error)),
                }
            }
        });
        let threads = args.threads.map_or_else(pool::default_threads, usize::from);
        let work = |entry: Result<SortedEntry>| search.collect(place, entry?);
        let mut matched = false;
        pool::in_order(files, threads, work, |searched| {
            match searched {
                Ok(searched) => {
                    self.progress.file();
                    self.progress.advance(searched.entry.metadata.size_bytes);
                    matched |= searched.print(search, place, print)?;
                }
                Err(error) => session.report(&error),
            }
            if matched && args.quiet {
                return Err(Stop::Quiet);
            }
            Ok(())
        })?;
        Ok(matched)
    }
}

/// A file that was searched, and what was found as far as it was kept.
#[derive(Debug)]
struct Searched {
    entry: SortedEntry,
    /// `None` for more than is kept: it is searched again when its turn has come.
    records: Option<Vec<Record>>,
}

/// So much of what is found in one file is kept until its turn has come; of the files that wait for
/// theirs, that is 64 MiB at most.
const KEPT_BYTES: usize = 64 << 10;

impl Search {
    fn collect(&self, place: &Located, entry: SortedEntry) -> Result<Searched> {
        let (mut records, mut bytes) = (Vec::new(), 0_usize);
        let whole = self.file(place, &entry, &mut |record: Record| {
            bytes = bytes.saturating_add(record.memory_bytes());
            records.push(record);
            Ok(bytes <= KEPT_BYTES)
        })?;
        Ok(Searched {
            entry,
            records: whole.then_some(records),
        })
    }
}

impl Searched {
    /// Prints what was found; whether anything was.
    fn print(
        self,
        search: &Search,
        place: &Located,
        print: &mut dyn FnMut(Found<'_>) -> Result<()>,
    ) -> Result<bool> {
        let path = join(&place.path, &self.entry.path);
        let mut matched = false;
        let mut one = |record: Record| {
            matched |= record.is_match();
            let (path, record) = (&path, &record);
            print(Found {
                place,
                path,
                record,
            })?;
            Ok(true)
        };
        match self.records {
            Some(records) => {
                for record in records {
                    one(record)?;
                }
            }
            None => {
                search.file(place, &self.entry, &mut one)?;
            }
        }
        Ok(matched)
    }
}
