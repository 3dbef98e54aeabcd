//! The state that all commands of one run share: the global options, the open images, the output,
//! and the failures so far.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use diskfs::vfs::{self, Follow, glob};
use diskfs::{Disk, Error, ErrorKind, Filesystem, Node, Result, block};
use serde_json::{Map, Value, json};

use super::operand::{Operand, OperandParts};
use super::options::SourceArgs;
use super::sandbox::{self, Confined, Needs};
use super::show::json::put_name;
use super::show::name::{NameStyle, message};
use super::{GlobalArgs, ProgressMode, progress};

/// The size of the buffer of standard output, which is the default capacity of a pipe (pipe(7)).
const OUT_BUFFER_BYTES: usize = 64 << 10;
/// The capacity of a pipe to which a whole disk is written, which is the default limit for a user.
const PIPE_BYTES: usize = 1 << 20;

/// A run of the program.
#[derive(Debug)]
pub(crate) struct Session {
    command: &'static str,
    json: bool,
    progress: ProgressMode,
    /// The number of `-v` options.
    verbose: u8,
    confinement: Confinement,
    /// The open filesystems; `None` for one that could not be opened, which was already reported.
    open: HashMap<OsString, Option<Filesystem>>,
    warned: HashSet<String>,
    exit_code: u8,
    /// The exit code of every failure, if it does not depend on the error's kind.
    failure_code: Option<u8>,
    /// True if failures are not printed.
    silent: bool,
    /// True if an operation failed that may have been partly done.
    failed_halfway: bool,
}

/// The choice whether processes that read images confine themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Confinement {
    On,
    Off,
}

/// The format of reports: text for people, or JSON for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Text,
    Json,
}

impl Session {
    pub(crate) fn new(global: &GlobalArgs, command: &'static str) -> Self {
        Self {
            command,
            json: global.json,
            progress: global.progress,
            verbose: global.verbose,
            confinement: if global.no_sandbox {
                Confinement::Off
            } else {
                Confinement::On
            },
            open: HashMap::new(),
            warned: HashSet::new(),
            exit_code: 0,
            failure_code: None,
            silent: false,
            failed_halfway: false,
        }
    }

    /// Returns true if processes that read images confine themselves.
    pub(crate) fn confines(&self) -> bool {
        self.confinement == Confinement::On
    }

    /// Confines this process, as [`sandbox::enter`] does, unless `--no-sandbox` was given.
    ///
    /// # Errors
    /// As for [`sandbox::enter`].
    pub(crate) fn confine(
        &self,
        needs: &Needs<'_>,
        in_broker: &mut dyn FnMut(),
    ) -> Result<Option<Confined>> {
        if self.confinement == Confinement::Off {
            tracing::warn!("not confined: --no-sandbox");
            return Ok(None);
        }
        sandbox::enter(needs, in_broker)
    }

    /// Does work in this process while it is [confined](Self::confine).
    ///
    /// # Errors
    /// As for [`sandbox::enter`], and those of the work.
    pub(crate) fn while_confined<T>(
        &mut self,
        needs: &Needs<'_>,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let confined = self.confine(needs, &mut || {})?;
        let done = work(self);
        if let Some(confined) = confined {
            confined.finish();
        }
        done
    }

