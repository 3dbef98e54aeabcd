//! The running transaction: who takes part in it, what it changed, and when it ends.
//!
//! An operation that changes the filesystem opens a [`TransactionHandle`] on the running
//! transaction, with an upper bound of how many blocks it will change (its credits). A commit stops
//! new handles, waits for the open ones to be closed, takes the transaction's list of changed blocks
//! with their contents (shared, not copied), lets the next transaction begin, and writes. So
//! operations wait for each other's handles only while a commit begins, and for a commit's I/O only
//! when the transaction that runs meanwhile is full.
//!
//! Nobody who waits here holds an inode's lock, but for operations that go on in another transaction
//! ([`TransactionHandle::go_on`]); and nobody waits for an inode's lock with an open
//! handle. So a commit always comes to its end.

mod handle;
mod touched;

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::block::FsBlock;
use crate::error::{Error, ErrorKind, Result};
use crate::hashing::HashSet;
use crate::options::Together;
use crate::pool::TransactionId;

pub(crate) use handle::{Abort, Context, TransactionHandle};
pub(crate) use touched::Touched;

/// Blocks of the filesystem that were freed: one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FreedRun {
    pub(crate) first: FsBlock,
    pub(crate) len_blocks: u64,
}

/// What one transaction did.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The blocks that it changed; their contents are in the pool.
    pub(crate) blocks: HashSet<FsBlock>,
    /// Blocks that held metadata and were freed: older versions of them in the journal must not be
    /// replayed.
    pub(crate) revoked: HashSet<FsBlock>,
    /// What it freed. Nobody may use it again before the transaction is durable.
    pub(crate) freed: Vec<FreedRun>,
    /// When it changed something first.
    pub(crate) began: Option<Instant>,
}

impl Changes {
    /// Whether there is nothing to commit.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.revoked.is_empty() && self.freed.is_empty()
    }
}

/// Why nothing is written any more.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    /// It was closed.
    Closed,
    /// An error ended it; its message.
    Aborted(String),
}

#[derive(Debug)]
struct State {
    running: TransactionId,
    changes: Changes,
    /// Handles that are open.
    handles: u32,
    /// Credits of open handles.
    credits: u32,
    /// How many wait for room.
    waiting: u32,
    /// A commit waits for the open handles: no new ones.
    closing_down: bool,
    /// Up to this one everything is durable.
    durable: TransactionId,
    /// Up to this one everything shall be durable.
    wanted: TransactionId,
    ended: Option<Ended>,
}

/// The state machine. See the [module](self).
#[derive(Debug)]
pub(crate) struct Transactions {
    state: Mutex<State>,
    /// Signalled whenever something in `state` changes that somebody may wait for.
    changed: Condvar,
    /// How many blocks one transaction may change.
    blocks_max: AtomicU32,
    /// What does not fit into the running transaction is refused.
    only_one: AtomicBool,
}

/// What the thread that commits is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// Commit the running transaction.
    Commit,
    /// Bring home what is durable: nothing else is going on.
    Checkpoint,
    /// End: nothing will be written any more.
    End,
}

impl Transactions {
    /// Before the first transaction, which is running.
    pub(crate) fn new(blocks_max: u32) -> Self {
        Self {
            state: Mutex::new(State {
                running: TransactionId(1),
                changes: Changes::default(),
                handles: 0,
                credits: 0,
                waiting: 0,
                closing_down: false,
                durable: TransactionId(0),
                wanted: TransactionId(0),
                ended: None,
            }),
            changed: Condvar::new(),
            blocks_max: AtomicU32::new(blocks_max),
            only_one: AtomicBool::new(false),
        }
    }

    /// Whether changes from now on must fit into the running transaction.
    pub(crate) fn begin_together(&self, together: Together) {
        let only_one = together == Together::InOneTransaction;
        self.only_one.store(only_one, Ordering::SeqCst);
    }

    /// Fails when the running transaction has no room for so many blocks besides those that it has
    /// changed, and no other may follow.
    fn check_only_one(&self, state: &State, credits: u32) -> Result<()> {
        let needed = state.changed_blocks().saturating_add(credits);
        if !self.only_one.load(Ordering::SeqCst) || needed <= self.blocks_max() {
            return Ok(());
        }
        let room = self.blocks_max();
        let reason = "the changes do not fit into one transaction of the journal";
        let hint = format!("it has room for {room} blocks of metadata");
        Err(Error::new(ErrorKind::NoSpace, reason).with_hint(hint))
    }

    /// How many blocks one transaction may change.
    pub(crate) fn blocks_max(&self) -> u32 {
        self.blocks_max.load(Ordering::Relaxed)
    }

    /// Changes that, when nobody else is there.
    pub(crate) fn set_blocks_max(&self, blocks_max: u32) {
        self.blocks_max.store(blocks_max, Ordering::Relaxed);
    }

