//! The block device as a vhost-user [`Device`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::vhost_user::device::{Buffers, Device, FrontEnd, Ring, Rings, WaitPoint, WaitResult};

use super::config::{FLUSH, Geometry};
use super::request::Status;
use super::worker::{Worker, finish};
use super::{BlockDevice, Options};

/// All worker threads serve all rings.
const WORKERS: WaitPoint = WaitPoint(0);

/// A device that is being served to one front end.
#[derive(Debug)]
pub(super) struct Backend {
    device: Arc<BlockDevice>,
    geometry: Geometry,
    threads: usize,
    /// The features that the guest has negotiated.
    features: AtomicU64,
}

impl Backend {
    pub(super) fn new(device: Arc<BlockDevice>, options: &Options) -> Self {
        let disk = device.disk();
        let geometry = Geometry {
            size_bytes: disk.reader().size_bytes(),
            block_size: disk.reader().block_size(),
            is_read_only: disk.writer().is_none(),
            queues: options.queues.get(),
        };
        drop(disk);
        Self {
            device,
            geometry,
            threads: options.threads.get(),
            features: AtomicU64::new(0),
        }
    }

    /// Answers the requests of one ring until none is left.
    pub(super) fn drain(
        &self,
        ring: &Ring,
        rings: &Rings,
        worker: &mut Worker,
        buffers: &mut Buffers,
    ) {
        while !rings.has_ended() {
            let Some(mut taken) = ring.take(buffers) else {
                return;
            };
            if taken.has_more() {
                rings.wake_one(WORKERS);
            }
            let writes_through = self.features.load(Ordering::Relaxed) & FLUSH == 0;
            let requests = &self.device.requests;
            requests.started.fetch_add(1, Ordering::Relaxed);
            // A panic is our bug, but the guest must not wait for an answer that never comes.
            let answered = catch_unwind(AssertUnwindSafe(|| {
                worker.answer(&self.device, &mut taken, writes_through);
            }));
            if answered.is_err() {
                tracing::error!("the handler of a guest's request panicked");
                finish(&mut taken, Status::Failed, 0);
            }
            requests.answered.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Device for Backend {
    fn name(&self) -> &'static str {
        "vhost-user-blk"
    }

    fn rings(&self) -> Vec<WaitPoint> {
        vec![WORKERS; self.geometry.queues.into()]
    }

    fn features(&self) -> u64 {
        self.geometry.features()
    }

    fn set_features(&self, features: u64) {
        self.features.store(features, Ordering::Relaxed);
    }

    fn config(&self) -> Vec<u8> {
        let size_bytes = self.device.size_bytes();
        Geometry {
            size_bytes,
            ..self.geometry
        }
        .config()
    }

    fn set_front_end(&self, front_end: &Arc<FrontEnd>) {
        *self.device.front_end() = Some(Arc::clone(front_end));
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn work(&self, rings: &Arc<Rings>) {
        let mut worker = Worker::default();
        let mut buffers = Buffers::default();
        loop {
            match rings.wait_with_others(WORKERS) {
                WaitResult::Ended => return,
                WaitResult::Anywhere => {
                    for ring in rings.iter() {
                        self.drain(ring, rings, &mut worker, &mut buffers);
                    }
                }
                WaitResult::At(index) => {
                    if let Some(ring) = rings.ring(index) {
                        self.drain(ring, rings, &mut worker, &mut buffers);
                    }
                }
            }
        }
    }
}
