//! The command `diskfs du`.

mod picture;
mod tally;

use std::io::Write;

use clap::Args;

use diskfs::Result;
use diskfs::vfs::Follow;
use serde_json::{Map, Value, json};

use super::exclude::ExcludeArgs;
use super::operand::Operand;
use super::options::SourceArgs;
use super::sandbox::Needs;
use super::session::{Located, Output, Session, name_style, shown_path, stdout};
use super::show::json::{List, put_name};
use super::show::name::{NameStyle, join};
use super::show::{mode, size};
use picture::Picture;
use tally::{CountOnce, Space, Subdirectories, Tally, UsageEntry};

/// The number of levels that a tree shows by default.
const TREE_DEPTH: usize = 3;

/// The largest number of levels of a tree: its branches are nested in memory, and an image can have
/// any depth.
const TREE_DEPTH_MAX: usize = 64;

/// Show the disk usage of directories
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
#[command(
    after_help = "The number for a directory is the space allocated for everything below it, in units of 1024 bytes. A
file with several names is counted only at its first one. Directories are walked in the order of
names, and a directory is printed after its contents, as du(1) does. With --tree the largest come
first, each with a bar: its share of the operand. The smallest of a directory share one line.

Examples:
  diskfs du -sh disk.qcow2:/usr disk.qcow2:/var
  diskfs du -h -d 1 disk.qcow2
  diskfs du --tree -d 2 disk.qcow2:/var
  diskfs du -x disk.qcow2 | sort -n | tail
  diskfs du --json -d 2 --exclude '*.log' disk.qcow2:/var"
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one flag of the command line"
)]
pub(super) struct Du {
    /// The directories or files to begin at; an image alone stands for its root directory
    #[arg(required = true, value_name = "IMG[:/PATH]")]
    paths: Vec<Operand>,

    /// Show files as well as directories
    #[arg(short, long)]
    all: bool,

    /// Show one line for each operand; short for -d 0
    #[arg(short, long, conflicts_with_all = ["all", "max_depth"])]
    summarize: bool,

    /// Show only what is at most N directories below the operand
    #[arg(short = 'd', long, value_name = "N")]
    max_depth: Option<usize>,

    /// Draw a tree with bars, the largest directories first [default depth: 3, at most 64; default units: -h]
    #[arg(long, conflicts_with_all = ["summarize", "total"])]
    tree: bool,

    /// Show the total on a last line
    #[arg(short = 'c', long)]
    total: bool,

    /// Print sizes in units such as 1.5K and 20M
    #[arg(short, long, overrides_with = "kilobytes")]
    human_readable: bool,

    /// Print sizes in units of 1024 bytes (the default); of -k, -b and -h the last one applies
    #[arg(short, overrides_with = "human_readable")]
    kilobytes: bool,

    /// Show the sizes of files and symlinks instead of the allocated space, as du(1) since
    /// coreutils 9.2
    #[arg(long, conflicts_with = "inodes")]
    apparent_size: bool,

    /// Show the sizes of files and symlinks in bytes: short for --apparent-size, in bytes
    #[arg(short, long, conflicts_with = "inodes", overrides_with_all = ["kilobytes", "human_readable"])]
    bytes: bool,

    /// Count files instead of bytes
    #[arg(long)]
    inodes: bool,

    /// Do not include subdirectories in the size of a directory
    #[arg(short = 'S', long)]
    separate_dirs: bool,

    /// Count a file with several names once for each name
    #[arg(short = 'l', long)]
    count_links: bool,

    /// Skip directories on other filesystems than the operand
    #[arg(short = 'x', long)]
    one_file_system: bool,

    #[command(flatten)]
    exclude: ExcludeArgs,

    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,

    #[command(flatten)]
    source: SourceArgs,
}

impl Du {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        Needs::reading(&self.paths, &self.source)
    }
}

pub(super) fn run(args: &Du, session: &mut Session) -> Result<()> {
    let places = session.places(&args.paths, &args.source);
    let mut out = stdout()?;
    match session.output() {
        Output::Json => {
            let mut list = List::begin(&mut out, session.command(), "entries")?;
            let total = count(args, session, &places, |place, counted| {
                Ok(list.push(&entry(place, counted))?)
            })?;
            list.end_with("total", &Value::Object(space_json(total)))?;
        }
        Output::Text if args.tree => draw(args, session, &places, &mut out)?,
        Output::Text => {
            let style = name_style(NameStyle::Escaped);
            let total = count(args, session, &places, |place, counted| {
                let path = shown_path(&places, place, &join(&place.path, &counted.path));
                write!(out, "{}\t", args.format(args.amount(counted.space)))?;
                out.write_all(&style.show(&path))?;
                Ok(out.write_all(b"\n")?)
            })?;
            if args.total {
                writeln!(out, "{}\ttotal", args.format(args.amount(total)))?;
            }
        }
    }
    Ok(out.flush()?)
}

