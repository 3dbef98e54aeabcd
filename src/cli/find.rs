//! The command `diskfs find`.

mod expression;
mod printf;
mod regex;
mod test;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;

use clap::Args;

use diskfs::vfs::{FileType, Follow, WalkEntry};
use diskfs::{Filesystem, Result};

use super::operand::Operand;
use super::options::SourceArgs;
use super::sandbox::Needs;
use super::session::{Located, Output, Session, name_style, stdout};
use super::show::json::{self, List, put_name};
use super::show::name::{NameStyle, join};
use super::show::time;
use expression::{Action, Expression};
use printf::FoundFile;

/// Search for files in a directory tree
#[derive(Debug, Args)]
#[command(
    after_help = "Options of diskfs come before the tests and actions, which are those of find(1):
  -name, -iname, -path, -ipath PATTERN   -type f,d,l,b,c,p,s      -size [+-]N[ckMG]
  -mtime, -mmin, -ctime, -cmin [+-]N     -newer /PATH             -newermt SECONDS
  -user, -group NAME or N   -uid, -gid [+-]N   -perm [-/]MODE     -links, -inum [+-]N
  -regex, -iregex REGEX: matches the whole path, in the syntax of Emacs, as in GNU find; or in that
    of a -regextype TYPE before it: emacs, findutils-default, posix-basic, posix-extended, ed, sed
  -xattr PATTERN: has an extended attribute whose name matches, such as 'security.*'
  -empty  -maxdepth N  -mindepth N  -true  -false  -prune
  ! EXPR (-not)   EXPR -a EXPR (-and)   EXPR -o EXPR (-or)   ( EXPR )
  -print (the default action)   -print0   -printf FORMAT   -ls   -quit
Each can also be written with two dashes; --owner is -user, and --mode is -perm. -printf supports
  %p %P %f %h path, %s size, %b %k blocks, %m %M mode, %u %U %g %G owner, %n links, %i inode,
  %y type, %l link target, %d depth, %T@ %T+ %C@ %A@ times, %% and \\n \\t \\0 \\\\

Examples:
  diskfs find disk.qcow2:/etc -name '*.conf' -newer /etc/fstab
  diskfs find disk.qcow2 -type f -perm /6000 -printf '%M %u %p\\n'
  diskfs find disk.qcow2:/usr --type f --xattr security.capability
  diskfs find disk.qcow2:/var/log -regextype posix-extended -regex '.*\\.(gz|xz)'
  diskfs find --json disk.qcow2:/var/log -size +1M"
)]
pub(super) struct Find {
    /// The directory or file to begin at; an image alone stands for its root directory
    #[arg(value_name = "IMG[:/PATH]")]
    start: Operand,

    /// The tests that select files, and the actions to apply to them
    #[arg(
        value_name = "EXPRESSION",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    expression: Vec<OsString>,

    #[command(flatten)]
    source: SourceArgs,
}

impl Find {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        Needs::reading(std::slice::from_ref(&self.start), &self.source)
    }
}

pub(super) fn run(args: &Find, session: &mut Session) -> Result<()> {
    let words = args.expression.iter().cloned().map(OsString::into_vec);
    let parsed = Expression::parse(words.collect())?;
    let Some(place) = session.place(&args.start, &args.source) else {
        return Ok(());
    };
    let context = test::Context::new(&place.filesystem, time::now_seconds());
    let expression = parsed.bind(&context)?;
    let mut out = stdout()?;
    match session.output() {
        Output::Json => {
            let mut list = List::begin(&mut out, session.command(), "entries")?;
            search(session, &place, &expression, &context, |found, action| {
                match action {
                    Action::Quit | Action::Prune => {}
                    _ => list.push(&found_json(&place.filesystem, found)?)?,
                }
                Ok(())
            })?;
            list.end()?;
        }
        Output::Text => {
            let style = name_style(NameStyle::Escaped);
            search(session, &place, &expression, &context, |found, action| {
                Ok(printf::perform(action, found, &context, style, &mut out)?)
            })?;
        }
    }
    Ok(out.flush()?)
}

/// Walks the tree and calls `act` for every action that applies.
fn search(
    session: &mut Session,
    place: &Located,
    expression: &Expression,
    context: &test::Context<'_>,
    mut act: impl FnMut(&FoundFile<'_>, &Action) -> Result<()>,
) -> Result<()> {
    let start = place.node(Follow::AllButLast)?;
    let mut files = start.walk();
    while let Some(entry) = files.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                session.report(&error);
                continue;
            }
        };
        if expression
            .max_depth
            .is_some_and(|depth| entry.depth >= depth)
        {
            files.skip_dir();
        }
        if entry.depth < expression.min_depth {
            continue;
        }
        let outcome = visit(place, &entry, expression, context, &mut act)?;
        if outcome.prune {
            files.skip_dir();
        }
        if outcome.quit {
            break;
        }
    }
    Ok(())
}

/// The effects of an entry's actions on the walk.
#[derive(Debug, Default)]
struct Outcome {
    prune: bool,
    quit: bool,
}

fn visit(
    place: &Located,
    entry: &WalkEntry,
    expression: &Expression,
    context: &test::Context<'_>,
    act: &mut dyn FnMut(&FoundFile<'_>, &Action) -> Result<()>,
) -> Result<Outcome> {
    let found = FoundFile {
        path: join(&place.path, &entry.path),
        entry,
    };
    let mut outcome = Outcome::default();
    expression.evaluate(&found, context, &mut |action| {
        match action {
            Action::Prune => outcome.prune = true,
            Action::Quit => outcome.quit = true,
            _ => {}
        }
        act(&found, action)
    })?;
    Ok(outcome)
}

fn found_json(filesystem: &Filesystem, found: &FoundFile<'_>) -> Result<serde_json::Value> {
    let metadata = &found.entry.metadata;
    let mut object = json::metadata(&found.path, metadata);
    if metadata.file_type == FileType::Symlink {
        put_name(&mut object, "target", &found.node(filesystem).read_link()?);
    }
    Ok(object.into())
}
