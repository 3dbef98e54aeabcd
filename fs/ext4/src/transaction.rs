//! The running transaction: the operations that take part in it, its changes, and its end.
//!
//! An operation that changes the filesystem opens a [`TransactionHandle`] on the running
//! transaction, with an upper bound of the number of blocks that it will change (its credits). A
//! commit stops new handles, waits until the open ones are closed, takes the transaction's list of
//! changed blocks with their contents (shared, not copied), lets the next transaction begin, and
//! writes. So operations wait for each other's handles only while a commit begins. They wait for a
//! commit's I/O only if the transaction that runs meanwhile is full.
//!
//! A commit runs on the thread that wants its changes to be durable, which so waits for no other
//! thread to be woken; on the commit thread if nobody waits, or if operations need room. One runs at
//! a time: a thread takes the turn, and the others wait until it is given back.
//!
//! Nobody who waits here holds an inode's lock, except for operations that continue in another
//! transaction ([`TransactionHandle::extend_or_restart`]). Nobody waits for an inode's lock with an
//! open handle. So every commit comes to its end.

mod handle;
mod touched;

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::block::FsBlock;
use crate::error::{Error, ErrorKind, Result};
use crate::hashing::HashSet;
use crate::options::TransactionGrouping;
use crate::pool::TransactionId;

pub(crate) use handle::{Abort, Context, TransactionHandle};
pub(crate) use touched::Touched;

/// A run of freed blocks of the filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FreedRun {
    pub(crate) first: FsBlock,
    pub(crate) len_blocks: u64,
}

/// The changes of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The blocks that it changed; their contents are in the pool.
    pub(crate) blocks: HashSet<FsBlock>,
    /// Blocks of metadata that were freed: older versions of them in the journal must not be
    /// replayed.
    pub(crate) revoked: HashSet<FsBlock>,
    /// The runs that it freed. They must not be reused before the transaction is durable.
    pub(crate) freed: Vec<FreedRun>,
    /// The time of its first change.
    pub(crate) began: Option<Instant>,
}

impl Changes {
    /// Returns true if the transaction is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.revoked.is_empty() && self.freed.is_empty()
    }
}

/// The reason why writing has stopped.
#[derive(Debug, Clone)]
pub(crate) enum StopReason {
    /// The filesystem was closed.
    Closed,
    /// An error stopped writing; its message.
    Aborted(String),
}

#[derive(Debug)]
struct TransactionState {
    running: TransactionId,
    changes: Changes,
    /// The number of open handles.
    handles: u32,
    /// The credits of the open handles.
    credits: u32,
    /// The number of operations that wait for room.
    waiting: u32,
    /// True while a commit waits for the open handles: no new ones may be opened.
    closing_down: bool,
    /// True while a thread has the turn to commit.
    is_committing: bool,
    /// True while the commit thread sleeps until somebody wakes it.
    is_asleep: bool,
    /// The time of a checkpoint if nothing is changed until then.
    checkpoint_at: Option<Instant>,
    /// The last transaction that is durable, with all before it.
    durable: TransactionId,
    /// The last transaction that the commit thread should make durable, with all before it.
    wanted: TransactionId,
    ended: Option<StopReason>,
}

/// The state machine of transactions. See the [module](self).
#[derive(Debug)]
pub(crate) struct Transactions {
    state: Mutex<TransactionState>,
    /// Signalled whenever `state` changes in a way that an operation or a commit may wait for.
    changed: Condvar,
    /// Signalled when there may be a task for the commit thread.
    tasks: Condvar,
    /// Signalled when writing has ended.
    ended: Condvar,
    /// The maximum number of blocks that one transaction may change.
    blocks_max: AtomicU32,
    /// True if changes that do not fit into the running transaction are refused.
    only_one: AtomicBool,
}

/// The turn to commit, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'t>(&'t Transactions);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_committing = false;
        self.0.wake_sleeper(state);
        self.0.changed.notify_all();
    }
}

/// The kind of a task.
enum Work {
    Commit,
    Checkpoint,
    End,
}

/// The next task of the commit thread.
#[derive(Debug)]
pub(crate) enum Task<'t> {
    /// Commit the running transaction.
    Commit(Turn<'t>),
    /// Checkpoint the journal: nothing was changed for a while.
    Checkpoint,
    /// End: nothing will be written any more.
    End,
}

