//! Comparison of a filesystem with the model: each operation is applied to both and must have the
//! same result.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};
use diskfs_vfs::testing::WritableMemoryFs;
use diskfs_vfs::{ErrorKind, FsRead, FsWrite, InodeNumber, SetMetadata, SetTime, Timestamp};

use crate::feature_set::Traits;
use crate::files::Files;
use crate::history::History;
use crate::node::{Body, Node, Reader};
use crate::operation::{FileId, Operation, Outcome};

/// The maximum difference between two clocks: the kernel's advances in ticks.
const CLOCK_SLACK_NS: i128 = 50_000_000;

/// The files and blocks that a filesystem may reserve from those that `statistics` reports as free.
const RESERVE_BYTES: u64 = 4 << 20;

/// An accessor for one of a file's times.
type Time = fn(&mut Node) -> &mut Timestamp;

/// A filesystem under test (the subject), the model, and the history of both.
#[derive(Debug)]
pub struct Lockstep {
    subject: Arc<dyn FsWrite>,
    model: WritableMemoryFs,
    traits: Traits,
    in_subject: Files,
    in_model: Files,
    reader: Reader,
    /// The model's files when they were last read.
    model_nodes: BTreeMap<FileId, Node>,
    history: History,
    done: usize,
    refused: usize,
}

impl Lockstep {
    /// Creates a model with the files of the subject.
    ///
    /// # Errors
    /// The errors of both.
    pub fn new(subject: Arc<dyn FsWrite>, traits: Traits) -> Result<Self> {
        let model = WritableMemoryFs::new();
        let (in_subject, in_model) = crate::mirror::mirror(&*subject, &model)?;
        let mut lockstep = Self {
            subject,
            model,
            traits,
            in_subject,
            in_model,
            reader: Reader::default(),
            model_nodes: BTreeMap::new(),
            history: History::default(),
            done: 0,
            refused: 0,
        };
        let ids: Vec<_> = lockstep.in_subject.ids().collect();
        let mut nodes = Vec::new();
        for id in ids {
            nodes.extend(lockstep.read_subject(id)?);
            if let Some(node) = lockstep.read_model(id)? {
                lockstep.model_nodes.insert(id, node);
            }
        }
        lockstep.history.begin(nodes);
        Ok(lockstep)
    }

    /// Continues with another driver of the same filesystem, which must show the same files.
    ///
    /// # Errors
    /// A difference.
    pub fn go_on_with(&mut self, subject: Arc<dyn FsWrite>) -> Result<()> {
        self.subject = subject;
        // A closed filesystem has no held files.
        for (inode, times) in self.model.held() {
            for _ in 0..times {
                self.model.release(inode)?;
            }
        }
        let nameless = |id: &FileId| {
            let latest = self
                .in_subject
                .number(*id)
                .and_then(|inode| self.history.latest(inode));
            latest.is_none_or(|node| node.links == 0)
        };
        let gone: Vec<_> = self.in_subject.ids().filter(nameless).collect();
        for id in gone {
            self.in_subject.remove(id);
            self.in_model.remove(id);
        }
        self.check_all()
    }

    /// Returns the number of operations, and how many of them failed on the subject for lack of
    /// space.
    pub const fn counts(&self) -> (usize, usize) {
        (self.done, self.refused)
    }

    /// Returns the history.
    pub const fn history(&self) -> &History {
        &self.history
    }

    /// Applies one operation to both. `events` returns the number of device events so far.
    ///
    /// # Errors
    /// Different results, with the differences.
    pub fn step(
        &mut self,
        number: usize,
        operation: &Operation,
        events: &dyn Fn() -> usize,
    ) -> Result<()> {
        let files = operation.files();
        if files.iter().any(|id| self.in_subject.number(*id).is_none()) {
            // The operation that creates the file was left out or failed for lack of space.
            let now = events();
            self.history.push(now..now, []);
            return Ok(());
        }
        let mut touched = self.in_model.touched(&self.model, operation);
        let size_before = self.size_before(operation);
        let started = now();
        let begin = events();
        let outcomes = self.perform(number, operation)?;
        let end = events();
        self.note_new(number, operation, outcomes, &mut touched)?;
        self.in_model.forget_gone(&self.model, &touched);
        let nodes = self.compare(&touched, started)?;
        self.history.push(begin..end, nodes);
        self.note(operation, outcomes.0, size_before);
        Ok(())
    }

    fn size_before(&self, operation: &Operation) -> u64 {
        let inode = operation
            .changes_contents_of()
            .and_then(|id| self.in_model.number(id));
        let metadata = inode.and_then(|inode| self.model.metadata(inode).ok());
        metadata.map_or(0, |metadata| metadata.size_bytes)
    }

