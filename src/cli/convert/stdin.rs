//! The image on standard input that `diskfs convert` copies.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use diskfs::image::ImageSpec;
use diskfs::image::convert::{ConvertOptions, InputStream};
use diskfs::{Disk, Error, ErrorKind, Result};

use super::super::progress::Progress;
use super::super::session::Session;
use super::Convert;

/// The name for standard input.
const STANDARD: &str = "-";

/// A source that was opened, unless it arrived as a stream that is copied already.
pub(super) enum Opened {
    Disk(Box<Disk>),
    /// The size of the disk that was copied.
    Copied(u64),
}

impl Convert {
    /// Returns true if the image is read from standard input.
    pub(super) fn reads_stream(&self) -> bool {
        let spec = ImageSpec::parse(self.image.as_os_str());
        spec.is_ok_and(|spec| spec.path == Path::new(STANDARD))
    }

    /// Reads the image from standard input: a raw one goes directly into a new raw image, others
    /// are stored in a temporary file first.
    pub(super) fn open_stream(
        &self,
        image: &OsStr,
        options: &ConvertOptions,
        session: &mut Session,
    ) -> Result<Opened> {
        if self.resume {
            let reason = "a copy of standard input cannot be continued";
            return Err(Error::new(ErrorKind::Invalid, reason)
                .with_hint("give IMG a name, or leave out --resume"));
        }
        if io::stdin().is_terminal() {
            let reason = "refusing to read an image from a terminal";
            return Err(
                Error::new(ErrorKind::Invalid, reason).with_hint("give IMG a name, or use a pipe")
            );
        }
        let spec = ImageSpec::parse(image)?;
        let format = spec.format.or(self.source.image.format);
        let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let in_stream = |error: diskfs::block::Error| Error::from(error).in_file(STANDARD);
        let stream = InputStream::new(input, format).map_err(in_stream)?;
        let mut progress = Progress::new(session.progress(), None);
        let mut advance = |bytes| {
            progress.advance(bytes);
            ControlFlow::Continue(())
        };
        if self.copies_directly() && stream.is_copyable(options) {
            let copied = stream.copy_raw(&self.target, options, &mut advance);
            progress.finish();
            return copied.map(Opened::Copied).map_err(in_stream);
        }
        let format = stream.format();
        session.warn(
            "an image from standard input is stored in a temporary file first, unless it and the \
             new one are raw",
        );
        let spooled = stream.spool(&tempfile::env::temp_dir(), &mut advance);
        progress.finish();
        let file = Arc::new(spooled.map_err(in_stream)?);
        let mut options = self.source.disk_options()?.format(format);
        if let Some(snapshot) = spec.snapshot {
            options = options.snapshot(snapshot);
        }
        if let Some(disk) = spec.disk {
            options = options.packaged_disk(disk);
        }
        let disk = options.open_device(STANDARD, file)?;
        Ok(Opened::Disk(Box::new(disk)))
    }

    /// Returns true if the whole disk is copied into a new file, and not read again.
    fn copies_directly(&self) -> bool {
        self.is_whole()
            && !self.no_create
            && !self.is_stream()
            && !self.verify
            && !self.bitmaps
            && !self.salvage
            && self.rate_limit == 0
    }
}
