//! The command `diskfs shell`.

mod children;
mod complete;
mod editor;
mod line;
mod transaction;
mod translate;

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use diskfs::{Error, ErrorKind, Result};

use super::passed_on::PassedOn;
use super::session::Session;
use super::show::name::message;
use super::signals;
use children::{Children, run_on_host};
use complete::Completions;
use editor::{LineEditor, Typed};
use transaction::Transaction;
use translate::Place;

/// Work on an image in an interactive shell
///
/// The commands are those of diskfs, without the image: `ls -l /etc`, `log -n 20`, `rm /etc/motd`.
/// Paths are in the image and relative to its current directory, which `cd` changes. Where a command
/// takes files of the host as well (`cp`, `diff`), `:PATH` stands for a path in the image. Pipes and
/// redirections lead to commands and files of the host: `ls -l | less`, `cat /etc/fstab > fstab`.
///
/// `begin` starts a transaction: all commands up to `commit` or `rollback` see and change a temporary
/// overlay of the image, and `commit` writes it to the image. The end of the shell rolls back.
///
/// In a script, the first command that fails ends the shell with its exit code, unless a `-` is
/// before it.
#[derive(Debug, Args)]
#[command(after_help = "Commands of the shell itself:
  cd [PATH]    Change the directory in the image      pwd        Print it
  lcd [DIR]    Change the directory on the host       !COMMAND   Run a command of the host
  begin, commit, rollback                             help [COMMAND], exit

Tab completes commands, options and paths in the image. The history is in
$XDG_STATE_HOME/diskfs/history; a line that begins with a space is not kept.

Examples:
  diskfs shell disk.qcow2
  diskfs shell -c 'cat /etc/os-release' -c 'log -n 5' disk.qcow2
  diskfs shell -f changes.txt disk.qcow2
  diskfs shell --read-only disk.qcow2")]
pub(super) struct Shell {
    /// The image
    #[arg(value_name = "IMG")]
    image: OsString,

    /// Run the commands of a file, one per line; - for standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "command")]
    file: Option<PathBuf>,

    /// Run a command; can be repeated
    #[arg(short, long, value_name = "LINE", allow_hyphen_values = true)]
    command: Vec<String>,

    /// Keep all changes in a temporary overlay, which is removed at the end
    #[arg(short, long, visible_alias = "ro")]
    read_only: bool,

    #[command(flatten)]
    source: PassedOn,
}

/// The commands of the shell itself, and what they do.
const BUILTINS: &[(&str, &str)] = &[
    ("begin", "Start a transaction"),
    ("cd", "Change the directory in the image"),
    (
        "commit",
        "Write the changes of the transaction to the image",
    ),
    ("exit", "End the shell"),
    ("help", "Show the commands, or explain one"),
    ("lcd", "Change the directory on the host"),
    ("pwd", "Print the directory in the image"),
    ("rollback", "Drop the changes of the transaction"),
];

/// The result of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done(u8),
    Exit,
}

/// The state of a shell.
struct Running {
    children: Arc<Children>,
    definition: Arc<clap::Command>,
    /// The image of the command line.
    image: OsString,
    options: Vec<OsString>,
    directory: Vec<u8>,
    transaction: Option<Transaction>,
    is_read_only: bool,
}

pub(super) fn run(args: &Shell, session: &mut Session) -> Result<()> {
    signals::ignore_interrupts();
    let mut shell = Running::start(args, session)?;
    let exit_code = if let Some(file) = &args.file {
        shell.run_file(file, session)?
    } else if !args.command.is_empty() {
        shell.run_lines(args.command.iter().cloned().map(Ok), session)?
    } else if io::stdin().is_terminal() {
        shell.interact(session)?
    } else {
        shell.run_lines(io::stdin().lock().lines(), session)?
    };
    session.set_exit_code(exit_code);
    Ok(())
}

impl Running {
    fn start(args: &Shell, session: &Session) -> Result<Self> {
        let mut definition = super::definition();
        definition.build();
        let mut shell = Self {
            children: Arc::new(Children {
                program: std::env::current_exe()?,
            }),
            definition: Arc::new(definition),
            image: absolute(&args.image),
            options: args.source.words(session)?,
            directory: b"/".to_vec(),
            transaction: None,
            is_read_only: args.read_only,
        };
        if args.read_only {
            shell.begin()?;
        } else {
            shell.look_at(b"/")?;
        }
        Ok(shell)
    }

