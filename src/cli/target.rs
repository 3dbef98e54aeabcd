//! What a command writes to: images that are open for writing, until the command ends.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Map, Value, json};

use diskfs::vfs::glob::is_pattern;
use diskfs::vfs::{Change, FsWrite, InodeNumber, NewAttributes, Recorder, Remains, What, edit};
use diskfs::{
    Commits, Disk, Error, ErrorKind, Filesystem, Result, RootReserve, WritableFilesystem,
    WriteOptions,
};

use super::operand::{Operand, Place};
use super::options::SourceArgs;
use super::session::{Output, Session, name_style, stdout};
use super::show::json::{self as document, put_name};
use super::show::mode;
use super::show::name::{NameStyle, text};

/// What the mode of a new file loses: as for root in nearly all guests.
pub(crate) const UMASK: u16 = 0o022;

/// Where changes go.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Writing options")]
pub(crate) struct WriteArgs {
    /// Write all changes to FILE, a new qcow2 image with IMG behind it, or one made so before
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub(crate) overlay: Option<PathBuf>,

    /// Change nothing; print which files would change, and how many bytes
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl WriteArgs {
    /// Opens `image`, for changes that go where they are to go.
    pub(crate) fn open(&self, source: &SourceArgs, image: &OsStr) -> Result<Disk> {
        if self.dry_run {
            return source.open_dry_run(image);
        }
        source.open_writable(image, self.overlay.as_deref())
    }

    /// The overlay, when opening will make it.
    pub(crate) fn new_overlay(&self) -> Option<&Path> {
        let overlay = self.overlay.as_deref();
        overlay.filter(|path| path.symlink_metadata().is_err())
    }
}

/// Removes a new overlay of a command that has failed: nothing was written to it, and it would only be
/// in the way.
pub(crate) fn forget(new_overlay: Option<&Path>) {
    if let Some(overlay) = new_overlay {
        let _ = std::fs::remove_file(overlay);
    }
}

/// The images that a command writes to.
#[derive(Debug)]
pub(crate) struct Targets<'a> {
    source: &'a SourceArgs,
    write: &'a WriteArgs,
    /// `None` for what could not be opened, which was told then.
    open: HashMap<OsString, Option<Target>>,
    order: Vec<OsString>,
    commits: Commits,
    /// The command has failed: nothing is committed.
    failed: bool,
}

/// A filesystem that is open for writing, with the disk that it is on.
#[derive(Debug)]
struct Target {
    disk: Disk,
    filesystem: WritableFilesystem,
    recorder: Option<Arc<Recorder>>,
    /// The overlay, if it was made for this.
    new_overlay: Option<PathBuf>,
}

/// A path of a filesystem that is open for writing.
#[derive(Debug, Clone)]
pub(crate) struct TargetPlace {
    /// The image as it was typed: two places are in one filesystem when it is the same.
    pub(crate) image: OsString,
    pub(crate) filesystem: WritableFilesystem,
    pub(crate) path: Vec<u8>,
}

impl TargetPlace {
    /// The driver.
    pub(crate) fn fs(&self) -> &dyn FsWrite {
        self.filesystem.as_fs()
    }

    /// The filesystem, to read.
    pub(crate) fn reader(&self) -> &Filesystem {
        self.filesystem.reader()
    }

    /// An error of the driver, with the image that it happened in.
    pub(crate) fn error(&self, error: diskfs::vfs::Error) -> Error {
        let is_missing = error.kind() == diskfs::vfs::ErrorKind::NotFound;
        let error = self.filesystem.in_image(error);
        if is_missing && is_pattern(&self.path) && error.next_step().is_none() {
            let image = text(self.image.as_encoded_bytes());
            // A new name may have these characters.
            return error.with_hint(format!(
                "patterns are not expanded where files change: `diskfs find {image} -path '{}' -print0 \
                 | xargs -0 diskfs COMMAND {image}`",
                text(&self.path)
            ));
        }
        error
    }

    /// An error of looking for the directory of a new file, with the way to make what is missing.
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
            "make its directory first: `diskfs mkdir -p {image}:{parent}`"
        ))
    }

    /// The file of any type that the path names, through symlinks; a missing one is made as an empty file.
    pub(crate) fn find_or_create(&self) -> Result<InodeNumber> {
        let found = edit::find_or_create(self.fs(), &self.path, &new_file(0o666));
        found.map_err(|e| self.missing_parent(e))
    }

    /// The same with another path.
    pub(crate) fn at(&self, path: Vec<u8>) -> Self {
        Self {
            path,
            ..self.clone()
        }
    }
}

/// A new file of root, with the guest's usual mask.
pub(crate) fn new_file(permissions: u16) -> NewAttributes {
    NewAttributes {
        umask: UMASK,
        ..NewAttributes::for_root(permissions)
    }
}

