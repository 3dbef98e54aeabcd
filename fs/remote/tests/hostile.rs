//! Sessions over a line that changes bytes. Neither side panics, hangs or returns impossible
//! values, and the filesystem is unmounted at the end.

mod area;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use area::Area;
use diskfs_remote::client::Client;
use diskfs_remote::server::{BulkArea, Machine, MountRequest, Served, serve};
use diskfs_remote::testing::ask_everything;
use diskfs_vfs::testing::{Synced, WritableMemoryFs};

/// The time to wait for bytes that a changed length announces.
const PATIENCE: Duration = Duration::from_millis(30);

struct Memory(Arc<WritableMemoryFs>, Option<Area>);

impl Machine for Memory {
    fn area(&self) -> Option<&dyn BulkArea> {
        self.1.as_ref().map(|area| area as _)
    }

    fn mount(&self, _request: &MountRequest) -> diskfs_vfs::Result<Arc<dyn Served>> {
        Ok(Arc::clone(&self.0) as _)
    }
}

/// A pseudorandom generator (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }
}

/// Forwards a stream, with a byte changed now and then.
fn hand_on(mut from: UnixStream, mut to: UnixStream, mut random: Option<Random>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let bytes = &mut buffer[..read];
        if let Some(random) = &mut random {
            for _ in 0..random.next() % 3 {
                // The first bytes are headers and messages more often than contents.
                let few = 1 + random.below(200);
                let place = random.below(read.min(few));
                bytes[place] = match random.next() % 3 {
                    0 => bytes[place] ^ (1 << (random.next() % 8)),
                    1 => random.next().to_le_bytes()[0],
                    _ => 0xff,
                };
            }
        }
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    to.shutdown(Shutdown::Write).ok();
}

/// The side that receives the changed bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    Client,
    Server,
}

fn session(seed: u64, victim: Victim) {
    let there = Arc::new(WritableMemoryFs::new());
    // In every second session, contents go through the area.
    let area = seed.is_multiple_of(2).then(Area::new);
    let machine = Memory(Arc::clone(&there), area.clone());
    let (client_end, client_line) = UnixStream::pair().unwrap();
    let (server_end, server_line) = UnixStream::pair().unwrap();
    client_end.set_read_timeout(Some(PATIENCE)).unwrap();
    let of = |who| (victim == who).then_some(Random(seed));
    let (to_client, to_server) = (of(Victim::Client), of(Victim::Server));
    let server = thread::spawn(move || {
        let reader = server_end.try_clone().unwrap();
        serve(reader, server_end, &machine).ok();
    });
    let lines = [
        (
            server_line.try_clone().unwrap(),
            client_line.try_clone().unwrap(),
            to_client,
        ),
        (client_line, server_line, to_server),
    ]
    .map(|(from, to, random)| thread::spawn(move || hand_on(from, to, random)));
    let connected = Client::connect_beside(
        area.map(|area| Arc::new(area) as _),
        client_end.try_clone().unwrap(),
        client_end.try_clone().unwrap(),
        Duration::from_secs(5),
    );
    if let Ok(client) = connected {
        ask_everything(&client);
    }
    client_end.shutdown(Shutdown::Both).unwrap();
    server.join().unwrap();
    for line in lines {
        line.join().unwrap();
    }
    let synced = there.take_synced();
    assert!(
        synced
            .iter()
            .filter(|synced| **synced == Synced::Closed)
            .count()
            <= 2,
        "{seed}"
    );
}

#[test]
fn the_client_survives_any_agent() {
    (0..150).for_each(|seed| session(seed, Victim::Client));
}

#[test]
fn the_server_survives_any_client() {
    (0..150).for_each(|seed| session(seed, Victim::Server));
}
