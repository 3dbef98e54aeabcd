//! Which thread waits for the next request, and how.
//!
//! Who works with many small files asks, waits for the answer, and asks again at once. Were the
//! threads that answer asleep in between, each request would have to wake one, and between two
//! processors of a virtual machine that costs more than most answers do. So while requests come
//! one directly after another,
//!
//! * the thread that gave an answer looks for the next request for some microseconds before it
//!   sleeps, unless somebody else wants the processor, and
//! * the other threads stay away from the kernel's queue, which would wake one of them at each
//!   request. They come when requests wait there, or when an answer takes long.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long the next request is looked for. The program that got the answer has to be woken, and
/// does its own work, before it asks again.
const LONGEST_LOOK: Duration = Duration::from_micros(100);

/// Looking once takes a microsecond; when it took this long, somebody else had the processor, and
/// not only the kernel's own short work.
const INTERRUPTED: Duration = Duration::from_micros(200);

/// For how long nobody looks then: the others may need more of it.
const PAUSE: Duration = Duration::from_millis(10);

/// After how many requests that came directly one after another it is worth it.
const ENOUGH: u32 = 4;

/// How long a thread stays away before it sees whether somebody is at the queue: as long may one
/// answer hold up the requests that come after it.
const LONGEST_AWAY: Duration = Duration::from_millis(1);

/// When no request came for so long, all wait at the queue again.
const QUIET: Duration = Duration::from_millis(10);

/// One for all threads that answer on a connection.
#[derive(Debug)]
pub(super) struct Linger {
    /// Any descriptor of the connection: requests wait in one queue. `None` with a single
    /// processor, where looking would keep the program from asking.
    device: Option<File>,
    state: Mutex<State>,
    needed: Condvar,
}

#[derive(Debug)]
struct State {
    /// How many threads are at the queue, looking or asleep.
    at_queue: usize,
    /// How many stay away from it.
    away: usize,
    /// One of those should come.
    is_needed: bool,
    is_looking: bool,
    asked: Instant,
    answered: Instant,
    /// How many requests came in a row soon after an answer.
    in_a_row: u32,
    /// Until when nobody looks.
    paused_until: Instant,
}

impl State {
    fn is_busy(&self) -> bool {
        self.in_a_row >= ENOUGH
    }

    /// Whether nobody is at the queue because an answer takes long.
    fn is_held_up(&self) -> bool {
        self.at_queue == 0 && self.asked.elapsed() >= LONGEST_AWAY
    }
}

