//! A job: what the parent does while a process works on it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use diskfs_block::File;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::error::{printable, printable_bytes};
use super::process::{Process, START_DEADLINE};
use super::spawner::Spawner;
use super::{Event, JobControl, JobError};
use crate::broker::{Broker, Grants};
use crate::broker_process::OTHER_MAX_BYTES;
use crate::message::{FileError, Level, ToParent, ToWorker};
use crate::wire::{Frame, Incoming, Outgoing};

/// The time that a cancelled job has to end by itself.
const GRACE: Duration = Duration::from_secs(5);
/// The number of processes to try, besides those that waited for a job: all of them can be killed
/// meanwhile.
const TRIES: usize = 3;

/// Runs a job in a process of the pool.
pub(super) fn run(
    spawner: &Spawner,
    job: &[u8],
    grants: &Grants,
    control: &mut JobControl<'_>,
    answer_max_bytes: u64,
) -> Result<Vec<u8>, JobError> {
    let began = Instant::now();
    let (process, incoming) = ready(spawner, answer_max_bytes)?;
    let mut run = Run {
        process,
        incoming,
        outgoing: VecDeque::new(),
        broker: Broker::new(grants),
        control,
        began,
        is_cancelled: None,
    };
    let ended = run.send(&ToWorker::Job, job).and_then(|()| run.finish());
    match ended {
        Ok(answer) => {
            spawner.end(run.process);
            Ok(answer)
        }
        Err(Ended::For(error)) => {
            spawner.end(run.process);
            Err(error)
        }
        Err(Ended::ByItself) => {
            let is_cancelled = run.is_cancelled.is_some();
            let error = run.process.ending();
            spawner.renew_zygote();
            Err(if is_cancelled {
                JobError::Cancelled
            } else {
                error
            })
        }
    }
}

/// Takes a process that is confined and waits for its job.
fn ready(spawner: &Spawner, answer_max_bytes: u64) -> Result<(Process, Incoming), JobError> {
    let mut last = JobError::start("no process");
    for _ in 0..TRIES.saturating_add(spawner.ready_max()) {
        let process = spawner.take()?;
        let mut incoming = Incoming::without_descriptors(answer_max_bytes);
        match wait_until_ready(&process, &mut incoming) {
            Ok(()) => return Ok((process, incoming)),
            Err(Ended::ByItself) => last = process.ending(),
            Err(Ended::For(error)) => {
                spawner.end(process);
                return Err(error);
            }
        }
    }
    Err(JobError::start(last))
}

fn wait_until_ready(process: &Process, incoming: &mut Incoming) -> Result<(), Ended> {
    let until = Instant::now().checked_add(START_DEADLINE);
    loop {
        match incoming.take::<ToParent>()?.map(|frame| frame.message) {
            Some(ToParent::Ready(_)) => break,
            Some(ToParent::Refused(reason)) => return Err(JobError::start(reason).into()),
            Some(_) => return Err(JobError::protocol("it answered before its job").into()),
            None => {}
        }
        let mut fds = [PollFd::new(&process.socket, PollFlags::IN)];
        if !wait(&mut fds, until)? {
            return Err(JobError::start("it did not become ready in time").into());
        }
        receive(process, incoming)?;
    }
    // A process that was killed while it waited is noticed before it gets a job.
    receive(process, incoming)
}

/// Receives what has arrived; fails at the end of the stream.
fn receive(process: &Process, incoming: &mut Incoming) -> Result<(), Ended> {
    match incoming.receive(&process.socket) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Ended::ByItself),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The reason why the parent stops waiting for a process.
enum Ended {
    /// The process has closed its socket.
    ByItself,
    /// The parent kills the process for this reason.
    For(JobError),
}

impl From<JobError> for Ended {
    fn from(error: JobError) -> Self {
        Self::For(error)
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::ByItself,
            _ => Self::For(JobError::protocol(error)),
        }
    }
}

/// The reason why waiting has ended.
struct Woken {
    /// The events of the descriptor.
    by: PollFlags,
    /// True if the job was cancelled.
    is_cancelled: bool,
}

