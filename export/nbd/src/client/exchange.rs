//! Requests and their answers, over any of the connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs_block::{Error, ErrorKind, Result};

use super::link::Link;
use super::links::Links;
use super::pending::{Answer, Kind, Miss, Pending};
use crate::protocol::{Command, CommandFlags, ErrorNumber};

/// A request that changes nothing, and may be sent again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    pub(super) command: Command,
    pub(super) kind: Kind,
    pub(super) offset: u64,
    pub(super) len_bytes: u64,
}

/// The pauses before a question is sent again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// A request in flight.
#[derive(Debug)]
pub(super) struct Sent {
    link: Arc<Link>,
    pending: Arc<Pending>,
    deadline: Instant,
}

impl Links {
    /// Sends a question on any connection.
    pub(super) fn ask(&self, question: Question, deadline: Instant) -> Result<Sent> {
        let Question {
            command,
            kind,
            offset,
            len_bytes,
        } = question;
        let flags = CommandFlags::empty();
        self.send_on(command, flags, deadline, &|| {
            let pending = Arc::new(Pending::new(kind, (offset, len_bytes), &self.buffers));
            (pending, Vec::new())
        })
    }

    /// Sends a change on any connection. It is never sent a second time.
    pub(super) fn change(
        &self,
        command: Command,
        flags: CommandFlags,
        (offset, len_bytes): (u64, u64),
        payload: &[u8],
    ) -> Result<Sent> {
        // A connection that the server closed meanwhile is noticed before the change is sent on it.
        self.driver.catch_up();
        self.send_on(command, flags, self.deadline(), &|| {
            let pending = Arc::new(Pending::new(
                Kind::Plain,
                (offset, len_bytes),
                &self.buffers,
            ));
            (pending, payload.to_vec())
        })
    }

    /// Sends a request. A connection that ended before it was sent is replaced.
    fn send_on(
        &self,
        command: Command,
        flags: CommandFlags,
        deadline: Instant,
        make: &dyn Fn() -> (Arc<Pending>, Vec<u8>),
    ) -> Result<Sent> {
        loop {
            let link = self.link(deadline)?;
            let (pending, payload) = make();
            match link.send(command, flags, Arc::clone(&pending), payload) {
                Ok(()) => {
                    return Ok(Sent {
                        link,
                        pending,
                        deadline,
                    });
                }
                Err(reason) if Instant::now() >= deadline => {
                    return Err(self.lost(&reason));
                }
                Err(_) => {}
            }
        }
    }

    /// Waits for the answer to a question. It is sent again if its connection ends.
    pub(super) fn answer(&self, question: Question, mut sent: Sent) -> Result<Answer> {
        let mut pause = FIRST_PAUSE;
        loop {
            let miss = match self.wait(&sent) {
                Ok(answer) => return Ok(answer),
                Err(miss) => miss,
            };
            let left = sent.deadline.saturating_duration_since(Instant::now());
            let lost = match miss {
                Miss::Lost(reason) if left > pause => reason,
                miss => return Err(self.error(&sent, miss)),
            };
            // A server that accepts connections and closes them would keep us busy.
            std::thread::sleep(pause);
            pause = pause.saturating_mul(2).min(LAST_PAUSE);
            sent = match self.ask(question, sent.deadline) {
                Ok(sent) => sent,
                Err(error) => {
                    let reason = format!("{lost}, and {}", error.reason());
                    return Err(self.lost(&reason).at(question.offset));
                }
            };
        }
    }

    /// Waits until a change is done. If its connection ends, it is unknown whether it was.
    pub(super) fn done(&self, sent: &Sent) -> Result<()> {
        match self.wait(sent) {
            Ok(_) => Ok(()),
            Err(miss) => Err(self.error(sent, miss)),
        }
    }

    /// Waits for the answer to a request.
    fn wait(&self, sent: &Sent) -> std::result::Result<Answer, Miss> {
        let answer = self.driver.wait_until(sent.deadline, sent.pending.wait());
        match answer {
            Some(Err(Miss::Refused(number, _))) if number == ErrorNumber::Shutdown.number() => {
                // The specification asks to disconnect.
                let reason = "the server is stopping";
                sent.link.kill(reason);
                Err(Miss::Lost(reason.to_owned()))
            }
            Some(answer) => answer,
            None => {
                // The cookie is in use as long as the connection is.
                sent.link.kill("the server did not answer in time");
                Err(Miss::Late)
            }
        }
    }

    fn error(&self, sent: &Sent, miss: Miss) -> Error {
        match miss {
            Miss::Refused(number, message) => {
                let kind = ErrorNumber::kind(number);
                let separator = if message.is_empty() { "" } else { ": " };
                let name = ErrorNumber::name(number);
                Error::new(
                    kind,
                    format!("the server reports {name}{separator}{message}"),
                )
                .at(sent.pending.offset)
                .in_file(self.name())
            }
            Miss::Lost(reason) => self.lost(&reason).at(sent.pending.offset),
            Miss::Late => self
                .lost("the server did not answer in time")
                .at(sent.pending.offset),
        }
    }

    fn lost(&self, reason: &str) -> Error {
        Error::new(
            ErrorKind::Io,
            format!("the NBD connection is lost: {reason}"),
        )
        .in_file(self.name())
    }
}
