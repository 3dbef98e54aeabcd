//! A device served to one front end: the socket and the threads.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use vhost::vhost_user::{BackendReqHandler, Error};

use super::Device;
use super::front_end::FrontEnd;
use super::protocol::Handler;
use super::rings::Rings;

/// The reason why a service has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The front end has closed the connection.
    Disconnected,
    /// The service was stopped by [`Stopper::stop`].
    Stopped,
}

/// A device that is being served. Dropping it stops the service and waits until threads and sockets
/// are gone.
#[derive(Debug)]
pub struct Service {
    stopper: Stopper,
    thread: Option<JoinHandle<io::Result<Ended>>>,
}

/// A handle that stops a service from another thread.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<Stopping>);

#[derive(Debug)]
struct Stopping {
    is_asked: AtomicBool,
    event: OwnedFd,
    connection: Mutex<Option<UnixStream>>,
}

impl Service {
    /// Serves the first front end that connects, until it disconnects.
    pub fn start<D: Device>(listener: UnixListener, device: Arc<D>) -> io::Result<Self> {
        let stopper = Stopper::new()?;
        let stopping = Arc::clone(&stopper.0);
        let thread = thread::Builder::new().name(device.name().to_owned());
        let thread = thread.spawn(move || {
            let ended = run(listener, &device, &stopping);
            device.has_ended();
            ended
        })?;
        Ok(Self {
            stopper,
            thread: Some(thread),
        })
    }

    /// Returns a handle that stops the service from another thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits until the service has ended.
    pub fn wait(mut self) -> io::Result<Ended> {
        self.join()
    }

    fn join(&mut self) -> io::Result<Ended> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(io::Error::other(
                "the thread that serves the device panicked",
            )),
            None => Ok(Ended::Stopped),
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stopper.stop();
        let _ = self.join();
    }
}

impl Stopper {
    fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(Stopping {
            is_asked: AtomicBool::new(false),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            connection: Mutex::new(None),
        })))
    }

    /// Stops the service. Requests in flight are still answered.
    pub fn stop(&self) {
        self.0.is_asked.store(true, Ordering::SeqCst);
        let _ = rustix::io::write(&self.0.event, &1_u64.to_ne_bytes());
        if let Some(stream) = self.0.connection().as_ref() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Stopping {
    fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::SeqCst)
    }

    fn connection(&self) -> MutexGuard<'_, Option<UnixStream>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts the first connection. Returns `None` if the service was stopped before.
    fn accept(&self, listener: &UnixListener) -> io::Result<Option<UnixStream>> {
        loop {
            let mut fds = [
                PollFd::new(listener, PollFlags::IN),
                PollFd::new(&self.event, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            if self.is_asked() {
                return Ok(None);
            }
            match listener.accept() {
                Ok((stream, _)) => return self.register(stream).map(Some),
                Err(error) if is_passing(error.kind()) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Keeps a clone of the connection, so that it can be shut down.
    fn register(&self, stream: UnixStream) -> io::Result<UnixStream> {
        stream.set_nonblocking(false)?;
        *self.connection() = Some(stream.try_clone()?);
        if self.is_asked() {
            stream.shutdown(std::net::Shutdown::Both)?;
        }
        Ok(stream)
    }
}

/// Returns true if accepting again is the right reaction to an error.
fn is_passing(kind: io::ErrorKind) -> bool {
    use io::ErrorKind as K;
    matches!(kind, K::WouldBlock | K::Interrupted | K::ConnectionAborted)
}

fn run<D: Device>(
    listener: UnixListener,
    device: &Arc<D>,
    stopping: &Stopping,
) -> io::Result<Ended> {
    let Some(stream) = stopping.accept(&listener)? else {
        return Ok(Ended::Stopped);
    };
    // Close the listener, so that further front ends are refused instead of queued.
    drop(listener);
    serve(stream, device, stopping)
}

/// Serves one front end until it has disconnected.
fn serve<D: Device>(stream: UnixStream, device: &Arc<D>, stopping: &Stopping) -> io::Result<Ended> {
    let rings = Arc::new(Rings::new(device.name(), &device.rings())?);
    let workers = start_workers(device, &rings);
    let error = match &workers {
        Ok(_) => talk(stream, device, &rings),
        Err(_) => Error::BackendInternalError,
    };
    rings.end();
    *stopping.connection() = None;
    for worker in workers? {
        let _ = worker.join();
    }
    ending(error, stopping)
}

/// Starts the worker threads. If one can't be started, those before it end with the rings.
fn start_workers<D: Device>(
    device: &Arc<D>,
    rings: &Arc<Rings>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let start = |number| {
        let (device, rings) = (Arc::clone(device), Arc::clone(rings));
        let thread = thread::Builder::new().name(format!("{}-{number}", device.name()));
        thread.spawn(move || device.work(&rings))
    };
    (0..device.threads()).map(start).collect()
}

/// Answers the front end's messages. Returns the error that ended the session.
fn talk<D: Device>(stream: UnixStream, device: &Arc<D>, rings: &Arc<Rings>) -> Error {
    let Ok(coming) = stream.try_clone() else {
        return Error::BackendInternalError;
    };
    let handler = Handler::new(Arc::clone(device), Arc::clone(rings));
    let mut requests = BackendReqHandler::from_stream(stream, Arc::new(Mutex::new(handler)));
    // Kept open as long as the connection: User Mode Linux can't handle an end of that socket.
    let mut kept = None;
    loop {
        if let Some(front_end) = FrontEnd::peek_socket(&coming) {
            device.set_front_end(kept.insert(Arc::new(front_end)));
        }
        if let Err(error) = requests.handle_request() {
            return error;
        }
    }
}

fn ending(error: Error, stopping: &Stopping) -> io::Result<Ended> {
    match error {
        _ if stopping.is_asked() => Ok(Ended::Stopped),
        Error::Disconnected | Error::PartialMessage | Error::SocketBroken(_) => {
            Ok(Ended::Disconnected)
        }
        other => Err(io::Error::other(format!(
            "disconnected the front end: {other}"
        ))),
    }
}