    /// Applies the operation to the subject, then to the model as far as the subject completed it.
    fn perform(&mut self, number: usize, operation: &Operation) -> Result<(Outcome, Outcome)> {
        let root = self.subject.root();
        let subject = |id| self.in_subject.number(id).unwrap_or(root);
        let model = |id| self.in_model.number(id).unwrap_or(root);
        let (found, error) = match operation.call(number, &*self.subject, subject) {
            Ok(outcome) => (outcome, None),
            Err(error) => (Outcome::Failed(error.kind()), Some(error)),
        };
        self.done += 1;
        if let Outcome::Failed(kind) = found
            && is_about_room(kind)
        {
            // The model may report another error first.
            if let Err(reason) = self.excuse(operation, kind) {
                let error = error.map(|error| error.to_string()).unwrap_or_default();
                bail!("{error}: {reason}");
            }
            self.refused += 1;
            self.catch_up(operation)?;
            return Ok((found, found));
        }
        let part = match (operation, found) {
            (Operation::Write { file, offset, len }, Outcome::Wrote(written)) if written < *len => {
                self.excuse(operation, ErrorKind::NoSpace)?;
                Some(Operation::Write {
                    file: *file,
                    offset: *offset,
                    len: written,
                })
            }
            _ => None,
        };
        let expected = part
            .as_ref()
            .unwrap_or(operation)
            .perform(number, &self.model, model);
        let same = match (expected, found) {
            (Outcome::Made(_), Outcome::Made(_)) => true,
            (a, b) => a == b,
        };
        let reason = error.map(|error| format!(" ({error})")).unwrap_or_default();
        ensure!(same, "expected {expected:?}, found {found:?}{reason}");
        if matches!(found, Outcome::Failed(_)) {
            self.catch_up(operation)?;
        }
        Ok((found, expected))
    }

    /// Checks that the subject has a valid reason for the error.
    fn excuse(&self, operation: &Operation, kind: ErrorKind) -> Result<()> {
        let statistics = self.subject.statistics()?;
        let block_size = u64::from(statistics.block_size);
        let free = statistics.blocks_available * block_size;
        let full = free < RESERVE_BYTES || statistics.inodes_free == 0;
        match (kind, operation) {
            (ErrorKind::NoSpace, _) if full => Ok(()),
            (ErrorKind::NoSpace, Operation::Fallocate { len_bytes, .. }) if *len_bytes > free => {
                Ok(())
            }
            (ErrorKind::NoSpace, Operation::SetXattr { file, value, .. })
                if !self.traits.large_values =>
            {
                let others = self.attribute_bytes(*file);
                // In addition to its header, a block has an entry of 16 bytes for each attribute.
                let fits = others + value.len() as u64 + 300 < block_size;
                ensure!(
                    !fits,
                    "no space left, although {others} bytes of attributes and {} fit",
                    value.len()
                );
                Ok(())
            }
            // An ACL that is inherited from a directory, or that a change of the mode makes longer.
            (ErrorKind::NoSpace, _) => {
                bail!(
                    "no space left, although {free} bytes and {} inodes are free",
                    statistics.inodes_free
                )
            }
            // A block map has a smaller maximum size than a tree of extents, and no unwritten
            // blocks.
            (ErrorKind::FileTooLarge, _)
            | (ErrorKind::Unsupported, Operation::Fallocate { .. })
                if !self.traits.extents =>
            {
                Ok(())
            }
            (kind, _) => bail!("unexpected error {kind:?}"),
        }
    }

    fn attribute_bytes(&self, file: FileId) -> u64 {
        let Some(node) = self.model_nodes.get(&file) else {
            return 0;
        };
        let each = node.xattrs.iter();
        each.map(|(name, value)| (name.len() + value.len()) as u64 + 16)
            .sum()
    }

    /// Copies the result of a partly completed operation to the model: the size, if the operation
    /// increased it, and the times.
    fn catch_up(&self, operation: &Operation) -> Result<()> {
        let (Operation::Fallocate { file, .. } | Operation::Write { file, .. }) = operation else {
            return Ok(());
        };
        let (Some(subject), Some(model)) =
            (self.in_subject.number(*file), self.in_model.number(*file))
        else {
            return Ok(());
        };
        let metadata = self.subject.metadata(subject)?;
        if metadata.size_bytes > self.model.metadata(model)?.size_bytes {
            self.model.set_len(model, metadata.size_bytes)?;
        }
        if let Operation::Fallocate {
            offset, len_bytes, ..
        } = operation
        {
            self.zero_what_is_zero((subject, model), *offset..offset + len_bytes)?;
        }
        let before = self.history.latest(subject);
        let was = |time: fn(&Node) -> Timestamp| before.map(|node| time(node));
        let mut change = SetMetadata::default();
        if was(|node| node.modified) != Some(metadata.modified) {
            change.modified = Some(SetTime::Now);
        } else if was(|node| node.changed) != Some(metadata.changed) {
            // The kernel allocates a part of a range that does not fit, which sets only this time.
            change.permissions = Some(metadata.permissions);
        }
        if change != SetMetadata::default() {
            self.model.set_metadata(model, &change)?;
        }
        Ok(())
    }

