//! The images that a command writes to, which are open for writing until the command ends.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Map, Value, json};

use diskfs::vfs::glob::is_pattern;
use diskfs::vfs::{
    Change, ChangeKind, FsWrite, InodeNumber, NewAttributes, Recorder, Remains, edit,
};
use diskfs::{
    Commits, Disk, DiskOptions, Error, ErrorKind, Filesystem, Result, RootReserve,
    WritableFilesystem, WriteOptions,
};

use super::operand::{Operand, OperandParts};
use super::options::SourceArgs;
use super::session::{Output, Session, name_style, stdout};
use super::show::json::{self as document, put_name};
use super::show::mode;
use super::show::name::{NameStyle, text};

/// The mask of new files' modes, which is root's in nearly all guests.
pub(crate) const UMASK: u16 = 0o022;

/// The options that say where changes are written.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Writing options")]
pub(crate) struct WriteArgs {
    /// Write all changes to FILE, a qcow2 overlay of IMG that is created if it does not exist
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub(crate) overlay: Option<PathBuf>,

    /// Change nothing, and print which files and how many bytes would change
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl WriteArgs {
    /// Opens `image` so that changes are written where the options say.
    pub(crate) fn open(&self, source: &SourceArgs, image: &OsStr) -> Result<Disk> {
        // All changes are synced at the end.
        source.open_with(image, |options| self.apply(options.early_write_back(true)))
    }

    /// Returns the options for opening `image`, so that changes are written where these options
    /// say.
    pub(crate) fn disk_options(&self, source: &SourceArgs, image: &OsStr) -> Result<DiskOptions> {
        Ok(self.apply(source.options_for(image)?))
    }

    fn apply(&self, options: DiskOptions) -> DiskOptions {
        match &self.overlay {
            _ if self.dry_run => options.dry_run(),
            Some(overlay) => options.overlay(overlay),
            None => options.read_only(false),
        }
    }

    /// Returns the overlay's path, if opening will create it.
    pub(crate) fn new_overlay(&self) -> Option<&Path> {
        let overlay = self.overlay.as_deref();
        overlay.filter(|path| path.symlink_metadata().is_err())
    }
}

/// Removes the new overlay of a command that has failed: it contains no changes, and would be
/// continued by the next run.
pub(crate) fn remove_new_overlay(new_overlay: Option<&Path>) {
    if let Some(overlay) = new_overlay {
        let _ = std::fs::remove_file(overlay);
    }
}

/// The images that a command writes to.
#[derive(Debug)]
pub(crate) struct Targets<'a> {
    source: &'a SourceArgs,
    write: &'a WriteArgs,
    /// The open filesystems; `None` for one that could not be opened, which was already reported.
    open: HashMap<OsString, Option<OpenTarget>>,
    order: Vec<OsString>,
    commits: Commits,
    /// True if the command has failed, so that nothing is committed.
    failed: bool,
}

/// A filesystem that is open for writing, with its disk.
#[derive(Debug)]
struct OpenTarget {
    disk: Disk,
    filesystem: WritableFilesystem,
    recorder: Option<Arc<Recorder>>,
    /// The overlay, if it was created by this command.
    new_overlay: Option<PathBuf>,
}

/// A path in a filesystem that is open for writing.
#[derive(Debug, Clone)]
pub(crate) struct TargetPlace {
    /// The image as the user typed it; places with the same image share a filesystem.
    pub(crate) image: OsString,
    pub(crate) filesystem: WritableFilesystem,
    pub(crate) path: Vec<u8>,
}

impl TargetPlace {
    /// Returns the driver.
    pub(crate) fn fs(&self) -> &dyn FsWrite {
        self.filesystem.as_fs()
    }

    /// Returns the filesystem for reading.
    pub(crate) fn reader(&self) -> &Filesystem {
        self.filesystem.reader()
    }

    /// Adds the image to an error of the driver.
    pub(crate) fn error(&self, error: diskfs::vfs::Error) -> Error {
        let is_missing = error.kind() == diskfs::vfs::ErrorKind::NotFound;
        let error = self.filesystem.in_image(error);
        if is_missing && is_pattern(&self.path) && error.next_step().is_none() {
            let image = text(self.image.as_encoded_bytes());
            // Patterns are not expanded, because a new name may contain these characters.
            return error.with_hint(format!(
                "commands that change files do not expand patterns: `diskfs find {image} -path '{}' -print0 \
                 | xargs -0 diskfs COMMAND {image}`",
                text(&self.path)
            ));
        }
        error
    }

