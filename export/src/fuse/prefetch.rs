//! Read-ahead across files: a program that reads the files of a directory in listing order (tar,
//! grep, cp) finds the next files in the page cache already.
//!
//! The kernel reads ahead within a file. In a tree of small files that gives it nothing to read
//! ahead, and each file costs a message and two context switches between the reader and the server:
//! most of what such a reader waits for. So files that will be read next are stored in the kernel's
//! page cache before it asks (`FUSE_NOTIFY_STORE`). A separate thread does that, never one that
//! answers requests: storing waits for a page lock, and the kernel may be holding that lock while
//! it requests the page from us.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use diskfs_vfs::{FsRead, InodeNumber};
use fuser::Notifier;

use super::attributes::Nodes;

/// The size of the largest file that is stored: the size of the kernel's default read request.
const FILE_BYTES_MAX: u32 = 128 * 1024;

/// The number of files in a guess: the first guess, and the largest one after others were right.
const GUESS_FILES_MIN: usize = 8;
const GUESS_FILES_MAX: usize = 64;

/// The largest number of bytes in a guess: this much is read in vain when it is wrong.
const GUESS_BYTES_MAX: u64 = 1 << 20;

/// The number of guesses that may be queued for the thread. Further ones are dropped: the reader is
/// as fast as the thread then.
const GUESSES_WAITING: usize = 4;

/// The number of files that are remembered, per listing and in total; about 5 MiB. When there are
/// more, the oldest listings are forgotten.
const LISTED_FILES_MAX: usize = 16 * 1024;
const KNOWN_FILES_MAX: usize = 4 * LISTED_FILES_MAX;

/// A file that is small enough to be stored in the page cache at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SmallFile {
    inode: InodeNumber,
    len_bytes: u32,
}

impl SmallFile {
    /// Returns the file if it is small enough.
    pub(super) fn new(inode: InodeNumber, len_bytes: u64) -> Option<Self> {
        let len_bytes = u32::try_from(len_bytes).ok()?;
        let is_small = (1..=FILE_BYTES_MAX).contains(&len_bytes);
        is_small.then_some(Self { inode, len_bytes })
    }
}

/// The files to store, in the order in which they will be read.
type Guess = Vec<SmallFile>;

/// The observer of listings and reads, which guesses the files that will be read next.
#[derive(Debug)]
pub(super) struct Prefetcher {
    /// Locked for a few look-ups when a directory is listed or the first bytes of a file are read.
    history: Mutex<History>,
    guesses: SyncSender<Guess>,
}

/// The receiving end of the guesses.
#[derive(Debug)]
pub(super) struct Guesses(Receiver<Guess>);

impl Prefetcher {
    /// Creates an observer without history.
    pub(super) fn new() -> (Self, Guesses) {
        let (sender, receiver) = sync_channel(GUESSES_WAITING);
        let prefetcher = Self {
            history: Mutex::default(),
            guesses: sender,
        };
        (prefetcher, Guesses(receiver))
    }

    /// Records a part of a directory's listing, the part that begins after `cookie`.
    pub(super) fn note_listing(&self, dir: InodeNumber, cookie: u64, files: &[SmallFile]) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.list(dir, cookie, files);
    }

    /// Records that a file was read at its beginning.
    pub(super) fn note_read(&self, file: InodeNumber) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let guess = history.read(file);
        drop(history);
        if !guess.is_empty() {
            // Sending fails if the queue is full or the thread has ended.
            let _ = self.guesses.try_send(guess);
        }
    }
}

impl Guesses {
    /// Starts the thread that stores the guessed files. It ends when the [`Prefetcher`] is dropped.
    pub(super) fn start(
        self,
        fs: Arc<dyn FsRead>,
        nodes: Nodes,
        notifier: Notifier,
    ) -> io::Result<JoinHandle<()>> {
        let run = move || {
            let mut buffer = Vec::new();
            for guess in self.0 {
                buffer.resize(FILE_BYTES_MAX.try_into().unwrap_or_default(), 0);
                for file in &guess {
                    fs.will_need(file.inode, 0, file.len_bytes.into());
                }
                for file in guess {
                    // An error is ignored here: the program that reads the file gets it from its
                    // own request.
                    if let Ok(read) = fs.read_at(file.inode, 0, &mut buffer)
                        && read > 0
                    {
                        let _ = notifier.store(nodes.node(file.inode), 0, &buffer[..read]);
                    }
                }
            }
        };
        let builder = thread::Builder::new().name("diskfs-ahead".into());
        builder.spawn(run)
    }
}

