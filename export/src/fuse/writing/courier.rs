//! A thread for what waits for the kernel, while the kernel waits for answers of ours: a thread that answers must do
//! none of it.

use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

type Errand = Box<dyn FnOnce() + Send>;

/// Runs errands one after another, on a thread that is started for the first.
#[derive(Debug, Default)]
pub(super) struct Courier {
    errands: Mutex<Option<mpsc::Sender<Errand>>>,
}

impl Courier {
    /// Hands over an errand. Without a thread for it, it is dropped; a reply within says EIO then.
    pub(super) fn send(&self, errand: impl FnOnce() + Send + 'static) {
        let mut errands = self.errands.lock().unwrap_or_else(PoisonError::into_inner);
        if errands.is_none() {
            *errands = start();
        }
        if let Some(errands) = &*errands {
            let _ = errands.send(Box::new(errand));
        }
    }
}

fn start() -> Option<mpsc::Sender<Errand>> {
    let (sender, errands) = mpsc::channel::<Errand>();
    let run = move || errands.into_iter().for_each(|errand| errand());
    let started = thread::Builder::new().name("fuse-courier".to_owned());
    match started.spawn(run) {
        Ok(_) => Some(sender),
        Err(error) => {
            tracing::warn!("no thread for what waits for the kernel: {error}");
            None
        }
    }
}