/// Draws a tree for each operand.
fn draw(args: &Du, session: &mut Session, places: &[Located], out: &mut dyn Write) -> Result<()> {
    let style = name_style(NameStyle::Escaped);
    let mut picture = Picture::default();
    count(args, session, places, |place, counted| {
        let Some(root) = picture.add(counted, args.amount(counted.space)) else {
            return Ok(());
        };
        let name = shown_path(places, place, &place.path);
        root.draw(out, &name, style, &|amount| args.format(amount))
    })?;
    Ok(())
}

/// Calls `report` for everything that is shown, a directory after its contents. Returns the total.
fn count(
    args: &Du,
    session: &mut Session,
    places: &[Located],
    mut report: impl FnMut(&Located, &UsageEntry) -> Result<()>,
) -> Result<Space> {
    let subdirectories = if args.separate_dirs {
        Subdirectories::Apart
    } else {
        Subdirectories::Included
    };
    let mut tally = Tally::new(args.counted_once(places.len()), subdirectories);
    for place in places {
        // Operands of the same image share a filesystem.
        let filesystem = places.iter().position(|other| other.image == place.image);
        tally.begin(filesystem.unwrap_or_default());
        if let Err(error) = below(args, session, place, &mut tally, &mut report) {
            if error.is_broken_pipe() {
                return Err(error);
            }
            session.report(&error);
        }
    }
    Ok(tally.total())
}

fn below(
    args: &Du,
    session: &mut Session,
    place: &Located,
    tally: &mut Tally,
    report: &mut impl FnMut(&Located, &UsageEntry) -> Result<()>,
) -> Result<()> {
    let start = place.node(Follow::AllButLast)?;
    let mount_of = |inode| place.filesystem.mount_of(inode);
    let mut report = |counted: &UsageEntry| {
        if args.shows(counted) {
            report(place, counted)
        } else {
            Ok(())
        }
    };
    let mut walk = start.walk_sorted();
    while let Some(entry) = walk.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                session.report(&error);
                continue;
            }
        };
        tally.close_to(entry.depth, &mut report)?;
        let is_elsewhere = || mount_of(entry.metadata.inode) != mount_of(start.inode());
        let path = join(&place.path, &entry.path);
        let left_out = args.exclude.leaves_out(&path) || args.one_file_system && is_elsewhere();
        if left_out || !tally.add(entry, &mut report)? {
            walk.skip_dir();
        }
    }
    tally.close_to(0, &mut report)
}

impl Du {
    /// Returns which files are counted only once. Several operands may overlap.
    fn counted_once(&self, operands: usize) -> CountOnce {
        match (self.count_links, operands) {
            (true, _) => CountOnce::Nothing,
            (false, 0 | 1) => CountOnce::Linked,
            (false, _) => CountOnce::Everything,
        }
    }

    fn shows(&self, counted: &UsageEntry) -> bool {
        let deepest = match (self.summarize, self.tree) {
            (true, _) => Some(0),
            (false, true) => Some(self.max_depth.unwrap_or(TREE_DEPTH).min(TREE_DEPTH_MAX)),
            (false, false) => self.max_depth,
        };
        let is_wanted = self.all || counted.depth == 0 || counted.is_dir();
        is_wanted && deepest.is_none_or(|deepest| counted.depth <= deepest)
    }

    /// Returns the requested one of the figures.
    fn amount(&self, space: Space) -> u64 {
        match (self.inodes, self.apparent_size || self.bytes) {
            (true, _) => space.inodes,
            (false, true) => space.size_bytes,
            (false, false) => space.allocated_bytes,
        }
    }

    /// Formats a figure in the requested unit.
    fn format(&self, amount: u64) -> String {
        let is_plain = self.inodes || (self.bytes && !self.kilobytes);
        let is_human = self.human_readable || (self.tree && !self.kilobytes && !is_plain);
        match (is_human, is_plain) {
            (true, _) => size::human(amount),
            (false, true) => amount.to_string(),
            (false, false) => amount.div_ceil(1024).to_string(),
        }
    }
}

fn entry(place: &Located, counted: &UsageEntry) -> Value {
    let mut object = Map::new();
    put_name(&mut object, "image", place.image.as_encoded_bytes());
    put_name(&mut object, "path", &join(&place.path, &counted.path));
    object.insert("type".to_owned(), mode::name(counted.file_type).into());
    object.insert("depth".to_owned(), counted.depth.into());
    object.extend(space_json(counted.space));
    object.into()
}

fn space_json(space: Space) -> Map<String, Value> {
    let Value::Object(fields) = json!({
        "allocated_bytes": space.allocated_bytes,
        "size_bytes": space.size_bytes,
        "inodes": space.inodes,
    }) else {
        return Map::new();
    };
    fields
}
