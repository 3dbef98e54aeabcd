//! The state of the filesystem's use in the superblock: opened for writing, closed in good order,
//! an error.
//!
//! All of it is written outside of transactions: before the first one is committed, after the last
//! one is checkpointed, or when there will be no other. A filesystem in which nothing was changed
//! is not written at all, so that its image stays as it is, byte for byte.

use std::sync::atomic::{AtomicBool, Ordering};

use diskfs_vfs::Timestamp;
use zerocopy::little_endian::U32;

use crate::bytes::split64;
use crate::error::{Error, ErrorKind, Result};
use crate::features::{Compatible, Incompatible, ReadOnlyCompatible};
use crate::metadata_cache::Key;
use crate::superblock::{self, RawSuperblock, STATE_ERRORS, STATE_VALID, Superblock};
use crate::transaction::{Abort, Changes};

use super::Core;

/// A timestamp of the superblock whose bits above 32 are in a byte of `s_time_hi`.
#[derive(Debug, Clone, Copy)]
enum TimeHigh {
    Write,
    Mount,
    FirstError,
    LastError,
}

/// The mark of the filesystem as opened for writing.
#[derive(Debug)]
pub(crate) struct MountMark {
    opened: Timestamp,
    is_set: AtomicBool,
}

impl MountMark {
    /// Returns the mark of a filesystem that was opened now; the superblock does not have it yet.
    pub(crate) const fn new(opened: Timestamp) -> Self {
        Self {
            opened,
            is_set: AtomicBool::new(false),
        }
    }

    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }
}

impl Core {
    /// Marks the filesystem as opened for writing, unless it is marked. Returns true if the caller
    /// must flush the device before it writes what needs recovery.
    ///
    /// No handle is open, so nobody reads the superblock meanwhile: the pool's copy was read without
    /// the mark. `changes` are those of the running transaction.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn mark_mounted(&self, changes: &Changes) -> Result<bool> {
        // Even a write that fails may have set it.
        if self.mount_mark.is_set.swap(true, Ordering::SeqCst) {
            return Ok(false);
        }
        let superblock = &self.volume().superblock;
        let has_journal = superblock.features.has(Compatible::HAS_JOURNAL);
        let opened = self.mount_mark.opened;
        let mark = |raw: &mut RawSuperblock| set_mount_mark(raw, has_journal, opened);
        let block = superblock::superblock_block(superblock.block_size);
        if changes.blocks.contains(&block) {
            let running = self.transactions.running();
            let mark = |bytes: &mut [u8]| superblock::change(superblock, bytes, mark);
            // The commit finds out if the block is missing.
            if let Some((marked, _)) = self.pool().change(Key::superblock(block), running, mark) {
                marked?;
            }
        } else {
            self.pool().forget(block);
        }
        // An error may be recorded meanwhile, which changes the same bytes.
        let _log = self.log()?;
        superblock::change_on(self.device.device(), superblock, mark)?;
        Ok(true)
    }

    /// Marks the filesystem as clean, after nothing in it was changed.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(super) fn mark_clean(&self) -> Result<()> {
        if !self.mount_mark.is_set() {
            return Ok(());
        }
        self.log()?.close(self)?;
        let superblock = &self.volume().superblock;
        superblock::change_on(self.device.device(), superblock, |raw| {
            let needs_recovery = Incompatible::NEEDS_RECOVERY.bits();
            clear(&mut raw.s_feature_incompat, needs_recovery);
            raw.s_state.set(raw.s_state.get() | STATE_VALID);
        })?;
        self.device.flush()
    }

    /// Ends writing in good order. All remaining changes are written back and committed; afterwards
    /// there is nothing to be replayed.
    ///
    /// # Errors
    /// `ReadOnly` with the reason if an error has stopped writing before; `Io`, `NoSpace`.
    pub(crate) fn close(&self) -> Result<()> {
        let closed = self.checkpoint_all().and_then(|()| self.mark_closed());
        closed.inspect_err(|e| self.abort(e))
    }

    fn checkpoint_all(&self) -> Result<()> {
        self.transactions.check_not_aborted()?;
        self.log()?.close(self)
    }

    fn mark_closed(&self) -> Result<()> {
        if !self.mount_mark.is_set() {
            return Ok(());
        }
        let superblock = &self.volume().superblock;
        let free = self.allocator.totals();
        let now = self.volume().ambient.now();
        superblock::change_on(self.device.device(), superblock, |raw| {
            clear(
                &mut raw.s_feature_incompat,
                Incompatible::NEEDS_RECOVERY.bits(),
            );
            if self.orphans.is_empty() {
                let present = ReadOnlyCompatible::ORPHAN_PRESENT.bits();
                clear(&mut raw.s_feature_ro_compat, present);
            }
            raw.s_state.set(raw.s_state.get() | STATE_VALID);
            let (high, low) = split64(free.free_blocks);
            raw.s_free_blocks_count_lo.set(low);
            raw.s_free_blocks_count_hi.set(high);
            let inodes = u32::try_from(free.free_inodes).unwrap_or(u32::MAX);
            raw.s_free_inodes_count.set(inodes);
            raw.s_wtime = stamp(raw, now, TimeHigh::Write);
            let written = raw.s_kbytes_written.get();
            raw.s_kbytes_written
                .set(written.saturating_add(self.device.written_kbytes()));
        })?;
        self.device.flush()
    }

    /// Records an error, as far as the device still works: in the superblock, and in the journal's
    /// superblock, which a replay does not overwrite. No other change that is not durable is
    /// written.
    pub(super) fn mark_error(&self, why: &Error) {
        let marked = self.try_to_mark(why);
        if let Err(e) = marked {
            tracing::error!("cannot record the error in the image: {e}");
        }
    }

    fn try_to_mark(&self, why: &Error) -> Result<()> {
        // Waits for a running commit; that commit does not wait for the thread that met the error.
        let mut log = self.log()?;
        log.mark_error(self, why.kind().errno())?;
        let superblock = &self.volume().superblock;
        let now = self.volume().ambient.now();
        superblock::change_on(self.device.device(), superblock, |raw| {
            note_error(raw, superblock, why, now);
        })?;
        self.device.flush()
    }
}

