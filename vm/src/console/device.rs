//! The console as a vhost-user device: its rings, and the messages about its port.

use std::sync::{Arc, Mutex, PoisonError};

use diskfs_export::vhost_user::device::{self, Buffers, Ring, Rings, WaitPoint, WaitResult};

use super::control::{BYTES, FromGuest, PORTS, ToGuest};
use super::port::Port;

/// The feature `VIRTIO_CONSOLE_F_MULTIPORT`: ports are announced by messages.
const MULTIPORT: u64 = 1 << 1;

// The rings (virtio 1.3, 5.3.2): two for port 0, which does not exist; two for messages; two for
// port 1.
const TO_CONTROL: u16 = 2;
const FROM_CONTROL: u16 = 3;
pub(super) const TO_PORT: u16 = 4;
pub(super) const FROM_PORT: u16 = 5;

/// The wait point of the thread that handles messages.
pub(super) const CONTROL: WaitPoint = WaitPoint(0);
/// The wait point of the reader.
pub(super) const READER: WaitPoint = WaitPoint(1);
/// The wait point of the writer.
pub(super) const WRITER: WaitPoint = WaitPoint(2);

/// The console device.
#[derive(Debug)]
pub(super) struct Device {
    port: Arc<Port>,
    /// Messages that wait for a buffer of the guest; each kind at most once.
    pending: Mutex<Vec<ToGuest>>,
}

impl Device {
    pub(super) fn new(port: Arc<Port>) -> Self {
        Self {
            port,
            pending: Mutex::new(Vec::new()),
        }
    }

    /// Receives the guest's messages and answers them.
    fn talk(&self, rings: &Arc<Rings>, buffers: &mut Buffers) {
        let (Some(from), Some(to)) = (rings.ring(FROM_CONTROL), rings.ring(TO_CONTROL)) else {
            return;
        };
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(message) = receive(from, buffers) {
            for answer in self.answers(message, rings) {
                if !pending.contains(answer) {
                    pending.push(*answer);
                }
            }
        }
        while let Some(message) = pending.first() {
            if !send(to, *message, buffers) {
                return;
            }
            pending.remove(0);
        }
    }

    fn answers(&self, message: FromGuest, rings: &Arc<Rings>) -> &'static [ToGuest] {
        match message {
            FromGuest::Ready => return &[ToGuest::Add],
            FromGuest::PortReady => return &[ToGuest::Name, ToGuest::Open],
            FromGuest::Opened => self.port.open(rings),
            FromGuest::Closed => self.port.close(),
            FromGuest::Other => {}
        }
        &[]
    }
}

/// Takes the guest's next message.
fn receive(ring: &Ring, buffers: &mut Buffers) -> Option<FromGuest> {
    let taken = ring.take(buffers)?;
    let mut bytes = [0; BYTES];
    match taken.reader().read(&mut bytes) {
        Ok(()) => Some(FromGuest::parse(bytes)),
        Err(malformed) => {
            taken.log_fault(&malformed);
            Some(FromGuest::Other)
        }
    }
}

/// Writes a message into a buffer of the guest. Returns false if there is none.
fn send(ring: &Ring, message: ToGuest, buffers: &mut Buffers) -> bool {
    let Some(mut taken) = ring.take(buffers) else {
        return false;
    };
    let bytes = message.bytes();
    let written = taken.writer().write(&bytes);
    match written {
        Ok(()) => taken.set_written(u64::try_from(bytes.len()).unwrap_or_default()),
        Err(malformed) => taken.log_fault(&malformed),
    }
    true
}

impl device::Device for Device {
    fn name(&self) -> &'static str {
        "vhost-user-console"
    }

    fn rings(&self) -> Vec<WaitPoint> {
        vec![CONTROL, CONTROL, CONTROL, CONTROL, WRITER, READER]
    }

    fn features(&self) -> u64 {
        MULTIPORT
    }

    fn set_features(&self, _features: u64) {}

    /// Returns `struct virtio_console_config`: no columns and rows, and the number of ports.
    fn config(&self) -> Vec<u8> {
        let mut config = vec![0; 4];
        config.extend_from_slice(&PORTS.to_le_bytes());
        config
    }

    fn threads(&self) -> usize {
        1
    }

    fn work(&self, rings: &Arc<Rings>) {
        let mut buffers = Buffers::default();
        while rings.wait(CONTROL) != WaitResult::Ended {
            self.talk(rings, &mut buffers);
        }
    }

    fn has_ended(&self) {
        self.port.close();
    }
}
