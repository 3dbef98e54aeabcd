//! One connection to a server.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, BufReader};
use tokio::sync::Notify;

use super::durability::Durability;
use super::pending::{Pending, Table};
use super::replies;
use super::shape::Opened;
use crate::protocol::{Command, CommandFlags, Request};
use crate::stream::{DirectWrite, Duplex, Message, Outbox};

/// The size of the buffer for reading replies.
const BUFFER_BYTES: usize = 64 << 10;

/// A connection whose export is open.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) opened: Opened,
    table: Arc<Table>,
    outbox: Arc<Outbox>,
    kill: Arc<Notify>,
}

impl Link {
    /// Begins to use a connection. Its task runs in the current runtime.
    pub(super) fn start(
        stream: BufReader<Box<dyn Duplex>>,
        direct: Option<Arc<dyn DirectWrite>>,
        opened: Opened,
        stall: Duration,
        durability: Arc<Durability>,
    ) -> Self {
        let link = Self {
            opened,
            table: Arc::default(),
            outbox: Arc::new(Outbox::new(direct)),
            kill: Arc::default(),
        };
        let (table, outbox) = (Arc::clone(&link.table), Arc::clone(&link.outbox));
        let kill = Arc::clone(&link.kill);
        tokio::spawn(async move {
            let reason = run(stream, &table, &outbox, &opened, stall, &kill).await;
            durability.connection_ended();
            outbox.close();
            table.end(&reason);
        });
        link
    }

    /// Sends a request. Fails with the reason if the connection has ended.
    pub(super) fn send(
        &self,
        command: Command,
        flags: CommandFlags,
        pending: Arc<Pending>,
        payload: Vec<u8>,
    ) -> Result<(), String> {
        let (offset, length) = (pending.offset, pending.len_bytes);
        let cookie = self.table.add(pending)?;
        let request = Request {
            flags,
            command: command.number(),
            cookie,
            offset,
            length,
        };
        let head = request.encode(self.opened.headers);
        self.outbox.send(Message::new(head, payload));
        Ok(())
    }

    /// Returns the number of requests in flight, or `None` if the connection has ended.
    pub(super) fn load(&self) -> Option<usize> {
        self.table.load()
    }

    /// Ends the connection at once.
    pub(super) fn kill(&self, reason: &str) {
        self.table.end(reason);
        self.kill.notify_one();
    }

    /// Ends the connection with a message to the server.
    pub(super) fn disconnect(&self) {
        let request = Request {
            flags: CommandFlags::empty(),
            command: Command::Disconnect.number(),
            cookie: 0,
            offset: 0,
            length: 0,
        };
        let head = request.encode(self.opened.headers);
        self.outbox.send(Message::new(head, Vec::new()));
        self.outbox.finish();
    }

    /// Waits until the connection has ended.
    pub(super) async fn end_of_connection(&self) {
        self.table.end_of_connection().await;
    }
}

/// Sends and receives, until the connection ends. Returns the reason.
async fn run(
    stream: BufReader<Box<dyn Duplex>>,
    table: &Table,
    outbox: &Outbox,
    opened: &Opened,
    stall: Duration,
    kill: &Notify,
) -> String {
    let early = Cursor::new(stream.buffer().to_vec());
    let (read_half, mut write_half) = tokio::io::split(stream.into_inner());
    let mut stream = BufReader::with_capacity(BUFFER_BYTES, early.chain(read_half));
    tokio::select! {
        sent = outbox.run(&mut write_half, stall) => match sent {
            Ok(()) => "the connection is closed".to_owned(),
            Err(error) => error.to_string(),
        },
        failure = replies::read_all(&mut stream, opened, table) => {
            if failure.is_end() {
                "the server closed the connection".to_owned()
            } else {
                failure.to_string()
            }
        }
        () = kill.notified() => "the connection is closed".to_owned(),
    }
}
