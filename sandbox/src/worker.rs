//! The worker: a process that confines itself, does one job, and exits.

use std::io;
use std::os::unix::net::UnixStream;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use diskfs_image::FileOpener;

use crate::broker_process::OtherAnswer;
use crate::client::{Answer, BrokeredOpener};
use crate::link::Link;
use crate::message::{Level, ToParent, ToWorker};
use crate::profile::{Confined, Profile};
use crate::ruleset::HostFiles;
use crate::seccomp::Calls;
use crate::wire::Incoming;
use crate::zygote;

/// The stack of the thread that does the job: that of a main thread.
const STACK_BYTES: usize = 8 << 20;

/// The services of the parent that a job can use.
#[derive(Debug, Clone)]
pub struct WorkerContext {
    link: Arc<Link>,
    opener: Arc<BrokeredOpener>,
    cancelled: Arc<AtomicBool>,
}

impl WorkerContext {
    /// Returns the opener of images, for
    /// [`OpenOptions::files`](diskfs_image::OpenOptions::files). It opens the granted images, and
    /// what they name as far as the parent's gate allows it.
    pub fn opener(&self) -> Arc<dyn FileOpener> {
        self.opener.clone()
    }

    /// Makes a request that is not about files, which the parent answers by
    /// [`JobControl::requests`](crate::JobControl::requests).
    ///
    /// # Errors
    /// Fails if the parent has ended.
    pub fn ask(&self, request: &[u8]) -> io::Result<OtherAnswer> {
        self.opener.ask_other(request)
    }

    /// Reports progress to the parent, in whatever form both have agreed on.
    pub fn progress(&self, report: &[u8]) {
        // Without a parent, the process ends by itself.
        let _ = self.link.send(&ToParent::Progress, report);
    }

    /// Adds a line to the parent's log.
    pub fn log(&self, level: Level, target: &str, line: &str) {
        let target = target.to_owned();
        let message = ToParent::Log { level, target };
        let _ = self.link.send(&message, line.as_bytes());
    }

    /// Returns true once the parent has cancelled the job. The job then ends soon, with an answer
    /// that says so; otherwise the process is killed.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Returns the flag behind [`is_cancelled`](Self::is_cancelled).
    pub fn cancelled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancelled)
    }
}

/// Runs this process for a [`Pool`](crate::Pool): forks the pool's workers, and in each of them
/// confines the process, waits for a job, runs `work` and sends its result.
///
/// This must be the first thing that the program does: no thread runs and no file is open yet. All
/// descriptors above 2 are closed, standard input is the connection to the parent, and after the
/// confinement nothing can be opened.
pub fn serve(work: impl Fn(&[u8], &WorkerContext) -> Vec<u8> + Send + Sync) -> ExitCode {
    let ended = match zygote::workers() {
        Ok(Some(connection)) => run(&work, &connection),
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody reads a message: the parent has gone, or breaks the protocol.
        Err(_) => ExitCode::FAILURE,
    }
}

fn run(
    work: &(impl Fn(&[u8], &WorkerContext) -> Vec<u8> + Send + Sync),
    socket: &UnixStream,
) -> io::Result<()> {
    let mut incoming = Incoming::with_descriptors(u64::MAX);
    let link = Arc::new(Link::new(socket.try_clone()?));
    let setup = incoming.next(socket)?.map(|frame| frame.message);
    let (Some(ToWorker::Setup { limits, strictness }), Some(output)) =
        (setup, incoming.take_descriptor())
    else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    rustix::stdio::dup2_stderr(output)?;
    let profile = Profile {
        files: HostFiles::default(),
        calls: Calls::Compute,
        limits,
        strictness,
    };
    let confined = match profile.apply() {
        Ok(confined) => confined,
        Err(error) => {
            link.send(&ToParent::Refused(error.to_string()), b"")?;
            return Err(error);
        }
    };
    work_in_thread(work, &link, incoming, socket, confined)
}

/// Does the job in a thread, while this one receives messages.
fn work_in_thread(
    work: &(impl Fn(&[u8], &WorkerContext) -> Vec<u8> + Send + Sync),
    link: &Arc<Link>,
    mut incoming: Incoming,
    socket: &UnixStream,
    confined: Confined,
) -> io::Result<()> {
    let (give_job, take_job) = mpsc::channel::<Vec<u8>>();
    let (give_answer, take_answer) = mpsc::channel();
    let context = WorkerContext {
        link: Arc::clone(link),
        opener: Arc::new(BrokeredOpener::new(Arc::clone(link), take_answer)),
        cancelled: Arc::default(),
    };
    let cancelled = context.cancelled();
    let sender = Arc::clone(link);
    keep_panics_short();
    thread::scope(|scope| {
        let builder = thread::Builder::new()
            .name("job".to_owned())
            .stack_size(STACK_BYTES);
        builder.spawn_scoped(scope, move || {
            if sender.send(&ToParent::Ready(confined), b"").is_err() {
                std::process::exit(1);
            }
            let Ok(job) = take_job.recv() else {
                std::process::exit(1);
            };
            std::process::exit(i32::from(do_job(work, &job, &context, &sender).is_err()))
        })?;
        while let Some(frame) = incoming.next(socket)? {
            match frame.message {
                // The receivers live as long as the process.
                ToWorker::Job => drop(give_job.send(frame.payload)),
                ToWorker::File(Ok(path)) => {
                    let fd = incoming.take_descriptor();
                    let fd = fd.ok_or(io::ErrorKind::InvalidData)?;
                    let _ = give_answer.send(Answer::File(Ok((path, fd))));
                }
                ToWorker::File(Err(error)) => {
                    let _ = give_answer.send(Answer::File(Err(error)));
                }
                ToWorker::Overlays(names) => {
                    let _ = give_answer.send(Answer::Overlays(names));
                }
                ToWorker::Other { has_descriptor } => {
                    let answer = OtherAnswer {
                        bytes: frame.payload,
                        descriptor: has_descriptor.then(|| incoming.take_descriptor()).flatten(),
                    };
                    let _ = give_answer.send(Answer::Other(answer));
                }
                ToWorker::Cancel => cancelled.store(true, Ordering::Release),
                ToWorker::Setup { .. } => break,
            }
        }
        // The parent has ended: nobody waits for the job.
        std::process::exit(1)
    })
}

fn do_job(
    work: &(impl Fn(&[u8], &WorkerContext) -> Vec<u8> + Send + Sync),
    job: &[u8],
    context: &WorkerContext,
    link: &Link,
) -> io::Result<()> {
    match panic::catch_unwind(AssertUnwindSafe(|| work(job, context))) {
        Ok(answer) => link.send(&ToParent::Answer, &answer),
        Err(payload) => {
            let words = payload
                .downcast_ref::<&str>()
                .map(|words| (*words).to_owned());
            let words = words.or_else(|| payload.downcast_ref::<String>().cloned());
            let words = words.unwrap_or_else(|| "unknown reason".to_owned());
            link.send(&ToParent::Panicked, words.as_bytes())
        }
    }
}

/// Replaces the hook that prints a panic with its backtrace, which would open files.
fn keep_panics_short() {
    panic::set_hook(Box::new(|info| {
        use std::io::Write;
        let _ = writeln!(io::stderr(), "{info}"); // The parent shows the panic anyhow.
    }));
}