fn set_mount_mark(raw: &mut RawSuperblock, has_journal: bool, opened: Timestamp) {
    if has_journal {
        let needs_recovery = Incompatible::NEEDS_RECOVERY.bits();
        set(&mut raw.s_feature_incompat, needs_recovery);
    } else {
        raw.s_state.set(raw.s_state.get() & !STATE_VALID);
    }
    let count = raw.s_mnt_count.get();
    raw.s_mnt_count.set(count.saturating_add(1));
    raw.s_mtime = stamp(raw, opened, TimeHigh::Mount);
    raw.s_wtime = stamp(raw, opened, TimeHigh::Write);
}

fn note_error(raw: &mut RawSuperblock, superblock: &Superblock, why: &Error, now: Timestamp) {
    raw.s_state.set(raw.s_state.get() | STATE_ERRORS);
    let count = raw.s_error_count.get();
    raw.s_error_count.set(count.saturating_add(1));
    let inode = why.inode().and_then(|inode| u32::try_from(inode.0).ok());
    let byte = why.offset().unwrap_or(0);
    let block = byte.wrapping_shr(superblock.block_size.bits());
    raw.s_last_error_time = stamp(raw, now, TimeHigh::LastError);
    raw.s_last_error_ino.set(inode.unwrap_or(0));
    raw.s_last_error_block.set(block);
    raw.s_last_error_func = WRITER;
    raw.s_last_error_line.set(0);
    let [first_code, last_code] = &mut raw.s_error_codes;
    *last_code = error_code(why.kind());
    if count == 0 {
        *first_code = *last_code;
        raw.s_first_error_ino = raw.s_last_error_ino;
        raw.s_first_error_block = raw.s_last_error_block;
        raw.s_first_error_func = WRITER;
        raw.s_first_error_line.set(0);
        raw.s_first_error_time = stamp(raw, now, TimeHigh::FirstError);
    }
}

/// Linux stores the name of the function that met the error here.
const WRITER: [u8; 32] = *b"diskfs\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// Returns the error code that Linux uses, `EXT4_ERR_...`.
const fn error_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Io => 2,
        ErrorKind::Corrupt => 5,
        ErrorKind::NoSpace => 6,
        _ => 1,
    }
}

/// Stores the upper byte of a time in its place, and returns the lower 32 bits.
fn stamp(raw: &mut RawSuperblock, time: Timestamp, place: TimeHigh) -> U32 {
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    let (high, low) = split64(seconds);
    let [high, ..] = high.to_le_bytes();
    if let Some(byte) = raw.s_time_hi.get_mut(place.index()) {
        *byte = high;
    }
    U32::new(low)
}

impl TimeHigh {
    const fn index(self) -> usize {
        match self {
            Self::Write => 0,
            Self::Mount => 1,
            Self::FirstError => 4,
            Self::LastError => 5,
        }
    }
}

fn set(word: &mut U32, bits: u32) {
    word.set(word.get() | bits);
}

fn clear(word: &mut U32, bits: u32) {
    word.set(word.get() & !bits);
}
