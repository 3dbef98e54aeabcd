//! Direct writes, past the kernel's cache, beside readers that use the cache.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use diskfs_fixtures::require;

use super::Writable;
use crate::can_mount;

/// The program that rewrites a file again and again: all of it with one byte, then all of it with
/// the next. Each round submits its pieces together and waits for them together (`io_submit(2)` and
/// `io_getevents(2)`). After each round the whole file must read as that byte.
const WRITER: &str = r"
import ctypes, mmap, os, platform, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
SETUP, GETEVENTS, SUBMIT = {'x86_64': (206, 208, 209), 'aarch64': (0, 4, 2)}[platform.machine()]
PIECES, LEN = 10, 65536
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
cached = os.open(sys.argv[1], os.O_RDONLY)
context = ctypes.c_ulong(0)
assert libc.syscall(SETUP, 64, ctypes.byref(context)) == 0
buffer = mmap.mmap(-1, PIECES * LEN)
base = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
for turn in range(int(sys.argv[2])):
    byte = bytes([turn % 250 + 1])
    buffer[:] = byte * (PIECES * LEN)
    blocks = [ctypes.create_string_buffer(struct.pack('=QIiHhIQQqQII', 0, 0, 0, 1, 0, fd,
        base + n * LEN, LEN, n * LEN, 0, 0, 0)) for n in range(PIECES)]
    pointers = (ctypes.c_void_p * PIECES)(*[ctypes.addressof(block) for block in blocks])
    assert libc.syscall(SUBMIT, context, PIECES, pointers) == PIECES, ctypes.get_errno()
    events = ctypes.create_string_buffer(32 * PIECES)
    assert libc.syscall(GETEVENTS, context, PIECES, PIECES, events, None) == PIECES
    assert all(struct.unpack_from('=q', events.raw, 32 * n + 16)[0] == LEN for n in range(PIECES))
    found = os.pread(cached, PIECES * LEN, 0)
    stale = sum(1 for at in range(0, PIECES * LEN, 4096) if found[at:at+1] != byte)
    if stale: print(f'{stale} pages are stale in turn {turn}'); sys.exit(1)
";

/// Test generic/451 of xfstests.
#[test]
fn pages_are_not_stale_after_asynchronous_direct_writes() {
    if can_mount().is_none() || require("python3").is_none() {
        return;
    }
    let m = Writable::new();
    let path = m.join("f");
    fs::write(&path, vec![0; 655_360]).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut buffer = vec![0; 655_360];
                let file = File::open(&path).unwrap();
                while !ended.load(Ordering::Relaxed) {
                    file.read_exact_at(&mut buffer, 0).unwrap();
                }
            });
        }
        let writer = Command::new("python3")
            .args(["-c", WRITER])
            .arg(&path)
            .arg("300")
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        ended.store(true, Ordering::Relaxed);
        let said = String::from_utf8_lossy(&writer.stdout).into_owned();
        assert!(writer.status.success(), "{said}");
    });
    let mut direct = File::options();
    direct.read(true).custom_flags(libc::O_DIRECT);
    assert!(direct.open(&path).is_ok());
}

/// The program that writes several requests at a time, while its child sets and clears `O_DIRECT`:
/// the later requests of a write into the cache carry the flag. The last one ends within a page that
/// isn't cached, and the kernel keeps such a page locked until the answer.
const TOGGLER: &str = r"
import fcntl, mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
flags = fcntl.fcntl(fd, fcntl.F_GETFL)
end = time.monotonic() + 3
if os.fork() == 0:
    while time.monotonic() < end:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_DIRECT)
        time.sleep(0.001)
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)
        time.sleep(0.001)
    os._exit(0)
buffer = mmap.mmap(-1, 8 << 20)
while time.monotonic() < end:
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    assert os.pwrite(fd, buffer, 512) == len(buffer)
assert os.wait()[1] == 0
";

/// Test generic/036 of xfstests: the mount waited for itself.
#[test]
fn a_write_that_becomes_direct_on_its_way_is_answered() {
    if can_mount().is_none() || require("python3").is_none() {
        return;
    }
    let m = Writable::new();
    let path = m.join("f");
    fs::write(&path, vec![0; 9 << 20]).unwrap();
    let mut toggler = Command::new("python3")
        .args(["-c", TOGGLER])
        .arg(&path)
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let status = loop {
        match toggler.try_wait().unwrap() {
            None if Instant::now() < deadline => thread::sleep(Duration::from_millis(20)),
            ended => break ended,
        }
    };
    if status.is_none() {
        // Nothing else ends a process that waits for an answer.
        let _ = Command::new("umount").arg("-f").arg(&*m).status();
    }
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    m.end_well();
}
