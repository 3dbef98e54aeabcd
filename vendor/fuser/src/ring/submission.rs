//! A ring, and what goes into it and comes out of it.

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::ptr;

use io_uring::IoUring;
use io_uring::opcode::PollAdd;
use io_uring::opcode::UringCmd80;
use io_uring::register::Restriction;
use io_uring::squeue;
use io_uring::types::Fd;

/// The most submissions that a ring takes at once; more are submitted in parts.
const SUBMISSIONS: u32 = 8;

/// `FUSE_IO_URING_CMD_REGISTER`.
const REGISTER: u32 = 1;

/// `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`.
const COMMIT_AND_FETCH: u32 = 2;

/// The number of the completion of polling. Those of entries count from 0.
const POLLED: u64 = u64::MAX;

/// A command for an entry of a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryCommand<'a> {
    /// `/dev/fuse`.
    pub(super) device: BorrowedFd<'a>,
    pub(super) queue: u16,
    /// The number of the entry in its ring.
    pub(super) entry: usize,
}

/// A completion of a ring.
#[derive(Debug, Clone, Copy)]
pub(super) enum Completion {
    /// The kernel has given an entry back, with a request unless the result is an error.
    Entry(usize, i32),
    /// The descriptor that was polled is readable.
    Polled,
}

/// A ring.
pub(super) struct Ring(IoUring<squeue::Entry128>);

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl Ring {
    /// Makes a ring that allows no operations but commands of drivers and polling, whoever submits
    /// them.
    pub(super) fn new() -> io::Result<Self> {
        let ring = IoUring::builder()
            .dontfork()
            .setup_coop_taskrun()
            .setup_r_disabled()
            .build(SUBMISSIONS)?;
        let mut allowed = [UringCmd80::CODE, PollAdd::CODE].map(Restriction::sqe_op);
        ring.submitter().register_restrictions(&mut allowed)?;
        ring.submitter().register_enable_rings()?;
        Ok(Self(ring))
    }

    /// Gives an entry to the kernel for the first time, with its memory, which must not be freed
    /// while the kernel has the entry.
    pub(super) fn register(
        &mut self,
        command: EntryCommand<'_>,
        segments: *mut [libc::iovec; 2],
    ) -> io::Result<()> {
        let mut submission = command.submission(REGISTER, 0);
        set_segments(&mut submission, segments);
        self.push(&submission)
    }

    /// Gives an entry back to the kernel, with the answer to a request.
    pub(super) fn commit_and_fetch(
        &mut self,
        command: EntryCommand<'_>,
        commit_id: u64,
    ) -> io::Result<()> {
        self.push(&command.submission(COMMIT_AND_FETCH, commit_id))
    }

    /// Waits for a descriptor to be readable, once.
    pub(super) fn poll(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let descriptor = Fd(descriptor.as_raw_fd());
        let poll = PollAdd::new(descriptor, libc::POLLIN as u32).build();
        self.push(&poll.user_data(POLLED).into())
    }

    fn push(&mut self, submission: &squeue::Entry128) -> io::Result<()> {
        // SAFETY: The memory that a command names is not freed while the kernel has its entry, and
        // the descriptors are open as long as the ring.
        while unsafe { self.0.submission().push(submission) }.is_err() {
            self.0.submit()?;
        }
        Ok(())
    }

    /// Returns the next completion that is there already.
    pub(super) fn completed(&mut self) -> Option<Completion> {
        let completion = self.0.completion().next()?;
        Some(match completion.user_data() {
            POLLED => Completion::Polled,
            entry => Completion::Entry(entry as usize, completion.result()),
        })
    }

    /// Submits what is in the ring, if anything is.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        if !self.0.submission().is_empty() {
            self.0.submit()?;
        }
        Ok(())
    }

    /// Submits what is in the ring. Returns true if a completion is there, or if the kernel can't be
    /// asked.
    pub(super) fn has_completed(&mut self) -> bool {
        // The kernel writes a request into this process whenever the process enters it, also to
        // submit nothing.
        self.0.submit().is_err() || !self.0.completion().is_empty()
    }

    /// Submits what is in the ring, and waits for a completion.
    pub(super) fn wait(&mut self) -> io::Result<Completion> {
        loop {
            if let Some(completed) = self.completed() {
                return Ok(completed);
            }
            match self.0.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }
}

impl EntryCommand<'_> {
    fn submission(self, command: u32, commit_id: u64) -> squeue::Entry128 {
        // `struct fuse_uring_cmd_req`.
        let mut argument = [0; 80];
        argument[8..16].copy_from_slice(&commit_id.to_ne_bytes());
        argument[16..18].copy_from_slice(&self.queue.to_ne_bytes());
        let device = Fd(self.device.as_raw_fd());
        let submission = UringCmd80::new(device, command).cmd(argument).build();
        submission.user_data(self.entry as u64)
    }
}

/// Sets the fields `addr` and `len`, for which the builder of commands has no method.
fn set_segments(submission: &mut squeue::Entry128, segments: *mut [libc::iovec; 2]) {
    const ADDR: usize = 16;
    const LEN: usize = 24;
    let start = ptr::from_mut(submission).cast::<u8>();
    // SAFETY: A submission is `struct io_uring_sqe` of 128 bytes, in which these fields are aligned.
    unsafe {
        start.add(ADDR).cast::<u64>().write(segments as u64);
        start.add(LEN).cast::<u32>().write(2);
    }
}