    /// Returns the command's name, for JSON.
    pub(crate) fn command(&self) -> &'static str {
        self.command
    }

    pub(crate) fn output(&self) -> Output {
        if self.json {
            Output::Json
        } else {
            Output::Text
        }
    }

    /// Returns true if `-v` was given.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose > 0
    }

    pub(crate) fn progress(&self) -> ProgressMode {
        self.progress
    }

    /// Prints an error on standard error and records its exit code. The command then continues with
    /// the remaining work.
    pub(crate) fn report(&mut self, error: &Error) {
        if error.is_broken_pipe() {
            return;
        }
        self.failed_halfway |= error.kind().is_halfway();
        if self.exit_code == 0 {
            self.exit_code = self.code_of(error);
        }
        if self.silent {
            return;
        }
        let text = match self.output() {
            Output::Text => format!("diskfs: {}\n", message(&text_of(error))),
            Output::Json => format!("{}\n", error_json(self.command, error, self.code_of(error))),
        };
        progress::clear();
        let _ = io::stderr().write_all(text.as_bytes()); // A failure here cannot be reported.
    }

    /// Returns true if an operation failed that may have been partly done.
    pub(crate) fn has_failed_halfway(&self) -> bool {
        self.failed_halfway
    }

    fn code_of(&self, error: &Error) -> u8 {
        let code = error.kind().exit_code();
        self.failure_code.unwrap_or(code)
    }

    /// Sets the exit code of all failures, for commands with the exit codes of the program that
    /// they are named after.
    pub(crate) fn fail_with(&mut self, exit_code: u8) {
        self.failure_code = Some(exit_code);
    }

    /// Stops printing failures; they still determine the exit code.
    pub(crate) fn silence(&mut self) {
        self.silent = true;
    }

    /// Prints what was done to a file, if `-v` was given.
    pub(crate) fn print_done(&mut self, what: &str, path: &[u8]) {
        if self.verbose == 0 || self.output() == Output::Json {
            return;
        }
        let style = name_style(NameStyle::Escaped);
        let line = [what.as_bytes(), b" ", &style.show(path), b"\n"].concat();
        progress::clear();
        // If standard output is closed, the line is not needed.
        let _ = io::stdout().lock().write_all(&line);
    }

    /// Sets the exit code regardless of failures: that of a program that was run, or one that does
    /// not stand for a failure.
    pub(crate) fn set_exit_code(&mut self, exit_code: u8) {
        self.exit_code = exit_code;
    }

    /// Returns the run's exit code, which is that of the first failure.
    pub(crate) fn exit_code(&self) -> u8 {
        self.exit_code
    }

    /// Prints a warning, once for each text.
    pub(crate) fn warn(&mut self, text: &str) {
        if self.warned.insert(text.to_owned()) {
            let text = match self.output() {
                Output::Text => format!("diskfs: warning: {}\n", message(text)),
                Output::Json => format!("{}\n", json!({ "warning": { "message": text } })),
            };
            progress::clear();
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }

    /// Opens an image.
    pub(crate) fn disk(&mut self, image: &OsStr, args: &SourceArgs) -> Result<Disk> {
        let disk = args.open(image)?;
        self.print_warnings(&disk);
        Ok(disk)
    }

    /// Prints the warnings of an image, and those of its partition table if that has been read.
    pub(crate) fn print_warnings(&mut self, disk: &Disk) {
        disk.warnings().iter().for_each(|text| self.warn(text));
    }

    /// Returns the selected filesystem of `image`, opened once for all operands. Returns `None` if
    /// it cannot be opened, which is reported once.
    fn filesystem(&mut self, image: &OsStr, args: &SourceArgs) -> Option<Filesystem> {
        if let Some(open) = self.open.get(image) {
            return open.clone();
        }
        let opened = self.open_filesystem(image, args);
        let opened = opened.inspect_err(|error| self.report(error)).ok();
        self.open.insert(image.to_owned(), opened.clone());
        opened
    }

    /// Opens the selected filesystem of `image`.
    fn open_filesystem(&mut self, image: &OsStr, args: &SourceArgs) -> Result<Filesystem> {
        let disk = self.disk(image, args)?;
        let filesystem = args.volume.filesystem(&disk);
        self.print_warnings(&disk);
        filesystem
    }

    /// Opens the single place that an operand names, or reports an error and returns `None`.
    pub(crate) fn place(&mut self, operand: &Operand, args: &SourceArgs) -> Option<Located> {
        let mut places = self.places(std::slice::from_ref(operand), args);
        if places.len() > 1 {
            let reason = format!(
                "expected one file, but {} files match the pattern",
                places.len()
            );
            let error = Error::new(ErrorKind::Invalid, reason);
            self.report(&error.in_file(operand.as_os_str()));
            return None;
        }
        places.pop()
    }

    /// Opens what the operands name, in their order. A path without an image belongs to the image
    /// before it, and an image that is followed by such paths does not stand for its root
    /// directory. What cannot be opened is reported and skipped.
    pub(crate) fn places(&mut self, operands: &[Operand], args: &SourceArgs) -> Vec<Located> {
        let mut located = Vec::new();
        let mut image: Option<OsString> = None;
        for (n, operand) in operands.iter().enumerate() {
            let place = match image.as_ref().filter(|_| operand.is_bare_path()) {
                Some(image) => OperandParts {
                    image: image.clone(),
                    path: Some(operand.as_os_str().as_encoded_bytes().to_vec()),
                },
                None => operand.split(),
            };
            image = Some(place.image.clone());
            let named_only =
                place.path.is_none() && operands.get(n + 1).is_some_and(Operand::is_bare_path);
            if named_only {
                continue;
            }
            if let Some(filesystem) = self.filesystem(&place.image, args) {
                let path = place.path.unwrap_or_else(|| b"/".to_vec());
                let paths = expanded(&filesystem, path.clone());
                let paths = paths.unwrap_or_else(|error| {
                    self.report(&error);
                    Vec::new()
                });
                let is_pattern = paths != [path];
                located.extend(paths.into_iter().map(|path| Located {
                    typed: if is_pattern {
                        [place.image.as_encoded_bytes(), b":", &path].concat()
                    } else {
                        operand.as_os_str().as_encoded_bytes().to_vec()
                    },
                    image: place.image.clone(),
                    filesystem: filesystem.clone(),
                    path,
                }));
            }
        }
        located
    }
}

