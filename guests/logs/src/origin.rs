//! A file that something was logged in.

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
    pub(super) kind: Kind,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
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
            Kind::Journal => {
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
            Kind::Text(packing, style) => (*packing, style.clone()),
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

    /// No record comes before this time, or after it where the newest come first; in microseconds since 1970. `None`
    /// where nothing is in the window.
    pub(super) fn bound(
        &self,
        filesystem: &Filesystem,
        order: Order,
        window: &Window,
    ) -> diskfs_disk::Result<Option<u64>> {
        if let Kind::Text(_, style) = &self.kind {
            // The clocks of a guest whose zone is not known may be ahead of UTC by most of a day.
            let latest = style.written_us.saturating_add(DAY_US);
            if window.since_us.is_some_and(|since| latest < since) {
                return Ok(None);
            }
            if order == Order::NewestFirst {
                return Ok(Some(latest));
            }
        }
        let mut stream = self.open(filesystem, order, window)?;
        // A file whose first records are broken is looked at again when it is opened.
        Ok(match stream.next() {
            Some(record) => Some(record.realtime_us()),
            None => stream.take_problem().map(|_| 0),
        })
    }
}