    /// Zeroes those bytes of a range in the model that are zero in the subject: a part of the range
    /// was zeroed until there was no space left.
    fn zero_what_is_zero(
        &self,
        (subject, model): (InodeNumber, InodeNumber),
        range: Range<u64>,
    ) -> Result<()> {
        let size = self.model.metadata(model)?.size_bytes;
        let mut at = range.start;
        while at < range.end.min(size) {
            let (mut theirs, mut ours) = ([0; 512], [0; 512]);
            let left = usize::try_from(range.end.min(size) - at).unwrap_or(theirs.len());
            let len = left.min(theirs.len());
            self.subject.read_at(subject, at, &mut theirs[..len])?;
            self.model.read_at(model, at, &mut ours[..len])?;
            if theirs[..len] != ours[..len] {
                let zeroed = ours
                    .iter()
                    .zip(&theirs)
                    .map(|(a, b)| if *b == 0 { 0 } else { *a });
                let zeroed: Vec<u8> = zeroed.take(len).collect();
                self.model.write_at(model, at, &zeroed)?;
            }
            at += len as u64;
        }
        Ok(())
    }

    /// Records the file that an operation created.
    fn note_new(
        &mut self,
        number: usize,
        operation: &Operation,
        outcomes: (Outcome, Outcome),
        touched: &mut Vec<FileId>,
    ) -> Result<()> {
        let made = match (outcomes, operation.whiteout()) {
            ((Outcome::Made(subject), Outcome::Made(model)), _) => Some((subject, model)),
            ((Outcome::Done, Outcome::Done), Some((dir, name))) => {
                let look = |fs: &dyn FsRead, files: &Files| {
                    let dir = files.number(dir).context("a directory")?;
                    anyhow::Ok(fs.lookup(dir, name)?)
                };
                let subject = look(&*self.subject, &self.in_subject).context("missing whiteout")?;
                let model = look(&self.model, &self.in_model)?;
                // No whiteout is created if both names refer to the same file.
                self.in_model
                    .id(model)
                    .is_none()
                    .then_some((subject, model))
            }
            _ => None,
        };
        let Some((subject, model)) = made else {
            return Ok(());
        };
        let id = FileId::made_by(number);
        if let Some(other) = self.in_subject.id(subject)
            && !touched.contains(&other)
        {
            bail!("a new file has the number of {other:?}: inode {subject}");
        }
        self.in_subject.add(id, subject);
        self.in_model.add(id, model);
        touched.push(id);
        Ok(())
    }

    fn read_subject(&mut self, id: FileId) -> Result<Option<Node>> {
        let Some(inode) = self.in_subject.number(id) else {
            return Ok(None);
        };
        let before = self.history.latest(inode).cloned();
        let node = self.reader.read(&*self.subject, inode, before.as_deref());
        Ok(Some(
            node.with_context(|| format!("{id:?}, inode {inode}"))?,
        ))
    }

    fn read_model(&mut self, id: FileId) -> Result<Option<Node>> {
        let Some(inode) = self.in_model.number(id) else {
            return Ok(None);
        };
        let before = self.model_nodes.get(&id);
        Ok(Some(self.reader.read(&self.model, inode, before)?))
    }

    /// Reads the files that may have changed from both, and compares them. Returns the subject's
    /// nodes.
    fn compare(
        &mut self,
        touched: &[FileId],
        started: i128,
    ) -> Result<Vec<(InodeNumber, Option<Node>)>> {
        let mut nodes = Vec::new();
        for id in touched {
            let Some(inode) = self.in_subject.number(*id) else {
                continue;
            };
            let Some(expected) = self.read_model(*id)? else {
                self.in_subject.remove(*id);
                self.model_nodes.remove(id);
                // Another file may already have its number; that file then comes later.
                nodes.insert(0, (inode, None));
                continue;
            };
            let found = self.read_subject(*id)?.context("missing file")?;
            let known = self.model_nodes.get(id);
            let before = known.zip(self.history.latest(inode).map(|node| &**node));
            let lines = self.differences(&expected, &found, before, started);
            ensure!(
                lines.is_empty(),
                "{id:?}, inode {inode}:\n    {}",
                lines.join("\n    ")
            );
            self.model_nodes.insert(*id, expected);
            nodes.push((inode, Some(found)));
        }
        Ok(nodes)
    }

