//! Cleaning up when a signal ends this process while a machine starts.
//!
//! The directory of a starting machine (`run_dir.rs`) is in memory that outlives this
//! process. A signal such as Ctrl-C ends a program at once, and the directory would stay until
//! another machine is started. A program that wants it removed says so with
//! [`clean_up_on_signals`]: with the first machine, handlers are installed for the signals that
//! would end the program. A thread then removes the directories, and ends the program by the same
//! signal.
#![expect(
    unsafe_code,
    reason = "neither std nor rustix installs signal handlers; a few calls do not justify a crate"
)]

use std::io::{self, PipeReader, Read};
use std::os::fd::IntoRawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

/// The signals that ask a program to end.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// True once the program wants to clean up.
static IS_WANTED: AtomicBool = AtomicBool::new(false);
/// The pipe to the thread that cleans up; negative before it exists.
static PIPE: AtomicI32 = AtomicI32::new(-1);
/// The process with that thread: a child that was forked does not have it.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Lets the ending signals remove what a starting machine has in the host's memory. It is for
/// programs that leave these signals at their default; signals that are ignored, handled or blocked
/// stay so.
pub fn clean_up_on_signals() {
    IS_WANTED.store(true, Ordering::Relaxed);
}

/// Installs the handlers, once, if the program wants them. `clean` is called before a signal ends
/// the program.
pub(super) fn prepare(clean: fn()) {
    static PREPARED: Once = Once::new();
    if IS_WANTED.load(Ordering::Relaxed) {
        PREPARED.call_once(|| {
            if let Err(error) = install(clean) {
                tracing::debug!(%error, "cannot clean up after signals");
            }
        });
    }
}

fn install(clean: fn()) -> io::Result<()> {
    let (reader, writer) = io::pipe()?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || end_at_signal(reader, clean))?;
    // SAFETY: the call has no arguments and can't fail.
    PROCESS.store(unsafe { libc::getpid() }, Ordering::SeqCst);
    // It stays open as long as the process runs.
    PIPE.store(writer.into_raw_fd(), Ordering::SeqCst);
    for signal in SIGNALS {
        // SAFETY: an all-zero sigaction is valid; the pointers are valid for the calls.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            let is_known = libc::sigaction(signal, std::ptr::null(), &raw mut before) == 0;
            if is_known && before.sa_sigaction == libc::SIG_DFL {
                let mut action: libc::sigaction = std::mem::zeroed();
                let function: extern "C" fn(libc::c_int) = handle;
                action.sa_sigaction = function as libc::sighandler_t;
                action.sa_flags = libc::SA_RESTART;
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    }
    Ok(())
}

/// Passes the signal to the thread. Only async-signal-safe functions are called.
extern "C" fn handle(signal: libc::c_int) {
    // SAFETY: getpid and write may be called in a handler; the buffer is valid. The interrupted
    // code finds its errno as before.
    unsafe {
        let errno = *libc::__errno_location();
        let byte = signal.to_le_bytes()[0];
        let is_ours = libc::getpid() == PROCESS.load(Ordering::SeqCst);
        let pipe = PIPE.load(Ordering::SeqCst);
        if !is_ours || libc::write(pipe, (&raw const byte).cast(), 1) != 1 {
            end_by(signal);
        }
        *libc::__errno_location() = errno;
    }
}

/// Waits for a signal, cleans up, and ends the process by the signal.
fn end_at_signal(mut reader: PipeReader, clean: fn()) {
    let mut byte = [0];
    if reader.read_exact(&mut byte).is_ok() {
        clean();
        end_by(libc::c_int::from(byte[0]));
    }
}

/// Ends the process by the signal's default action.
fn end_by(signal: libc::c_int) {
    // SAFETY: these functions may be called in a handler; the set is initialised by sigemptyset.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::kill(libc::getpid(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}
