//! Waiting for the signals that ask a program to end.
#![expect(
    unsafe_code,
    reason = "neither std nor rustix has sigwait; three calls do not justify another crate"
)]

use std::mem::MaybeUninit;

/// The signals that ask a program to end: Ctrl-C, kill(1), and the hangup of the terminal.
const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Further signals that programs treat as commands.
#[cfg(feature = "microvm")]
const FOR_PROGRAMS: [libc::c_int; 7] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
];

/// Lets Ctrl-C end the child processes of the terminal, but not this program. Children do not inherit
/// this, unlike a blocked or ignored signal.
pub(super) fn ignore_interrupts() {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: the handler does nothing, so that it is safe at any moment; the signal exists.
    unsafe { libc::signal(libc::SIGINT, handler as libc::sighandler_t) };
}

/// A set of signals that no longer end the program by themselves, but are waited for.
pub(super) struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks the ending signals in this thread, and in all threads that it starts from now on.
    pub(super) fn block() -> Self {
        Self::block_these(&ENDING)
    }

    /// Blocks the ending signals, and those that may be meant for a program in the microVM.
    #[cfg(feature = "microvm")]
    pub(super) fn block_with_program_signals() -> Self {
        Self::block_these(&FOR_PROGRAMS)
    }

    fn block_these(signals: &[libc::c_int]) -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises the set through a valid pointer, and cannot fail.
        let mut set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            set.assume_init()
        };
        for &signal in signals {
            // SAFETY: the set is initialised, and the signal's number exists.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        // SAFETY: the set is initialised; with a null pointer the old mask is not returned.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        Self(set)
    }

    /// Waits for one of the signals and returns its number.
    pub(super) fn wait(&self) -> i32 {
        let mut signal = 0;
        // SAFETY: both pointers are valid, and the set contains only existing signals.
        unsafe { libc::sigwait(&raw const self.0, &raw mut signal) };
        signal
    }
}
