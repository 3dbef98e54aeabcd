//! Waiting for the signals that ask a program to end.
#![expect(
    unsafe_code,
    reason = "neither std nor rustix have sigwait; three calls don't justify a crate"
)]

use std::mem::MaybeUninit;

/// The signals that ask to end: Ctrl-C, kill(1), and the terminal that goes away.
const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Besides these, what programs take as commands.
#[cfg(feature = "microvm")]
const FOR_PROGRAMS: [libc::c_int; 6] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// Signals that no longer end the program by themselves, but are waited for.
pub(super) struct Signals(libc::sigset_t);

impl Signals {
    /// Holds them back from this thread, and from all that it starts from now on.
    pub(super) fn hold() -> Self {
        Self::hold_these(&ENDING)
    }

    /// The same for those that may be meant for a program that runs elsewhere.
    #[cfg(feature = "microvm")]
    pub(super) fn hold_those_for_programs() -> Self {
        Self::hold_these(&FOR_PROGRAMS)
    }

    fn hold_these(signals: &[libc::c_int]) -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises the set that it gets a valid pointer to, and can't fail.
        let mut set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            set.assume_init()
        };
        for &signal in signals {
            // SAFETY: the set is initialised and the signal's number exists.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        // SAFETY: the set is initialised; a null pointer says that the old mask is not wanted.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        Self(set)
    }

    /// Waits for one of them, and tells which.
    pub(super) fn wait(&self) -> i32 {
        let mut signal = 0;
        // SAFETY: both pointers are valid, and the set holds existing signals only.
        unsafe { libc::sigwait(&raw const self.0, &raw mut signal) };
        signal
    }
}
