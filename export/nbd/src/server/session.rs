//! The transmission phase of one connection.

use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, BufReader};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::answer::Answer;
use super::busy_poll::{self, BusyPoll};
use super::export::Export;
use super::handshake::{BUFFER_BYTES, Negotiated};
use super::job::{Job, check};
use super::options::Options;
use super::pace::Pace;
use crate::failure::Failure;
use crate::protocol::{
    BlockStatus, Command, CommandFlags, ErrorNumber, Headers, MAX_DESCRIPTORS, MAX_PAYLOAD_BYTES,
    Request, StatusFilter, Violation,
};
use crate::stream::{Buffer, Buffers, Outbox};

/// The threads of all connections.
#[derive(Debug, Clone)]
pub(super) struct Threads {
    /// The threads that call the devices.
    pub(super) pool: Handle,
    /// The permits of the connections that busy-poll.
    pub(super) polls: Arc<Semaphore>,
}

impl Threads {
    /// Returns the threads with this pool.
    pub(super) fn new(pool: Handle) -> Self {
        Self {
            pool,
            polls: busy_poll::permits(),
        }
    }
}

/// The connection of a client that uses an export.
struct Session {
    export: Arc<Export>,
    headers: Headers,
    contexts: Vec<u32>,
    outbox: Arc<Outbox>,
    buffers: Arc<Buffers>,
    /// The requests that may be in progress besides those that are.
    requests: Arc<Semaphore>,
    /// The requests that may be done besides those that are: one is not done once the server stops.
    jobs: Arc<Semaphore>,
    is_stopping: AtomicBool,
    /// The bytes that requests may have besides those in progress.
    bytes: Arc<Semaphore>,
    /// The pace of requests that come alone.
    pace_of_one: Pace,
    /// The pace of the others.
    pace_of_many: Pace,
    threads: Threads,
    max_requests: usize,
}

/// Serves the requests of a client, until it disconnects or `stop` is done. The requests in
/// progress are completed. Later ones are answered with `NBD_ESHUTDOWN` meanwhile, and for
/// [`Options::farewell_time`] afterwards. Requests that may wait for the device are done by the pool
/// of `threads`.
pub(super) async fn serve(
    negotiated: Negotiated,
    options: &Options,
    threads: Threads,
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    // What the client sent behind its last option is already in the buffer.
    let early = negotiated.stream.buffer().to_vec();
    let (read_half, mut write_half) = tokio::io::split(negotiated.stream.into_inner());
    let mut stream = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(early).chain(read_half));
    let outbox = Arc::new(Outbox::new(negotiated.direct));
    let session = Session {
        export: negotiated.export,
        headers: negotiated.headers,
        contexts: negotiated.contexts,
        outbox: Arc::clone(&outbox),
        buffers: Arc::default(),
        requests: Arc::new(Semaphore::new(options.max_requests)),
        jobs: Arc::new(Semaphore::new(options.max_requests)),
        is_stopping: AtomicBool::new(false),
        bytes: Arc::new(Semaphore::new(options.max_request_bytes)),
        pace_of_one: Pace::of_one(),
        pace_of_many: Pace::of_many(),
        threads,
        max_requests: options.max_requests,
    };
    let reading = async {
        let ended = tokio::select! {
            biased;
            () = session.stop(stop, options.farewell_time) => Ok(()),
            ended = session.read_all(&mut stream) => ended,
        };
        session.wait(&session.requests).await;
        outbox.finish();
        // Answers may still be on their way, so the writing side ends the connection.
        match ended {
            Ok(()) => std::future::pending().await,
            Err(failure) => failure,
        }
    };
    tokio::select! {
        sent = outbox.run(&mut write_half, options.stall_timeout) => Ok(sent?),
        failure = reading => {
            outbox.close();
            Err(failure)
        }
    }
}

impl Session {
    /// Reads requests until the client disconnects.
    async fn read_all(
        &self,
        stream: &mut BufReader<impl AsyncRead + Unpin>,
    ) -> Result<(), Failure> {
        let len = Request::bytes(self.headers);
        let mut header = [0; 32];
        let header = header.get_mut(..len).unwrap_or_default();
        let mut busy_poll = BusyPoll::new(Arc::clone(&self.threads.polls));
        loop {
            let answered = self.is_idle().then(Instant::now);
            busy_poll.wait(stream, answered).await;
            stream.read_exact(header).await?;
            let request = Request::decode(self.headers, header)?;
            let command = Command::from_number(request.command);
            if command == Some(Command::Disconnect) {
                return Ok(());
            }
            self.begin(command, &request, stream).await?;
        }
    }

    /// Waits until `stop` is done and the requests in progress are completed, and then so long that
    /// the client can send its last ones, which are refused.
    async fn stop(&self, stop: impl Future<Output = ()>, farewell_time: Duration) {
        stop.await;
        self.is_stopping.store(true, Ordering::Relaxed);
        self.wait(&self.jobs).await;
        tokio::time::sleep(farewell_time).await;
    }

    /// Waits until all permits have returned.
    async fn wait(&self, permits: &Semaphore) {
        let all = u32::try_from(self.max_requests).unwrap_or(u32::MAX);
        let _ = permits.acquire_many(all).await;
    }