impl Linger {
    pub(super) fn new(device: &File, threads: usize) -> io::Result<Self> {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let now = Instant::now();
        Ok(Self {
            device: (processors > 1).then(|| device.try_clone()).transpose()?,
            state: Mutex::new(State {
                at_queue: threads,
                away: 0,
                is_needed: false,
                is_looking: false,
                asked: now,
                answered: now,
                in_a_row: 0,
                paused_until: now,
            }),
            needed: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When a thread has got a request.
    pub(super) fn asked(&self) {
        let Some(device) = &self.device else {
            return;
        };
        let mut state = self.state();
        state.at_queue = state.at_queue.saturating_sub(1);
        state.asked = Instant::now();
        let soon = state.asked.duration_since(state.answered) <= LONGEST_LOOK;
        state.in_a_row = if soon {
            state.in_a_row.saturating_add(1)
        } else {
            0
        };
        let is_alone = state.at_queue == 0 && state.away > 0;
        if is_alone && (!state.is_busy() || has_request(device)) {
            state.is_needed = true;
            drop(state);
            self.needed.notify_one();
        }
    }

    /// When it has answered: returns when it should wait at the queue, asleep.
    pub(super) fn answered(&self) {
        let Some(device) = &self.device else {
            return;
        };
        let mut state = self.state();
        state.answered = Instant::now();
        if state.is_busy() && state.at_queue > 0 {
            state = self.stay_away(state);
        }
        state.at_queue += 1;
        let looks = state.is_busy() && !state.is_looking && state.answered >= state.paused_until;
        if !looks {
            return;
        }
        state.is_looking = true;
        drop(state);
        let looked = look(device);
        let mut state = self.state();
        state.is_looking = false;
        if looked == Looked::Interrupted {
            state.paused_until = Instant::now() + PAUSE;
        }
    }

    /// Waits until somebody is needed at the queue, or nobody works any more.
    fn stay_away<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        state.away += 1;
        while !state.is_needed && !state.is_held_up() && state.asked.elapsed() < QUIET {
            let waited = self.needed.wait_timeout(state, LONGEST_AWAY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_needed = false;
        state.away -= 1;
        state
    }
}

/// How looking for a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looked {
    /// There is one, or none came.
    ToTheEnd,
    /// Somebody else wants the processor.
    Interrupted,
}

fn look(device: &File) -> Looked {
    let began = Instant::now();
    let mut now = began;
    while now.duration_since(began) < LONGEST_LOOK && !has_request(device) {
        // Whoever else wants this processor, first of all the program that was answered.
        thread::yield_now();
        let then = now;
        now = Instant::now();
        if now.duration_since(then) >= INTERRUPTED {
            return Looked::Interrupted;
        }
    }
    Looked::ToTheEnd
}

/// Whether reading from the device would return at once, be it with an error.
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

    /// Two threads at a queue, which has a request once something is written to what comes back.
    fn two() -> (Linger, File) {
        let (requests, writer) = io::pipe().unwrap();
        let device = File::from(OwnedFd::from(requests));
        let linger = Linger {
            device: Some(device),
            ..Linger::new(&File::from(OwnedFd::from(writer.try_clone().unwrap())), 2).unwrap()
        };
        (linger, File::from(OwnedFd::from(writer)))
    }

    fn make_busy(linger: &Linger) {
        linger.state().in_a_row = ENOUGH;
    }

    #[test]
    fn requests_in_a_row_are_counted() {
        let (linger, _writer) = two();
        for _ in 0..3 {
            linger.state().answered = Instant::now();
            linger.asked();
        }
        assert!(linger.state().in_a_row > 0);
        thread::sleep(LONGEST_LOOK * 2);
        linger.asked();
        assert_eq!(linger.state().in_a_row, 0);
    }

    #[test]
    fn who_looks_finds_a_request_or_gives_up() {
        let (linger, mut writer) = two();
        linger.state().at_queue = 0;
        make_busy(&linger);
        linger.answered();
        assert_eq!(linger.state().at_queue, 1);
        writer.write_all(b"request").unwrap();
        linger.state().at_queue = 0;
        linger.answered();
        let state = linger.state();
        assert_eq!((state.at_queue, state.is_looking), (1, false));
    }

    #[test]
    fn who_is_away_comes_when_an_answer_takes_long() {
        let (linger, _writer) = two();
        let came = thread::scope(|scope| {
            linger.state().at_queue = 1;
            linger.state().asked = Instant::now();
            make_busy(&linger);
            let away = scope.spawn(|| {
                linger.answered();
                Instant::now()
            });
            while linger.state().away == 0 {
                thread::yield_now();
            }
            // The other one has a request, and works on it.
            let asked = Instant::now();
            linger.state().asked = asked;
            linger.state().at_queue = 0;
            away.join().unwrap().duration_since(asked)
        });
        assert!(came >= LONGEST_AWAY, "{came:?}");
        assert_eq!(linger.state().at_queue, 1);
    }

    #[test]
    fn who_is_away_comes_when_requests_wait() {
        let (linger, mut writer) = two();
        thread::scope(|scope| {
            linger.state().at_queue = 1;
            make_busy(&linger);
            let away = scope.spawn(|| linger.answered());
            while linger.state().away == 0 {
                thread::yield_now();
            }
            writer.write_all(b"another").unwrap();
            linger.state().answered = Instant::now();
            linger.asked();
            away.join().unwrap();
        });
        let state = linger.state();
        assert_eq!((state.at_queue, state.away), (1, 0));
    }

    #[test]
    fn nobody_stays_away_when_nobody_works() {
        let (linger, _writer) = two();
        linger.state().at_queue = 1;
        make_busy(&linger);
        linger.answered();
        assert_eq!(linger.state().at_queue, 2);
    }
}