/// The listings and reads that were observed.
#[derive(Debug, Default)]
struct History {
    listings: HashMap<InodeNumber, Listing>,
    /// The directories of `listings`, oldest first.
    by_age: VecDeque<InodeNumber>,
    places: HashMap<InodeNumber, ListingPosition>,
    /// The number of files in the next guess.
    guess_files: usize,
}

/// The small files of a directory in listing order.
#[derive(Debug, Default)]
struct Listing {
    files: Vec<SmallFile>,
    /// The index of the first file that was neither read nor guessed.
    next: usize,
}

/// The position of a file in the listing that showed it last.
#[derive(Debug, Clone, Copy)]
struct ListingPosition {
    dir: InodeNumber,
    position: usize,
}

impl History {
    fn list(&mut self, dir: InodeNumber, cookie: u64, files: &[SmallFile]) {
        if cookie == 0 {
            self.forget(dir);
            self.listings.insert(dir, Listing::default());
            self.by_age.push_back(dir);
        }
        let Some(listing) = self.listings.get_mut(&dir) else {
            return;
        };
        let room = LISTED_FILES_MAX - listing.files.len();
        for &file in files.iter().take(room) {
            let position = listing.files.len();
            self.places
                .insert(file.inode, ListingPosition { dir, position });
            listing.files.push(file);
        }
        while self.places.len() > KNOWN_FILES_MAX
            && let Some(&oldest) = self.by_age.front()
        {
            self.forget(oldest);
        }
    }

    fn forget(&mut self, dir: InodeNumber) {
        let Some(listing) = self.listings.remove(&dir) else {
            return;
        };
        self.by_age.retain(|&other| other != dir);
        for file in listing.files {
            // A file with several names may have been listed elsewhere since.
            if self
                .places
                .get(&file.inode)
                .is_some_and(|place| place.dir == dir)
            {
                self.places.remove(&file.inode);
            }
        }
    }

