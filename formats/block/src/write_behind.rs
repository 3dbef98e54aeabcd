//! Writes that another thread does.

mod queue;

use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::device::len_of;
use crate::{BlockRead, BlockWrite, Error, ErrorKind, Extent, Result, check_bounds};
use queue::Queue;

/// A device whose writes another thread does, in their order, while the caller prepares the next
/// ones. Adjacent writes become one request. Memory is bounded: a caller that is faster than the
/// device waits.
///
/// A write that fails is an error of a later call, at the latest of [`flush`](BlockWrite::flush),
/// and of all calls after it. Dropping the device makes the writes that are left, and hides their
/// errors.
pub struct WriteBehind {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    device: Arc<dyn BlockWrite>,
    queue: Mutex<Queue>,
    /// Wakes the thread.
    work: Condvar,
    /// Wakes the callers when a request is done.
    done: Condvar,
}

impl WriteBehind {
    /// Starts the thread.
    ///
    /// # Errors
    /// The host's, if it starts no thread.
    pub fn new(device: Arc<dyn BlockWrite>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            device,
            queue: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        let worker = Arc::clone(&shared);
        let thread = thread::Builder::new().name("write-behind".into());
        let thread = thread.spawn(move || worker.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Changes the queue when it has room.
    fn change(&self, offset: u64, len_bytes: u64, put: impl FnOnce(&mut Queue)) -> Result<()> {
        check_bounds(offset, len_bytes, self.size_bytes())?;
        let mut queue = self.shared.wait_while(self.shared.lock(), Queue::is_full);
        queue.check()?;
        put(&mut queue);
        if queue.is_ready() {
            self.shared.work.notify_one();
        }
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while<'q>(
        &self,
        queue: MutexGuard<'q, Queue>,
        is_so: impl Fn(&Queue) -> bool,
    ) -> MutexGuard<'q, Queue> {
        let waited = self.done.wait_while(queue, |queue| is_so(queue));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all changes so far are made.
    fn drain(&self) -> Result<()> {
        let mut queue = self.lock();
        let requests = queue.await_all();
        self.work.notify_one();
        let queue = self.wait_while(queue, |queue| !queue.is_made(requests));
        queue.check()
    }

    /// Does the work of the thread.
    fn run(&self) {
        let _end = End(self);
        let mut queue = self.lock();
        loop {
            let waited = self.work.wait_while(queue, |queue| !queue.is_ready());
            queue = waited.unwrap_or_else(PoisonError::into_inner);
            let Some(request) = queue.take() else {
                return;
            };
            drop(queue);
            let made = request.make(&*self.device);
            queue = self.lock();
            queue.finish(request, made);
            self.done.notify_all();
        }
    }
}

/// The end of the thread, also by a panic: nobody must wait for it.
struct End<'s>(&'s Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let reason = "the thread that writes has ended";
        self.0.lock().fail(&Error::new(ErrorKind::Io, reason));
        self.0.done.notify_all();
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for WriteBehind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBehind")
            .field("device", &self.shared.device)
            .finish_non_exhaustive()
    }
}

impl BlockRead for WriteBehind {
    fn size_bytes(&self) -> u64 {
        self.shared.device.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let is_concerned = self.shared.lock().concerns(offset, len_of(buf));
        if is_concerned {
            self.shared.drain()?;
        }
        self.shared.device.read_at(offset, buf)
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        self.shared.drain()?;
        self.shared.device.extent_at(offset)
    }

    fn stored_at(&self, offset: u64) -> Result<Extent> {
        self.shared.drain()?;
        self.shared.device.stored_at(offset)
    }

    fn block_size(&self) -> u32 {
        self.shared.device.block_size()
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        self.shared.device.will_need(offset, len_bytes);
    }
}