    /// The state is whole between any two statements that hold the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a handle, if the running transaction has room for it now.
    ///
    /// # Errors
    /// `ReadOnly` when writing has ended; `NoSpace` when no transaction can be so large.
    pub(crate) fn try_begin(&self, credits: u32) -> Result<Option<TransactionId>> {
        let mut state = self.state();
        state.check_open()?;
        self.check_size(credits)?;
        if !state.has_room(credits, self.blocks_max()) {
            return Ok(None);
        }
        state.handles = state.handles.saturating_add(1);
        state.credits = state.credits.saturating_add(credits);
        Ok(Some(state.running))
    }

    /// Waits until [`try_begin`](Self::try_begin) is worth another try.
    ///
    /// # Errors
    /// As `try_begin`.
    pub(crate) fn wait_for_room(&self, credits: u32) -> Result<()> {
        self.check_size(credits)?;
        let mut state = self.state();
        self.check_only_one(&state, credits)?;
        state.waiting = state.waiting.saturating_add(1);
        while state.ended.is_none() && !state.has_room(credits, self.blocks_max()) {
            // Room that open handles keep for themselves is mostly given back.
            if state.changed_blocks().saturating_add(credits) > self.blocks_max() {
                state.wanted = state.wanted.max(state.running);
                self.changed.notify_all();
            }
            state = self.wait(state);
        }
        state.waiting = state.waiting.saturating_sub(1);
        state.check_open()
    }

    /// More credits for an open handle, if there is room for them now.
    pub(crate) fn try_extend(&self, credits: u32) -> bool {
        let mut state = self.state();
        // While a commit waits for this very handle it may still have more, as long as there is
        // room: it is in this transaction in any case.
        let has_room = state.is_below(credits, self.blocks_max());
        if has_room {
            state.credits = state.credits.saturating_add(credits);
        }
        has_room
    }

    /// Fails when an open handle can't go on in another transaction, because there must be no other.
    ///
    /// # Errors
    /// `NoSpace`.
    pub(crate) fn check_next(&self, credits: u32) -> Result<()> {
        self.check_only_one(&self.state(), credits)
    }

    /// Other credits in the place of those of an open handle, whose changes until now are counted as
    /// such, if there is room for them and no commit waits.
    pub(crate) fn try_exchange(&self, old: u32, new: u32) -> bool {
        let mut state = self.state();
        let others = state.credits.saturating_sub(old);
        let before = std::mem::replace(&mut state.credits, others);
        let exchanged = !state.closing_down && state.is_below(new, self.blocks_max());
        state.credits = if exchanged {
            others.saturating_add(new)
        } else {
            before
        };
        exchanged
    }

    /// Closes a handle.
    pub(crate) fn end(&self, credits: u32) {
        let mut state = self.state();
        state.handles = state.handles.saturating_sub(1);
        state.credits = state.credits.saturating_sub(credits);
        let wake = state.waiting > 0 || (state.handles == 0 && state.closing_down);
        drop(state);
        if wake {
            self.changed.notify_all();
        }
    }

    /// Fails when no transaction can be so large.
    ///
    /// # Errors
    /// `NoSpace`.
    pub(crate) fn check_size(&self, credits: u32) -> Result<()> {
        if credits <= self.blocks_max() {
            return Ok(());
        }
        let room = self.blocks_max();
        let reason = format!("needs to change {credits} blocks in one transaction");
        let hint = format!("the journal is too small: it has room for {room}");
        Err(Error::new(ErrorKind::NoSpace, reason).with_hint(hint))
    }

    /// Counts a handle that is going to be closed, though it takes no part in anything.
    pub(crate) fn reopen(&self) {
        let mut state = self.state();
        state.handles = state.handles.saturating_add(1);
    }

    /// A block was changed for the first time in the running transaction.
    pub(crate) fn note_changed(&self, block: FsBlock) {
        self.note(|changes| {
            changes.blocks.insert(block);
            // What was revoked and is metadata again must be replayed.
            changes.revoked.remove(&block);
        });
    }

    /// A block of metadata was freed.
    pub(crate) fn note_revoked(&self, block: FsBlock) {
        self.note(|changes| {
            changes.blocks.remove(&block);
            changes.revoked.insert(block);
        });
    }

    /// Blocks were freed.
    pub(crate) fn note_freed(&self, run: FreedRun) {
        self.note(|changes| changes.freed.push(run));
    }

    fn note(&self, note: impl FnOnce(&mut Changes)) {
        let mut state = self.state();
        note(&mut state.changes);
        if state.changes.began.is_none() {
            state.changes.began = Some(Instant::now());
            drop(state);
            // For the thread that commits: the time begins to run.
            self.changed.notify_all();
        }
    }

    /// The transaction that is running.
    pub(crate) fn running(&self) -> TransactionId {
        self.state().running
    }

    /// Returns when `transaction` and all before it are durable; asks for its commit if that is
    /// not under way.
    ///
    /// # Errors
    /// `ReadOnly` with the reason when writing has ended before that.
    pub(crate) fn make_durable(&self, transaction: TransactionId) -> Result<()> {
        let mut state = self.state();
        while state.durable < transaction {
            // What was begun before it was closed becomes durable.
            state.check_not_aborted()?;
            if state.running == transaction && state.is_idle() {
                // Nothing is in it; what is before it may still be on its way.
                match transaction.0.checked_sub(1).map(TransactionId) {
                    Some(before) if state.durable < before => {}
                    _ => return Ok(()),
                }
            }
            state.wanted = state.wanted.max(transaction);
            self.changed.notify_all();
            state = self.wait(state);
        }
        Ok(())
    }