    /// Adds a hint at `mkdir -p` to an error about a missing parent directory.
    pub(crate) fn missing_parent(&self, error: diskfs::vfs::Error) -> Error {
        let is_missing = error.kind() == diskfs::vfs::ErrorKind::NotFound;
        let error = self.error(error);
        if !is_missing || error.next_step().is_some() {
            return error;
        }
        let names = self.path.trim_ascii_end().split(|&byte| byte == b'/');
        let names: Vec<&[u8]> = names.filter(|name| !name.is_empty()).collect();
        let parent = names.split_last().map_or(&[][..], |(_, above)| above);
        let parent = text(&[b"/", parent.join(&b'/').as_slice()].concat());
        let image = text(self.image.as_encoded_bytes());
        error.with_hint(format!(
            "create its directory first: `diskfs mkdir -p {image}:{parent}`"
        ))
    }

    /// Returns the file of any type at the path, following symlinks; a missing one is created as an
    /// empty file.
    pub(crate) fn find_or_create(&self) -> Result<InodeNumber> {
        let found = edit::find_or_create(self.fs(), &self.path, &new_file(0o666));
        found.map_err(|e| self.missing_parent(e))
    }

    /// Returns another path in the same filesystem.
    pub(crate) fn at(&self, path: Vec<u8>) -> Self {
        Self {
            path,
            ..self.clone()
        }
    }
}

/// Returns the attributes of a new file of root, with the guest's usual mask.
pub(crate) fn new_file(permissions: u16) -> NewAttributes {
    NewAttributes {
        umask: UMASK,
        ..NewAttributes::for_root(permissions)
    }
}

/// Opens what the operands name, calls `work` for each, and ends writing.
pub(crate) fn for_each(
    session: &mut Session,
    operands: &[Operand],
    source: &SourceArgs,
    write: &WriteArgs,
    mut work: impl FnMut(&mut Session, &TargetPlace) -> Result<()>,
) -> Result<()> {
    let mut targets = Targets::new(source, write);
    for place in targets.places(session, operands)? {
        if let Err(error) = work(session, &place) {
            session.report(&error);
        }
        if session.has_failed_halfway() {
            break;
        }
    }
    targets.finish(session, Map::new())
}

impl<'a> Targets<'a> {
    pub(crate) fn new(source: &'a SourceArgs, write: &'a WriteArgs) -> Self {
        Self {
            source,
            write,
            open: HashMap::new(),
            order: Vec::new(),
            commits: Commits::AtClose,
            failed: false,
        }
    }

    /// Requires that all changes fit in one transaction of the guest's journal; otherwise they
    /// fail.
    pub(crate) fn in_one_transaction(mut self) -> Self {
        self.commits = Commits::Once;
        self
    }

    /// Reports an error that makes the whole command fail, so that nothing is committed.
    pub(crate) fn fail(&mut self, session: &mut Session, error: &Error) {
        session.report(error);
        self.failed = true;
    }