/// Opens what the operands name, does the work for each, and ends writing.
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

    /// The same for changes that are one transaction of the guest's journal, or fail.
    pub(crate) fn in_one_transaction(mut self) -> Self {
        self.commits = Commits::Once;
        self
    }

    /// Reports an error with which nothing of the command is to be done.
    pub(crate) fn fail(&mut self, session: &mut Session, error: &Error) {
        session.report(error);
        self.failed = true;
    }

    /// Opens what the operands name, in their order; a path alone is of the image before it. What
    /// can't be opened is reported and left out.
    pub(crate) fn places(
        &mut self,
        session: &mut Session,
        operands: &[Operand],
    ) -> Result<Vec<TargetPlace>> {
        let mut places = Vec::new();
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
            let Some(path) = place.path else {
                // The image of the paths that follow, as from xargs.
                if operands.get(n + 1).is_some_and(Operand::is_bare_path) {
                    continue;
                }
                let reason = format!("{} is an image without a path", place.image.display());
                return Err(Error::new(ErrorKind::Invalid, reason)
                    .with_hint("name the file in it, as in IMG:/etc/hosts"));
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

    /// The one place that an operand names.
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
                let reason = "one overlay takes the changes of one image";
                return Err(Error::new(ErrorKind::Invalid, reason)
                    .with_hint("give the command once for each image"));
            }
            let opened = self.open_target(session, image);
            let opened = opened.inspect_err(|error| session.report(error)).ok();
            self.open.insert(image.to_owned(), opened);
            self.order.push(image.to_owned());
        }
        let target = self.open.get(image).and_then(Option::as_ref);
        Ok(target.map(|target| target.filesystem.clone()))
    }

    fn open_target(&self, session: &mut Session, image: &OsStr) -> Result<Target> {
        let new_overlay = self.write.new_overlay().map(Path::to_owned);
        let disk = self.write.open(self.source, image)?;
        let opened = self.open_filesystem(&disk);
        session.warn_of(&disk);
        let filesystem = match opened {
            Ok(filesystem) => filesystem,
            Err(error) => {
                forget(new_overlay.as_deref());
                return Err(error);
            }
        };
        if !self.write.dry_run && session.output() == Output::Text {
            return Ok(Target {
                disk,
                filesystem,
                recorder: None,
                new_overlay,
            });
        }
        let recorder = Arc::new(Recorder::new(filesystem.driver()));
        let filesystem = filesystem.wrapped(|_| recorder.clone());
        Ok(Target {
            disk,
            filesystem,
            recorder: Some(recorder),
            new_overlay,
        })
    }

    fn open_filesystem(&self, disk: &Disk) -> Result<WritableFilesystem> {
        let options = WriteOptions {
            commits: self.commits,
            // What a command changes, the guest's root might have.
            root_reserve: RootReserve::Use,
        };
        self.source.volume.writable_filesystem(disk, options)
    }

    /// Ends writing: what was done is durable when it returns. After an error that may have done a
    /// part, nothing of the command is committed. Tells what a dry run would have done, and in JSON
    /// what was done, with `facts` of the command's own.
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

/// A command that ends early commits nothing.
impl Drop for Targets<'_> {
    fn drop(&mut self) {
        for target in self.open.drain().filter_map(|(_, target)| target) {
            let _ = target.filesystem.abandon();
            forget(target.new_overlay.as_deref());
        }
    }
}

impl Target {
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
        // The driver holds the device; writing to it ends with the disk, whoever still holds it.
        drop(self.filesystem);
        if let Err(error) = self.disk.close() {
            session.report(&error);
            session.report(&remains(&path, &Ok(Remains::All)));
        }
    }

    /// Ends writing after an error that was reported, and reports what remains of the changes.
    fn abandon(self, session: &mut Session) {
        let path = self.filesystem.reader().image_path().to_owned();
        let remaining = self.filesystem.abandon();
        drop(self.filesystem);
        let ended = self.disk.close();
        let remaining = if let Some(overlay) = &self.new_overlay {
            // Nothing of it is kept, so its end does not matter either.
            forget(Some(overlay));
            Ok(Remains::Nothing)
        } else {
            let _ = ended.inspect_err(|error| session.report(error));
            remaining
        };
        session.report(&remains(&path, &remaining));
    }
}

/// What is left of the changes of a command that failed, for its user.
fn remains(image: &Path, remaining: &Result<Remains>) -> Error {
    let (reason, hint) = match remaining {
        Ok(Remains::Nothing) => ("nothing was changed", None),
        Ok(Remains::All) => (
            "the changes were made all the same",
            Some("only the image was not closed in good order; the guest recovers it"),
        ),
        Ok(Remains::Some) => (
            "a part of the changes may have been made",
            Some("look at what is there, or go back to a copy"),
        ),
        Err(_) => (
            "a part of the changes may have been made",
            Some("this filesystem has no journal to take them back"),
        ),
    };
    let error = Error::new(ErrorKind::Other, reason).in_file(image);
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// What was changed, or would have been.
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

/// What happened, as one word.
fn word(what: &What) -> &'static str {
    match what {
        What::Created(_) => "created",
        What::Removed => "removed",
        What::RenamedTo(_) => "renamed",
        What::LinkedAs(_) => "linked",
        What::Contents => "contents",
        What::Mode => "mode",
        What::Owner => "owner",
        What::Times => "times",
        What::Flags => "flags",
        What::Xattrs => "xattrs",
    }
}

/// `/etc/fstab: contents, mode`; `/a: renamed to /b`; `/new: created, directory`.
fn change_line(change: &Change, style: NameStyle) -> Vec<u8> {
    let mut line = style.show(&change.path).into_owned();
    for (index, what) in change.what.iter().enumerate() {
        line.extend_from_slice(if index == 0 { b": " } else { b", " });
        line.extend_from_slice(word(what).as_bytes());
        match what {
            What::Created(kind) => {
                line.extend_from_slice(b", ");
                line.extend_from_slice(mode::name(*kind).as_bytes());
            }
            What::RenamedTo(to) => {
                line.extend_from_slice(b" to ");
                line.extend_from_slice(&style.show(to));
            }
            What::LinkedAs(name) => {
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
    let words: Vec<&str> = change.what.iter().map(word).collect();
    fields.insert("what".to_owned(), json!(words));
    for what in &change.what {
        match what {
            What::Created(kind) => {
                fields.insert("type".to_owned(), mode::name(*kind).into());
            }
            What::RenamedTo(to) => put_name(&mut fields, "renamed_to", to),
            What::LinkedAs(name) => put_name(&mut fields, "linked_as", name),
            _ => {}
        }
    }
    Value::Object(fields)
}
