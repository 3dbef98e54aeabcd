//! Reading ahead across files: who reads the files of a directory in the order of its listing, as
//! tar, grep and cp do, finds the next ones in the page cache.
//!
//! The kernel reads ahead within a file. A tree of small files gives it nothing to read ahead, and
//! each of them costs a message and two switches between the reader and us, which is most of what
//! such a reader waits for. So files that will be read next are handed to the kernel before it asks
//! (`FUSE_NOTIFY_STORE`), by a thread of their own. It must never be one of those that answer:
//! storing waits for a page that the kernel may be asking us for at that moment.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use diskfs_vfs::{FsRead, InodeNumber};
use fuser::Notifier;

use super::attributes::Nodes;

/// The largest file that is handed over: what the kernel asks for in one message by default.
const FILE_BYTES_MAX: u32 = 128 * 1024;

/// How many files a guess covers: at first, and at most, after others came true.
const GUESS_FILES_MIN: usize = 8;
const GUESS_FILES_MAX: usize = 64;

/// How many bytes a guess covers at most: this much is read in vain when it is wrong.
const GUESS_BYTES_MAX: u64 = 1 << 20;

/// How many guesses may wait for the thread. What comes on top is dropped: the reader is as fast
/// as we are then.
const GUESSES_WAITING: usize = 4;

/// How many files of one listing, and of all, are remembered; about 5 MiB. Of more than that, the
/// oldest listings are forgotten.
const LISTED_FILES_MAX: usize = 16 * 1024;
const KNOWN_FILES_MAX: usize = 4 * LISTED_FILES_MAX;

/// A file that is small enough to be handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SmallFile {
    inode: InodeNumber,
    len_bytes: u32,
}

impl SmallFile {
    /// The file, if it is one.
    pub(super) fn new(inode: InodeNumber, len_bytes: u64) -> Option<Self> {
        let len_bytes = u32::try_from(len_bytes).ok()?;
        let is_small = (1..=FILE_BYTES_MAX).contains(&len_bytes);
        is_small.then_some(Self { inode, len_bytes })
    }
}

/// Files to hand over, in the order in which they will be read.
type Guess = Vec<SmallFile>;

/// Watches what is listed and read, and guesses what will be read next.
#[derive(Debug)]
pub(super) struct Ahead {
    /// Held for a few look-ups, when a listing or the first bytes of a file were asked for.
    seen: Mutex<Seen>,
    guesses: SyncSender<Guess>,
}

/// Where the guesses come out.
#[derive(Debug)]
pub(super) struct Guesses(Receiver<Guess>);

impl Ahead {
    /// One that has seen nothing yet.
    pub(super) fn new() -> (Self, Guesses) {
        let (sender, receiver) = sync_channel(GUESSES_WAITING);
        let ahead = Self {
            seen: Mutex::default(),
            guesses: sender,
        };
        (ahead, Guesses(receiver))
    }

    /// Notes a part of a directory's listing, the one that begins behind `cookie`.
    pub(super) fn listed(&self, dir: InodeNumber, cookie: u64, files: &[SmallFile]) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.list(dir, cookie, files);
    }

    /// Notes that a file was read at its beginning.
    pub(super) fn read(&self, file: InodeNumber) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let guess = seen.read(file);
        drop(seen);
        if !guess.is_empty() {
            // It fails when too many wait, and when the thread is gone.
            let _ = self.guesses.try_send(guess);
        }
    }
}