    /// For the thread that commits: waits until there is something to do. With an interval, a
    /// transaction is committed when it is so old; at `checkpoint`, it is time for one if nothing
    /// was changed by then. Closing commits what is left.
    pub(crate) fn next_task(
        &self,
        interval: Option<Duration>,
        checkpoint: Option<Instant>,
    ) -> Task {
        let mut state = self.state();
        loop {
            match state.ended {
                Some(Ended::Closed) if !state.is_idle() => return Task::Commit,
                Some(_) => return Task::End,
                None if state.wanted >= state.running => return Task::Commit,
                None => {}
            }
            let Some(due) = state.due(interval, checkpoint) else {
                state = self.wait(state);
                continue;
            };
            let left = due.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            } else if state.changes.began.is_some() {
                return Task::Commit;
            } else {
                return Task::Checkpoint;
            }
        }
    }

    /// Waits so long for the end of writing. Returns whether it came.
    pub(crate) fn ends_within(&self, timeout: Duration) -> bool {
        let running = |state: &mut State| state.ended.is_none();
        let waited = self
            .changed
            .wait_timeout_while(self.state(), timeout, running);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.ended.is_some()
    }

    /// For the thread that commits: closes the running transaction, hands it to `take` while no
    /// handle is open, and begins the next one.
    ///
    /// # Errors
    /// `ReadOnly` when an error has ended writing: the transaction may have something half done in
    /// it. Whoever met the error said so before it closed its handle.
    pub(crate) fn close_running<R>(
        &self,
        take: impl FnOnce(&Changes) -> R,
    ) -> Result<(TransactionId, Changes, R)> {
        let mut state = self.state();
        state.closing_down = true;
        while state.handles > 0 {
            state = self.wait(state);
        }
        state.check_not_aborted()?;
        let id = state.running;
        let changes = mem::take(&mut state.changes);
        // Nobody can open a handle while `closing_down` is set, so the pool has what the transaction
        // made of its blocks until `take` returns.
        drop(state);
        let taken = take(&changes);
        let mut state = self.state();
        state.running = TransactionId(id.0.saturating_add(1));
        state.closing_down = false;
        drop(state);
        self.changed.notify_all();
        Ok((id, changes, taken))
    }

    /// For the thread that commits: everything up to `transaction` is durable.
    pub(crate) fn became_durable(&self, transaction: TransactionId) {
        let mut state = self.state();
        state.durable = state.durable.max(transaction);
        drop(state);
        self.changed.notify_all();
    }

    /// Ends writing; the first reason stays. Returns whether this was it.
    pub(crate) fn finish(&self, why: Ended) -> bool {
        let mut state = self.state();
        let first = state.ended.is_none();
        state.ended.get_or_insert(why);
        drop(state);
        self.changed.notify_all();
        first
    }

    /// Fails when an error has ended writing.
    ///
    /// # Errors
    /// `ReadOnly`, with the reason.
    pub(crate) fn check_not_aborted(&self) -> Result<()> {
        self.state().check_not_aborted()
    }

    /// Fails when writing has ended.
    ///
    /// # Errors
    /// `ReadOnly`, with the reason.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.state().check_open()
    }
}

impl State {
    fn check_open(&self) -> Result<()> {
        self.check_not_aborted()?;
        if self.ended.is_some() {
            let reason = "the filesystem was closed";
            return Err(Error::new(ErrorKind::ReadOnly, reason));
        }
        Ok(())
    }

    fn check_not_aborted(&self) -> Result<()> {
        if let Some(Ended::Aborted(reason)) = &self.ended {
            let reason = format!("writing was ended by an error: {reason}");
            return Err(Error::new(ErrorKind::ReadOnly, reason));
        }
        Ok(())
    }

    /// Whether the running transaction has nothing and nobody is about to change that. One that is
    /// being closed may have had something, which is neither here any more nor durable yet.
    fn is_idle(&self) -> bool {
        self.handles == 0 && !self.closing_down && self.changes.is_empty()
    }

    /// When there is something to do without anybody asking.
    fn due(&self, interval: Option<Duration>, checkpoint: Option<Instant>) -> Option<Instant> {
        match self.changes.began {
            Some(began) => began.checked_add(interval?),
            None => checkpoint,
        }
    }

    fn is_below(&self, credits: u32, blocks_max: u32) -> bool {
        let used = self.changed_blocks().saturating_add(self.credits);
        used.saturating_add(credits) <= blocks_max
    }

    fn changed_blocks(&self) -> u32 {
        u32::try_from(self.changes.blocks.len()).unwrap_or(u32::MAX)
    }

    fn has_room(&self, credits: u32, blocks_max: u32) -> bool {
        !self.closing_down && self.is_below(credits, blocks_max)
    }
}

#[cfg(test)]
mod tests;
