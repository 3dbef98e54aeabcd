//! Tests with a simulated guest that opens the port, sends and receives.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::device::{CONTROL, Device, FROM_PORT, TO_PORT};
use super::port::Port;
use super::{PortReader, PortWriter};
use diskfs_export::vhost_user::device::Device as _;
use diskfs_export::vhost_user::device::testing::{FREE, Guest, MEMORY, Part};

const TO_CONTROL: u16 = 2;
const FROM_CONTROL: u16 = 3;

struct Machine {
    guest: Guest,
    device: Arc<Device>,
    reader: PortReader,
    writer: PortWriter,
    worker: Option<thread::JoinHandle<()>>,
}

impl Machine {
    fn new() -> Self {
        let port = Arc::new(Port::default());
        let device = Arc::new(Device::new(Arc::clone(&port)));
        let guest = Guest::new(&device.rings());
        let (rings, working) = (Arc::clone(&guest.rings), Arc::clone(&device));
        let worker = thread::spawn(move || working.work(&rings));
        Self {
            guest,
            device,
            reader: PortReader::new(Arc::clone(&port)),
            writer: PortWriter::new(port),
            worker: Some(worker),
        }
    }

    /// Sends a message about the port from the guest.
    fn send_event(&self, event: u8, value: u8) {
        let head = u16::from(event) * 8 + u16::from(value);
        let address = FREE + u64::from(head) * 8;
        self.guest.put(address, &[1, 0, 0, 0, event, 0, value, 0]);
        self.guest
            .request(FROM_CONTROL, head, &[Part::Readable(address, 8)]);
        self.guest.rings.wake_each();
    }

    fn wait_for(&self, ring: u16, count: usize) -> Vec<(u32, u32)> {
        for _ in 0..1000 {
            let given_back = self.guest.given_back(ring);
            if given_back.len() >= count {
                return given_back;
            }
            thread::sleep(Duration::from_millis(2));
        }
        panic!("no completed request in ring {ring}");
    }

    fn open(&self) {
        self.send_event(6, 1);
        self.wait_for(FROM_CONTROL, 1);
    }

    /// Sends bytes from the guest in one request.
    fn send(&self, head: u16, bytes: &[u8]) {
        let address = FREE + 0x10_0000 + u64::from(head) * 0x1_0000;
        self.guest.put(address, bytes);
        let len = u32::try_from(bytes.len()).unwrap();
        self.guest
            .request(FROM_PORT, head, &[Part::Readable(address, len)]);
        self.guest.rings.wake_each();
    }

    /// Offers a buffer of the guest. Returns its address.
    fn make_room(&self, head: u16, len: u32) -> u64 {
        let address = FREE + 0x80_0000 + u64::from(head) * 0x1000;
        self.guest
            .request(TO_PORT, head, &[Part::Writable(address, len)]);
        self.guest.rings.wake_each();
        address
    }

