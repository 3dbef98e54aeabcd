//! The command `diskfs grep`.

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
use super::sandbox::Needs;
use super::session::{Located, Output, Session, stdout};
use super::show::json::List;
use super::show::name::join;
use matcher::{Matcher, PatternOptions};
use printer::{JsonPrinter, TextPrinter};
use record::{FileRecord, Record};
use search::{Binary, Search, WantedResult};

/// The exit codes of grep(1) for no match and for a failure.
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
    after_help = "A directory is searched with everything below it, as by grep -r: only regular files, in the order of
names. Symlinks are followed only if they are operands. A pattern is an extended regular expression
in Unicode, without back-references; a pattern with newlines stands for several. A file with a zero
byte is binary: a match in it is reported on standard error, unless -a is given. A line of more than
4 MiB is treated as several lines, so that a file without newlines needs little memory.

Exit codes, as in grep(1) and unlike other commands: 0 match, 1 no match, 2 failure.

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
    /// The pattern, unless -e is given; then the images, and where to begin in them
    #[arg(required = true, value_name = "PATTERN|IMG[:/PATH]")]
    words: Vec<OsString>,

    /// Search for PATTERN; can be repeated
    #[arg(
        short = 'e',
        long = "regexp",
        value_name = "PATTERN",
        allow_hyphen_values = true
    )]
    patterns: Vec<String>,

    /// Treat patterns as plain text
    #[arg(short = 'F', long, conflicts_with = "extended_regexp")]
    fixed_strings: bool,

    /// Treat patterns as extended regular expressions (the default)
    #[arg(short = 'E', long)]
    extended_regexp: bool,

    /// Ignore upper and lower case
    #[arg(short, long)]
    ignore_case: bool,

    /// Select the lines that do not match
    #[arg(short = 'v', long)]
    invert_match: bool,

    /// Match only whole words
    #[arg(short, long)]
    word_regexp: bool,

    /// Match only whole lines
    #[arg(short = 'x', long)]
    line_regexp: bool,

    /// Print only the number of matching lines of each file
    #[arg(short, long)]
    count: bool,

    /// Print only the names of files with a match
    #[arg(short = 'l', long, conflicts_with = "count")]
    files_with_matches: bool,

    /// Print only the names of files without a match
    #[arg(short = 'L', long, conflicts_with_all = ["count", "files_with_matches"])]
    files_without_match: bool,

    /// Print only the matching parts of lines, each on its own line
    #[arg(short, long)]
    only_matching: bool,

    /// Print nothing, and exit at the first match with code 0
    #[arg(short, long, visible_alias = "silent")]
    quiet: bool,

    /// Do not report files that cannot be read
    #[arg(short = 's', long)]
    no_messages: bool,

    /// Print line numbers
    #[arg(short = 'n', long)]
    line_number: bool,

    /// Print the file name before each line (the default for several files)
    #[arg(short = 'H', long)]
    with_filename: bool,

    /// Do not print file names before lines
    #[arg(short = 'h', long, overrides_with = "with_filename")]
    no_filename: bool,

    /// Stop searching a file after N selected lines
    #[arg(short, long, value_name = "N")]
    max_count: Option<u64>,

    /// Print N lines after each match
    #[arg(short = 'A', long, value_name = "N")]
    after_context: Option<u64>,

    /// Print N lines before each match
    #[arg(short = 'B', long, value_name = "N")]
    before_context: Option<u64>,

    /// Print N lines before and after each match
    #[arg(short = 'C', long, value_name = "N")]
    context: Option<u64>,

    /// Treat binary files as text
    #[arg(short = 'a', long)]
    text: bool,

    /// Treat binary files as not matching
    #[arg(short = 'I')]
    skip_binary: bool,

    /// Also search in compressed files (gzip, bzip2, zstd, xz, lz4), recognized by their
    /// first bytes
    #[arg(long)]
    search_zip: bool,

    /// Search only files whose names match PATTERN; can be repeated
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    include: Vec<Pattern>,

    /// Skip files whose names match PATTERN; can be repeated
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    exclude: Vec<Pattern>,

    /// Skip directories whose names match PATTERN, and everything below them; can be repeated
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    exclude_dir: Vec<Pattern>,

    /// Search directories recursively (the default)
    #[arg(short, long)]
    recursive: bool,

    /// The number of files to read in parallel
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,

    /// Log what diskfs does; give it twice for more detail (-v of other commands, which means
    /// --invert-match here)
    #[arg(long, id = "verbose", action = clap::ArgAction::Count, help_heading = "Output options")]
    verbose: u8,

    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,

    #[command(flatten)]
    source: SourceArgs,
}

impl Grep {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Option<Needs<'_>> {
        let (_, operands) = self.words().ok()?;
        Some(Needs::reading(&operands, &self.source))
    }
}

