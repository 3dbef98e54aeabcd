//! The command `diskfs tree`.

use std::io::Write;

use clap::Args;

use diskfs::vfs::{FileType, Follow};
use diskfs::{Result, SortedEntry};

use super::operand::Operand;
use super::options::SourceArgs;
use super::sandbox::Needs;
use super::session::{Located, Output, Session, name_style, stdout};
use super::show::json::{self, List, put_name};
use super::show::name::{NameStyle, join};

/// Show directories as a tree
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs tree -L 2 disk.qcow2
  diskfs tree -d disk.qcow2:/usr/lib")]
pub(super) struct Tree {
    /// The directories to show; an image alone stands for its root directory
    #[arg(required = true, value_name = "IMG[:/PATH]")]
    paths: Vec<Operand>,

    /// Show at most this number of levels
    #[arg(short = 'L', long = "level", value_name = "DEPTH", value_parser = clap::value_parser!(u64).range(1..))]
    level: Option<u64>,

    /// Show names that begin with a dot, too
    #[arg(short, long)]
    all: bool,

    /// Show only directories
    #[arg(short, long)]
    directories: bool,

    #[command(flatten)]
    source: SourceArgs,
}

/// The box characters of tree(1).
const BRANCH: &str = "\u{251c}\u{2500}\u{2500} ";
const LAST_BRANCH: &str = "\u{2514}\u{2500}\u{2500} ";
const TRUNK: &str = "\u{2502}\u{a0}\u{a0} ";
const NO_TRUNK: &str = "    ";

#[derive(Debug, Default)]
struct Count {
    directories: u64,
    files: u64,
}

impl Tree {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        Needs::reading(&self.paths, &self.source)
    }
}

pub(super) fn run(args: &Tree, session: &mut Session) -> Result<()> {
    let mut out = stdout()?;
    let places = session.places(&args.paths, &args.source);
    if session.output() == Output::Json {
        let mut list = List::begin(&mut out, session.command(), "entries")?;
        for place in &places {
            visit(args, session, place, |entry, target| {
                let mut object = json::metadata(&join(&place.path, &entry.path), &entry.metadata);
                object.insert("depth".to_owned(), entry.depth.into());
                if let Some(target) = target {
                    put_name(&mut object, "target", target);
                }
                Ok(list.push(&object.into())?)
            })?;
        }
        list.end()?;
        return Ok(out.flush()?);
    }
    let style = name_style(NameStyle::Escaped);
    let mut count = Count::default();
    for place in &places {
        let mut trunks: Vec<&str> = Vec::new();
        visit(args, session, place, |entry, target| {
            count.add(entry);
            draw(&mut out, style, place, entry, target, &mut trunks)
        })?;
    }
    if !places.is_empty() {
        count.print(args, &mut out)?;
    }
    Ok(out.flush()?)
}

/// Calls `show` for everything that is shown, in order. The `last` field of an entry refers to what
/// is shown, not to what exists.
fn visit(
    args: &Tree,
    session: &mut Session,
    place: &Located,
    mut show: impl FnMut(&SortedEntry, Option<&[u8]>) -> Result<()>,
) -> Result<()> {
    let start = match place.node(Follow::All) {
        Ok(start) => start,
        Err(error) => {
            session.report(&error);
            return Ok(());
        }
    };
    let mut walk = start.walk_sorted();
    walk.set_filter(|name| args.all || !name.starts_with(b"."), args.directories);
    while let Some(entry) = walk.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                session.report(&error);
                continue;
            }
        };
        if args.level.is_some_and(|level| entry.depth as u64 >= level) {
            walk.skip_dir();
        }
        let target = match entry.metadata.file_type {
            FileType::Symlink => {
                let link = start.below(&entry.path, entry.metadata.inode);
                link.read_link().ok()
            }
            _ => None,
        };
        show(&entry, target.as_deref())?;
    }
    Ok(())
}

fn draw(
    out: &mut dyn Write,
    style: NameStyle,
    place: &Located,
    entry: &SortedEntry,
    target: Option<&[u8]>,
    trunks: &mut Vec<&str>,
) -> Result<()> {
    if entry.depth == 0 {
        out.write_all(&style.show(&place.typed))?;
    } else {
        trunks.truncate(entry.depth - 1);
        out.write_all(trunks.concat().as_bytes())?;
        let branch = if entry.last { LAST_BRANCH } else { BRANCH };
        out.write_all(branch.as_bytes())?;
        out.write_all(&style.show(entry.name()))?;
        trunks.push(if entry.last { NO_TRUNK } else { TRUNK });
    }
    if let Some(target) = target {
        out.write_all(b" -> ")?;
        out.write_all(&style.show(target))?;
    }
    Ok(out.write_all(b"\n")?)
}

impl Count {
    fn add(&mut self, entry: &SortedEntry) {
        match entry.metadata.is_dir() {
            true if entry.depth == 0 => {}
            true => self.directories += 1,
            false => self.files += 1,
        }
    }

    fn print(&self, args: &Tree, out: &mut dyn Write) -> Result<()> {
        let number = |count: u64, one: &str, many: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {many}"),
        };
        let directories = number(self.directories, "directory", "directories");
        if args.directories {
            writeln!(out, "\n{directories}")?;
        } else {
            writeln!(
                out,
                "\n{directories}, {}",
                number(self.files, "file", "files")
            )?;
        }
        Ok(())
    }
}
