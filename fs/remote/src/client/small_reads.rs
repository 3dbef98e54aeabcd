//! Reading of small files, several of which one request reads whole.

use diskfs_vfs::InodeNumber;

use super::connection::{Answer, MISMATCH};
use super::remote::Remote;
use super::small_files::{Attempt, BATCH_BYTES, Batch, Step, small_len};
use crate::protocol::{Checked, FileRead, Operation, Reply, Violation, encode_file_reads};

impl Remote {
    /// Reads from a small file that was announced. Returns `None` for all others.
    pub(super) fn read_small(
        &self,
        inode: InodeNumber,
        offset: u64,
        buf: &mut [u8],
    ) -> Option<usize> {
        let mut attempt = Attempt::First;
        loop {
            match self.small_files.next_step(inode, attempt) {
                Step::ReadAlone => return None,
                Step::Use(contents) => {
                    self.send_next();
                    return Some(copy(&contents, offset, buf));
                }
                Step::Send(number, files) => {
                    attempt = Attempt::Failed;
                    self.send_batch(number, &files);
                }
                Step::Finish(batch) => {
                    self.send_next();
                    self.finish_batch(&batch);
                }
            }
        }
    }

    /// Sends requests for announced files before they are read.
    pub(super) fn send_next(&self) {
        while let Some((number, files)) = self.small_files.next_batch() {
            self.send_batch(number, &files);
        }
    }

    /// Requests files. If that fails, they are read one by one, and the error is met there.
    fn send_batch(&self, number: u64, files: &[InodeNumber]) {
        let asked = self.attributes.request_time();
        let files = self.files_to_read(files);
        let encoded = encode_file_reads(&files);
        let request = self.request(Operation::ReadFiles { files: &encoded });
        let limit = files.iter().map(|file| len(file.len)).sum();
        let can_send = !files.is_empty() && self.check_open().is_ok();
        let sent = can_send.then(|| self.connection.send_ahead(&request, limit));
        match sent {
            Some(Ok(ticket)) => self.small_files.note_sent(Batch {
                number,
                ticket,
                asked,
                files,
            }),
            _ => self.small_files.end(number),
        }
    }

    /// Returns the regular files of known size whose contents fit into one answer.
    fn files_to_read(&self, files: &[InodeNumber]) -> Vec<FileRead> {
        let mut room = BATCH_BYTES;
        let known = files.iter().filter_map(|&inode| {
            let len = small_len(&self.attributes.get(inode)?)?;
            let inode = inode.0;
            Some(FileRead { inode, len })
        });
        known
            .take_while(|file| {
                let rest = room.checked_sub(len(file.len));
                room = rest.unwrap_or_default();
                rest.is_some()
            })
            .collect()
    }

    /// Waits for a batch, and stores its contents. A file that can't be read is read alone later,
    /// which returns the error.
    fn finish_batch(&self, batch: &Batch) {
        let total = batch.files.iter().map(|file| len(file.len)).sum();
        let mut into = vec![0; total];
        let take = |answer: Answer<'_>| self.store(batch, &answer);
        let _ = self.connection.finish_later(batch.ticket, &mut into, take);
        self.small_files.end(batch.number);
    }

    /// Checks an answer, and stores the contents of the files that were not changed meanwhile.
    fn store(&self, batch: &Batch, answer: &Answer<'_>) -> Checked<()> {
        let contents = split(&batch.files, answer)?;
        self.small_files.store(contents, |inode| {
            self.attributes.is_unchanged(batch.asked, inode)
        });
        Ok(())
    }

    /// Waits for all requests that were sent ahead.
    pub(super) fn finish_all_reads(&self) {
        for batch in self.small_files.take_sent() {
            self.finish_batch(&batch);
        }
    }
}

/// Returns the contents of each file in an answer.
fn split<'a>(files: &[FileRead], answer: &Answer<'a>) -> Checked<Vec<(InodeNumber, &'a [u8])>> {
    let Reply::Files { lens } = &answer.reply else {
        return Err(MISMATCH);
    };
    if lens.len() != files.len() {
        return Err(MISMATCH);
    }
    let mut rest = answer.bulk;
    let mut contents = Vec::with_capacity(files.len());
    for (file, read) in files.iter().zip(lens) {
        let Some(read) = *read else { continue };
        let taken = rest
            .split_at_checked(len(read))
            .filter(|_| read <= file.len);
        let (of_file, later) = taken.ok_or(Violation("invalid lengths of files"))?;
        contents.push((InodeNumber(file.inode), of_file));
        rest = later;
    }
    if !rest.is_empty() {
        return Err(MISMATCH);
    }
    Ok(contents)
}

/// Copies from offset `offset` of a file's contents.
fn copy(contents: &[u8], offset: u64, buf: &mut [u8]) -> usize {
    let from = usize::try_from(offset).ok();
    let rest = from
        .and_then(|from| contents.get(from..))
        .unwrap_or_default();
    let len = rest.len().min(buf.len());
    if let (Some(to), Some(from)) = (buf.get_mut(..len), rest.get(..len)) {
        to.copy_from_slice(from);
    }
    len
}

fn len(len: u32) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
