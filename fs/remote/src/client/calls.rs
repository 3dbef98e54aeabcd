//! Calls of a mounted filesystem, and caching of their answers.

use diskfs_vfs::{Error, ErrorKind, InodeNumber, Metadata, Result};

use super::attributes::RequestTime;
use super::connection::{Answer, Call, MISMATCH, done};
use super::holds::ReleaseNeeded;
use super::remote::Remote;
use crate::protocol::{Checked, Operation, Removed, Reply, Request, is_name};

impl Remote {
    pub(super) fn request<'c>(&self, operation: Operation<'c>) -> Request<'c> {
        Request::In {
            filesystem: self.filesystem,
            operation,
        }
    }

    /// Sends a request, and passes the answer to `take`.
    pub(super) fn ask<T>(
        &self,
        operation: Operation<'_>,
        take: impl FnOnce(Answer<'_>) -> Checked<T>,
    ) -> Result<T> {
        self.check_open()?;
        let call = Call::new(self.request(operation));
        self.connection.call(call, take)
    }

    /// Sends a request like [`ask`](Self::ask), with a buffer for the answer's bulk.
    pub(super) fn ask_into<T>(
        &self,
        operation: Operation<'_>,
        into: &mut [u8],
        take: impl FnOnce(Answer<'_>) -> Checked<T>,
    ) -> Result<T> {
        self.check_open()?;
        let call = Call {
            request: self.request(operation),
            data: &[],
            into,
        };
        self.connection.call(call, take)
    }

    /// Sends a request with bulk data.
    pub(super) fn send_bulk<T>(
        &self,
        operation: Operation<'_>,
        data: &[u8],
        take: impl FnOnce(Answer<'_>) -> Checked<T>,
    ) -> Result<T> {
        self.check_open()?;
        let call = Call {
            request: self.request(operation),
            data,
            into: &mut [],
        };
        self.connection.call(call, take)
    }

    /// Requests a file's metadata and stores it in the cache.
    pub(super) fn ask_for_file(&self, operation: Operation<'_>) -> Result<Metadata> {
        let asked = self.attributes.request_time();
        let metadata = self.ask(operation, file)?;
        self.attributes.keep(asked, &metadata);
        Ok(metadata)
    }

    /// Changes a file and stores its new metadata in the cache.
    pub(super) fn change_file(&self, inode: InodeNumber, operation: Operation<'_>) -> Result<()> {
        let asked = self.attributes.request_time();
        let changed = self.ask(operation, |answer| {
            let metadata = file(answer)?;
            if metadata.inode != inode {
                return Err(MISMATCH);
            }
            Ok(metadata)
        });
        match changed {
            Ok(metadata) => {
                self.changed_to(asked, &metadata);
                Ok(())
            }
            Err(error) => {
                self.changed(inode);
                Err(error)
            }
        }
    }

    /// Changes these files by a request without a result.
    pub(super) fn change(&self, inodes: &[InodeNumber], operation: Operation<'_>) -> Result<()> {
        let changed = self.ask(operation, done);
        for &inode in inodes {
            self.changed(inode);
        }
        changed
    }

    /// Drops what is known of a file after a change.
    pub(super) fn changed(&self, inode: InodeNumber) {
        // In this order: contents that arrive meanwhile are either not stored or dropped.
        self.attributes.changed(inode);
        self.small_files.forget(inode);
    }

    /// Replaces a file's metadata after a change, and drops its contents.
    pub(super) fn changed_to(&self, asked: RequestTime, metadata: &Metadata) {
        self.attributes.changed_to(asked, metadata);
        self.small_files.forget(metadata.inode);
    }

    /// Updates cache and holds after a file lost a name.
    pub(super) fn lost_a_name(&self, removed: Removed) -> Result<()> {
        let inode = InodeNumber(removed.inode);
        self.changed(inode);
        self.negative_cache.remove(inode);
        if removed.kept && self.holds.note_kept(inode) == ReleaseNeeded::Yes {
            return self.ask(Operation::Release { inode: inode.0 }, done);
        }
        Ok(())
    }
}

/// Returns the metadata in an answer.
pub(super) fn file(answer: Answer<'_>) -> Checked<Metadata> {
    match answer.reply {
        Reply::File(attributes) if answer.bulk.is_empty() => attributes.try_into(),
        _ => Err(MISMATCH),
    }
}

/// Returns the length of an answer's bulk.
pub(super) fn data(Answer { reply, bulk }: Answer<'_>) -> Checked<usize> {
    match reply {
        Reply::Data => Ok(bulk.len()),
        _ => Err(MISMATCH),
    }
}

/// Refuses a name that no file can have. The agent would refuse it, too, but a name that is too
/// long for a message would break the connection.
pub(super) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > crate::protocol::MAX_NAME {
        return Err(ErrorKind::NameTooLong.into());
    }
    if !is_name(name) {
        return Err(Error::new(ErrorKind::Invalid, "invalid file name"));
    }
    Ok(())
}
