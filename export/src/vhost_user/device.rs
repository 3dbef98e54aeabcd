//! The device side of vhost-user, as far as every device of ours has it in common: the messages of
//! the front end (QEMU, User Mode Linux), the guest's memory, the rings, and the threads.
//!
//! A [`Device`] says what it is and answers requests; [`Service`] serves it to one front end.
//! Whatever the front end or its guest says may be a lie: see `export/src/vhost_user/DESIGN.md`.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

use std::sync::Arc;

mod buffers;
mod complaints;
mod front_end;
mod memory;
mod protocol;
mod ring;
mod rings;
mod service;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use buffers::{Buffers, Cursor, Malformed};
pub use front_end::FrontEnd;
pub use ring::{Ring, Taken, Telling};
pub use rings::{Rings, Waiting, Woken};
pub use service::{Ended, Service, Stopper};

/// What is served: a kind of virtio device, and how it answers.
pub trait Device: Send + Sync + 'static {
    /// What its threads are called, and what it is called in the log.
    fn name(&self) -> &'static str;

    /// At which [`Waiting`] the threads wait that look after each of its rings.
    fn rings(&self) -> Vec<Waiting>;

    /// The feature bits of this kind of device that it offers.
    fn features(&self) -> u64;

    /// The guest has chosen these features, before it sends requests.
    fn set_features(&self, features: u64);

    /// Its configuration space. What is asked for behind its end reads as zeroes.
    fn config(&self) -> Vec<u8>;

    /// The front end can be told when the [`config`](Self::config) changes.
    fn set_front_end(&self, _front_end: &Arc<FrontEnd>) {}

    /// How many threads call [`work`](Self::work).
    fn threads(&self) -> usize;

    /// Answers requests until [`Rings::wait`] says that it has ended.
    fn work(&self, rings: &Arc<Rings>);

    /// No front end will come any more, or the one that came has gone.
    fn has_ended(&self) {}
}
