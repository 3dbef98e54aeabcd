//! Valid and malformed requests of a simulated guest, and one session over a socket.

use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, ErrorKind, Fault, Faulty, Memory};

use super::backend::Backend;
use super::request::ID_BYTES;
use super::worker::Worker;
use super::{BlockDevice, Ended, Options, serve};
use crate::vhost_user::device::testing::{
    Descriptor, FREE, Guest, INDIRECT, MEMORY, NEXT, Part, WRITE, place,
};
use crate::vhost_user::device::{Buffers, Device as _, WaitPoint};

const OK: u8 = 0;
const IOERR: u8 = 1;
const UNSUPPORTED: u8 = 2;

/// The addresses of a request's parts in the guest's memory.
const HEADER: u64 = FREE;
const STATUS: u64 = FREE + 0x100;
const DATA: u64 = FREE + 0x1000;

/// A virtual machine with a disk.
struct Machine {
    guest: Guest,
    disk: Arc<BlockDevice>,
    backend: Backend,
}

impl Machine {
    fn new(disk: BlockDevice) -> Self {
        let disk = Arc::new(disk);
        let backend = Backend::new(Arc::clone(&disk), &Options::default());
        backend.set_features(backend.features());
        Self {
            guest: Guest::new(&[WaitPoint(0)]),
            disk,
            backend,
        }
    }

    /// Answers all requests in the ring.
    fn answer(&self) {
        let ring = self.guest.rings.ring(0).unwrap();
        let (mut worker, mut buffers) = (Worker::default(), Buffers::default());
        self.backend
            .drain(ring, &self.guest.rings, &mut worker, &mut buffers);
    }

    fn header(&self, kind: u32, sector: u64) {
        self.guest.put(HEADER, &kind.to_le_bytes());
        self.guest.put(HEADER + 4, &[0; 4]);
        self.guest.put(HEADER + 8, &sector.to_le_bytes());
        self.guest.put(STATUS, &[0xff]);
    }

    /// Sends a request with header, data and status. Returns the status.
    fn ask(&self, kind: u32, sector: u64, data: &[Part]) -> u8 {
        self.header(kind, sector);
        let mut parts = vec![Part::Readable(HEADER, 16)];
        parts.extend_from_slice(data);
        parts.push(Part::Writable(STATUS, 1));
        self.guest.request(0, 0, &parts);
        self.answer();
        self.guest.get(STATUS, 1)[0]
    }

    fn last_given_back(&self) -> (u32, u32) {
        *self.guest.given_back(0).last().expect("a used descriptor")
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..251).cycle().take(len).collect()
}

fn memory(len: usize) -> (Machine, Arc<Memory>) {
    let disk = Arc::new(Memory::new(pattern(len)));
    (Machine::new(BlockDevice::writable(disk.clone())), disk)
}

fn bytes(disk: &dyn BlockRead, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    disk.read_at(offset, &mut bytes).unwrap();
    bytes
}

#[test]
fn another_device_can_be_put_behind_it() {
    let (machine, disk) = memory(1 << 20);
    let capacity = |machine: &Machine| machine.backend.config()[..8].to_vec();
    assert_eq!(capacity(&machine), 2048_u64.to_le_bytes());
    let before = Arc::downgrade(&disk);
    drop(disk);
    machine.disk.exchange(Arc::new(Memory::new(vec![7; 4096])));
    assert!(before.upgrade().is_none(), "the old backing was dropped");
    assert_eq!(capacity(&machine), 8_u64.to_le_bytes());
    let sector = [Part::Writable(DATA, 512)];
    assert_eq!(machine.ask(0, 7, &sector), OK);
    assert_eq!(machine.guest.get(DATA, 512), [7; 512]);
    assert_eq!(
        machine.ask(0, 8, &sector),
        IOERR,
        "sector 8 existed only on the old backing"
    );
    machine.disk.exchange(Arc::new(Memory::new(vec![])));
    assert_eq!(machine.ask(0, 0, &sector), IOERR);
}