impl Guesses {
    /// Starts the thread that hands over what is guessed. It ends with the [`Ahead`].
    pub(super) fn hand_over(
        self,
        fs: Arc<dyn FsRead>,
        nodes: Nodes,
        notifier: Notifier,
    ) -> io::Result<JoinHandle<()>> {
        let run = move || {
            let mut buffer = vec![0; FILE_BYTES_MAX.try_into().unwrap_or_default()];
            for guess in self.0 {
                for file in &guess {
                    fs.will_need(file.inode, 0, file.len_bytes.into());
                }
                for file in guess {
                    // Whoever reads the file will hear of an error, and of one only.
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

/// What was listed and read.
#[derive(Debug, Default)]
struct Seen {
    listings: HashMap<InodeNumber, Listing>,
    /// The directories of `listings`, the one that was listed first in front.
    by_age: VecDeque<InodeNumber>,
    places: HashMap<InodeNumber, Place>,
    /// How many files the next guess covers.
    guess_files: usize,
}

/// The small files of a directory in its order.
#[derive(Debug, Default)]
struct Listing {
    files: Vec<SmallFile>,
    /// The first one that was neither read nor guessed.
    next: usize,
}

/// Where a file was listed last.
#[derive(Debug, Clone, Copy)]
struct Place {
    dir: InodeNumber,
    position: usize,
}

impl Seen {
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
            self.places.insert(file.inode, Place { dir, position });
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
            // A file of several names may be listed elsewhere since.
            if self
                .places
                .get(&file.inode)
                .is_some_and(|place| place.dir == dir)
            {
                self.places.remove(&file.inode);
            }
        }
    }

    /// What will be read after `file`, as far as it seems worth it.
    ///
    /// The first file of a guess is the one behind a file that had to be asked for. A guess leaves
    /// the file behind it to be asked for, too, and that it is says that the guess was right: the
    /// next one is twice as large. At the beginning of a directory nothing is known, but what was
    /// right before may be again: half as much is guessed. Out of order, nothing is.
    fn read(&mut self, file: InodeNumber) -> Guess {
        let Some(&Place { dir, position }) = self.places.get(&file) else {
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

    fn listed(numbers: std::ops::Range<u64>, len_bytes: u64) -> Seen {
        let mut seen = Seen::default();
        seen.list(DIR, 0, &files(numbers, len_bytes));
        seen
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
        let mut seen = listed(0..100, 10);
        assert!(seen.read(InodeNumber(0)).is_empty());
        let mut seen = listed(0..100, 10);
        assert!(seen.read(InodeNumber(50)).is_empty());
        assert!(seen.read(InodeNumber(500)).is_empty(), "not listed");
    }

    #[test]
    fn in_order_the_guesses_grow_and_leave_one_to_ask_for() {
        let mut seen = listed(0..100, 10);
        seen.read(InodeNumber(0));
        let first = seen.read(InodeNumber(1));
        assert_eq!(numbers(&first), (2..10).collect::<Vec<_>>());
        assert!(seen.read(InodeNumber(5)).is_empty(), "it is on its way");
        let second = seen.read(InodeNumber(10));
        assert_eq!(numbers(&second), (11..27).collect::<Vec<_>>());
        let third = seen.read(InodeNumber(27));
        assert_eq!(numbers(&third), (28..60).collect::<Vec<_>>());
    }

    #[test]
    fn what_was_right_is_guessed_again_in_the_next_directory_until_it_is_not() {
        let mut seen = listed(0..100, 10);
        for number in [0, 1, 10, 27] {
            seen.read(InodeNumber(number));
        }
        for (index, expected) in [16, 8, 4, 2, 1, 0].into_iter().enumerate() {
            let from = u64::try_from(200 * (index + 1)).unwrap();
            let dir = InodeNumber(from + 100);
            seen.list(dir, 0, &files(from..from + 100, 10));
            assert_eq!(seen.read(InodeNumber(from)).len(), expected);
        }
    }

    #[test]
    fn out_of_order_nothing_is_guessed() {
        let mut seen = listed(0..100, 10);
        for number in [0, 1, 40, 20, 60, 61] {
            seen.read(InodeNumber(number));
        }
        assert_eq!(seen.guess_files, GUESS_FILES_MIN, "61 is behind 60");
        assert!(seen.read(InodeNumber(90)).is_empty());
    }

    #[test]
    fn a_guess_is_bounded_in_bytes() {
        let mut seen = listed(0..100, 128 << 10);
        for number in [0, 1, 10] {
            let guess = seen.read(InodeNumber(number));
            let bytes: u64 = guess.iter().map(|file| u64::from(file.len_bytes)).sum();
            assert!(bytes <= GUESS_BYTES_MAX);
        }
    }

    #[test]
    fn a_listing_comes_in_parts_and_anew() {
        let mut seen = listed(0..5, 10);
        seen.list(DIR, 77, &files(5..10, 10));
        seen.read(InodeNumber(3));
        assert_eq!(
            numbers(&seen.read(InodeNumber(4))),
            (5..10).collect::<Vec<_>>()
        );
        seen.list(DIR, 0, &files(0..5, 10));
        assert_eq!(numbers(&seen.read(InodeNumber(0))), [1, 2, 3, 4]);
        assert!(seen.read(InodeNumber(7)).is_empty(), "no longer listed");
        seen.list(InodeNumber(4), 77, &files(20..30, 10));
        assert_eq!(seen.listings.len(), 1, "its beginning was not seen");
    }

    #[test]
    fn memory_is_bounded() {
        let mut seen = Seen::default();
        for dir in 0..10 {
            let from = dir * 20_000;
            seen.list(
                InodeNumber(1 << 40 | dir),
                0,
                &files(from..from + 20_000, 10),
            );
        }
        assert!(seen.places.len() <= KNOWN_FILES_MAX);
        assert_eq!(seen.listings.len(), seen.by_age.len());
        let known: usize = seen
            .listings
            .values()
            .map(|listing| listing.files.len())
            .sum();
        assert_eq!(known, seen.places.len());
        assert!(
            !seen.places.contains_key(&InodeNumber(0)),
            "the oldest is forgotten"
        );
    }
}
