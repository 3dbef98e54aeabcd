//! The order in which directories listed their small files, and the guess which ones will be read.
//!
//! A program that reads the files of a directory in listing order (tar, grep, cp) reads those next
//! that follow the file that it reads now.

use std::collections::{HashMap, VecDeque};

use diskfs_vfs::{FileType, InodeNumber, Metadata};

/// The size of the largest file that is read with others.
pub(in crate::client) const SMALL_FILE_MAX: u32 = 128 << 10;

/// The number of files that are remembered; about 600 KiB.
const LISTED_MAX: usize = 8192;

/// The number of files that are guessed: at first, and at most, after others were right.
const GUESS_MIN: usize = 4;
const GUESS_MAX: usize = 64;

/// A small file in a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::client) struct Listed {
    pub(in crate::client) dir: InodeNumber,
    pub(in crate::client) inode: InodeNumber,
    pub(in crate::client) len: usize,
}

impl Listed {
    /// Returns the entry of a directory if it is a small file with contents.
    pub(in crate::client) fn new(dir: InodeNumber, file: &Metadata) -> Option<Self> {
        let len = small_len(file).and_then(|len| usize::try_from(len).ok())?;
        let inode = file.inode;
        Some(Self { dir, inode, len })
    }
}

/// Returns the length of a file if it is small and has contents.
pub(in crate::client) fn small_len(file: &Metadata) -> Option<u32> {
    let len = u32::try_from(file.size_bytes).ok();
    let is_regular = file.file_type == FileType::Regular;
    len.filter(|&len| is_regular && (1..=SMALL_FILE_MAX).contains(&len))
}

/// The small files of the last listings.
#[derive(Debug)]
pub(super) struct Listings {
    files: VecDeque<Listed>,
    /// The number of files that were forgotten: the place of the first one in `files`.
    first: usize,
    places: HashMap<InodeNumber, usize>,
    guess: usize,
    /// The number of right guesses since `guess` was changed.
    right: usize,
}

impl Default for Listings {
    fn default() -> Self {
        Self {
            files: VecDeque::new(),
            first: 0,
            places: HashMap::new(),
            guess: GUESS_MIN,
            right: 0,
        }
    }
}

impl Listings {
    pub(super) fn add(&mut self, file: Listed) {
        if self.files.len() >= LISTED_MAX
            && let Some(oldest) = self.files.pop_front()
        {
            // A later listing may have shown the file again.
            if self.places.get(&oldest.inode) == Some(&self.first) {
                self.places.remove(&oldest.inode);
            }
            self.first = self.first.wrapping_add(1);
        }
        let place = self.first.wrapping_add(self.files.len());
        self.places.insert(file.inode, place);
        self.files.push_back(file);
    }

    /// Returns a file and those that will probably be read after it; none if it was not listed.
    pub(super) fn guess_from(&self, inode: InodeNumber) -> impl Iterator<Item = Listed> {
        let place = self.places.get(&inode);
        let index = place.map(|place| place.wrapping_sub(self.first));
        let from = index.and_then(|index| self.files.get(index).map(|file| (index, file.dir)));
        from.into_iter().flat_map(|(index, dir)| {
            let files = self.files.iter().skip(index);
            let files = files.take_while(move |file| file.dir == dir);
            files.take(self.guess.saturating_add(1)).copied()
        })
    }

    /// Returns true if guesses were right so often that a directory's files are worth reading as
    /// soon as it is listed.
    pub(super) fn is_sure(&self) -> bool {
        self.guess == GUESS_MAX
    }

    /// Records that a guessed file was read.
    pub(super) fn note_right(&mut self) {
        self.right = self.right.saturating_add(1);
        if self.right >= self.guess {
            self.guess = self.guess.saturating_mul(2).min(GUESS_MAX);
            self.right = 0;
        }
    }

    /// Records that guessed files were not read.
    pub(super) fn note_wrong(&mut self) {
        self.guess = (self.guess / 2).max(GUESS_MIN);
        self.right = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listings(files: std::ops::Range<u64>) -> Listings {
        let mut listings = Listings::default();
        for number in files {
            let (dir, inode) = (InodeNumber(number / 100), InodeNumber(number));
            listings.add(Listed { dir, inode, len: 1 });
        }
        listings
    }

    fn guess(listings: &Listings, number: u64) -> Vec<u64> {
        let files = listings.guess_from(InodeNumber(number));
        files.map(|file| file.inode.0).collect()
    }

    #[test]
    fn guesses_grow_while_they_are_right() {
        let mut listings = listings(0..200);
        assert_eq!(guess(&listings, 10), [10, 11, 12, 13, 14]);
        assert_eq!(guess(&listings, 97), [97, 98, 99], "a directory ends");
        assert!(guess(&listings, 200).is_empty());
        for _ in 0..200 {
            listings.note_right();
        }
        assert!(listings.is_sure());
        assert_eq!(guess(&listings, 110).len(), 65);
        listings.note_wrong();
        assert!(!listings.is_sure());
    }

    #[test]
    fn memory_is_bounded() {
        let listings = listings(0..20_000);
        assert_eq!(
            (listings.files.len(), listings.places.len()),
            (LISTED_MAX, LISTED_MAX)
        );
        assert!(guess(&listings, 0).is_empty());
        assert_eq!(guess(&listings, 19_999), [19_999]);
    }
}