impl Transactions {
    /// Returns the state in which the first transaction is running.
    pub(crate) fn new(blocks_max: u32) -> Self {
        Self {
            state: Mutex::new(TransactionState {
                running: TransactionId(1),
                changes: Changes::default(),
                handles: 0,
                credits: 0,
                waiting: 0,
                closing_down: false,
                is_committing: false,
                is_asleep: false,
                checkpoint_at: None,
                durable: TransactionId(0),
                wanted: TransactionId(0),
                ended: None,
            }),
            changed: Condvar::new(),
            tasks: Condvar::new(),
            ended: Condvar::new(),
            blocks_max: AtomicU32::new(blocks_max),
            only_one: AtomicBool::new(false),
        }
    }

    /// Starts changes that belong together; `grouping` says whether all of them must fit into the
    /// running transaction.
    pub(crate) fn begin_group(&self, grouping: TransactionGrouping) {
        let only_one = grouping == TransactionGrouping::InOneTransaction;
        self.only_one.store(only_one, Ordering::SeqCst);
    }

    /// Fails if the running transaction has no room for this many blocks besides those that it has
    /// changed, and no other transaction may follow.
    fn check_only_one(&self, state: &TransactionState, credits: u32) -> Result<()> {
        let needed = state.changed_blocks().saturating_add(credits);
        if !self.only_one.load(Ordering::SeqCst) || needed <= self.blocks_max() {
            return Ok(());
        }
        let room = self.blocks_max();
        let reason = "the changes do not fit into one transaction of the journal";
        let hint = format!("it has room for {room} blocks of metadata");
        Err(Error::new(ErrorKind::NoSpace, reason).with_hint(hint))
    }

    /// Returns the maximum number of blocks that one transaction may change.
    pub(crate) fn blocks_max(&self) -> u32 {
        self.blocks_max.load(Ordering::Relaxed)
    }

    /// Sets that maximum, while no other thread uses the filesystem.
    pub(crate) fn set_blocks_max(&self, blocks_max: u32) {
        self.blocks_max.store(blocks_max, Ordering::Relaxed);
    }