    fn differences(
        &self,
        expected: &Node,
        found: &Node,
        before: Option<(&Node, &Node)>,
        started: i128,
    ) -> Vec<String> {
        let mut expected = expected.clone();
        expected.inode = found.inode;
        expected.flags.casefold = found.flags.casefold;
        expected.created = found.created;
        if let Body::Directory(entries) = &mut expected.body {
            for inode in entries.values_mut() {
                let id = self.in_model.id(*inode);
                let subject = id.and_then(|id| self.in_subject.number(id));
                *inode = subject.unwrap_or(InodeNumber(0));
            }
        }
        // Times that are wrong are left unchanged, so that they show as differences.
        let times: [Time; 3] = [
            |node| &mut node.accessed,
            |node| &mut node.modified,
            |node| &mut node.changed,
        ];
        for time in times {
            let of = |node: &Node| *time(&mut node.clone());
            let (wanted, got) = (of(&expected), of(found));
            let kept = before.is_some_and(|(model, _)| of(model) == wanted);
            let right = match before {
                Some((_, subject)) if kept => of(subject) == got,
                _ => got == self.storable(wanted) || is_now(got, started, self.traits),
            };
            if right {
                *time(&mut expected) = got;
            }
        }
        expected.differences(found)
    }

    /// Returns the time with the precision and range that the subject can store.
    fn storable(&self, time: Timestamp) -> Timestamp {
        if self.traits.large_inodes {
            return time;
        }
        let seconds = time.seconds.clamp(i32::MIN.into(), i32::MAX.into());
        Timestamp {
            seconds,
            nanoseconds: 0,
        }
    }

    /// Records what the last operation means for a crash.
    fn note(&mut self, operation: &Operation, outcome: Outcome, size_before: u64) {
        let contents_of = operation
            .changes_contents_of()
            .and_then(|id| self.in_subject.number(id));
        if let Some(inode) = contents_of {
            self.history.note_times(inode);
        }
        if matches!(outcome, Outcome::Failed(_)) {
            return;
        }
        match operation {
            Operation::Sync => self.history.note_sync(),
            Operation::SyncFile { file, what } => {
                if let Some(inode) = self.in_subject.number(*file) {
                    self.history.note_sync_file(inode, *what);
                }
            }
            _ => {}
        }
        if let Some(inode) = contents_of {
            self.history.note_contents(inode, operation, size_before);
        }
    }

    /// Compares every file with the version that was last read, and with the model.
    ///
    /// # Errors
    /// A file that changed without an operation.
    pub fn check_all(&mut self) -> Result<()> {
        let ids: Vec<_> = self.in_subject.ids().collect();
        for id in ids {
            let found = self.read_subject(id)?.context("missing file")?;
            let Some(expected) = self.history.latest(found.inode) else {
                bail!("{id:?}, inode {}, was never read", found.inode);
            };
            let lines = expected.differences(&found);
            ensure!(
                lines.is_empty(),
                "{id:?}, inode {}, changed without an operation:\n    {}",
                found.inode,
                lines.join("\n    ")
            );
        }
        Ok(())
    }

    /// Closes the subject, which makes everything durable and ends all holds.
    ///
    /// # Errors
    /// The errors of the subject.
    pub fn close(&mut self, events: &dyn Fn() -> usize) -> Result<()> {
        let begin = events();
        self.subject.close()?;
        let end = events();
        let nameless: Vec<_> = self
            .in_subject
            .ids()
            .filter_map(|id| self.in_subject.number(id))
            .filter(|inode| {
                let node = self.history.latest(*inode);
                node.is_some_and(|node| node.links == 0)
            })
            .map(|inode| (inode, None))
            .collect();
        self.history.push(begin..end, nameless);
        self.history.note_sync();
        Ok(())
    }
}

const fn is_about_room(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NoSpace
            | ErrorKind::QuotaExceeded
            | ErrorKind::FileTooLarge
            | ErrorKind::Unsupported
    )
}

fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}

fn now() -> i128 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(0)
}

fn is_now(time: Timestamp, started: i128, traits: Traits) -> bool {
    let slack = if traits.large_inodes {
        CLOCK_SLACK_NS
    } else {
        CLOCK_SLACK_NS + 1_000_000_000
    };
    let time = nanoseconds(time);
    time >= started - slack && time <= now() + slack
}