    fn end(&mut self) {
        self.guest.leave();
        self.device.has_ended();
        self.worker.take().map(thread::JoinHandle::join);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn the_port_is_announced_as_room_comes() {
    let machine = Machine::new();
    machine.send_event(0, 1);
    machine.send_event(3, 1);
    machine.wait_for(FROM_CONTROL, 2);
    let rooms: Vec<u64> = (0..3).map(|index| FREE + 0x1_0000 + index * 64).collect();
    for (head, room) in (0..).zip(&rooms) {
        machine
            .guest
            .request(TO_CONTROL, head, &[Part::Writable(*room, 64)]);
        machine.guest.rings.wake_each();
    }
    let given_back = machine.wait_for(TO_CONTROL, 3);
    assert_eq!(given_back, [(0, 8), (1, 16), (2, 8)]);
    assert_eq!(machine.guest.get(rooms[0], 8), [1, 0, 0, 0, 1, 0, 1, 0]);
    assert_eq!(
        machine.guest.get(rooms[1], 16),
        b"\x01\0\0\0\x07\0\x01\0diskfs.0"
    );
    assert_eq!(machine.guest.get(rooms[2], 8), [1, 0, 0, 0, 6, 0, 1, 0]);
}

#[test]
fn what_the_guest_sends_is_read_in_any_pieces() {
    let mut machine = Machine::new();
    machine.open();
    machine.send(0, b"hello, ");
    machine.send(1, b"world");
    machine.send(2, b"");
    machine.send(3, b"!");
    let mut some = [0; 3];
    machine.reader.read_exact(&mut some).unwrap();
    assert_eq!(&some, b"hel");
    let mut more = [0; 100];
    assert_eq!(machine.reader.read(&mut more).unwrap(), 10);
    assert_eq!(&more[..10], b"lo, world!");
    assert_eq!(machine.guest.given_back(FROM_PORT).len(), 4);
}

#[test]
fn a_reader_waits_for_the_guest() {
    let mut machine = Machine::new();
    thread::scope(|scope| {
        let (reader, guest) = (&mut machine.reader, &machine.guest);
        let read = scope.spawn(|| {
            let mut bytes = [0; 4];
            reader.read_exact(&mut bytes).unwrap();
            bytes
        });
        thread::sleep(Duration::from_millis(20));
        guest.put(FREE, &[1, 0, 0, 0, 6, 0, 1, 0]);
        guest.request(FROM_CONTROL, 0, &[Part::Readable(FREE, 8)]);
        guest.rings.wake_each();
        thread::sleep(Duration::from_millis(20));
        guest.put(FREE + 64, b"late");
        guest.request(FROM_PORT, 0, &[Part::Readable(FREE + 64, 4)]);
        guest.rings.wake_each();
        assert_eq!(&read.join().unwrap(), b"late");
    });
}

#[test]
fn a_writer_waits_for_room() {
    let mut machine = Machine::new();
    machine.open();
    let first = machine.make_room(0, 4);
    assert_eq!(machine.writer.write(b"123456").unwrap(), 4);
    assert_eq!(machine.guest.get(first, 4), b"1234");
    thread::scope(|scope| {
        let (writer, guest) = (&mut machine.writer, &machine.guest);
        let written = scope.spawn(|| writer.write_all(b"56"));
        thread::sleep(Duration::from_millis(20));
        assert_eq!(guest.given_back(TO_PORT).len(), 1);
        guest.request(TO_PORT, 9, &[Part::Writable(FREE, 4)]);
        guest.rings.wake_each();
        written.join().unwrap().unwrap();
    });
    assert_eq!(machine.guest.get(FREE, 2), b"56");
    assert_eq!(machine.guest.given_back(TO_PORT), [(0, 4), (9, 2)]);
}

#[test]
fn what_was_sent_before_the_end_is_read() {
    let mut machine = Machine::new();
    machine.open();
    machine.send(0, b"last words");
    machine.send_event(6, 0);
    machine.wait_for(FROM_CONTROL, 2);
    machine.end();
    let mut all = Vec::new();
    machine.reader.read_to_end(&mut all).unwrap();
    assert_eq!(all, b"last words");
    let error = machine.writer.write(b"too late").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

#[test]
fn a_guest_that_never_opens_the_port_ends_both_directions() {
    let mut machine = Machine::new();
    machine.end();
    assert_eq!(machine.reader.read(&mut [0; 4]).unwrap(), 0);
    let error = machine.writer.write(b"nobody").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

#[test]
fn nonsense_loses_no_bytes() {
    let mut machine = Machine::new();
    machine.open();
    // Addresses outside the guest's memory, in both directions.
    let bad = [Part::Readable(MEMORY, 8)];
    machine.guest.request(FROM_PORT, 0, &bad);
    machine.send(1, b"good");
    let mut bytes = [0; 4];
    machine.reader.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"good");
    machine
        .guest
        .request(TO_PORT, 0, &[Part::Writable(MEMORY - 2, 8)]);
    machine
        .guest
        .request(TO_PORT, 2, &[Part::Readable(FREE, 8)]);
    let room = machine.make_room(3, 8);
    machine.writer.write_all(b"whole").unwrap();
    assert_eq!(machine.guest.get(room, 5), b"whole");
    assert_eq!(machine.guest.given_back(TO_PORT), [(0, 0), (2, 0), (3, 5)]);
    // Messages that are too short or have another subject.
    for (head, len) in [(100, 3), (101, 8)] {
        machine.guest.put(FREE, &[9; 8]);
        machine
            .guest
            .request(FROM_CONTROL, head, &[Part::Readable(FREE, len)]);
    }
    machine.guest.rings.wake_each();
    machine.wait_for(FROM_CONTROL, 3);
}
#[test]
fn room_for_messages_keeps_nobody_busy() {
    let machine = Machine::new();
    for head in 0..4 {
        let room = [Part::Writable(FREE + u64::from(head) * 64, 64)];
        machine.guest.request(TO_CONTROL, head, &room);
    }
    machine.open();
    thread::sleep(Duration::from_millis(20));
    // The thread must be blocked all the time, not only between two polls.
    let rings = &machine.guest.rings;
    assert!((0..1000).all(|_| rings.is_somebody_waiting(CONTROL)));
}