    /// Returns the image and the directory that commands use.
    fn place(&self) -> Place {
        let mut options = self.options.clone();
        options.extend(self.transaction.as_ref().map(Transaction::option));
        let image = self
            .transaction
            .as_ref()
            .map_or_else(|| self.image.clone(), Transaction::image);
        Place {
            image,
            directory: self.directory.clone(),
            options,
        }
    }

    fn prompt(&self) -> String {
        let name = Path::new(&self.image).file_name().unwrap_or(&self.image);
        let directory = String::from_utf8_lossy(&self.directory);
        let mark = if self.transaction.is_some() && !self.is_read_only {
            "*"
        } else {
            ""
        };
        message(&format!("{}:{directory}{mark}> ", name.to_string_lossy()))
    }

    fn interact(&mut self, session: &mut Session) -> Result<u8> {
        let mut editor = LineEditor::open().map_err(io::Error::other)?;
        let mut last = 0;
        loop {
            let completions = Completions {
                children: Arc::clone(&self.children),
                definition: Arc::clone(&self.definition),
                place: self.place(),
            };
            match editor
                .read(&self.prompt(), completions)
                .map_err(io::Error::other)?
            {
                Typed::Interrupted => {}
                Typed::End => break,
                Typed::Line(line) => match self.run_line(&line, session) {
                    Outcome::Done(code) => last = code,
                    Outcome::Exit => break,
                },
            }
        }
        self.end(session);
        Ok(last)
    }

    fn run_file(&mut self, file: &Path, session: &mut Session) -> Result<u8> {
        if super::out_file::is_standard(file) {
            return self.run_lines(io::stdin().lock().lines(), session);
        }
        let opened = std::fs::File::open(file).map_err(|error| Error::from(error).in_file(file))?;
        self.run_lines(BufReader::new(opened).lines(), session)
    }

    /// Runs lines until one fails. Returns the exit code.
    fn run_lines(
        &mut self,
        lines: impl Iterator<Item = io::Result<String>>,
        session: &mut Session,
    ) -> Result<u8> {
        for line in lines {
            let line = line?;
            let ignored = line.trim_start().strip_prefix('-');
            match self.run_line(ignored.unwrap_or(&line), session) {
                Outcome::Exit => break,
                Outcome::Done(code) if code != 0 && ignored.is_none() => return Ok(code),
                Outcome::Done(_) => {}
            }
        }
        Ok(self.end(session).into())
    }

    /// Rolls an open transaction back. Returns true if there was one.
    fn end(&mut self, session: &mut Session) -> bool {
        let is_open = self.transaction.take().is_some() && !self.is_read_only;
        if is_open {
            session.warn("the transaction was not committed: its changes are dropped");
        }
        is_open
    }

    /// Runs a line, and reports its error.
    fn run_line(&mut self, line: &str, session: &mut Session) -> Outcome {
        match self.try_line(line) {
            Ok(outcome) => outcome,
            Err(error) => {
                session.report(&error);
                Outcome::Done(error.kind().exit_code())
            }
        }
    }

    fn try_line(&mut self, line: &str) -> Result<Outcome> {
        if let Some(script) = line.trim_start().strip_prefix('!') {
            return Ok(Outcome::Done(run_on_host(script)?));
        }
        let parsed = line::parse(line).map_err(|reason| Error::new(ErrorKind::Invalid, reason))?;
        let words: Vec<&[u8]> = parsed.words.iter().map(Vec::as_slice).collect();
        match *words.as_slice() {
            [] => {}
            [b"exit" | b"quit"] => return Ok(Outcome::Exit),
            [b"pwd"] => self.print_directory()?,
            [b"cd"] => self.directory = b"/".to_vec(),
            [b"cd", path] => self.look_at(path)?,
            [b"lcd"] => {
                set_host_directory(&std::env::var_os("HOME").unwrap_or_else(|| "/".into()))?;
            }
            [b"lcd", path] => set_host_directory(std::os::unix::ffi::OsStrExt::from_bytes(path))?,
            [b"begin"] if self.transaction.is_some() => {
                return Err(invalid(
                    "a transaction is open already",
                    "end it with `commit` or `rollback`",
                ));
            }
            [b"begin"] => self.begin()?,
            [b"commit"] => return self.commit().map(Outcome::Done),
            [b"rollback"] => self.roll_back()?,
            [b"help" | b"?"] => print_help()?,
            _ => return self.run_command(&parsed),
        }
        Ok(Outcome::Done(0))
    }

