//! The end of a server that clients still use.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use diskfs_block::{BlockRead, BlockWrite, Memory, Result};
use diskfs_nbd::server::{Export, Options};

use crate::hand::{FLUSH, Hand, LONG_BYTES, READ, WRITE};
use crate::rig::{Served, Slow};

const ESHUTDOWN: u32 = 108;

/// A device that counts its writes since the last flush.
#[derive(Debug)]
struct Dirty {
    inner: Slow<Memory>,
    writes: AtomicUsize,
}

impl BlockRead for Dirty {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, buf)
    }
}

impl BlockWrite for Dirty {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.inner.write_at(offset, buf)
    }

    fn flush(&self) -> Result<()> {
        self.writes.store(0, Ordering::Relaxed);
        self.inner.flush()
    }
}

fn device() -> Arc<Dirty> {
    Arc::new(Dirty {
        inner: Slow {
            inner: Memory::new(vec![5; 4 << 20]),
            delay: Duration::from_secs(4),
        },
        writes: AtomicUsize::new(0),
    })
}

#[test]
fn later_requests_are_refused_and_writes_are_flushed() {
    let device = device();
    let options = Options {
        farewell_time: Duration::from_secs(20),
        ..Options::default()
    };
    let exported: Arc<dyn BlockWrite> = device.clone();
    let served = Served::start(vec![Export::writable("", exported)], options);
    let mut hand = Hand::go(served.connect(), "");
    hand.send((WRITE, 0), 1, 3 << 20, 512);
    hand.0.write_all(&[6; 512]).unwrap();
    assert_eq!(hand.simple(), (0, 1));
    assert_eq!(device.writes.load(Ordering::Relaxed), 1);
    hand.send((READ, 0), 2, 0, LONG_BYTES);
    std::thread::sleep(Duration::from_millis(500));
    let stopping = std::thread::spawn(move || served.server.stop());
    std::thread::sleep(Duration::from_secs(1));
    // The read is still in progress, and these are not begun.
    hand.send((WRITE, 0), 3, 2 << 20, 512);
    hand.0.write_all(&[7; 512]).unwrap();
    hand.send((FLUSH, 0), 4, 0, 0);
    assert_eq!(hand.simple(), (ESHUTDOWN, 3));
    assert_eq!(hand.simple(), (ESHUTDOWN, 4));
    assert_eq!(hand.simple(), (0, 2));
    assert!(hand.data(LONG_BYTES as usize).iter().all(|&byte| byte == 5));
    hand.send((READ, 0), 5, 1 << 20, 512);
    assert_eq!(hand.simple(), (ESHUTDOWN, 5));
    // The server does not wait longer than for the client's end.
    let begun = Instant::now();
    drop(hand);
    stopping.join().unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(device.writes.load(Ordering::Relaxed), 0);
    let mut bytes = [0; 1];
    device.read_at(2 << 20, &mut bytes).unwrap();
    assert_eq!(bytes, [5]);
}

#[test]
fn a_client_that_does_not_end_is_disconnected() {
    let served = Served::device(device());
    let mut hand = Hand::structured(served.connect(), "");
    let begun = Instant::now();
    served.server.stop().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!(hand.is_closed());
}
