//! The command `diskfs ls`.

use std::cmp::Ordering;
use std::io::Write;

use clap::Args;

use diskfs::vfs::{DirEntry, FileType, Follow, InodeNumber, Metadata, entry_metadata};
use diskfs::{Filesystem, Node, Result};

use super::operand::Operand;
use super::options::SourceArgs;
use super::sandbox::Needs;
use super::session::{Located, Output, Session, name_style, stdout};
use super::show::json::{self, List, put_name};
use super::show::name::{NameStyle, join};
use super::show::owners::{Numeric, Owners};
use super::show::table::{Align, lay_out_by};
use super::show::{mode, size, time};

/// List the contents of directories
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "Examples:
  diskfs ls disk.qcow2
  diskfs ls -la disk.qcow2:/etc
  diskfs ls -R --json disk.qcow2:/var")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one flag of the command line"
)]
pub(super) struct Ls {
    /// The directories or files to list; an image alone stands for its root directory
    #[arg(required = true, value_name = "IMG[:/PATH]")]
    paths: Vec<Operand>,

    /// Show type, mode, links, owner, size and modification time (UTC)
    #[arg(short)]
    long: bool,

    /// Show all names, including those that begin with a dot, and `.` and `..`
    #[arg(short, long)]
    all: bool,

    /// Show all names except `.` and `..`
    #[arg(short = 'A', long)]
    almost_all: bool,

    /// List subdirectories recursively
    #[arg(short = 'R', long)]
    recursive: bool,

    /// List directories themselves, not their contents
    #[arg(short, long)]
    directory: bool,

    /// Show one name per line (the default)
    #[arg(short = '1')]
    one: bool,

    /// Print sizes in units such as 1.5K and 20M
    #[arg(short, long)]
    human_readable: bool,

    /// Show inode numbers
    #[arg(short, long)]
    inode: bool,

    /// Show user and group IDs instead of the guest's names
    #[arg(short, long)]
    numeric_uid_gid: bool,

    /// Append a character for the type of each file: / * @ | =
    #[arg(short = 'F', long)]
    classify: bool,

    /// Sort by size, largest first
    #[arg(short = 'S', overrides_with = "by_time")]
    by_size: bool,

    /// Sort by modification time, newest first
    #[arg(short = 't')]
    by_time: bool,

    /// Reverse the order
    #[arg(short, long)]
    reverse: bool,

    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,

    #[command(flatten)]
    source: SourceArgs,
}

/// A file to list. Its metadata is read only if an option needs it.
struct Line {
    name: Vec<u8>,
    inode: InodeNumber,
    metadata: Option<Metadata>,
    target: Option<Vec<u8>>,
}

/// The output of lines.
enum Sink<'a> {
    Text {
        out: &'a mut dyn Write,
        style: NameStyle,
        first: bool,
    },
    Json(List<'a>),
}

impl Ls {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        Needs::reading(&self.paths, &self.source)
    }
}

pub(super) fn run(args: &Ls, session: &mut Session) -> Result<()> {
    let places = session.places(&args.paths, &args.source);
    let mut out = stdout()?;
    let mut sink = match session.output() {
        Output::Json => Sink::Json(List::begin(&mut out, session.command(), "entries")?),
        Output::Text => Sink::Text {
            out: &mut out,
            style: name_style(NameStyle::Quoted),
            first: true,
        },
    };
    // As in ls(1), files come before directories, and several operands get headings.
    let headings = places.len() > 1 || args.recursive;
    let mut directories = Vec::new();
    for place in places {
        match one_file(args, &place) {
            Ok(Some(line)) => {
                let owners = args.owners(&place.filesystem);
                sink.lines(args, &owners, b"", &[line])?;
            }
            Ok(None) => directories.push(place),
            Err(error) => session.report(&error),
        }
    }
    for place in directories {
        list(
            args,
            session,
            &mut sink,
            &place,
            headings.then_some(&place.typed),
        )?;
    }
    if let Sink::Json(list) = sink {
        list.end()?;
    }
    Ok(out.flush()?)
}

impl Ls {
    fn needs_metadata(&self) -> bool {
        self.long || self.by_size || self.by_time || self.classify
    }

    fn shows(&self, name: &[u8]) -> bool {
        self.all || self.almost_all || !name.starts_with(b".")
    }

    fn owners<'a>(&self, filesystem: &'a Filesystem) -> Owners<'a> {
        let numeric = if self.numeric_uid_gid {
            Numeric::Yes
        } else {
            Numeric::No
        };
        Owners::new(filesystem, numeric)
    }

    fn order(&self, a: &Line, b: &Line) -> Ordering {
        let by_key = match (&a.metadata, &b.metadata) {
            (Some(a), Some(b)) if self.by_size => b.size_bytes.cmp(&a.size_bytes),
            (Some(a), Some(b)) if self.by_time => b.modified.cmp(&a.modified),
            _ => Ordering::Equal,
        };
        let order = by_key.then_with(|| a.name.cmp(&b.name));
        if self.reverse { order.reverse() } else { order }
    }
}