#[test]
fn reads_into_all_parts_of_a_request() {
    let (machine, disk) = memory(1 << 20);
    let parts = [
        Part::Writable(DATA, 100),
        Part::Writable(DATA + 0x2000, 0),
        Part::Writable(DATA + 0x1000, 412),
        Part::Writable(DATA + 0x3000, 1024),
    ];
    assert_eq!(machine.ask(0, 3, &parts), OK);
    assert_eq!(machine.last_given_back(), (0, 1537));
    assert_eq!(machine.guest.get(DATA, 100), bytes(&*disk, 1536, 100));
    assert_eq!(
        machine.guest.get(DATA + 0x1000, 412),
        bytes(&*disk, 1636, 412)
    );
    assert_eq!(
        machine.guest.get(DATA + 0x3000, 1024),
        bytes(&*disk, 2048, 1024)
    );
}

#[test]
fn large_requests_go_piece_by_piece() {
    let (machine, disk) = memory(4 << 20);
    let len = (1 << 20) + 512;
    assert_eq!(machine.ask(0, 1, &[Part::Writable(DATA, len)]), OK);
    let len = usize::try_from(len).unwrap();
    assert_eq!(machine.guest.get(DATA, len), bytes(&*disk, 512, len));

    machine.guest.put(DATA, &vec![7; len]);
    let part = Part::Readable(DATA, u32::try_from(len).unwrap());
    assert_eq!(machine.ask(1, 1, &[part]), OK);
    assert_eq!(bytes(&*disk, 512, len), vec![7; len]);
    assert_eq!(bytes(&*disk, 0, 512), pattern(512));
}

#[test]
fn headers_and_data_need_no_parts_of_their_own() {
    let (machine, disk) = memory(1 << 20);
    machine.header(1, 5);
    machine.guest.put(HEADER + 16, &[9; 84]);
    machine.guest.put(DATA, &[8; 428]);
    machine.guest.put(STATUS, &[0xff]);
    let parts = [
        Part::Readable(HEADER, 7),
        Part::Readable(HEADER + 7, 93),
        Part::Readable(DATA, 428),
        Part::Writable(STATUS, 1),
    ];
    machine.guest.request(0, 0, &parts);
    machine.answer();
    assert_eq!(machine.guest.get(STATUS, 1), [OK]);
    let written = bytes(&*disk, 5 * 512, 512);
    assert!(written[..84] == [9; 84] && written[84..] == [8; 428]);
}

#[test]
fn the_status_may_be_in_one_part_with_the_data() {
    let (machine, disk) = memory(1 << 20);
    machine.header(0, 0);
    let parts = [Part::Readable(HEADER, 16), Part::Writable(DATA, 513)];
    machine.guest.request(0, 0, &parts);
    machine.answer();
    assert_eq!(machine.guest.get(DATA, 512), bytes(&*disk, 0, 512));
    assert_eq!(machine.guest.get(DATA + 512, 1), [OK]);
}

#[test]
fn tables_elsewhere_are_followed() {
    let (machine, disk) = memory(1 << 20);
    machine.header(0, 2);
    let table = FREE + 0x8000;
    let part = |address, len, flags, next| Descriptor {
        address,
        len,
        flags,
        next,
    };
    machine.guest.describe(table, 0, part(HEADER, 16, NEXT, 1));
    machine
        .guest
        .describe(table, 1, part(DATA, 512, NEXT | WRITE, 2));
    machine.guest.describe(table, 2, part(STATUS, 1, WRITE, 0));
    machine
        .guest
        .describe(place(0).0, 9, part(table, 48, INDIRECT, 0));
    machine.guest.offer(0, 9);
    machine.answer();
    assert_eq!(machine.guest.get(STATUS, 1), [OK]);
    assert_eq!(machine.last_given_back(), (9, 513));
    assert_eq!(machine.guest.get(DATA, 512), bytes(&*disk, 1024, 512));
}

#[test]
fn the_serial_number_is_cut_or_padded() {
    for (serial, expected) in [
        ("vda", "vda"),
        ("a-serial-number-of-27-bytes", "a-serial-number-of-2"),
    ] {
        let disk = BlockDevice::read_only(Arc::new(Memory::new(vec![0; 512])));
        let machine = Machine::new(disk.with_serial(serial));
        assert_eq!(machine.ask(8, 0, &[Part::Writable(DATA, 20)]), OK);
        let mut id = expected.as_bytes().to_vec();
        id.resize(ID_BYTES, 0);
        assert_eq!(machine.guest.get(DATA, ID_BYTES), id);
    }
    let (machine, _) = memory(512);
    assert_eq!(machine.ask(8, 0, &[Part::Writable(DATA, 4)]), OK);
    assert_eq!(machine.guest.get(DATA, 5), *b"disk\0");
}

