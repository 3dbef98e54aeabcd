//! A stream that another thread produces, so that decompression and the writing of files run at the
//! same time.

use std::io::{self, BufRead, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use diskfs_disk::Result;

/// The number of waiting bytes at which the producer waits for the reader.
const WAITING_BYTES: usize = 1 << 20;

/// The number of waiting bytes that wake the reader: each time costs both threads some microseconds.
const READY_BYTES: usize = 256 << 10;

/// The time after which the reader takes fewer bytes: the producer may wait for its input.
const PATIENCE: Duration = Duration::from_millis(1);

/// The number of bytes that the producer reads at once.
const READ_BYTES: usize = 128 << 10;

/// The end of the stream that receives the bytes.
#[derive(Debug)]
pub(crate) struct Background {
    shared: Arc<Shared>,
    /// The bytes that were taken last, up to `read` of which are read.
    taken: Vec<u8>,
    read: usize,
    /// `None` if nothing waits for its end.
    thread: Option<JoinHandle<()>>,
}

/// The end of the stream that sends the bytes. A receiver that is gone is an error of the kind
/// `BrokenPipe`.
#[derive(Debug)]
pub(crate) struct Producer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the reader or the producer: they never wait at the same time.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    /// The end of the stream, or the error that follows the waiting bytes; `None` while the producer
    /// runs.
    end: Option<io::Result<()>>,
    /// True while the reader waits for any bytes.
    is_reader_idle: bool,
    is_reader_gone: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room for more bytes, or until the reader is gone.
    fn wait_for_room(&self) -> MutexGuard<'_, State> {
        let is_full =
            |state: &mut State| state.waiting.len() >= WAITING_BYTES && !state.is_reader_gone;
        let waited = self.changed.wait_while(self.lock(), is_full);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for enough bytes, or for fewer if they take long, or for the end.
    fn wait_for_bytes(&self) -> MutexGuard<'_, State> {
        let is_short = |state: &mut State| state.waiting.len() < READY_BYTES && state.end.is_none();
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), PATIENCE, is_short);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !state.waiting.is_empty() || state.end.is_some() {
            return state;
        }
        state.is_reader_idle = true;
        let is_idle = |state: &mut State| state.is_reader_idle && state.end.is_none();
        let waited = self.changed.wait_while(state, is_idle);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, result: io::Result<()>) {
        self.lock().end.get_or_insert(result);
        self.changed.notify_one();
    }
}

impl Background {
    /// Starts a thread that runs `produce`. Its error is the last thing that the reader receives.
    ///
    /// # Errors
    /// `Io` if no thread can be started.
    pub(crate) fn start(
        produce: impl FnOnce(&mut Producer) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut producer = Producer(Arc::clone(&shared));
        let thread = thread::Builder::new().name("archive".into());
        let thread = thread.spawn(move || {
            let produced = produce(&mut producer);
            producer.0.end(produced.map_err(io::Error::from));
        })?;
        Ok(Self {
            shared,
            taken: Vec::new(),
            read: 0,
            thread: Some(thread),
        })
    }

    /// Returns the stream for a producer that may wait for its input for ever: dropping it doesn't
    /// wait for the thread.
    pub(crate) fn detached(mut self) -> Self {
        self.thread = None;
        self
    }

    /// Takes all bytes that wait, once there are some.
    fn take(&mut self) -> io::Result<()> {
        self.taken.clear();
        self.read = 0;
        let mut state = self.shared.wait_for_bytes();
        if state.waiting.is_empty() {
            return state.end.replace(Ok(())).unwrap_or(Ok(()));
        }
        std::mem::swap(&mut state.waiting, &mut self.taken);
        if self.taken.len() >= WAITING_BYTES {
            self.shared.changed.notify_one();
        }
        Ok(())
    }

    fn unread(&self) -> &[u8] {
        self.taken.get(self.read..).unwrap_or_default()
    }
}

impl Read for Background {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buf)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Background {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.unread().is_empty() {
            self.take()?;
        }
        Ok(self.unread())
    }

    fn consume(&mut self, len: usize) {
        self.read = self.read.saturating_add(len);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.shared.lock().is_reader_gone = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Producer {
    /// Sends all bytes of `from`: what one read returns is there for the reader before the next
    /// one, which may wait. Returns false if the receiver is gone.
    ///
    /// # Errors
    /// The errors of reading.
    pub(crate) fn send_all(&mut self, from: &mut dyn Read) -> Result<bool> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let read = match from.read(&mut buffer) {
                Ok(0) => return Ok(true),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            if self.write(buffer.get(..read).unwrap_or_default()).is_err() {
                return Ok(false);
            }
        }
    }
}

impl Write for Producer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.wait_for_room();
        if state.is_reader_gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let before = state.waiting.len();
        let len = bytes.len().min(READ_BYTES);
        state
            .waiting
            .extend_from_slice(bytes.get(..len).unwrap_or_default());
        let becomes_ready = before < READY_BYTES && state.waiting.len() >= READY_BYTES;
        if std::mem::take(&mut state.is_reader_idle) || becomes_ready {
            self.0.changed.notify_one();
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // Only after a panic has the producer not ended yet.
        let reason = "the thread that reads has panicked";
        self.0.end(Err(io::Error::other(reason)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskfs_disk::{Error, ErrorKind};
    use std::sync::mpsc::channel;

    #[test]
    fn all_bytes_arrive_in_order_and_then_the_error() {
        let bytes: Vec<u8> = (0..5_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
        let sent = bytes.clone();
        let mut stream = Background::start(move |producer| {
            producer.send_all(&mut &sent[..])?;
            Err(Error::new(ErrorKind::Corrupt, "the end is damaged"))
        })
        .unwrap();
        let mut read = vec![0; bytes.len()];
        stream.read_exact(&mut read).unwrap();
        assert!(read == bytes);
        let error = Error::from(stream.read(&mut [0]).unwrap_err());
        assert_eq!(error.reason(), "the end is damaged");
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_reader_that_leaves_early_ends_the_thread() {
        let mut stream = Background::start(|producer| {
            assert!(!producer.send_all(&mut io::repeat(7))?);
            Ok(())
        })
        .unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
    }

    #[test]
    fn a_panic_is_not_the_end_of_the_stream() {
        let stream = Background::start(|producer| {
            producer.write_all(&[7; 10])?;
            panic!("on purpose");
        });
        let mut read = Vec::new();
        assert!(stream.unwrap().read_to_end(&mut read).is_err());
        assert_eq!(read, [7; 10]);
    }

    #[test]
    fn nobody_waits_for_a_detached_thread() {
        let (hold, held) = channel::<()>();
        let stream = Background::start(move |producer| {
            producer.write_all(&[7; 10])?;
            // Until the end of the test.
            let _ = held.recv();
            Ok(())
        });
        let mut stream = stream.unwrap().detached();
        assert_eq!(stream.fill_buf().unwrap(), [7; 10]);
        drop(stream);
        drop(hold);
    }
}
