//! A log file before it is opened.

use std::sync::Arc;

use diskfs_journal::Journal;

use super::backward::{Backward, Text};
use super::forward::Forward;
use super::line::Style;
use super::packed::{Packing, unpack};
use super::stream::{JournalStream, Stream};
use super::window::Window;
use super::{DAY_US, Order};
use diskfs_disk::FileDevice;
use diskfs_disk::{File, Filesystem};

#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) path: Arc<str>,
    pub(super) kind: LogFormat,
}

#[derive(Debug, Clone)]
pub(super) enum LogFormat {
    Journal,
    Text(Packing, Style),
}

impl Origin {
    pub(super) fn journal(&self, filesystem: &Filesystem) -> diskfs_disk::Result<Journal> {
        let file = filesystem.open(&*self.path)?;
        Ok(Journal::open(Arc::new(FileDevice(file)))?)
    }

    fn text(&self, filesystem: &Filesystem) -> diskfs_disk::Result<File> {
        filesystem.open(&*self.path)
    }

    pub(super) fn open(
        &self,
        filesystem: &Filesystem,
        order: Order,
        window: &Window,
    ) -> diskfs_disk::Result<Stream> {
        let (packing, style) = match &self.kind {
            LogFormat::Journal => {
                let mut entries = self.journal(filesystem)?.entries();
                window
                    .since_us
                    .iter()
                    .for_each(|us| entries.skip_before(*us));
                window
                    .until_us
                    .iter()
                    .for_each(|us| entries.skip_after(*us));
                return Ok(Stream::Journal(JournalStream::new(entries, order)));
            }
            LogFormat::Text(packing, style) => (*packing, style.clone()),
        };
        let file = self.text(filesystem)?;
        Ok(match (order, packing) {
            (Order::OldestFirst, _) => Stream::Forward(Forward::new(packing.open(file)?, style)),
            (Order::NewestFirst, Packing::None) => {
                Stream::Backward(Backward::new(Text::Guest(file), style)?)
            }
            (Order::NewestFirst, _) => {
                let (text, problem) = unpack(packing, file)?;
                let lines = Backward::new(Text::Unpacked(text), style)?;
                Stream::Backward(lines.with_problem(problem))
            }
        })
    }

    /// Returns the bound of the file's times, in microseconds since 1970: no record is earlier or,
    /// if the newest come first, later. Returns `None` if no record is in the window.
    pub(super) fn bound(
        &self,
        filesystem: &Filesystem,
        order: Order,
        window: &Window,
    ) -> diskfs_disk::Result<Option<u64>> {
        if let LogFormat::Text(_, style) = &self.kind {
            // In an unknown time zone, the guest's clock may be ahead of UTC by most of a day.
            let latest = style.written_us.saturating_add(DAY_US);
            if window.since_us.is_some_and(|since| latest < since) {
                return Ok(None);
            }
            if order == Order::NewestFirst {
                return Ok(Some(latest));
            }
        }
        let mut stream = self.open(filesystem, order, window)?;
        // If the first records are damaged, the file is examined again when it is opened.
        Ok(match stream.next() {
            Some(record) => Some(record.realtime_us()),
            None => stream.take_problem().map(|_| 0),
        })
    }
}