struct Run<'a, 'c> {
    process: Process,
    incoming: Incoming,
    /// The frames that the process does not take yet. While there are any, nothing is received, so
    /// their number is bounded.
    outgoing: VecDeque<Outgoing<'a>>,
    broker: Broker<'a>,
    control: &'a mut JobControl<'c>,
    began: Instant,
    /// The time at which the job was cancelled.
    is_cancelled: Option<Instant>,
}

impl<'a> Run<'a, '_> {
    /// Waits for the answer.
    fn finish(&mut self) -> Result<Vec<u8>, Ended> {
        loop {
            self.flush()?;
            while self.outgoing.is_empty()
                && let Some(frame) = self.incoming.take()?
            {
                if let Some(answer) = self.handle(frame)? {
                    return Ok(answer);
                }
                self.flush()?;
            }
            self.wait()?;
        }
    }

    /// Waits until the process can be written to, has written something, or has no more time.
    fn wait(&mut self) -> Result<(), Ended> {
        let receives = self.outgoing.is_empty();
        let wanted = if receives {
            PollFlags::IN
        } else {
            PollFlags::OUT
        };
        let woken = self.poll(self.process.socket.as_fd(), wanted)?;
        self.note_cancellation(&woken)?;
        let ended = PollFlags::HUP | PollFlags::ERR;
        let has_ended = woken.by.intersects(ended) && !woken.by.contains(PollFlags::IN);
        if has_ended && !receives {
            return Err(Ended::ByItself);
        }
        if receives {
            receive(&self.process, &mut self.incoming)?;
        }
        Ok(())
    }

    /// Waits for the descriptor or for a cancellation, as long as the job has time.
    fn poll(&self, fd: BorrowedFd<'_>, wanted: PollFlags) -> Result<Woken, Ended> {
        let cancellation = self.control.cancellation;
        let cancellation = cancellation.filter(|_| self.is_cancelled.is_none());
        let mut fds = vec![PollFd::from_borrowed_fd(fd, wanted)];
        fds.extend(cancellation.map(|it| PollFd::new(it.event(), PollFlags::IN)));
        if !wait(&mut fds, self.until())? {
            return Err(self.out_of_time().into());
        }
        let happened = |at: usize| fds.get(at).map_or(PollFlags::empty(), PollFd::revents);
        Ok(Woken {
            by: happened(0),
            is_cancelled: !happened(1).is_empty(),
        })
    }

    fn note_cancellation(&mut self, woken: &Woken) -> Result<(), Ended> {
        if woken.is_cancelled {
            self.is_cancelled = Some(Instant::now());
            self.send(&ToWorker::Cancel, b"")?;
        }
        Ok(())
    }

    fn until(&self) -> Option<Instant> {
        let deadline = self.control.deadline;
        let deadline = deadline.and_then(|deadline| self.began.checked_add(deadline));
        let grace = self.is_cancelled.and_then(|then| then.checked_add(GRACE));
        deadline.into_iter().chain(grace).min()
    }

    fn out_of_time(&self) -> JobError {
        match self.control.deadline {
            Some(deadline) if self.is_cancelled.is_none() => JobError::OutOfTime { deadline },
            _ => JobError::Cancelled,
        }
    }

    fn handle(&mut self, frame: Frame<ToParent>) -> Result<Option<Vec<u8>>, Ended> {
        match frame.message {
            ToParent::Answer => return Ok(Some(frame.payload)),
            ToParent::Panicked => {
                let message = printable_bytes(&frame.payload);
                return Err(JobError::Panicked { message }.into());
            }
            ToParent::Ready(_) | ToParent::Refused(_) => {
                return Err(JobError::protocol("it became ready twice").into());
            }
            ToParent::Open { path, access } => {
                let opened = self.broker.open(&path, access.into());
                self.send_file(opened)?;
            }
            ToParent::OpenNamed {
                image,
                name,
                named_for,
                access,
            } => {
                let (named_for, access) = (named_for.into(), access.into());
                let opened = self.broker.open_named(&image, &name, named_for, access);
                self.send_file(opened)?;
            }
            ToParent::Other => self.answer_other(&frame.payload)?,
            ToParent::OverlaysOf { image } => self.send_overlays(&image)?,
            ToParent::Progress => self.report(Event::Progress(frame.payload)),
            ToParent::Log { level, target } => self.report(Event::Log {
                level,
                target: printable(&target),
                line: printable_bytes(&frame.payload),
            }),
        }
        Ok(None)
    }

    fn report(&mut self, event: Event) {
        match (&mut self.control.events, event) {
            (Some(events), event) => events(event),
            (
                None,
                Event::Log {
                    level,
                    target,
                    line,
                },
            ) => match level {
                Level::Error => tracing::error!(from = target, "{line}"),
                Level::Warn => tracing::warn!(from = target, "{line}"),
                Level::Info => tracing::info!(from = target, "{line}"),
                Level::Debug => tracing::debug!(from = target, "{line}"),
            },
            (None, Event::Progress(_)) => {}
        }
    }

    /// Has a request answered by another thread, because the deadline and a cancellation hold
    /// meanwhile.
    fn answer_other(&mut self, request: &[u8]) -> Result<(), Ended> {
        let is_short = u64::try_from(request.len()).is_ok_and(|len| len <= OTHER_MAX_BYTES);
        let Some(requests) = self.control.requests.take().filter(|_| is_short) else {
            return Err(JobError::protocol("an unknown request").into());
        };
        let (ended, open_until_then) = io::pipe()?;
        let (waited, answer) = thread::scope(|scope| {
            let answering = scope.spawn(|| {
                let _open_until_then = open_until_then;
                requests(request)
            });
            let waited = self.wait_for(ended.as_fd());
            if waited.is_err() {
                // What answers needs the process, or ends by itself.
                self.process.kill();
            }
            (waited, answering.join())
        });
        self.control.requests = Some(requests);
        waited?;
        let answer = answer.unwrap_or_else(|panic| resume_unwind(panic));
        let has_descriptor = answer.descriptor.is_some();
        let message = ToWorker::Other { has_descriptor };
        let frame = Outgoing::new(&message, answer.bytes, answer.descriptor)?;
        self.outgoing.push_back(frame);
        Ok(())
    }

    /// Waits for the end of a stream.
    fn wait_for(&mut self, stream: BorrowedFd<'_>) -> Result<(), Ended> {
        loop {
            let woken = self.poll(stream, PollFlags::IN)?;
            self.note_cancellation(&woken)?;
            self.flush()?;
            if !woken.by.is_empty() {
                return Ok(());
            }
        }
    }

    fn send_overlays(&mut self, image: &Path) -> Result<(), Ended> {
        let names = self.broker.overlays_of(image);
        self.send(&ToWorker::Overlays(names), b"")
    }

    fn send_file(&mut self, opened: diskfs_block::Result<File>) -> Result<(), Ended> {
        let (answer, fd) = match opened {
            Ok(file) => {
                let fd = file.as_fd().try_clone_to_owned()?;
                (Ok(file.path().to_owned()), Some(fd))
            }
            Err(error) => (Err(FileError::from(error)), None),
        };
        let frame = Outgoing::new(&ToWorker::File(answer), b"", fd)?;
        self.outgoing.push_back(frame);
        Ok(())
    }

    fn send(&mut self, message: &ToWorker, payload: &'a [u8]) -> Result<(), Ended> {
        let frame = Outgoing::new(message, payload, None)?;
        self.outgoing.push_back(frame);
        Ok(())
    }

    /// Sends as much as the process takes.
    fn flush(&mut self) -> Result<(), Ended> {
        while let Some(frame) = self.outgoing.front_mut() {
            match frame.send(&self.process.socket) {
                Ok(true) => drop(self.outgoing.pop_front()),
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Waits for one of the descriptors. Returns false if nothing happened in time.
fn wait(fds: &mut [PollFd<'_>], until: Option<Instant>) -> io::Result<bool> {
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        // A time that does not fit is longer than any deadline.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(fds, left.as_ref()) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