pub(super) fn run(args: &Grep, session: &mut Session) -> Result<()> {
    session.fail_with(TROUBLE);
    let (patterns, operands) = args.words()?;
    let search = Search {
        matcher: Matcher::new(&patterns, args.pattern_options())?,
        invert: args.invert_match,
        before: args.lines(args.before_context),
        after: args.lines(args.after_context),
        max_count: args.max_count,
        wanted_result: args.wanted_result(),
        binary: match (args.text, args.skip_binary) {
            (true, _) => Binary::Text,
            (false, true) => Binary::Skip,
            (false, false) => Binary::Report,
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
        (true, _) if args.quiet => session.set_exit_code(0),
        (false, 0) => session.set_exit_code(NO_MATCH),
        _ => {}
    }
    Ok(())
}

impl Grep {
    /// Returns the patterns and the operands.
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
            let reason = "missing image to search in";
            return Err(Error::new(ErrorKind::Invalid, reason)
                .with_hint("write `diskfs grep PATTERN IMG:/PATH`"));
        }
        let operands = words.iter().cloned().map(Operand::from).collect();
        Ok((patterns, operands))
    }

    fn wanted_result(&self) -> WantedResult {
        if self.quiet || self.files_with_matches || self.files_without_match {
            WantedResult::Any
        } else if self.count {
            WantedResult::Count
        } else {
            WantedResult::Lines
        }
    }

    fn pattern_options(&self) -> PatternOptions {
        PatternOptions {
            fixed: self.fixed_strings,
            ignore_case: self.ignore_case,
            words: self.word_regexp,
            lines: self.line_regexp,
        }
    }

    /// Returns the number of context lines. A number that exceeds usize means all lines.
    fn lines(&self, own: Option<u64>) -> usize {
        let lines = own.or(self.context).unwrap_or(0);
        usize::try_from(lines).unwrap_or(usize::MAX)
    }

    /// Returns true if a file should be searched, by its name.
    fn is_searched(&self, entry: &SortedEntry, place: &Located) -> bool {
        let path = join(&place.path, &entry.path);
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let is_one = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(name));
        entry.metadata.file_type == FileType::Regular
            && (self.include.is_empty() || is_one(&self.include))
            && !is_one(&self.exclude)
    }

    /// Returns true if a directory should be searched, by its name; also called for operands.
    fn wants_dir(&self, entry: &SortedEntry, place: &Located) -> bool {
        let path = join(&place.path, &entry.path);
        let path = path.strip_suffix(b"/").unwrap_or(&path);
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        !self.exclude_dir.iter().any(|pattern| pattern.matches(name))
    }
}

fn text(word: &OsStr) -> Result<String> {
    let text = word.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::new(ErrorKind::Invalid, "the pattern is not valid UTF-8"))
}

/// Searches all places in order. Returns true if there was a match.
fn grep(
    args: &Grep,
    session: &mut Session,
    search: &Search,
    places: &[Located],
    print: &mut dyn FnMut(FileRecord<'_>) -> Result<()>,
) -> Result<bool> {
    let mut progress = Progress::new(session.progress(), None);
    let mut matched = false;
    for place in places {
        if search.max_count == Some(0) || args.quiet && matched {
            break;
        }
        let mut below = TreeSearch {
            args,
            search,
            place,
            progress: &mut progress,
        };
        match below.search(session, print) {
            Ok(found) => matched |= found,
            Err(EarlyStop::Quiet) => matched = true,
            Err(EarlyStop::Failed(error)) if error.is_broken_pipe() => return Err(error),
            Err(EarlyStop::Failed(error)) => session.report(&error),
        }
    }
    progress.finish();
    Ok(matched)
}

/// The reason for ending a search early.
enum EarlyStop {
    /// A match was found, and one is enough.
    Quiet,
    Failed(Error),
}

impl<E: Into<Error>> From<E> for EarlyStop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

struct TreeSearch<'a> {
    args: &'a Grep,
    search: &'a Search,
    place: &'a Located,
    progress: &'a mut Progress,
}

impl TreeSearch<'_> {
    /// Searches the files at and below the place in parallel, and prints the results in order.
    fn search(
        &mut self,
        session: &mut Session,
        print: &mut dyn FnMut(FileRecord<'_>) -> Result<()>,
    ) -> std::result::Result<bool, EarlyStop> {
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
                    Ok(entry) if !args.is_searched(&entry, place) => {}
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
                return Err(EarlyStop::Quiet);
            }
            Ok(())
        })?;
        Ok(matched)
    }
}

/// A searched file with its results.
#[derive(Debug)]
struct Searched {
    entry: SortedEntry,
    /// The results, or `None` if they are too large to keep: the file is searched again when its
    /// turn comes.
    records: Option<Vec<Record>>,
}

/// The maximum size of results that are kept for one file until its turn comes. For all waiting
/// files together, that is at most 64 MiB.
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
    /// Prints the results of a file. Returns true if there was a match.
    fn print(
        self,
        search: &Search,
        place: &Located,
        print: &mut dyn FnMut(FileRecord<'_>) -> Result<()>,
    ) -> Result<bool> {
        let path = join(&place.path, &self.entry.path);
        let mut matched = false;
        let mut one = |record: Record| {
            matched |= record.is_match();
            let (path, record) = (&path, &record);
            print(FileRecord {
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
