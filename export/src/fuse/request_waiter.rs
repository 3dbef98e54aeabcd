//! Choice of the thread that waits for the next request, and of how it waits.
//!
//! A program that works with many small files sends a request, waits for the answer, and sends the
//! next one at once. If the threads that answer slept in between, each request would have to wake
//! one; between two processors of a virtual machine that costs more than most answers do. So while
//! requests come one directly after another,
//!
//! * the thread that gave an answer busy-polls for the next request for some microseconds before it
//!   blocks, unless another process wants the processor, and
//! * the other threads stay away from the kernel's queue, which would wake one of them at each
//!   request. They return when requests queue up, or when an answer takes long.
//!
//! Over `io_uring`, the thread that gave an answer runs on the processor of the program. It polls,
//! too: while it does, the scheduler does not take its processor for an idle one, and moves the
//! program there less often. The other threads have nothing to stay away from.

use std::fs::File;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use diskfs_vfs::parallel::processors;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The longest busy-poll for the next request. The program that got the answer must be scheduled
/// and do its own work before it asks again.
const BUSY_POLL_MAX: Duration = Duration::from_micros(100);

/// A single poll takes a microsecond; when it took this long, another process had the processor,
/// and not only the kernel's own short work.
const INTERRUPTION_MIN: Duration = Duration::from_micros(200);

/// The pause of busy-polling after an interruption: other processes may need more of the processor.
const INTERRUPTION_PAUSE: Duration = Duration::from_millis(10);

/// The number of back-to-back requests after which busy-polling is worth it.
const BACK_TO_BACK_MIN: u32 = 4;

/// The longest time that a thread stays away before it checks whether another one is at the queue:
/// one slow answer may delay the requests after it by this much.
const ABSENCE_MAX: Duration = Duration::from_millis(1);

/// The time without requests after which all threads wait at the queue again.
const QUIET_MIN: Duration = Duration::from_millis(10);

/// The waiting policy that all threads of a connection share.
#[derive(Debug)]
pub(super) struct RequestWaiter {
    /// The place of requests; `None` with a single processor, where busy-polling would keep the
    /// program from asking.
    queue: Option<Queue>,
    state: Mutex<WaitState>,
    needed: Condvar,
}

/// The place where requests come from.
#[derive(Debug)]
enum Queue {
    /// Any descriptor of the connection: all of them share one queue.
    Device(File),
    /// The rings of `io_uring`: each thread waits for requests of its own.
    Rings,
}

#[derive(Debug)]
struct WaitState {
    /// The number of threads at the queue, polling or blocked.
    at_queue: usize,
    /// The number of threads that stay away from the queue.
    away: usize,
    /// True if one of the threads that stay away should return.
    is_needed: bool,
    is_polling: bool,
    asked: Instant,
    answered: Instant,
    /// The number of consecutive requests that came soon after an answer.
    in_a_row: u32,
    /// The time until which nobody busy-polls.
    paused_until: Instant,
}

impl WaitState {
    fn is_busy(&self) -> bool {
        self.in_a_row >= BACK_TO_BACK_MIN
    }

    /// Returns true if nobody is at the queue because an answer takes long.
    fn is_held_up(&self) -> bool {
        self.at_queue == 0 && self.asked.elapsed() >= ABSENCE_MAX
    }
}

impl RequestWaiter {
    pub(super) fn new(device: &File, threads: usize) -> io::Result<Self> {
        Ok(Self::with(Queue::Device(device.try_clone()?), threads))
    }

    /// Creates the policy for requests over `io_uring`.
    pub(super) fn of_rings() -> Self {
        Self::with(Queue::Rings, 0)
    }

