//! The handle of one operation on the running transaction.

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::Arc;

use diskfs_vfs::{SyncFile, Timestamp};

use crate::block::FsBlock;
use crate::bytes::part;
use crate::error::{Error, ErrorKind, InInode, Result, Structure, malformed};
use crate::inode::{self, Inode};
use crate::inode_table;
use crate::metadata_cache::Key;
use crate::pool::TransactionId;
use crate::superblock::{self, RawSuperblock, Superblock};
use crate::volume::Volume;

use super::{FreedRun, Touched, Transactions};

/// A filesystem on which an error can stop writing.
pub(crate) trait Abort: Debug {
    /// Stops writing: changes that are not durable yet are lost.
    fn abort(&self, why: &Error);
}

/// The parts of a writable filesystem that a handle uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'c> {
    pub(crate) volume: &'c Volume,
    pub(crate) transactions: &'c Transactions,
    pub(crate) touched: &'c Touched,
    pub(crate) abort: &'c dyn Abort,
}

/// An open operation. While it exists, the transaction that it belongs to can't be committed.
///
/// All changes are made through it: [`change`](Self::change) for a block of metadata,
/// [`store`](Self::store) for an inode. If an operation fails with `Io` or `Corrupt` after it has
/// changed something, writing stops for the whole filesystem, and the transaction with the
/// half-done operation never reaches the device. An operation may return any other error only if
/// its changes are consistent.
#[derive(Debug)]
pub(crate) struct TransactionHandle<'c> {
    context: Context<'c>,
    transaction: Cell<TransactionId>,
    credits: Cell<u32>,
    changed: Cell<bool>,
    /// True if there was no free space except for blocks that a commit will make usable.
    held_space: Cell<bool>,
}

impl<'c> TransactionHandle<'c> {
    /// Opens a handle if the running transaction has room now.
    ///
    /// # Errors
    /// `ReadOnly` if writing has stopped.
    pub(crate) fn try_begin(context: Context<'c>, credits: u32) -> Result<Option<Self>> {
        let transaction = context.transactions.try_begin(credits)?;
        Ok(transaction.map(|transaction| Self {
            context,
            transaction: Cell::new(transaction),
            credits: Cell::new(credits),
            changed: Cell::new(false),
            held_space: Cell::new(false),
        }))
    }