    /// Returns the files that will probably be read after `file`; empty if a guess isn't worth it.
    ///
    /// A guess begins with the file that follows one that the kernel had to request. It leaves out
    /// the file after its own last one. If the kernel then requests that file, the guess was right,
    /// and the next one is twice as large. At the beginning of a directory nothing is known yet,
    /// but an earlier success may repeat: half as much is guessed. Reads out of order cause no
    /// guess.
    fn read(&mut self, file: InodeNumber) -> Guess {
        let Some(&ListingPosition { dir, position }) = self.places.get(&file) else {
            return Guess::new();
        };
        let Some(listing) = self.listings.get_mut(&dir) else {
            return Guess::new();
        };
        if position < listing.next {
            return Guess::new();
        }
        self.guess_files = match position {
            0 => self.guess_files / 2,
            _ if position == listing.next => {
                (self.guess_files * 2).clamp(GUESS_FILES_MIN, GUESS_FILES_MAX)
            }
            _ => 0,
        };
        let mut bytes = 0;
        let guess: Guess = listing.files[position + 1..]
            .iter()
            .take(self.guess_files)
            .take_while(|file| {
                bytes += u64::from(file.len_bytes);
                bytes <= GUESS_BYTES_MAX
            })
            .copied()
            .collect();
        listing.next = position + 1 + guess.len();
        guess
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: InodeNumber = InodeNumber(1000);

    fn files(numbers: std::ops::Range<u64>, len_bytes: u64) -> Vec<SmallFile> {
        let file = |number| SmallFile::new(InodeNumber(number), len_bytes).unwrap();
        numbers.map(file).collect()
    }

    fn listed(numbers: std::ops::Range<u64>, len_bytes: u64) -> History {
        let mut history = History::default();
        history.list(DIR, 0, &files(numbers, len_bytes));
        history
    }

    fn numbers(guess: &Guess) -> Vec<u64> {
        guess.iter().map(|file| file.inode.0).collect()
    }

    #[test]
    fn small_is_up_to_one_message() {
        let small = |len_bytes| SmallFile::new(InodeNumber(1), len_bytes).is_some();
        assert!(small(1) && small(128 << 10));
        assert!(!small(0) && !small((128 << 10) + 1) && !small(u64::MAX));
    }

    #[test]
    fn a_lone_file_is_no_reason_to_guess() {
        let mut history = listed(0..100, 10);
        assert!(history.read(InodeNumber(0)).is_empty());
        let mut history = listed(0..100, 10);
        assert!(history.read(InodeNumber(50)).is_empty());
        assert!(
            history.read(InodeNumber(500)).is_empty(),
            "file 500 was never listed"
        );
    }

    #[test]
    fn in_order_the_guesses_grow_and_leave_one_to_ask_for() {
        let mut history = listed(0..100, 10);
        history.read(InodeNumber(0));
        let first = history.read(InodeNumber(1));
        assert_eq!(numbers(&first), (2..10).collect::<Vec<_>>());
        assert!(
            history.read(InodeNumber(5)).is_empty(),
            "file 5 is part of the last guess"
        );
        let second = history.read(InodeNumber(10));
        assert_eq!(numbers(&second), (11..27).collect::<Vec<_>>());
        let third = history.read(InodeNumber(27));
        assert_eq!(numbers(&third), (28..60).collect::<Vec<_>>());
    }

    #[test]
    fn what_was_right_is_guessed_again_in_the_next_directory_until_it_is_not() {
        let mut history = listed(0..100, 10);
        for number in [0, 1, 10, 27] {
            history.read(InodeNumber(number));
        }
        for (index, expected) in [16, 8, 4, 2, 1, 0].into_iter().enumerate() {
            let from = u64::try_from(200 * (index + 1)).unwrap();
            let dir = InodeNumber(from + 100);
            history.list(dir, 0, &files(from..from + 100, 10));
            assert_eq!(history.read(InodeNumber(from)).len(), expected);
        }
    }

    #[test]
    fn out_of_order_nothing_is_guessed() {
        let mut history = listed(0..100, 10);
        for number in [0, 1, 40, 20, 60, 61] {
            history.read(InodeNumber(number));
        }
        assert_eq!(history.guess_files, GUESS_FILES_MIN, "61 follows 60");
        assert!(history.read(InodeNumber(90)).is_empty());
    }

    #[test]
    fn a_guess_is_bounded_in_bytes() {
        let mut history = listed(0..100, 128 << 10);
        for number in [0, 1, 10] {
            let guess = history.read(InodeNumber(number));
            let bytes: u64 = guess.iter().map(|file| u64::from(file.len_bytes)).sum();
            assert!(bytes <= GUESS_BYTES_MAX);
        }
    }

    #[test]
    fn a_listing_comes_in_parts_and_anew() {
        let mut history = listed(0..5, 10);
        history.list(DIR, 77, &files(5..10, 10));
        history.read(InodeNumber(3));
        assert_eq!(
            numbers(&history.read(InodeNumber(4))),
            (5..10).collect::<Vec<_>>()
        );
        history.list(DIR, 0, &files(0..5, 10));
        assert_eq!(numbers(&history.read(InodeNumber(0))), [1, 2, 3, 4]);
        assert!(history.read(InodeNumber(7)).is_empty(), "no longer listed");
        history.list(InodeNumber(4), 77, &files(20..30, 10));
        assert_eq!(
            history.listings.len(),
            1,
            "a listing whose beginning was not seen is ignored"
        );
    }

    #[test]
    fn memory_is_bounded() {
        let mut history = History::default();
        for dir in 0..10 {
            let from = dir * 20_000;
            history.list(
                InodeNumber(1 << 40 | dir),
                0,
                &files(from..from + 20_000, 10),
            );
        }
        assert!(history.places.len() <= KNOWN_FILES_MAX);
        assert_eq!(history.listings.len(), history.by_age.len());
        let known: usize = history
            .listings
            .values()
            .map(|listing| listing.files.len())
            .sum();
        assert_eq!(known, history.places.len());
        assert!(
            !history.places.contains_key(&InodeNumber(0)),
            "the oldest listing is forgotten"
        );
    }
}