    fn with(queue: Queue, threads: usize) -> Self {
        let now = Instant::now();
        Self {
            queue: (processors() > 1).then_some(queue),
            state: Mutex::new(WaitState {
                at_queue: threads,
                away: 0,
                is_needed: false,
                is_polling: false,
                asked: now,
                answered: now,
                in_a_row: 0,
                paused_until: now,
            }),
            needed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, WaitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a thread has received a request.
    pub(super) fn note_request(&self) {
        let Some(queue) = &self.queue else {
            return;
        };
        let mut state = self.state();
        state.at_queue = state.at_queue.saturating_sub(1);
        state.asked = Instant::now();
        let soon = state.asked.duration_since(state.answered) <= BUSY_POLL_MAX;
        state.in_a_row = if soon {
            state.in_a_row.saturating_add(1)
        } else {
            0
        };
        let Queue::Device(device) = queue else {
            return;
        };
        let is_alone = state.at_queue == 0 && state.away > 0;
        if is_alone && (!state.is_busy() || has_request(device)) {
            state.is_needed = true;
            drop(state);
            self.needed.notify_one();
        }
    }

    /// Notes that a thread has answered. Returns when the thread should block on the queue.
    pub(super) fn wait_for_next(&self) {
        let Some(Queue::Device(device)) = &self.queue else {
            return;
        };
        let mut state = self.state();
        state.answered = Instant::now();
        if state.is_busy() && state.at_queue > 0 {
            state = self.stay_away(state);
        }
        state.at_queue += 1;
        self.poll(state, || has_request(device));
    }

    /// Notes that a thread has answered over its ring. Returns when the thread should block.
    pub(super) fn wait_for_ring(&self, has_request: &mut dyn FnMut() -> bool) {
        if let Some(Queue::Rings) = &self.queue {
            let mut state = self.state();
            state.answered = Instant::now();
            self.poll(state, has_request);
        }
    }

    /// Busy-polls, if that is worth it and no other thread does.
    fn poll(&self, mut state: MutexGuard<'_, WaitState>, has_request: impl FnMut() -> bool) {
        let polls = state.is_busy() && !state.is_polling && state.answered >= state.paused_until;
        if !polls {
            return;
        }
        state.is_polling = true;
        drop(state);
        let result = busy_poll(has_request);
        let mut state = self.state();
        state.is_polling = false;
        if result == PollResult::Interrupted {
            state.paused_until = Instant::now() + INTERRUPTION_PAUSE;
        }
    }

    /// Waits until a thread is needed at the queue, or until no thread is working.
    fn stay_away<'s>(&'s self, mut state: MutexGuard<'s, WaitState>) -> MutexGuard<'s, WaitState> {
        state.away += 1;
        while !state.is_needed && !state.is_held_up() && state.asked.elapsed() < QUIET_MIN {
            let waited = self.needed.wait_timeout(state, ABSENCE_MAX);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_needed = false;
        state.away -= 1;
        state
    }
}

/// The result of busy-polling for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PollResult {
    /// A request arrived, or the time is over.
    Finished,
    /// Another process wants the processor.
    Interrupted,
}

fn busy_poll(mut has_request: impl FnMut() -> bool) -> PollResult {
    let began = Instant::now();
    let mut now = began;
    while now.duration_since(began) < BUSY_POLL_MAX && !has_request() {
        // Yield to every other process that wants this processor, above all the program that was
        // answered.
        thread::yield_now();
        let then = now;
        now = Instant::now();
        if now.duration_since(then) >= INTERRUPTION_MIN {
            return PollResult::Interrupted;
        }
    }
    PollResult::Finished
}

/// Returns true if reading from the device would return at once, even with an error.
fn has_request(device: &File) -> bool {
    const AT_ONCE: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut asked = [PollFd::new(device, PollFlags::IN)];
    !matches!(poll(&mut asked, Some(&AT_ONCE)), Ok(0))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;

    use super::*;

    /// Returns a connection for two threads, and a file: writing to it makes a request pending.
    fn two() -> (RequestWaiter, File) {
        let (requests, writer) = io::pipe().unwrap();
        let device = File::from(OwnedFd::from(requests));
        let waiter = RequestWaiter {
            queue: Some(Queue::Device(device)),
            ..RequestWaiter::new(&File::from(OwnedFd::from(writer.try_clone().unwrap())), 2)
                .unwrap()
        };
        (waiter, File::from(OwnedFd::from(writer)))
    }

    fn make_busy(waiter: &RequestWaiter) {
        waiter.state().in_a_row = BACK_TO_BACK_MIN;
    }

    #[test]
    fn requests_in_a_row_are_counted() {
        let (waiter, _writer) = two();
        let is_counted = |_| {
            waiter.state().answered = Instant::now();
            waiter.note_request();
            waiter.state().in_a_row > 0
        };
        // Another process may have the processor in between, but not each time.
        assert!((0..1000).any(is_counted));
        thread::sleep(BUSY_POLL_MAX * 2);
        waiter.note_request();
        assert_eq!(waiter.state().in_a_row, 0);
    }

    #[test]
    fn who_looks_finds_a_request_or_gives_up() {
        let (waiter, mut writer) = two();
        waiter.state().at_queue = 0;
        make_busy(&waiter);
        waiter.wait_for_next();
        assert_eq!(waiter.state().at_queue, 1);
        writer.write_all(b"request").unwrap();
        waiter.state().at_queue = 0;
        waiter.wait_for_next();
        let state = waiter.state();
        assert_eq!((state.at_queue, state.is_polling), (1, false));
    }

    /// Sends a thread away from the queue and calls `meanwhile` with the state. Returns the time at
    /// which the thread came back. One that came back before it was seen is sent again.
    fn send_away(
        waiter: &RequestWaiter,
        meanwhile: impl FnOnce(MutexGuard<'_, WaitState>),
    ) -> Instant {
        thread::scope(|scope| {
            loop {
                waiter.state().at_queue = 1;
                waiter.state().asked = Instant::now();
                make_busy(waiter);
                let away = scope.spawn(|| {
                    waiter.wait_for_next();
                    Instant::now()
                });
                while !away.is_finished() {
                    let state = waiter.state();
                    if state.away == 1 {
                        meanwhile(state);
                        return away.join().unwrap();
                    }
                    drop(state);
                    thread::yield_now();
                }
            }
        })
    }

    #[test]
    fn who_is_away_comes_when_an_answer_takes_long() {
        let (waiter, _writer) = two();
        let mut asked = None;
        let came = send_away(&waiter, |mut state| {
            // The other thread has a request and works on it.
            state.asked = *asked.insert(Instant::now());
            state.at_queue = 0;
        });
        let absence = came.duration_since(asked.unwrap());
        assert!(absence >= ABSENCE_MAX, "{absence:?}");
        assert_eq!(waiter.state().at_queue, 1);
    }

    #[test]
    fn who_is_away_comes_when_requests_wait() {
        let (waiter, mut writer) = two();
        send_away(&waiter, |mut state| {
            writer.write_all(b"another").unwrap();
            state.answered = Instant::now();
            drop(state);
            waiter.note_request();
        });
        let state = waiter.state();
        assert_eq!((state.at_queue, state.away), (1, 0));
    }

    #[test]
    fn nobody_stays_away_when_nobody_works() {
        let (waiter, _writer) = two();
        waiter.state().at_queue = 1;
        make_busy(&waiter);
        waiter.wait_for_next();
        assert_eq!(waiter.state().at_queue, 2);
    }
}