    /// Reads the payload of a request, and begins to do it.
    async fn begin(
        &self,
        command: Option<Command>,
        request: &Request,
        stream: &mut BufReader<impl AsyncRead + Unpin>,
    ) -> Result<(), Failure> {
        let mut permits = vec![permit(&self.requests, 1).await?];
        let payload_bytes = self.payload_bytes(command, request)?;
        let reserved = self.reserved_bytes(command, request, payload_bytes);
        permits.push(permit(&self.bytes, reserved).await?);
        let mut payload = self
            .buffers
            .take(usize::try_from(payload_bytes).unwrap_or(0));
        stream.read_exact(&mut payload).await?;
        if self.is_stopping.load(Ordering::Relaxed) {
            let answer = Answer::to(request, &self.outbox, self.headers, permits);
            answer.error(ErrorNumber::Shutdown, "the server is shutting down", None);
            return Ok(());
        }
        permits.push(permit(&self.jobs, 1).await?);
        let answer = Answer::to(request, &self.outbox, self.headers, permits);
        match self.job(command, request, payload) {
            Ok(job) => self.start(job, answer, stream.buffer().is_empty()),
            Err((number, reason)) => answer.error(number, reason, None),
        }
        Ok(())
    }

    /// Returns the memory that a request may need: for its payload, or for its answer.
    fn reserved_bytes(
        &self,
        command: Option<Command>,
        request: &Request,
        payload_bytes: u64,
    ) -> u64 {
        match command {
            Some(Command::Read) => request.length.min(MAX_PAYLOAD_BYTES.into()),
            Some(Command::BlockStatus) => {
                let most = BlockStatus::bytes(self.headers, MAX_DESCRIPTORS);
                let all = most.saturating_mul(self.contexts.len());
                u64::try_from(all)
                    .unwrap_or(u64::MAX)
                    .min(MAX_PAYLOAD_BYTES.into())
            }
            _ => payload_bytes,
        }
    }

    /// Returns the length of the data behind a request's header.
    fn payload_bytes(&self, command: Option<Command>, request: &Request) -> Result<u64, Violation> {
        // A write has its data even without the flag: QEMU's client (10.0) doesn't set it.
        let is_flagged =
            self.headers == Headers::Extended && request.flags.contains(CommandFlags::PAYLOAD_LEN);
        let has_payload = is_flagged || command == Some(Command::Write);
        match request.length {
            len if has_payload && len > MAX_PAYLOAD_BYTES.into() => {
                Err(Violation("a payload is longer than 32 MiB"))
            }
            len if has_payload => Ok(len),
            _ => Ok(0),
        }
    }

    /// Returns the job of a request, or what is wrong with it.
    fn job(
        &self,
        command: Option<Command>,
        request: &Request,
        payload: Buffer,
    ) -> Result<Job, (ErrorNumber, &'static str)> {
        let flags = request.flags;
        let is_filtered = flags.contains(CommandFlags::PAYLOAD_LEN);
        let mut contexts = self.contexts.clone();
        let mut len_bytes = request.length;
        if command == Some(Command::BlockStatus) {
            if is_filtered {
                (len_bytes, contexts) = self.filter(&payload)?;
            }
            if contexts.is_empty() {
                return Err((ErrorNumber::Invalid, "no metadata context is selected"));
            }
        }
        let range = (request.offset, len_bytes);
        Ok(Job {
            command: check(&self.export, command, flags, range, self.headers)?,
            flags,
            offset: request.offset,
            len_bytes,
            payload,
            contexts,
        })
    }

    /// Returns the range and the contexts that the payload of a block status names.
    fn filter(&self, payload: &[u8]) -> Result<(u64, Vec<u32>), (ErrorNumber, &'static str)> {
        let filter = StatusFilter::decode(payload).map_err(|e| (ErrorNumber::Invalid, e.0))?;
        if filter.contexts.iter().any(|it| !self.contexts.contains(it)) {
            return Err((ErrorNumber::Invalid, "unknown metadata context"));
        }
        Ok((filter.len_bytes, filter.contexts))
    }

    /// Does a job: at once if it is quick, else on a thread that may wait.
    fn start(&self, job: Job, answer: Answer, is_last: bool) {
        let pace = if is_last && self.is_alone() {
            &self.pace_of_one
        } else {
            &self.pace_of_many
        };
        let is_quick = pace.is_quick(job.command, job.flags, job.len_bytes);
        let export = Arc::clone(&self.export);
        let buffers = Arc::clone(&self.buffers);
        let work = move || job.run(&export, &buffers, answer);
        if is_quick {
            pace.time(work);
        } else {
            self.threads.pool.spawn_blocking(work);
        }
    }

    /// Returns true if no request is in progress.
    fn is_idle(&self) -> bool {
        self.requests.available_permits() >= self.max_requests
    }

    /// Returns true if no other request is in progress.
    fn is_alone(&self) -> bool {
        self.requests.available_permits().saturating_add(1) >= self.max_requests
    }
}

/// Waits for permits.
async fn permit(semaphore: &Arc<Semaphore>, count: u64) -> Result<OwnedSemaphorePermit, Failure> {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let permit = Arc::clone(semaphore).acquire_many_owned(count).await;
    permit.map_err(|_| Violation("the connection is closed").into())
}
