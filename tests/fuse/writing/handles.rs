//! File handles: `name_to_handle_at(2)` and `open_by_handle_at(2)`, which NFS servers use.

use std::fs;
use std::process::Command;

use diskfs_fixtures::require;

use super::Writable;
use crate::can_mount;

/// The program that takes handles of many files and deletes these. Afterwards the handle of a file
/// without a name must be stale, unless the file is open. It prints what is wrong.
const PROGRAM: &str = r"
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
COUNT = 300
top = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)

def handle_of(name):
    handle = ctypes.create_string_buffer((128).to_bytes(4, sys.byteorder), 136)
    mount = ctypes.c_int()
    done = libc.name_to_handle_at(top, name.encode(), handle, ctypes.byref(mount), 0)
    assert done == 0, os.strerror(ctypes.get_errno())
    return handle

def contents(handle):
    fd = libc.open_by_handle_at(top, handle, os.O_RDONLY)
    if fd < 0: return errno.errorcode[ctypes.get_errno()]
    with os.fdopen(fd, 'rb') as file: return file.read()

def expect(found, wanted, what):
    wrong = sum(1 for one in found if one != wanted)
    if wrong: print(f'{what}: {wrong} of {len(found)} are {set(found)}, not {wanted}')

def files(kind):
    names = [f'{kind}{n}' for n in range(COUNT)]
    for name in names:
        with open(name, 'wb', opener=lambda path, flags: os.open(path, flags, dir_fd=top)) as file:
            file.write(b'x')
    return names, [handle_of(name) for name in names]

names, handles = files('kept')
expect([contents(one) for one in handles], b'x', 'files with a name')

names, handles = files('linked')
for name in names:
    os.link(name, name + 'b', src_dir_fd=top, dst_dir_fd=top)
    os.unlink(name, dir_fd=top)
expect([contents(one) for one in handles], b'x', 'files with another name')

names, handles = files('open')
opened = [os.open(name, os.O_RDONLY, dir_fd=top) for name in names]
for name in names: os.unlink(name, dir_fd=top)
expect([contents(one) for one in handles], b'x', 'open files without a name')
for fd in opened: os.close(fd)

# These are never open: the kernel tells the server later that a file was closed, and has it until then.
names = [f'deleted{n}' for n in range(COUNT)]
for name in names: os.mknod(name, dir_fd=top)
handles = [handle_of(name) for name in names]
for name in names: os.unlink(name, dir_fd=top)
expect([contents(one) for one in handles], 'ESTALE', 'files without a name')
";

/// Tests generic/426, 467 and 756 of xfstests.
#[test]
fn handles_of_deleted_files_are_stale() {
    if can_mount().is_none() || require("python3").is_none() {
        return;
    }
    let m = Writable::new();
    fs::create_dir(m.join("d")).unwrap();
    for turn in 0..3 {
        let dir = m.join(format!("d/{turn}"));
        fs::create_dir(&dir).unwrap();
        let found = Command::new("python3")
            .args(["-c", PROGRAM])
            .arg(&dir)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&found.stdout);
        let failed = String::from_utf8_lossy(&found.stderr);
        assert!(found.status.success() && said.is_empty(), "{said}{failed}");
    }
    m.end_well();
}