/// Returns the line of an operand that is listed by itself, or `None` for a directory whose
/// contents are listed.
fn one_file(args: &Ls, place: &Located) -> Result<Option<Line>> {
    // As in ls(1), -l and -d show a symlink itself; otherwise the file that it points to is shown.
    let follow = if args.long || args.directory {
        Follow::AllButLast
    } else {
        Follow::All
    };
    let node = place.node(follow)?;
    let metadata = node.metadata()?;
    if metadata.is_dir() && !args.directory {
        return Ok(None);
    }
    line(&node, place.path.clone(), metadata).map(Some)
}

fn line(node: &Node, name: Vec<u8>, metadata: Metadata) -> Result<Line> {
    let target = match metadata.file_type {
        FileType::Symlink => Some(node.read_link()?),
        _ => None,
    };
    Ok(Line {
        name,
        inode: node.inode(),
        metadata: Some(metadata),
        target,
    })
}

/// Lists a directory; with `-R`, everything below it.
fn list(
    args: &Ls,
    session: &mut Session,
    sink: &mut Sink<'_>,
    place: &Located,
    heading: Option<&Vec<u8>>,
) -> Result<()> {
    let owners = args.owners(&place.filesystem);
    let mut visited = std::collections::HashSet::new();
    let root = match place.node(Follow::All) {
        Ok(node) => node,
        Err(error) => {
            session.report(&error);
            return Ok(());
        }
    };
    // The directories still to list, the next one last.
    let mut pending = vec![(root, heading.cloned())];
    while let Some((dir, heading)) = pending.pop() {
        if !visited.insert(dir.inode()) {
            continue; // A directory with several names: each name is listed, but its contents only once.
        }
        let mut children = match dir.read_dir_sorted() {
            Ok(children) => children,
            Err(error) => {
                session.report(&error);
                continue;
            }
        };
        children.retain(|child| args.shows(&child.name));
        if args.all {
            children.splice(0..0, dots(&dir));
        }
        let need = args.needs_metadata() || args.recursive || matches!(sink, Sink::Json(_));
        let mut lines = if need {
            with_metadata(session, &dir, &children)
        } else {
            children.into_iter().map(line_of).collect()
        };
        lines.sort_by(|a, b| args.order(a, b));
        let below: Vec<_> = lines
            .iter()
            .filter(|line| args.recursive && is_subdir(line))
            .collect();
        for line in below.into_iter().rev() {
            let heading = heading.as_ref().map(|heading| join(heading, &line.name));
            pending.push((dir.below(&line.name, line.inode), heading));
        }
        sink.heading(heading.as_deref())?;
        sink.total(args, &lines)?;
        sink.lines(args, &owners, dir.path(), &lines)?;
    }
    Ok(())
}

fn line_of(child: DirEntry) -> Line {
    Line {
        name: child.name,
        inode: child.inode,
        metadata: None,
        target: None,
    }
}

fn is_subdir(line: &Line) -> bool {
    line.name != b"." && line.name != b".." && line.metadata.as_ref().is_some_and(Metadata::is_dir)
}

/// Returns `.` and `..`, as far as the directory has them.
fn dots(dir: &Node) -> Vec<DirEntry> {
    let entry = |name: &[u8], inode| DirEntry {
        name: name.to_vec(),
        inode,
        file_type: None,
        cookie: 0,
    };
    let fs = dir.filesystem().as_fs();
    let parent = fs.lookup(dir.inode(), b"..").ok();
    let parent = parent.map(|inode| entry(b"..", inode));
    std::iter::once(entry(b".", dir.inode()))
        .chain(parent)
        .collect()
}

fn with_metadata(session: &mut Session, dir: &Node, children: &[DirEntry]) -> Vec<Line> {
    let fs = dir.filesystem().as_fs();
    let inodes: Vec<_> = children.iter().map(|child| child.inode).collect();
    fs.will_need_metadata(&inodes);
    let mut lines = Vec::with_capacity(children.len());
    for child in children {
        let node = dir.below(&child.name, child.inode);
        let metadata = entry_metadata(fs, child.inode).map_err(|e| node.in_image(e));
        match metadata.and_then(|metadata| line(&node, child.name.clone(), metadata)) {
            Ok(line) => lines.push(line),
            Err(error) => session.report(&error),
        }
    }
    lines
}