    /// Opens what the operands name, in their order; a path without an image belongs to the image
    /// before it. What cannot be opened is reported and skipped.
    pub(crate) fn places(
        &mut self,
        session: &mut Session,
        operands: &[Operand],
    ) -> Result<Vec<TargetPlace>> {
        let mut places = Vec::new();
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
            let Some(path) = place.path else {
                // This is the image of the paths that follow, as from xargs.
                if operands.get(n + 1).is_some_and(Operand::is_bare_path) {
                    continue;
                }
                let reason = format!("missing path in image {}", place.image.display());
                return Err(Error::new(ErrorKind::Invalid, reason)
                    .with_hint("give the path of a file, as in IMG:/etc/hosts"));
            };
            if let Some(filesystem) = self.filesystem(session, &place.image)? {
                places.push(TargetPlace {
                    image: place.image,
                    filesystem,
                    path,
                });
            }
        }
        Ok(places)
    }

    /// Opens the single place that an operand names.
    pub(crate) fn place(
        &mut self,
        session: &mut Session,
        operand: &Operand,
    ) -> Result<Option<TargetPlace>> {
        let place = self.places(session, std::slice::from_ref(operand))?;
        Ok(place.into_iter().next())
    }

    fn filesystem(
        &mut self,
        session: &mut Session,
        image: &OsStr,
    ) -> Result<Option<WritableFilesystem>> {
        if !self.open.contains_key(image) {
            if self.write.overlay.is_some() && !self.open.is_empty() {
                let reason = "--overlay can only be used with one image";
                return Err(Error::new(ErrorKind::Invalid, reason)
                    .with_hint("run the command once for each image"));
            }
            let opened = self.open_target(session, image);
            let opened = opened.inspect_err(|error| session.report(error)).ok();
            self.open.insert(image.to_owned(), opened);
            self.order.push(image.to_owned());
        }
        let target = self.open.get(image).and_then(Option::as_ref);
        Ok(target.map(|target| target.filesystem.clone()))
    }

    fn open_target(&self, session: &mut Session, image: &OsStr) -> Result<OpenTarget> {
        let new_overlay = self.write.new_overlay().map(Path::to_owned);
        let disk = self.write.open(self.source, image)?;
        let opened = self.open_filesystem(&disk);
        session.print_warnings(&disk);
        let filesystem = match opened {
            Ok(filesystem) => filesystem,
            Err(error) => {
                remove_new_overlay(new_overlay.as_deref());
                return Err(error);
            }
        };
        if !self.write.dry_run && session.output() == Output::Text {
            return Ok(OpenTarget {
                disk,
                filesystem,
                recorder: None,
                new_overlay,
            });
        }
        let recorder = Arc::new(Recorder::new(filesystem.driver()));
        let filesystem = filesystem.wrapped(|_| recorder.clone());
        Ok(OpenTarget {
            disk,
            filesystem,
            recorder: Some(recorder),
            new_overlay,
        })
    }

    fn open_filesystem(&self, disk: &Disk) -> Result<WritableFilesystem> {
        let options = WriteOptions {
            commits: self.commits,
            // The guest's root could make the same changes, so the root reserve may be used.
            root_reserve: RootReserve::Use,
            write_behind: true,
            ..WriteOptions::default()
        };
        self.source.volume.writable_filesystem(disk, options)
    }

    /// Ends writing: the changes are durable when this returns. After an error that may have left a
    /// part of the changes, nothing is committed. Prints what a dry run would have changed, or in
    /// JSON what was changed, together with the command's own `facts`.
    pub(crate) fn finish(mut self, session: &mut Session, facts: Map<String, Value>) -> Result<()> {
        let mut report = Report::default();
        for image in std::mem::take(&mut self.order) {
            let Some(Some(target)) = self.open.remove(&image) else {
                continue;
            };
            if self.failed || session.has_failed_halfway() {
                target.abandon(session);
            } else {
                target.finish(session, &mut report);
            }
        }
        match session.output() {
            Output::Json => report.write_json(session.command(), self.write.dry_run, facts),
            Output::Text if self.write.dry_run => report.write_text(),
            Output::Text => Ok(()),
        }
    }
}

/// Commits nothing if the command ends early.
impl Drop for Targets<'_> {
    fn drop(&mut self) {
        for target in self.open.drain().filter_map(|(_, target)| target) {
            let _ = target.filesystem.abandon();
            remove_new_overlay(target.new_overlay.as_deref());
        }
    }
}

impl OpenTarget {
    fn finish(self, session: &mut Session, report: &mut Report) {
        if let Err(error) = self.filesystem.close() {
            session.report(&error);
            self.abandon(session);
            return;
        }
        if let Some(recorder) = &self.recorder {
            report.changes.extend(recorder.changes());
        }
        let changed = self.disk.changed_in_memory();
        report.bytes = match (report.bytes, changed) {
            (Some(before), Some(bytes)) => Some(before.saturating_add(bytes)),
            (before, bytes) => before.or(bytes),
        };
        let path = self.filesystem.reader().image_path().to_owned();
        // The driver has a handle of the device, and writing ends with the disk, even if other
        // handles remain.
        drop(self.filesystem);
        if let Err(error) = self.disk.close() {
            session.report(&error);
            session.report(&remains(&path, &Ok(Remains::All)));
        }
    }

    /// Ends writing after an error that was reported, and reports what became of the changes.
    fn abandon(self, session: &mut Session) {
        let path = self.filesystem.reader().image_path().to_owned();
        let remaining = self.filesystem.abandon();
        drop(self.filesystem);
        let ended = self.disk.close();
        let remaining = if let Some(overlay) = &self.new_overlay {
            // The overlay is removed, so errors of closing it do not matter.
            remove_new_overlay(Some(overlay));
            Ok(Remains::Nothing)
        } else {
            let _ = ended.inspect_err(|error| session.report(error));
            remaining
        };
        session.report(&remains(&path, &remaining));
    }
}

