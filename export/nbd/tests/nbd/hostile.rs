//! Clients that misbehave: each costs its own connection, and nothing else.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs_block::Memory;
use diskfs_nbd::server::{Export, Options};

use crate::hand::{EINVAL, Hand, READ, WRITE};
use crate::rig::Served;

fn served(options: Options) -> Served {
    let device = Arc::new(Memory::new(vec![1; 64 << 20]));
    Served::start(vec![Export::writable("", device)], options)
}

/// Checks that a new client is served.
fn works(served: &Served) {
    let mut hand = Hand::go(served.connect(), "");
    hand.send((READ, 0), 77, 4096, 512);
    assert_eq!(hand.simple(), (0, 77));
    assert_eq!(hand.data(512), [1; 512]);
}

#[test]
fn a_client_that_says_nothing_is_disconnected() {
    let options = Options {
        handshake_timeout: Duration::from_millis(300),
        max_connections: 2,
        ..Options::default()
    };
    let served = served(options);
    let mut silent = Hand::greet(served.connect());
    let mut other = Hand::greet(served.connect());
    // A third one is too many.
    let mut third = Hand(served.connect());
    assert!(third.is_closed());
    let begun = Instant::now();
    assert!(silent.is_closed() && other.is_closed());
    assert!(begun.elapsed() < Duration::from_secs(5));
    works(&served);
}

#[test]
fn invalid_messages_end_the_connection() {
    let served = served(Options::default());
    // Unknown flags of a client.
    let mut hand = Hand(served.connect());
    hand.0.write_all(&8_u32.to_be_bytes()).unwrap();
    hand.data(18);
    assert!(hand.is_closed());
    // An option that is too long, and one without its magic number.
    for bytes in [&b"IHAVEOPT\0\0\0\x07\xff\xff\xff\xff"[..], &[0; 16]] {
        let mut hand = Hand::greet(served.connect());
        hand.0.write_all(bytes).unwrap();
        assert!(hand.is_closed());
    }
    // An unknown export by the option that has no errors.
    let mut hand = Hand::greet(served.connect());
    hand.send_option(1, b"unknown");
    assert!(hand.is_closed());
    // A request without its magic number, and a write that is too long.
    let mut hand = Hand::go(served.connect(), "");
    hand.0.write_all(&[0; 28]).unwrap();
    assert!(hand.is_closed());
    let mut hand = Hand::go(served.connect(), "");
    hand.send((WRITE, 0), 1, 0, (32 << 20) + 1);
    assert!(hand.is_closed());
    works(&served);
}

#[test]
fn invalid_options_are_refused_and_the_handshake_continues() {
    let served = served(Options::default());
    let mut hand = Hand::greet(served.connect());
    let mut refused = |option, data: &[u8]| {
        let replies = hand.option(option, data);
        replies.last().unwrap().0 - (1 << 31)
    };
    assert_eq!(refused(3, b"x"), 3);
    assert_eq!(refused(4, b""), 1);
    assert_eq!(refused(5, b""), 2);
    assert_eq!(refused(7, b"\0\0\0\x09abc"), 3);
    assert_eq!(refused(7, b"\0\0\0\x01\xff\0\0"), 3);
    assert_eq!(refused(7, b"\0\0\0\x01x\0\0"), 6);
    assert_eq!(refused(10, b"\0\0\0\0\0\0\0\0"), 3);
    assert_eq!(refused(0xffff_ffff, b""), 1);
    assert_eq!(hand.option(11, b""), [(1, vec![])]);
    assert_eq!(hand.option(8, b"").last().unwrap().0, (1 << 31) + 10);
    assert_eq!(hand.option(2, b""), [(1, vec![])]);
    assert!(hand.is_closed());
}

#[test]
fn a_client_that_takes_no_answers_is_disconnected() {
    let options = Options {
        stall_timeout: Duration::from_millis(500),
        ..Options::default()
    };
    let served = served(options);
    let mut stalled = Hand::structured(served.connect(), "");
    for cookie in 0..8 {
        stalled.send((READ, 0), cookie, 0, 32 << 20);
    }
    works(&served);
    let begun = Instant::now();
    while served.server.connections() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(20));
    }
    works(&served);
    served.server.stop().unwrap();
}

#[test]
fn a_client_in_the_middle_of_a_write_does_not_delay_the_stop() {
    let served = served(Options::default());
    let mut hand = Hand::go(served.connect(), "");
    hand.send((WRITE, 0), 1, 0, 1 << 20);
    hand.0.write_all(&[2; 1000]).unwrap();
    works(&served);
    let begun = Instant::now();
    served.server.stop().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(hand.is_closed());
}

#[test]
fn a_read_longer_than_the_maximum_is_refused() {
    let served = served(Options::default());
    let mut hand = Hand::go(served.connect(), "");
    hand.send((READ, 0), 1, 0, 33 << 20);
    let (error, _) = hand.simple();
    assert!(error == EINVAL || error == 75, "{error}");
    hand.send((READ, 0), 2, 0, 32 << 20);
    assert_eq!(hand.simple(), (0, 2));
    assert_eq!(hand.data(32 << 20).len(), 32 << 20);
}
