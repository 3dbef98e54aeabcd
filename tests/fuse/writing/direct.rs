//! Direct writes, past the kernel's cache, beside readers that use the cache.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use diskfs_fixtures::{require, skip};

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

/// The kernel would split a write into its cache that begins within a page.
#[test]
fn a_write_without_reading_is_one_request() {
    if can_mount().is_none() {
        return;
    }
    if !kernel_drops_its_pages() {
        return skip("Linux is older than 6.6");
    }
    let m = Writable::new();
    let path = m.join("f");
    let mut written = File::create(&path).unwrap();
    for _ in 0..20 {
        written.write_all(&[1; 10_000]).unwrap();
    }
    assert_eq!(m.fs.write_count(), 20);
    assert!(fs::read(&path).unwrap() == vec![1; 200_000]);
    // Readers see what is written later.
    written.write_all_at(&[2; 10_000], 5000).unwrap();
    let mut expected = vec![1; 200_000];
    expected[5000..15_000].fill(2);
    assert!(fs::read(&path).unwrap() == expected);
}

/// Returns true if the kernel drops its pages before each write past its cache, not only before
/// those with `O_DIRECT`.
fn kernel_drops_its_pages() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map_while(|n| n.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(6))
}

/// The program that counts in mapped pages, while its child counts elsewhere in the same pages by
/// write(2), on a handle that is older than the mapping. Each number must stay until its writer
/// replaces it.
const TWO_COUNTERS: &str = r"
import mmap, os, struct, sys, time
PAGES = 4
only_written = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644)
os.write(only_written, bytes(PAGES * 4096))
mapped = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), PAGES * 4096)
end = time.monotonic() + 3
child = os.fork()
turn = 0
while time.monotonic() < end:
    turn += 1
    at = turn % PAGES * 4096
    number = struct.pack('=Q', turn)
    if child:
        mapped[at:at+8] = number
        found = mapped[at:at+8]
    else:
        os.pwrite(only_written, number, at + 8)
        found = mapped[at+8:at+16]
    if found != number:
        print('mapped' if child else 'written', turn, 'is', struct.unpack('=Q', found)[0])
        os._exit(1)
if not child: os._exit(0)
last = [mapped[at:at+8] for at in range(0, PAGES * 4096, 4096)]
mapped.flush()
with open(sys.argv[1], 'rb') as f: stored = f.read()
assert last == [stored[at:at+8] for at in range(0, PAGES * 4096, 4096)]
assert os.wait()[1] == 0
";

#[test]
fn a_mapping_and_a_handle_for_writing_change_the_same_pages() {
    if can_mount().is_none() || require("python3").is_none() {
        return;
    }
    let m = Writable::new();
    let counters = Command::new("python3")
        .args(["-c", TWO_COUNTERS])
        .arg(m.join("f"))
        .output()
        .unwrap();
    assert!(counters.status.success(), "{counters:?}");
    m.end_well();
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
