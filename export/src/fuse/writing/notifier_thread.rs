//! A thread for calls that wait for the kernel while the kernel waits for our answers. A thread
//! that answers requests must not make them.

use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that runs jobs one after another. It is started for the first one.
#[derive(Debug, Default)]
pub(super) struct NotifierThread {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
}

impl NotifierThread {
    /// Queues a job. If the thread cannot be started, the job is dropped; a reply in it then
    /// answers EIO.
    pub(super) fn send(&self, job: impl FnOnce() + Send + 'static) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.is_none() {
            *jobs = start();
        }
        if let Some(jobs) = &*jobs {
            let _ = jobs.send(Box::new(job));
        }
    }
}

fn start() -> Option<mpsc::Sender<Job>> {
    let (sender, jobs) = mpsc::channel::<Job>();
    let run = move || jobs.into_iter().for_each(|job| job());
    let started = thread::Builder::new().name("fuse-notifier".to_owned());
    match started.spawn(run) {
        Ok(_) => Some(sender),
        Err(error) => {
            tracing::warn!(
                "cannot start the thread that sends notifications to the kernel: {error}"
            );
            None
        }
    }
}
