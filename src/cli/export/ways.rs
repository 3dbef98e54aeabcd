//! The ways in which one disk is served at a time.

use std::sync::mpsc;
use std::thread;

use diskfs::Result;
use serde_json::{Map, Value};

use super::super::session::Session;
use super::super::signals::Signals;

/// A function that ends a way from another thread. It is called once at most.
pub(super) type Stop = Box<dyn FnOnce() + Send>;

/// A way in which a disk is served. Clients can connect already.
pub(super) trait Way: Send {
    /// Returns where the disk is served, for people.
    fn place(&self) -> String;

    /// Adds where the disk is served to the document.
    fn add_fields(&self, fields: &mut Map<String, Value>);

    /// Returns what ends serving.
    fn stop(&self) -> Stop;

    /// Serves until it is stopped, or until nobody needs it any more. Calls `warn` with an error
    /// after which it goes on.
    fn serve(self: Box<Self>, warn: &dyn Fn(String)) -> Result<()>;
}

enum Event {
    Signal,
    Warning(String),
    Ended(Result<()>),
}

/// Serves in all ways until a signal arrives, or until all have ended. If one fails, or with
/// `is_once` if one ends, the others are stopped. Returns the first error.
pub(super) fn serve(
    ways: Vec<Box<dyn Way>>,
    signals: Signals,
    is_once: bool,
    session: &mut Session,
) -> Result<()> {
    let (send, events) = mpsc::channel();
    let signalled = send.clone();
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            signals.wait();
            let _ = signalled.send(Event::Signal);
        })?;
    let mut running = ways.len();
    let mut stops = Vec::new();
    for way in ways {
        stops.push(way.stop());
        let ended = send.clone();
        thread::Builder::new()
            .name("export".to_owned())
            .spawn(move || {
                let warn = |text| drop(ended.send(Event::Warning(text)));
                let served = way.serve(&warn);
                ended.send(Event::Ended(served))
            })?;
    }
    let mut done = Ok(());
    while running > 0 {
        let ends_all = match events.recv() {
            Ok(Event::Signal) => true,
            Ok(Event::Warning(text)) => {
                session.warn(&text);
                false
            }
            Ok(Event::Ended(ended)) => {
                running = running.saturating_sub(1);
                let has_failed = ended.is_err();
                done = done.and(ended);
                has_failed || is_once
            }
            Err(_) => break,
        };
        if ends_all {
            stops.drain(..).for_each(|stop| stop());
        }
    }
    done
}
