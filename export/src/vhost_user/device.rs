//! The device side of vhost-user that all our devices share: the messages of the front end (QEMU,
//! User Mode Linux), the guest's memory, the rings, and the threads.
//!
//! A [`Device`] describes itself and answers requests; [`Service`] serves it to one front end.
//! Nothing that the front end or its guest sends is trusted: see `export/DESIGN.md`.
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
mod fault_log;
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
pub use ring::{Notification, Ring, TakenRequest};
pub use rings::{Rings, WaitPoint, WaitResult};
pub use service::{Ended, Service, Stopper};

/// A kind of virtio device, with its handler of requests.
pub trait Device: Send + Sync + 'static {
    /// Returns the device's name for threads and log messages.
    fn name(&self) -> &'static str;

    /// Returns, for each ring, the [`WaitPoint`] at which the threads that serve it wait.
    fn rings(&self) -> Vec<WaitPoint>;

    /// Returns the feature bits that this kind of device offers.
    fn features(&self) -> u64;

    /// Sets the features that the guest has negotiated; called before it sends requests.
    fn set_features(&self, features: u64);

    /// Returns the configuration space. Reads past its end return zeroes.
    fn config(&self) -> Vec<u8>;

    /// Sets the front end, which can be notified when the [`config`](Self::config) changes.
    fn set_front_end(&self, _front_end: &Arc<FrontEnd>) {}

    /// Returns the number of threads that call [`work`](Self::work).
    fn threads(&self) -> usize;

    /// Answers requests until [`Rings::wait`] returns [`WaitResult::Ended`].
    fn work(&self, rings: &Arc<Rings>);

    /// Notes that the connection has ended, or that no front end will ever connect.
    fn has_ended(&self) {}
}