/// Encodes a range to discard or zero.
fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    let mut bytes = sector.to_le_bytes().to_vec();
    bytes.extend_from_slice(&sectors.to_le_bytes());
    bytes.extend_from_slice(&flags.to_le_bytes());
    bytes
}

#[test]
fn ranges_are_zeroed() {
    let (machine, disk) = memory(1 << 20);
    let ranges = [range(1, 2, 0), range(8, 1, 1)].concat();
    machine.guest.put(DATA, &ranges);
    assert_eq!(machine.ask(13, 0, &[Part::Readable(DATA, 32)]), OK);
    assert_eq!(bytes(&*disk, 0, 512), pattern(512));
    assert_eq!(bytes(&*disk, 512, 1024), vec![0; 1024]);
    assert_eq!(bytes(&*disk, 8 * 512, 512), vec![0; 512]);
    assert_eq!(machine.ask(11, 0, &[Part::Readable(DATA, 16)]), OK);
}

#[test]
fn ranges_that_make_no_sense_are_refused() {
    let (machine, disk) = memory(1 << 20);
    let before = bytes(&*disk, 0, 1 << 20);
    for (kind, bytes, status) in [
        (13, range(2047, 2, 0), IOERR),
        (13, range(u64::MAX, u32::MAX, 0), IOERR),
        (11, range(u64::MAX / 512, 1, 0), IOERR),
        (13, range(0, 1, 2), UNSUPPORTED),
        // Discarding is unmapping already, so the unmap flag is invalid.
        (11, range(0, 1, 1), UNSUPPORTED),
        (11, range(0, 1, 0)[..15].to_vec(), IOERR),
        (11, Vec::new(), IOERR),
        (13, range(0, 0, 0).repeat(33), IOERR),
    ] {
        machine.guest.put(DATA, &bytes);
        let len = u32::try_from(bytes.len()).unwrap();
        assert_eq!(machine.ask(kind, 0, &[Part::Readable(DATA, len)]), status);
    }
    assert_eq!(bytes(&*disk, 0, 1 << 20), before);
}

#[test]
fn a_read_only_device_is_not_written() {
    let disk = Arc::new(Memory::new(pattern(4096)));
    let machine = Machine::new(BlockDevice::read_only(disk.clone()));
    machine.guest.put(DATA, &range(0, 1, 0));
    for kind in [1, 11, 13] {
        assert_eq!(machine.ask(kind, 0, &[Part::Readable(DATA, 512)]), IOERR);
    }
    assert_eq!(
        machine.ask(4, 0, &[]),
        OK,
        "a flush of a read-only device succeeds"
    );
    assert_eq!(machine.ask(0, 0, &[Part::Writable(DATA, 512)]), OK);
    assert_eq!(bytes(&*disk, 0, 4096), pattern(4096));
}

#[test]
fn sectors_that_there_are_not_are_refused() {
    let (machine, _) = memory(1 << 20);
    for (sector, len) in [
        (2048, 512),
        (2047, 1024),
        (u64::MAX, 512),
        (u64::MAX / 512 + 1, 512),
        (0, 100),
    ] {
        assert_eq!(
            machine.ask(0, sector, &[Part::Writable(DATA, len)]),
            IOERR,
            "{sector}"
        );
        assert_eq!(
            machine.ask(1, sector, &[Part::Readable(DATA, len)]),
            IOERR,
            "{sector}"
        );
    }
    assert_eq!(machine.ask(0, 0, &[]), OK, "an empty read succeeds");
    assert_eq!(machine.ask(77, 0, &[]), UNSUPPORTED);
}

#[test]
fn requests_larger_than_the_guest_was_told_are_refused() {
    let (machine, _) = memory(1 << 20);
    // The same 8 MiB in each part.
    let parts = [Part::Writable(DATA, 8 << 20); 8];
    assert_eq!(machine.ask(0, 0, &parts), IOERR);
    let parts = [Part::Writable(0, u32::MAX / 3); 2];
    assert_eq!(machine.ask(0, 0, &parts), IOERR);
    // A chain of more than 4 GiB is invalid (virtio 1.3, 2.7.5.3.1).
    let parts = [Part::Writable(0, u32::MAX / 2); 3];
    assert_eq!(machine.ask(0, 0, &parts), 0xff);
    assert_eq!(machine.last_given_back(), (0, 0));
}

