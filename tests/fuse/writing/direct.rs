//! Direct writes, past the kernel's cache, beside readers that use the cache.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

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