/// Returns the paths that match `path` if it is a pattern, as in a shell. If a file with exactly
/// this name exists, it is returned instead. A pattern without a match is an error.
pub(crate) fn expanded(filesystem: &Filesystem, path: Vec<u8>) -> Result<Vec<Vec<u8>>> {
    if !glob::is_pattern(&path) || filesystem.resolve(&path, Follow::AllButLast).is_ok() {
        return Ok(vec![path]);
    }
    let found = filesystem.glob(&path)?;
    if found.is_empty() {
        let error = vfs::Error::new(vfs::ErrorKind::NotFound, "no file matches the pattern");
        return Err(filesystem.in_image(error.in_path(path)));
    }
    Ok(found)
}

/// Returns the style in which names are written to standard output.
pub(crate) fn name_style(on_terminal: NameStyle) -> NameStyle {
    if io::stdout().is_terminal() {
        on_terminal
    } else {
        NameStyle::Raw
    }
}

/// A path in an open filesystem.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    /// The operand as the user typed it.
    pub(crate) typed: Vec<u8>,
    /// The image as the user typed it; places with the same image share a filesystem.
    pub(crate) image: OsString,
    pub(crate) filesystem: Filesystem,
    pub(crate) path: Vec<u8>,
}

impl Located {
    /// Looks up the file.
    pub(crate) fn node(&self, follow: Follow) -> Result<Node> {
        self.filesystem.node(&self.path, follow)
    }
}

/// Returns a path of `place` for output, preceded by its image if `places` are in several images.
pub(crate) fn shown_path(places: &[Located], place: &Located, path: &[u8]) -> Vec<u8> {
    if places.iter().all(|other| other.image == place.image) {
        return path.to_vec();
    }
    [place.image.as_encoded_bytes(), b":", path].concat()
}

/// Returns standard output without Rust's line buffer, which would search for newlines in gigabytes
/// of binary data.
pub(crate) fn raw_stdout() -> Result<std::fs::File> {
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

/// Returns standard output for the bytes of a whole disk. A pipe becomes a larger one, if the system
/// allows it: its reader is woken less often.
pub(crate) fn large_stdout() -> Result<std::fs::File> {
    let out = raw_stdout()?;
    // It is no pipe, or all of the user's pipes have their limit.
    let _ = rustix::pipe::fcntl_setpipe_size(&out, PIPE_BYTES);
    Ok(out)
}

/// Returns standard output with a buffer, for text.
pub(crate) fn stdout() -> Result<io::BufWriter<std::fs::File>> {
    Ok(io::BufWriter::with_capacity(
        OUT_BUFFER_BYTES,
        raw_stdout()?,
    ))
}

/// Returns the message of an error. If the host is full, it also says what to do.
fn text_of(error: &Error) -> String {
    const FREE: &str = "free space there";
    let text = block::with_reasons(error);
    if error.is_host_full() && !text.contains(FREE) {
        format!("{text}; {FREE}, and repeat the command")
    } else {
        text
    }
}

pub(crate) fn error_json(command: &str, error: &Error, exit_code: u8) -> Value {
    // What has stopped by a full host is not read-only by itself.
    let kind = if error.is_host_full() {
        ErrorKind::NoSpace
    } else {
        error.kind()
    };
    let mut fields = Map::new();
    fields.insert("kind".to_owned(), kind.name().into());
    fields.insert("message".to_owned(), text_of(error).into());
    fields.insert("exit_code".to_owned(), exit_code.into());
    if let Some(file) = error.file() {
        put_name(&mut fields, "file", file.as_os_str().as_encoded_bytes());
    }
    if let Some(path) = error.guest_path() {
        put_name(&mut fields, "path", path);
    }
    let numbers = [("inode", error.inode()), ("offset_bytes", error.offset())];
    for (name, number) in numbers {
        fields.extend(number.map(|number| (name.to_owned(), number.into())));
    }
    fields.extend(
        error
            .next_step()
            .map(|hint| ("hint".to_owned(), hint.into())),
    );
    json!({ "diskfs": { "version": 1, "command": command }, "error": fields })
}