    /// Runs a command of diskfs.
    fn run_command(&self, line: &line::Line) -> Result<Outcome> {
        let name = line
            .words
            .first()
            .map(|word| String::from_utf8_lossy(word))
            .unwrap_or_default();
        if name != "help" && self.definition.find_subcommand(&*name).is_none() {
            let reason = format!("unknown command `{name}`");
            return Err(invalid(&reason, "`help` lists the commands"));
        }
        let place = self.place();
        let code = match translate::translate(&self.definition, &line.words, &place) {
            Ok(words) => self.children.run(&words, line.redirection.as_deref())?,
            Err(error) => {
                let _ = error.print();
                u8::try_from(error.exit_code()).unwrap_or(2)
            }
        };
        Ok(Outcome::Done(code))
    }

    /// Makes a directory of the image the current one, if it is one.
    fn look_at(&mut self, path: &[u8]) -> Result<()> {
        let place = self.place();
        let mut words: Vec<OsString> = ["stat", "--dereference"].map(Into::into).into();
        words.extend(place.options.iter().cloned());
        words.extend(["--".into(), place.operand(path)]);
        let document = self.children.document(&words)?;
        let file_type = document.pointer("/entries/0/type");
        let is_directory = file_type.is_some_and(|it| it == "directory");
        let absolute = place.absolute(path);
        if !is_directory {
            return Err(Error::new(ErrorKind::NotADirectory, "not a directory")
                .in_file(place.operand(path)));
        }
        self.directory = match absolute.as_slice() {
            [directory @ .., b'/'] if !directory.is_empty() => directory.to_vec(),
            _ => absolute,
        };
        Ok(())
    }

    fn print_directory(&self) -> Result<()> {
        let mut out = io::stdout().lock();
        let style = super::session::name_style(super::show::name::NameStyle::Escaped);
        out.write_all(&style.show(&self.directory))?;
        Ok(writeln!(out)?)
    }

    fn begin(&mut self) -> Result<()> {
        self.transaction = Some(Transaction::begin(
            &self.children,
            &self.image,
            &self.options,
        )?);
        Ok(())
    }

    /// Commits the transaction, and returns the exit code of `diskfs commit`.
    fn commit(&mut self) -> Result<u8> {
        if self.is_read_only {
            let hint = "start it without --read-only to change the image";
            return Err(invalid("the shell is read-only", hint));
        }
        let code = self.open_transaction()?.commit(&self.children)?;
        if code == 0 {
            self.transaction = None;
        }
        Ok(code)
    }

    fn roll_back(&mut self) -> Result<()> {
        self.open_transaction()?;
        self.transaction = None;
        if self.is_read_only {
            self.begin()?;
        }
        Ok(())
    }

    fn open_transaction(&self) -> Result<&Transaction> {
        let none = || invalid("no transaction is open", "`begin` starts one");
        self.transaction.as_ref().ok_or_else(none)
    }
}

fn invalid(reason: &str, hint: &str) -> Error {
    Error::new(ErrorKind::Invalid, reason.to_owned()).with_hint(hint.to_owned())
}

/// Returns the absolute path of an image, so that `lcd` does not change its meaning. An image with
/// options or on another host stays as it is.
fn absolute(image: &OsStr) -> OsString {
    let path = Path::new(image);
    match std::path::absolute(path) {
        Ok(absolute) if path.exists() => absolute.into(),
        _ => image.to_owned(),
    }
}

fn set_host_directory(path: &OsStr) -> Result<()> {
    std::env::set_current_dir(path).map_err(|error| Error::from(error).in_file(path))
}

fn print_help() -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "Commands of the shell:")?;
    for (name, about) in BUILTINS {
        writeln!(out, "  {name:<10} {about}")?;
    }
    writeln!(out, "  {:<10} Run a command of the host", "!COMMAND")?;
    writeln!(
        out,
        "\nAll other commands are those of diskfs, without the image; `help COMMAND` explains one.\nPaths are in the image; :PATH is one where a command takes files of the host, too."
    )?;
    Ok(())
}