    /// A poisoned lock is safe to use: the state is consistent between any two statements that hold
    /// the lock.
    fn state(&self) -> MutexGuard<'_, TransactionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, TransactionState>,
    ) -> MutexGuard<'a, TransactionState> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a handle, if the running transaction has room for it now.
    ///
    /// # Errors
    /// `ReadOnly` if writing has stopped; `NoSpace` if no transaction can be so large.
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

    /// Waits until another call of [`try_begin`](Self::try_begin) may succeed.
    ///
    /// # Errors
    /// Fails like `try_begin`.
    pub(crate) fn wait_for_room(&self, credits: u32) -> Result<()> {
        self.check_size(credits)?;
        let mut state = self.state();
        self.check_only_one(&state, credits)?;
        state.waiting = state.waiting.saturating_add(1);
        while state.ended.is_none() && !state.has_room(credits, self.blocks_max()) {
            // Most of the credits of open handles will be given back.
            if state.changed_blocks().saturating_add(credits) > self.blocks_max() {
                state.wanted = state.wanted.max(state.running);
                self.tasks.notify_one();
            }
            state = self.wait(state);
        }
        state.waiting = state.waiting.saturating_sub(1);
        state.check_open()
    }

    /// Adds credits to an open handle, if there is room for them now. Returns true on success.
    pub(crate) fn try_extend(&self, credits: u32) -> bool {
        let mut state = self.state();
        // A commit that waits for this very handle is no obstacle as long as there is room: the
        // handle belongs to this transaction in any case.
        let has_room = state.is_below(credits, self.blocks_max());
        if has_room {
            state.credits = state.credits.saturating_add(credits);
        }
        has_room
    }

    /// Fails if an open handle cannot continue in another transaction, because there must be no
    /// other.
    ///
    /// # Errors
    /// `NoSpace`.
    pub(crate) fn check_next(&self, credits: u32) -> Result<()> {
        self.check_only_one(&self.state(), credits)
    }

    /// Replaces the credits of an open handle, whose changes up to now are counted as changes, if
    /// there is room and no commit waits. Returns true on success.
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

    /// Fails if no transaction can be so large.
    ///
    /// # Errors
    /// `NoSpace`.
    pub(crate) fn check_size(&self, credits: u32) -> Result<()> {
        if credits <= self.blocks_max() {
            return Ok(());
        }
        let room = self.blocks_max();
        let reason = format!("the operation needs to change {credits} blocks in one transaction");
        let hint = format!("the journal is too small: it has room for {room} blocks");
        Err(Error::new(ErrorKind::NoSpace, reason).with_hint(hint))
    }

    /// Counts a handle that is about to be closed, although it takes part in no transaction.
    pub(crate) fn reopen(&self) {
        let mut state = self.state();
        state.handles = state.handles.saturating_add(1);
    }

    /// Notes that a block was changed for the first time in the running transaction.
    pub(crate) fn note_changed(&self, block: FsBlock) {
        self.note(|changes| {
            changes.blocks.insert(block);
            // A revoked block that becomes metadata again must be replayed.
            changes.revoked.remove(&block);
        });
    }

    /// Notes that a block of metadata was freed.
    pub(crate) fn note_revoked(&self, block: FsBlock) {
        self.note(|changes| {
            changes.blocks.remove(&block);
            changes.revoked.insert(block);
        });
    }

    /// Notes that blocks were freed.
    pub(crate) fn note_freed(&self, run: FreedRun) {
        self.note(|changes| changes.freed.push(run));
    }

    fn note(&self, note: impl FnOnce(&mut Changes)) {
        let mut state = self.state();
        note(&mut state.changes);
        if state.changes.began.is_none() {
            state.changes.began = Some(Instant::now());
            // The commit interval begins.
            self.wake_sleeper(state);
        }
    }

    /// Returns the running transaction.
    pub(crate) fn running(&self) -> TransactionId {
        self.state().running
    }

    /// Wakes the commit thread if it has no time to wake by itself.
    fn wake_sleeper(&self, state: MutexGuard<'_, TransactionState>) {
        let is_asleep = state.is_asleep;
        drop(state);
        if is_asleep {
            self.tasks.notify_one();
        }
    }

    /// Waits until `transaction` and all before it are durable, and returns `None`; or until this
    /// thread can commit for that, and returns the turn.
    ///
    /// # Errors
    /// `ReadOnly` with the reason if writing stops before that.
    pub(crate) fn wait_until_durable(
        &self,
        transaction: TransactionId,
    ) -> Result<Option<Turn<'_>>> {
        let mut state = self.state();
        while state.durable < transaction {
            // Changes made before the filesystem was closed become durable.
            state.check_not_aborted()?;
            let is_empty = state.running == transaction && state.is_idle();
            if is_empty && state.durable.0 >= transaction.0.saturating_sub(1) {
                return Ok(None);
            }
            let is_free = !state.is_committing && !state.closing_down;
            if is_free && !is_empty && state.running <= transaction {
                state.is_committing = true;
                return Ok(Some(Turn(self)));
            }
            state = self.wait(state);
        }
        Ok(None)
    }

    /// Waits until there is a task for the commit thread. With an interval, a transaction is
    /// committed at that age. Closing commits the last changes.
    pub(crate) fn next_task(&self, interval: Option<Duration>) -> Task<'_> {
        let mut state = self.state();
        loop {
            let due = state.due(interval);
            let is_due = due.is_some_and(|due| due <= Instant::now());
            let task = match state.ended {
                Some(StopReason::Closed) if !state.is_idle() => Some(Work::Commit),
                Some(_) => Some(Work::End),
                None if state.wanted >= state.running => Some(Work::Commit),
                None if is_due && state.changes.began.is_some() => Some(Work::Commit),
                None if is_due => Some(Work::Checkpoint),
                None => None,
            };
            match task {
                Some(Work::Checkpoint) => {
                    state.checkpoint_at = None;
                    return Task::Checkpoint;
                }
                Some(Work::Commit) if !state.is_committing => {
                    state.is_committing = true;
                    return Task::Commit(Turn(self));
                }
                // Nobody may be in the middle of a commit afterwards.
                Some(Work::End) if !state.is_committing => return Task::End,
                Some(_) => state = self.sleep(state, None),
                // A change that comes meanwhile is due after the interval, and wakes nobody.
                None => {
                    let most = due.map(|due| due.saturating_duration_since(Instant::now()));
                    let most = most.map(|most| interval.map_or(most, |it| it.min(most)));
                    state = self.sleep(state, most);
                }
            }
        }
    }

    /// Lets the commit thread sleep, at most for a time or until somebody wakes it.
    fn sleep<'a>(
        &self,
        mut state: MutexGuard<'a, TransactionState>,
        most: Option<Duration>,
    ) -> MutexGuard<'a, TransactionState> {
        let Some(most) = most else {
            state.is_asleep = true;
            let mut woken = self
                .tasks
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            woken.is_asleep = false;
            return woken;
        };
        let woken = self.tasks.wait_timeout(state, most);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Sets the time of a checkpoint if nothing is changed until then.
    pub(crate) fn checkpoint_at(&self, at: Option<Instant>) {
        let mut state = self.state();
        state.checkpoint_at = at;
        self.wake_sleeper(state);
    }

    /// Waits at most `timeout` for the end of writing. Returns true if it has ended.
    pub(crate) fn wait_for_end(&self, timeout: Duration) -> bool {
        let running = |state: &mut TransactionState| state.ended.is_none();
        let waited = self
            .ended
            .wait_timeout_while(self.state(), timeout, running);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.ended.is_some()
    }

    /// Closes the running transaction for a commit, calls `take` while no handle is open,
    /// and begins the next transaction.
    ///
    /// # Errors
    /// `ReadOnly` if an error has stopped writing: the transaction may contain a half-done
    /// operation. The operation that met the error reported it before it closed its handle.
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
        // Nobody can open a handle while `closing_down` is set, so until `take` returns the pool
        // has the transaction's final contents of its blocks.
        drop(state);
        let taken = take(&changes);
        let mut state = self.state();
        state.running = TransactionId(id.0.saturating_add(1));
        state.closing_down = false;
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.changed.notify_all();
        }
        Ok((id, changes, taken))
    }

    /// Notes that everything up to `transaction` is durable (called by the thread that
    /// committed it).
    pub(crate) fn became_durable(&self, transaction: TransactionId) {
        let mut state = self.state();
        state.durable = state.durable.max(transaction);
        drop(state);
        self.changed.notify_all();
    }

    /// Stops writing; the first reason is kept. Returns true if this call stopped it.
    pub(crate) fn finish(&self, why: StopReason) -> bool {
        let mut state = self.state();
        let first = state.ended.is_none();
        state.ended.get_or_insert(why);
        drop(state);
        self.changed.notify_all();
        self.tasks.notify_one();
        self.ended.notify_all();
        first
    }

    /// Fails if an error has stopped writing.
    ///
    /// # Errors
    /// `ReadOnly`, with the reason.
    pub(crate) fn check_not_aborted(&self) -> Result<()> {
        self.state().check_not_aborted()
    }

    /// Fails if writing has stopped.
    ///
    /// # Errors
    /// `ReadOnly`, with the reason.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.state().check_open()
    }
}

impl TransactionState {
    fn check_open(&self) -> Result<()> {
        self.check_not_aborted()?;
        if self.ended.is_some() {
            let reason = "the filesystem was closed";
            return Err(Error::new(ErrorKind::ReadOnly, reason));
        }
        Ok(())
    }

    fn check_not_aborted(&self) -> Result<()> {
        if let Some(StopReason::Aborted(reason)) = &self.ended {
            let reason = format!("writing has stopped after an error: {reason}");
            return Err(Error::new(ErrorKind::ReadOnly, reason));
        }
        Ok(())
    }

    /// Returns true if the running transaction is empty and nobody is about to change that. A
    /// transaction that is being closed may have had changes, which are neither here any more nor
    /// durable yet.
    fn is_idle(&self) -> bool {
        self.handles == 0 && !self.closing_down && self.changes.is_empty()
    }

    /// Returns the time when a task is due without a request.
    fn due(&self, interval: Option<Duration>) -> Option<Instant> {
        match self.changes.began {
            Some(began) => began.checked_add(interval?),
            None => self.checkpoint_at,
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
