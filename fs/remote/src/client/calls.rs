//! Calls of one filesystem, and what is kept of their answers.

use diskfs_vfs::{Error, ErrorKind, InodeNumber, Metadata, Result};

use super::connection::{Answer, Call, MISMATCH, done};
use super::holds::Tell;
use super::remote::Remote;
use crate::protocol::{Checked, Operation, Removed, Reply, Request, is_name};

impl Remote {
    pub(super) fn request<'c>(&self, operation: Operation<'c>) -> Request<'c> {
        Request::In {
            filesystem: self.filesystem,
            operation,
        }
    }

    /// Asks, and hands the answer to `take`.
    pub(super) fn ask<T>(
        &self,
        operation: Operation<'_>,
        take: impl FnOnce(Answer<'_>) -> Checked<T>,
    ) -> Result<T> {
        self.check_open()?;
        let call = Call::new(self.request(operation));
        self.connection.call(call, take)
    }

    /// The same with room for what comes behind the answer.
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

    /// The same with data behind the request.
    pub(super) fn tell<T>(
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

    /// Asks for a file's metadata, which is kept.
    pub(super) fn ask_for_file(&self, operation: Operation<'_>) -> Result<Metadata> {
        let asked = self.attributes.asked();
        let metadata = self.ask(operation, file)?;
        self.attributes.keep(asked, &metadata);
        Ok(metadata)
    }

    /// Changes a file, and keeps its new metadata.
    pub(super) fn change_file(&self, inode: InodeNumber, operation: Operation<'_>) -> Result<()> {
        let asked = self.attributes.asked();
        let changed = self.ask(operation, |answer| {
            let metadata = file(answer)?;
            if metadata.inode != inode {
                return Err(MISMATCH);
            }
            Ok(metadata)
        });
        match changed {
            Ok(metadata) => {
                self.attributes.changed_to(asked, &metadata);
                Ok(())
            }
            Err(error) => {
                self.attributes.changed(inode);
                Err(error)
            }
        }
    }

    /// Changes these, in a way of which nothing comes back.
    pub(super) fn change(&self, inodes: &[InodeNumber], operation: Operation<'_>) -> Result<()> {
        let changed = self.ask(operation, done);
        for &inode in inodes {
            self.attributes.changed(inode);
        }
        changed
    }

    /// When a file lost a name.
    pub(super) fn lost_a_name(&self, removed: Removed) -> Result<()> {
        let inode = InodeNumber(removed.inode);
        self.attributes.changed(inode);
        self.names.gone(inode);
        if removed.kept && self.holds.kept(inode) == Tell::Release {
            return self.ask(Operation::Release { inode: inode.0 }, done);
        }
        Ok(())
    }
}

/// The metadata in an answer.
pub(super) fn file(answer: Answer<'_>) -> Checked<Metadata> {
    match answer.reply {
        Reply::File(attributes) if answer.bulk.is_empty() => attributes.try_into(),
        _ => Err(MISMATCH),
    }
}

/// The bytes behind an answer.
pub(super) fn data(Answer { reply, bulk }: Answer<'_>) -> Checked<usize> {
    match reply {
        Reply::Data => Ok(bulk.len()),
        _ => Err(MISMATCH),
    }
}

/// What a method says of a name that none can have. The agent would, too, but a name that is longer
/// than a message would break the connection.
pub(super) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > crate::protocol::MAX_NAME {
        return Err(ErrorKind::NameTooLong.into());
    }
    if !is_name(name) {
        return Err(Error::new(ErrorKind::Invalid, "no file can have this name"));
    }
    Ok(())
}
