//! What all commands of one run share: the options for all, the images that are open, the output,
//! and which failures there were.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use diskfs::vfs::{self, Follow, glob};
use diskfs::{Disk, Error, ErrorKind, Filesystem, Node, Result, block};
use serde_json::{Map, Value, json};

use super::operand::{Operand, Place};
use super::options::SourceArgs;
use super::show::json::put_name;
use super::show::name::{NameStyle, message};
use super::{GlobalArgs, ProgressMode, progress};

/// Buffer of standard output: what a pipe holds by default (pipe(7)).
const OUT_BUFFER_BYTES: usize = 64 << 10;

/// One run of the program.
#[derive(Debug)]
pub(crate) struct Session {
    command: &'static str,
    json: bool,
    progress: ProgressMode,
    /// How often `-v` was given.
    verbose: u8,
    /// What is open, and `None` for what could not be opened, which was told then.
    open: HashMap<OsString, Option<Filesystem>>,
    warned: HashSet<String>,
    exit_code: u8,
    /// The code of every failure, if it isn't that of its kind.
    failure_code: Option<u8>,
    /// Failures are not told.
    silent: bool,
    /// Something failed that may have done a part.
    failed_halfway: bool,
}

/// Whether a report is for people or for programs.
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
            open: HashMap::new(),
            warned: HashSet::new(),
            exit_code: 0,
            failure_code: None,
            silent: false,
            failed_halfway: false,
        }
    }

    /// The command's name, for JSON.
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

    /// Whether `-v` was given.
    #[cfg(feature = "microvm")]
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose > 0
    }

    pub(crate) fn progress(&self) -> ProgressMode {
        self.progress
    }

    /// Says an error on standard error and remembers its exit code; the command goes on with what
    /// else there is to do.
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
            Output::Text => format!("diskfs: {}\n", message(&block::with_reasons(error))),
            Output::Json => format!("{}\n", error_json(self.command, error, self.code_of(error))),
        };
        progress::clear();
        let _ = io::stderr().write_all(text.as_bytes()); // Nowhere left to complain.
    }

    /// Returns whether something was reported that may have done a part.
    pub(crate) fn has_failed_halfway(&self) -> bool {
        self.failed_halfway
    }

    fn code_of(&self, error: &Error) -> u8 {
        let code = error.kind().exit_code();
        self.failure_code.unwrap_or(code)
    }

    /// Ends with `exit_code` after any failure, as the program does that the command is named after.
    pub(crate) fn fail_with(&mut self, exit_code: u8) {
        self.failure_code = Some(exit_code);
    }

    /// Tells no failures from now on; the exit code still does.
    pub(crate) fn silence(&mut self) {
        self.silent = true;
    }

    /// With `-v`, says what was done to a file.
    pub(crate) fn said(&mut self, what: &str, path: &[u8]) {
        if self.verbose == 0 || self.output() == Output::Json {
            return;
        }
        let style = name_style(NameStyle::Escaped);
        let line = [what.as_bytes(), b" ", &style.show(path), b"\n"].concat();
        progress::clear();
        // Who closed the output has no use for it.
        let _ = io::stdout().lock().write_all(&line);
    }

    /// Sets the exit code, whatever failed: that of a program that was run, or one that is no failure.
    pub(crate) fn end_with(&mut self, exit_code: u8) {
        self.exit_code = exit_code;
    }

    /// The run's exit code: that of the first failure.
    pub(crate) fn exit_code(&self) -> u8 {
        self.exit_code
    }

    /// Says what is wrong with an image without keeping it from being read, once.
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
        self.warn_of(&disk);
        Ok(disk)
    }

    /// Passes on an image's warnings; those of its partition table when that has been read.
    pub(crate) fn warn_of(&mut self, disk: &Disk) {
        disk.warnings().iter().for_each(|text| self.warn(text));
    }

    /// The filesystem that is meant in `image`, opened once for all operands; `None` when it could
    /// not be, which is reported once.
    fn filesystem(&mut self, image: &OsStr, args: &SourceArgs) -> Option<Filesystem> {
        if let Some(open) = self.open.get(image) {
            return open.clone();
        }
        let opened = self.open_filesystem(image, args);
        let opened = opened.inspect_err(|error| self.report(error)).ok();
        self.open.insert(image.to_owned(), opened.clone());
        opened
    }

    /// Opens the filesystem that is meant in `image`.
    fn open_filesystem(&mut self, image: &OsStr, args: &SourceArgs) -> Result<Filesystem> {
        let disk = self.disk(image, args)?;
        let filesystem = args.volume.filesystem(&disk);
        self.warn_of(&disk);
        filesystem
    }

    /// Opens the one place that an operand names; `None` when it can't be, which is reported.
    pub(crate) fn place(&mut self, operand: &Operand, args: &SourceArgs) -> Option<Located> {
        let mut places = self.places(std::slice::from_ref(operand), args);
        if places.len() > 1 {
            let reason = format!("one place is meant, and {} files match", places.len());
            let error = Error::new(ErrorKind::Invalid, reason);
            self.report(&error.in_file(operand.as_os_str()));
            return None;
        }
        places.pop()
    }

    /// Opens what the operands name, in their order. A path alone is of the image before it, and an
    /// image that such paths follow is not meant by itself. What can't be opened is reported and
    /// left out.
    pub(crate) fn places(&mut self, operands: &[Operand], args: &SourceArgs) -> Vec<Located> {
        let mut located = Vec::new();
        let mut image: Option<OsString> = None;
        for (n, operand) in operands.iter().enumerate() {
            let place = match image.as_ref().filter(|_| operand.is_bare_path()) {
                Some(image) => Place {
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

/// The paths that `path` stands for, if it is a pattern: as in a shell, unless a file has that very name,
/// and only where there are some.
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

/// How names are to be written to standard output.
pub(crate) fn name_style(on_terminal: NameStyle) -> NameStyle {
    if io::stdout().is_terminal() {
        on_terminal
    } else {
        NameStyle::Raw
    }
}

/// A path of an open filesystem.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    /// The operand as it was typed.
    pub(crate) typed: Vec<u8>,
    /// The image of it: two places are in one filesystem when it is the same.
    pub(crate) image: OsString,
    pub(crate) filesystem: Filesystem,
    pub(crate) path: Vec<u8>,
}

impl Located {
    /// Finds the file.
    pub(crate) fn node(&self, follow: Follow) -> Result<Node> {
        self.filesystem.node(&self.path, follow)
    }
}

/// A path of `place` as it is shown: with its image before it where `places` are in several.
pub(crate) fn shown_path(places: &[Located], place: &Located, path: &[u8]) -> Vec<u8> {
    if places.iter().all(|other| other.image == place.image) {
        return path.to_vec();
    }
    [place.image.as_encoded_bytes(), b":", path].concat()
}

/// Standard output without Rust's line buffer, which looks for line ends in what may be gigabytes of
/// binary data.
pub(crate) fn raw_stdout() -> Result<std::fs::File> {
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

/// Standard output for text.
pub(crate) fn stdout() -> Result<io::BufWriter<std::fs::File>> {
    Ok(io::BufWriter::with_capacity(
        OUT_BUFFER_BYTES,
        raw_stdout()?,
    ))
}

pub(crate) fn error_json(command: &str, error: &Error, exit_code: u8) -> Value {
    let mut fields = Map::new();
    fields.insert("kind".to_owned(), error.kind().name().into());
    fields.insert("message".to_owned(), block::with_reasons(error).into());
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
