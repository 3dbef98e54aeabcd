//! The console as the transport serves it: its rings, and the messages about its port.

use std::sync::{Arc, Mutex, PoisonError};

use diskfs_export::vhost_user::device::{self, Buffers, Ring, Rings, Waiting, Woken};

use super::control::{BYTES, FromGuest, PORTS, ToGuest};
use super::port::Port;

/// Ports are announced by messages (`VIRTIO_CONSOLE_F_MULTIPORT`).
const MULTIPORT: u64 = 1 << 1;

// The rings (virtio 1.3, 5.3.2): two for port 0, which there is not; two for messages; two for port 1.
const TO_CONTROL: u16 = 2;
const FROM_CONTROL: u16 = 3;
pub(super) const TO_PORT: u16 = 4;
pub(super) const FROM_PORT: u16 = 5;

/// Who looks after the messages.
pub(super) const CONTROL: Waiting = Waiting(0);
/// Whoever reads from the port.
pub(super) const READER: Waiting = Waiting(1);
/// Whoever writes to it.
pub(super) const WRITER: Waiting = Waiting(2);

/// The console.
#[derive(Debug)]
pub(super) struct Device {
    port: Arc<Port>,
    /// Messages for which the guest has given no room yet; each at most once.
    pending: Mutex<Vec<ToGuest>>,
}

impl Device {
    pub(super) fn new(port: Arc<Port>) -> Self {
        Self {
            port,
            pending: Mutex::new(Vec::new()),
        }
    }

    /// Hears what the guest says, and answers.
    fn talk(&self, rings: &Arc<Rings>, buffers: &mut Buffers) {
        let (Some(from), Some(to)) = (rings.ring(FROM_CONTROL), rings.ring(TO_CONTROL)) else {
            return;
        };
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(message) = hear(from, buffers) {
            for answer in self.answers(message, rings) {
                if !pending.contains(answer) {
                    pending.push(*answer);
                }
            }
        }
        while let Some(message) = pending.first() {
            if !tell(to, *message, buffers) {
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

/// The guest's next message.
fn hear(ring: &Ring, buffers: &mut Buffers) -> Option<FromGuest> {
    let taken = ring.take(buffers)?;
    let mut bytes = [0; BYTES];
    match taken.reader().read(&mut bytes) {
        Ok(()) => Some(FromGuest::parse(bytes)),
        Err(malformed) => {
            taken.complain(&malformed);
            Some(FromGuest::Other)
        }
    }
}

/// Writes a message where the guest has room for it.
fn tell(ring: &Ring, message: ToGuest, buffers: &mut Buffers) -> bool {
    let Some(mut taken) = ring.take(buffers) else {
        return false;
    };
    let bytes = message.bytes();
    let told = taken.writer().write(&bytes);
    match told {
        Ok(()) => taken.set_written(u64::try_from(bytes.len()).unwrap_or_default()),
        Err(malformed) => taken.complain(&malformed),
    }
    true
}

impl device::Device for Device {
    fn name(&self) -> &'static str {
        "vhost-user-console"
    }

    fn rings(&self) -> Vec<Waiting> {
        vec![CONTROL, CONTROL, CONTROL, CONTROL, WRITER, READER]
    }

    fn features(&self) -> u64 {
        MULTIPORT
    }

    fn set_features(&self, _features: u64) {}

    /// `struct virtio_console_config`: columns and rows, which it does not have, and the number of
    /// ports.
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
        while rings.wait(CONTROL) != Woken::Ended {
            self.talk(rings, &mut buffers);
        }
    }

    fn has_ended(&self) {
        self.port.close();
    }
}