#[test]
fn memory_that_there_is_none_of_is_not_touched() {
    let (machine, disk) = memory(1 << 20);
    for address in [MEMORY - 256, MEMORY, u64::MAX - 100, u64::MAX] {
        assert_eq!(machine.ask(0, 0, &[Part::Writable(address, 512)]), IOERR);
        assert_eq!(machine.ask(1, 0, &[Part::Readable(address, 512)]), IOERR);
    }
    assert_eq!(bytes(&*disk, 0, 512), pattern(512));
    // The status, then the header.
    machine.header(0, 0);
    machine.guest.request(
        0,
        0,
        &[Part::Readable(HEADER, 16), Part::Writable(MEMORY, 1)],
    );
    machine.guest.request(
        0,
        8,
        &[Part::Readable(MEMORY, 16), Part::Writable(STATUS, 1)],
    );
    machine.answer();
    assert_eq!(machine.last_given_back(), (8, 1));
    assert_eq!(machine.guest.get(STATUS, 1), [IOERR]);
}

#[test]
fn chains_that_make_no_sense_are_given_back_unanswered() {
    let (machine, _) = memory(1 << 20);
    let table = place(0).0;
    let part = |flags, next| Descriptor {
        address: HEADER,
        len: 16,
        flags,
        next,
    };
    machine.header(0, 0);
    // A loop; a chain that leaves the table; a nested indirect table; a table of half a descriptor.
    machine.guest.describe(table, 0, part(NEXT, 1));
    machine.guest.describe(table, 1, part(NEXT | WRITE, 0));
    machine.guest.describe(table, 2, part(NEXT, 60_000));
    let inner = FREE + 0x8000;
    machine.guest.describe(inner, 0, part(INDIRECT, 0));
    let indirect = |len| Descriptor {
        address: inner,
        len,
        flags: INDIRECT,
        next: 0,
    };
    machine.guest.describe(table, 3, indirect(16));
    machine.guest.describe(table, 4, indirect(24));
    machine.guest.describe(table, 5, indirect(0));
    for head in 0..6 {
        machine.guest.offer(0, head);
    }
    // A readable part after a writable one.
    let parts = [
        Part::Writable(DATA, 512),
        Part::Readable(HEADER, 16),
        Part::Writable(STATUS, 1),
    ];
    machine.guest.request(0, 10, &parts);
    // No room for a status; no header.
    machine.guest.request(0, 20, &[Part::Readable(HEADER, 16)]);
    machine.guest.request(0, 21, &[Part::Writable(STATUS, 0)]);
    machine.answer();
    let heads = [0, 2, 3, 4, 5, 10, 20, 21, 1];
    let mut expected: Vec<_> = heads.into_iter().map(|head| (head, 0)).collect();
    expected.sort_unstable();
    let mut found = machine.guest.given_back(0);
    found.sort_unstable();
    assert_eq!(found, expected);
    // The ring still works.
    assert_eq!(machine.ask(0, 0, &[Part::Writable(DATA, 512)]), OK);
}

#[test]
fn long_tables_are_refused() {
    let (machine, _) = memory(1 << 20);
    let table = FREE + 0x10_0000;
    for index in 0..2000 {
        let descriptor = Descriptor {
            address: HEADER,
            len: 1,
            flags: NEXT,
            next: index + 1,
        };
        machine.guest.describe(table, index, descriptor);
    }
    let indirect = Descriptor {
        address: table,
        len: 16 * 2000,
        flags: INDIRECT,
        next: 0,
    };
    machine.guest.describe(place(0).0, 0, indirect);
    machine.guest.offer(0, 0);
    machine.answer();
    assert_eq!(machine.last_given_back(), (0, 0));
}

#[test]
fn heads_outside_of_the_table_stop_the_ring_only() {
    let (machine, _) = memory(1 << 20);
    machine.guest.offer(0, 60_000);
    machine.answer();
    machine.answer();
    assert!(machine.guest.given_back(0).is_empty());
}