    /// Returns the volume for reading.
    pub(crate) fn volume(&self) -> &'c Volume {
        self.context.volume
    }

    /// Returns the time that a change records.
    pub(crate) fn now(&self) -> Timestamp {
        self.context.volume.ambient.now()
    }

    /// Returns the transaction that the handle belongs to.
    pub(crate) fn transaction(&self) -> TransactionId {
        self.transaction.get()
    }

    /// Changes a block of metadata. The caller has read it through [`Volume::checked_block`] under
    /// the same key, or knows that nothing needs to be checked. The caller also updates its
    /// checksum.
    ///
    /// `change` must not call back into the filesystem.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn change<R>(&self, key: Key, change: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        let pool = self.volume().writable_pool();
        let mut change = Some(change);
        loop {
            let once = |bytes: &mut [u8]| change.take().map(|change| change(bytes));
            match pool.change(key, self.transaction(), once) {
                Some((Some(result), first)) => {
                    self.note(key.block, first);
                    return Ok(result);
                }
                // `change` can only have been called if the block was in the pool.
                Some((None, _)) => return Err(malformed(Structure::Superblock, "changed twice")),
                None => self.volume().fill_pool(pool, key.block, 1)?,
            }
        }
    }

    /// Replaces the whole content of a block of metadata that was just allocated. The length is the
    /// block size.
    pub(crate) fn replace(&self, key: Key, bytes: impl Into<Arc<[u8]>>) {
        let first = self
            .volume()
            .writable_pool()
            .replace(key, self.transaction(), bytes.into());
        self.note(key.block, first);
    }

    fn note(&self, block: FsBlock, first: bool) {
        self.changed.set(true);
        if first {
            self.context.transactions.note_changed(block);
        }
    }

    /// Notes that a block no longer contains metadata: it was freed, or became file data. Its older
    /// versions in the journal are revoked.
    pub(crate) fn forget(&self, block: FsBlock) {
        self.changed.set(true);
        self.context.transactions.note_revoked(block);
        self.volume().writable_pool().forget(block);
    }

    /// Notes that these blocks were freed: they may be reused when the transaction is durable.
    pub(crate) fn freed(&self, run: FreedRun) {
        self.changed.set(true);
        self.context.transactions.note_freed(run);
    }

    /// Notes that an allocation failed only because the free blocks were freed by transactions that
    /// are not durable yet. If the operation fails with `NoSpace`, it is repeated after a commit.
    pub(crate) fn note_held_space(&self) {
        self.held_space.set(true);
    }

    /// Returns the transaction whose commit makes room for an operation that ended with `result`.
    pub(crate) fn waits_for<R>(&self, result: &Result<R>) -> Option<TransactionId> {
        let failed = result.as_ref().err().map(Error::kind) == Some(ErrorKind::NoSpace);
        (failed && self.held_space.get()).then(|| self.transaction())
    }

    /// Returns the current inode.
    ///
    /// # Errors
    /// `NotFound` if it is not in use; `Corrupt`, `Io`.
    pub(crate) fn inode(&self, number: u32) -> Result<Inode> {
        match self.volume().inode(number)? {
            Some(inode) => Ok(Arc::unwrap_or_clone(inode)),
            None => Err(Error::new(ErrorKind::NotFound, "no such inode")).in_inode(number),
        }
    }

    /// Stores an inode that was in use in the inode table, with all changes.
    ///
    /// # Errors
    /// Fails like [`inode::encode`]; `Io`.
    pub(crate) fn store(&self, inode: &Inode) -> Result<()> {
        self.note_inode(inode.number, SyncFile::Data);
        self.put_inode(inode.number, |superblock, bytes| {
            inode::encode(superblock, inode, bytes)
        })
    }

    /// Stores an inode of which nothing changed that is needed to read its contents: only times,
    /// owner, mode.
    ///
    /// # Errors
    /// Fails like [`inode::encode`]; `Io`.
    pub(crate) fn store_attributes(&self, inode: &Inode) -> Result<()> {
        self.note_inode(inode.number, SyncFile::All);
        self.put_inode(inode.number, |superblock, bytes| {
            inode::encode(superblock, inode, bytes)
        })
    }

    /// Stores an inode that was not in use in the inode table.
    ///
    /// # Errors
    /// Fails like [`inode::encode`]; `Io`.
    pub(crate) fn store_new(&self, inode: &Inode) -> Result<()> {
        self.note_inode(inode.number, SyncFile::Data);
        self.volume().maps.forget(inode.number);
        self.put_inode(inode.number, |superblock, bytes| {
            inode::encode_new(superblock, inode, bytes)
        })
    }

    /// Stores a copy of an inode with all its bytes under the unused number `to`.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub(crate) fn copy_inode(&self, from: u32, to: u32) -> Result<()> {
        let size = usize::from(self.volume().superblock.inode_size);
        let (key, offset) = inode_table::key_of(self.volume(), from)?;
        let block = self.volume().block(key)?;
        let bytes = part(&block, offset, size)
            .ok_or_else(|| malformed(Structure::Inode(from), "truncated"))?;
        self.note_inode(to, SyncFile::Data);
        self.volume().maps.forget(to);
        self.put_inode(to, |superblock, place| {
            inode::encode_copy(superblock, to, bytes, place)
        })
    }

    /// Fills an inode that is no longer in use with zeroes.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub(crate) fn clear_inode(&self, number: u32) -> Result<()> {
        self.volume().maps.forget(number);
        self.put_inode(number, |_, bytes| {
            bytes.fill(0);
            Ok(())
        })
    }

    /// Sets `i_dtime` of an inode; no other function does.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub(crate) fn set_deleted(&self, number: u32, deleted: u32) -> Result<()> {
        self.put_inode(number, |superblock, bytes| {
            inode::set_deleted(superblock, number, deleted, bytes)
        })
    }

    fn note_inode(&self, number: u32, what: SyncFile) {
        self.context.touched.note(number, self.transaction(), what);
    }

    fn put_inode(
        &self,
        number: u32,
        encode: impl FnOnce(&Superblock, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let superblock = &self.volume().superblock;
        let (key, offset) = inode_table::key_of(self.volume(), number)?;
        let size = usize::from(superblock.inode_size);
        let encoded = self.change(key, |block| {
            let end = offset.saturating_add(size);
            let Some(bytes) = block.get_mut(offset..end) else {
                return Err(malformed(Structure::Inode(number), "truncated"));
            };
            encode(superblock, bytes)?;
            // The stored bytes cannot always express the requested values, so they are parsed
            // again.
            Inode::parse_unchecked(superblock, number, bytes)
        })?;
        let (inode, result) = match encoded {
            Ok(inode) => (inode, Ok(())),
            Err(e) => (None, Err(e)),
        };
        self.volume().note_inode(number, inode);
        result
    }

    /// Changes the superblock, and updates its checksum. As with any block, `change` must not call
    /// back into the filesystem.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn change_superblock(&self, change: impl FnOnce(&mut RawSuperblock)) -> Result<()> {
        let superblock = &self.volume().superblock;
        let key = Key::superblock(superblock::superblock_block(superblock.block_size));
        self.change(key, |block| superblock::change(superblock, block, change))?
    }

    /// Adds credits to this operation if this transaction can change so many more blocks. Returns
    /// true on success.
    pub(crate) fn extend(&self, credits: u32) -> bool {
        let extended = self.context.transactions.try_extend(credits);
        if extended {
            self.credits.set(self.credits.get().saturating_add(credits));
        }
        extended
    }

    /// Continues with new credits for the rest of the operation: in another transaction, unless
    /// this one has room and nobody waits for its end. A crash may happen between the two, so the
    /// changes made until now must be consistent.
    ///
    /// # Errors
    /// `ReadOnly` if writing has stopped; then nothing can be changed any more. `NoSpace` if no
    /// transaction can be so large; then this one continues.
    pub(crate) fn extend_or_restart(&self, credits: u32) -> Result<()> {
        let transactions = self.context.transactions;
        if transactions.try_exchange(self.credits.get(), credits) {
            self.credits.set(credits);
            return Ok(());
        }
        transactions.check_size(credits)?;
        transactions.check_next(credits)?;
        transactions.end(self.credits.replace(0));
        loop {
            // At this point there is no open handle; in any case one must be opened again, to be
            // closed.
            match transactions.try_begin(credits) {
                Ok(Some(transaction)) => {
                    self.transaction.set(transaction);
                    self.credits.set(credits);
                    return Ok(());
                }
                Ok(None) => {
                    let waited = transactions.wait_for_room(credits);
                    if let Err(e) = waited {
                        transactions.reopen();
                        return Err(e);
                    }
                }
                Err(e) => {
                    transactions.reopen();
                    return Err(e);
                }
            }
        }
    }

    /// Returns the operation's result. If the operation failed halfway, writing stops.
    pub(crate) fn finish<R>(&self, result: Result<R>) -> Result<R> {
        if let Err(e) = &result {
            let broken = e.kind() == ErrorKind::Corrupt;
            let halfway = e.kind() == ErrorKind::Io && self.changed.get();
            if broken || halfway {
                self.context.abort.abort(e);
            }
        }
        result
    }
}

impl Drop for TransactionHandle<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && self.changed.get() {
            let reason = "an operation panicked before its end";
            self.context.abort.abort(&Error::new(ErrorKind::Io, reason));
        }
        self.context.transactions.end(self.credits.get());
    }
}