/// Returns an error that tells the user what became of the changes of a failed command.
fn remains(image: &Path, remaining: &Result<Remains>) -> Error {
    let (reason, hint) = match remaining {
        Ok(Remains::Nothing) => ("nothing was changed", None),
        Ok(Remains::All) => (
            "the changes were made",
            Some(
                "the image was not closed cleanly; the guest repairs it when it mounts the filesystem",
            ),
        ),
        Ok(Remains::Some) => (
            "a part of the changes may have been made",
            Some("check the files, or restore a copy of the image"),
        ),
        Err(_) => (
            "a part of the changes may have been made",
            Some(
                "the filesystem has no journal to undo them; check the files, or restore a copy of the image",
            ),
        ),
    };
    let error = Error::new(ErrorKind::Other, reason).in_file(image);
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// The changes that were made, or would have been made.
#[derive(Debug, Default)]
struct Report {
    changes: Vec<Change>,
    bytes: Option<u64>,
}

impl Report {
    fn write_json(&self, command: &str, dry_run: bool, facts: Map<String, Value>) -> Result<()> {
        let mut body = facts;
        body.insert("dry_run".to_owned(), dry_run.into());
        let changes: Vec<Value> = self.changes.iter().map(change_json).collect();
        body.insert("changes".to_owned(), changes.into());
        if let Some(bytes) = self.bytes {
            body.insert("changed_bytes".to_owned(), bytes.into());
        }
        let mut out = stdout()?;
        document::write(&mut out, command, Value::Object(body))?;
        Ok(out.flush()?)
    }

    fn write_text(&self) -> Result<()> {
        let mut out = stdout()?;
        let style = name_style(NameStyle::Escaped);
        for change in &self.changes {
            out.write_all(&change_line(change, style))?;
        }
        let bytes = self.bytes.unwrap_or(0);
        let files = self.changes.len();
        writeln!(out, "{files} files, {bytes} bytes of the disk would change")?;
        Ok(out.flush()?)
    }
}

/// Returns a word for a change.
fn word(what: &ChangeKind) -> &'static str {
    match what {
        ChangeKind::Created(_) => "created",
        ChangeKind::Removed => "removed",
        ChangeKind::RenamedTo(_) => "renamed",
        ChangeKind::LinkedAs(_) => "linked",
        ChangeKind::Contents => "contents",
        ChangeKind::Mode => "mode",
        ChangeKind::Owner => "owner",
        ChangeKind::Times => "times",
        ChangeKind::Flags => "flags",
        ChangeKind::Xattrs => "xattrs",
    }
}

/// Formats a change: `/etc/fstab: contents, mode`; `/a: renamed to /b`; `/new: created, directory`.
fn change_line(change: &Change, style: NameStyle) -> Vec<u8> {
    let mut line = style.show(&change.path).into_owned();
    for (index, what) in change.kinds.iter().enumerate() {
        line.extend_from_slice(if index == 0 { b": " } else { b", " });
        line.extend_from_slice(word(what).as_bytes());
        match what {
            ChangeKind::Created(kind) => {
                line.extend_from_slice(b", ");
                line.extend_from_slice(mode::name(*kind).as_bytes());
            }
            ChangeKind::RenamedTo(to) => {
                line.extend_from_slice(b" to ");
                line.extend_from_slice(&style.show(to));
            }
            ChangeKind::LinkedAs(name) => {
                line.extend_from_slice(b" as ");
                line.extend_from_slice(&style.show(name));
            }
            _ => {}
        }
    }
    line.push(b'\n');
    line
}

fn change_json(change: &Change) -> Value {
    let mut fields = Map::new();
    put_name(&mut fields, "path", &change.path);
    let words: Vec<&str> = change.kinds.iter().map(word).collect();
    fields.insert("what".to_owned(), json!(words));
    for what in &change.kinds {
        match what {
            ChangeKind::Created(kind) => {
                fields.insert("type".to_owned(), mode::name(*kind).into());
            }
            ChangeKind::RenamedTo(to) => put_name(&mut fields, "renamed_to", to),
            ChangeKind::LinkedAs(name) => put_name(&mut fields, "linked_as", name),
            _ => {}
        }
    }
    Value::Object(fields)
}