#[test]
fn more_requests_than_the_ring_holds_stop_it() {
    let (machine, _) = memory(1 << 20);
    machine.guest.put(place(0).1 + 2, &5000_u16.to_le_bytes());
    machine.answer();
    machine.answer();
    assert!(machine.guest.given_back(0).is_empty());
}

#[test]
fn errors_of_the_device_are_kept() {
    let below = Arc::new(Memory::new(vec![0; 4096]));
    let disk = Faulty::new(below, [Fault::FailWrite { nth: 0 }]);
    let machine = Machine::new(BlockDevice::writable(Arc::new(disk)));
    assert!(machine.disk.first_error().is_none());
    assert_eq!(machine.ask(1, 0, &[Part::Readable(DATA, 512)]), IOERR);
    assert_eq!(machine.disk.first_error().unwrap().kind(), ErrorKind::Io);
    assert_eq!(machine.ask(1, 0, &[Part::Readable(DATA, 512)]), OK);
}

/// A device that panics at every read.
#[derive(Debug)]
struct Panicking;

impl BlockRead for Panicking {
    fn size_bytes(&self) -> u64 {
        4096
    }

    fn read_at(&self, _offset: u64, _buf: &mut [u8]) -> diskfs_block::Result<()> {
        panic!("a driver must not panic")
    }
}

#[test]
fn a_panic_is_answered() {
    let machine = Machine::new(BlockDevice::read_only(Arc::new(Panicking)));
    assert_eq!(machine.ask(0, 0, &[Part::Writable(DATA, 512)]), IOERR);
    assert_eq!(machine.last_given_back(), (0, 1));
}

/// A device that counts flushes.
#[derive(Debug, Default)]
struct Flushes(std::sync::atomic::AtomicU32);

impl BlockRead for Flushes {
    fn size_bytes(&self) -> u64 {
        4096
    }

    fn read_at(&self, _offset: u64, buf: &mut [u8]) -> diskfs_block::Result<()> {
        buf.fill(0);
        Ok(())
    }
}

impl BlockWrite for Flushes {
    fn write_at(&self, _offset: u64, _buf: &[u8]) -> diskfs_block::Result<()> {
        Ok(())
    }

    fn flush(&self) -> diskfs_block::Result<()> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn what_a_guest_without_flush_writes_is_durable_at_once() {
    let disk = Arc::new(Flushes::default());
    let machine = Machine::new(BlockDevice::writable(disk.clone()));
    let count = || disk.0.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(machine.ask(1, 0, &[Part::Readable(DATA, 512)]), OK);
    assert_eq!(count(), 0);
    assert_eq!(machine.ask(4, 0, &[]), OK);
    assert_eq!(count(), 1);
    machine.backend.set_features(0);
    assert_eq!(machine.ask(1, 0, &[Part::Readable(DATA, 512)]), OK);
    assert_eq!(count(), 2);
    assert_eq!(machine.ask(0, 0, &[Part::Writable(DATA, 512)]), OK);
    assert_eq!(count(), 2);
}

#[test]
fn serving_ends_with_the_front_end_or_when_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let device = Arc::new(BlockDevice::read_only(Arc::new(Memory::new(vec![0; 4096]))));
    let listener = UnixListener::bind(&path).unwrap();
    let start = || serve(listener.try_clone().unwrap(), &device, &Options::default()).unwrap();

    let served = start();
    drop(UnixStream::connect(&path).unwrap());
    assert_eq!(served.wait().unwrap(), Ended::Disconnected);

    let served = start();
    served.stopper().stop();
    assert_eq!(served.wait().unwrap(), Ended::Stopped);

    let served = start();
    let client = UnixStream::connect(&path).unwrap();
    let stopper = served.stopper();
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        stopper.stop();
    });
    assert_eq!(served.wait().unwrap(), Ended::Stopped);
    drop(client);
    // No reference to the device is left.
    drop(start());
    assert_eq!(Arc::strong_count(&device), 1);
}

#[test]
fn who_speaks_something_else_is_cut_off() {
    use std::io::Write;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let device = Arc::new(BlockDevice::read_only(Arc::new(Memory::new(vec![0; 4096]))));
    let listener = UnixListener::bind(&path).unwrap();
    let served = serve(listener, &device, &Options::default()).unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let error = served.wait().unwrap_err().to_string();
    assert!(error.contains("disconnected the front end"), "{error}");
}