impl Sink<'_> {
    fn heading(&mut self, heading: Option<&[u8]>) -> Result<()> {
        if let Self::Text { out, style, first } = self {
            if !std::mem::take(first) {
                out.write_all(b"\n")?;
            }
            if let Some(heading) = heading {
                out.write_all(&style.show(heading))?;
                out.write_all(b":\n")?;
            }
        }
        Ok(())
    }

    fn total(&mut self, args: &Ls, lines: &[Line]) -> Result<()> {
        if let Self::Text { out, .. } = self
            && args.long
        {
            let allocated = lines.iter().filter_map(|line| line.metadata.as_ref());
            let bytes = allocated.fold(0_u64, |sum, m| sum.saturating_add(m.allocated_bytes));
            let total = if args.human_readable {
                size::human(bytes)
            } else {
                (bytes >> 10).to_string()
            };
            writeln!(out, "total {total}")?;
        }
        Ok(())
    }

    fn lines(&mut self, args: &Ls, owners: &Owners<'_>, dir: &[u8], lines: &[Line]) -> Result<()> {
        match self {
            Self::Json(list) => {
                for line in lines {
                    list.push(&line_json(dir, line, owners))?;
                }
            }
            Self::Text { out, style, first } => {
                *first = false;
                if args.long {
                    out.write_all(&long_lines(args, owners, *style, lines))?;
                    return Ok(());
                }
                for line in lines {
                    if args.inode {
                        write!(out, "{} ", line.inode)?;
                    }
                    out.write_all(&style.show(&line.name))?;
                    out.write_all(sign(args, line).as_bytes())?;
                    out.write_all(b"\n")?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the character of `-F` for a type.
fn sign(args: &Ls, line: &Line) -> &'static str {
    match line.metadata.as_ref().filter(|_| args.classify) {
        None => "",
        Some(metadata) => match metadata.file_type {
            FileType::Directory => "/",
            FileType::Symlink if !args.long => "@",
            FileType::Fifo => "|",
            FileType::Socket => "=",
            FileType::Regular if metadata.permissions & 0o111 != 0 => "*",
            _ => "",
        },
    }
}

fn long_lines(args: &Ls, owners: &Owners<'_>, style: NameStyle, lines: &[Line]) -> Vec<u8> {
    use Align::{Left, Right};
    let columns = [Right, Left, Right, Left, Left, Right, Left];
    let with_metadata = || {
        lines
            .iter()
            .filter_map(|line| Some((line, line.metadata.as_ref()?)))
    };
    let rows: Vec<_> = with_metadata()
        .map(|(line, m)| cells(args, owners, line, m))
        .collect();
    let skip = usize::from(!args.inode);
    let table = lay_out_by(" ", &columns[skip..], &rows);
    let mut out = Vec::new();
    for ((line, _), cells) in with_metadata().zip(table.lines()) {
        out.extend_from_slice(cells.as_bytes());
        out.push(b' ');
        out.extend_from_slice(&style.show(&line.name));
        out.extend_from_slice(sign(args, line).as_bytes());
        if let Some(target) = &line.target {
            out.extend_from_slice(b" -> ");
            out.extend_from_slice(&style.show(target));
        }
        out.push(b'\n');
    }
    out
}

fn cells(args: &Ls, owners: &Owners<'_>, line: &Line, metadata: &Metadata) -> Vec<String> {
    let size = match metadata.device {
        Some(device) => format!("{}, {}", device.major, device.minor),
        None if args.human_readable => size::human(metadata.size_bytes),
        None => metadata.size_bytes.to_string(),
    };
    let inode = args.inode.then(|| line.inode.to_string());
    let others = [
        mode::letters(metadata),
        metadata.links.to_string(),
        owners.user(metadata.uid),
        owners.group(metadata.gid),
        size,
        time::minutes(metadata.modified),
    ];
    inode.into_iter().chain(others).collect()
}

fn line_json(dir: &[u8], line: &Line, owners: &Owners<'_>) -> serde_json::Value {
    let path = join(dir, &line.name);
    let Some(metadata) = &line.metadata else {
        return serde_json::Value::Null;
    };
    let mut object = json::metadata(&path, metadata);
    put_name(
        &mut object,
        "name",
        line.name
            .rsplit(|byte| *byte == b'/')
            .next()
            .unwrap_or_default(),
    );
    object.extend(
        owners
            .user_name(metadata.uid)
            .map(|name| ("user".to_owned(), name.into())),
    );
    object.extend(
        owners
            .group_name(metadata.gid)
            .map(|name| ("group".to_owned(), name.into())),
    );
    if let Some(target) = &line.target {
        put_name(&mut object, "target", target);
    }
    object.into()
}