impl BlockWrite for WriteBehind {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.change(offset, len_of(buf), |queue| queue.write(offset, buf))
    }

    fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.change(offset, len_bytes, |queue| {
            queue.write_zeroes(offset, len_bytes);
        })
    }

    fn unmap(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.shared.drain()?;
        self.shared.device.unmap(offset, len_bytes)
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        // Not behind: a device may refuse it, and nothing else fails then.
        self.shared.drain()?;
        self.shared.device.discard(offset, len_bytes)
    }

    fn flush(&self) -> Result<()> {
        self.shared.drain()?;
        self.shared.device.flush()
    }

    fn set_size(&self, size_bytes: u64) -> Result<()> {
        self.shared.drain()?;
        self.shared.device.set_size(size_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counting, Fault, Faulty, Memory};
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Write(u64, Vec<u8>),
        WriteZeroes(u64, u64),
        Read(u64, usize),
        Flush,
    }

    const SIZE_BYTES: u64 = 4096;

    fn step() -> impl Strategy<Value = Step> {
        let place = 0..SIZE_BYTES - 256;
        prop_oneof![
            (place.clone(), prop::collection::vec(any::<u8>(), 0..256))
                .prop_map(|(offset, bytes)| Step::Write(offset, bytes)),
            (place.clone(), 0..256_u64).prop_map(|(at, len)| Step::WriteZeroes(at, len)),
            (place, 0..256_usize).prop_map(|(at, len)| Step::Read(at, len)),
            Just(Step::Flush),
        ]
    }

    proptest! {
        #[test]
        fn reads_what_was_written(steps in prop::collection::vec(step(), 0..200)) {
            let memory = Arc::new(Memory::new(vec![1; 4096]));
            let model = Memory::new(vec![1; 4096]);
            let behind = WriteBehind::new(memory.clone()).unwrap();
            for step in steps {
                match step {
                    Step::Write(offset, bytes) => {
                        behind.write_at(offset, &bytes).unwrap();
                        model.write_at(offset, &bytes).unwrap();
                    }
                    Step::WriteZeroes(offset, len) => {
                        behind.write_zeroes(offset, len).unwrap();
                        model.write_zeroes(offset, len).unwrap();
                    }
                    Step::Read(offset, len) => {
                        let (mut ours, mut theirs) = (vec![0; len], vec![0; len]);
                        behind.read_at(offset, &mut ours).unwrap();
                        model.read_at(offset, &mut theirs).unwrap();
                        prop_assert_eq!(ours, theirs);
                    }
                    Step::Flush => behind.flush().unwrap(),
                }
            }
            drop(behind);
            prop_assert_eq!(contents(&memory), contents(&model));
        }
    }

    fn contents(device: &Memory) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        device.read_at(0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn several_threads_write_and_flush() {
        let memory = Arc::new(Memory::new(vec![0; 4096]));
        let behind = WriteBehind::new(memory.clone()).unwrap();
        thread::scope(|scope| {
            for thread in 0..4_u8 {
                let behind = &behind;
                scope.spawn(move || {
                    let start = u64::from(thread) * 1024;
                    for round in 0..2000 {
                        let at = start + round % 1000;
                        behind.write_at(at, &[thread + 1]).unwrap();
                        behind.flush().unwrap();
                        let mut byte = [0];
                        behind.read_at(at, &mut byte).unwrap();
                        assert_eq!(byte, [thread + 1]);
                    }
                });
            }
        });
        drop(behind);
        let bytes = contents(&memory);
        assert!((0..4).all(|n| {
            bytes[n * 1024..][..1000]
                .iter()
                .all(|b| usize::from(*b) == n + 1)
        }));
    }

    #[test]
    fn adjacent_writes_become_one() {
        let counting = Arc::new(Counting::new(Arc::new(Memory::new(vec![0; 100_000]))));
        let behind = WriteBehind::new(counting.clone()).unwrap();
        for at in 0..1000 {
            behind.write_at(at * 100, &[7; 100]).unwrap();
        }
        behind.flush().unwrap();
        assert_eq!(counting.counts().writes, 1);
    }

    #[test]
    fn a_failed_write_fails_what_follows() {
        let memory = Arc::new(Memory::new(vec![0; 4096]));
        let faulty = Faulty::new(memory, [Fault::FailWrite { nth: 0 }]);
        let behind = WriteBehind::new(Arc::new(faulty)).unwrap();
        behind.write_at(512, &[1; 512]).unwrap();
        let first = behind.flush().unwrap_err();
        assert_eq!(first.kind(), ErrorKind::Io);
        assert_eq!(
            behind.write_at(0, &[1]).unwrap_err().reason(),
            first.reason()
        );
        assert_eq!(behind.flush().unwrap_err().reason(), first.reason());
    }
}
