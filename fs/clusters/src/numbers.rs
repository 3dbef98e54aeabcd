//! Inode numbers. A file's number is the place of its directory entry. There are three exceptions:
//! the entry has moved (a rename), the file has no entry any more (an open file without a name), or
//! its place is the number of such a file.

use diskfs_vfs::InodeNumber;
use foldhash::HashMap;

use crate::place::EntryPlace;

/// The inode number of the root. No entry has this place.
pub(crate) const ROOT: InodeNumber = InodeNumber(1);

/// The first number that cannot be a place: no device is that large.
const FIRST_FREE: u64 = 1 << 60;

/// The inode numbers that differ from the place of the file's entry.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    place_of: HashMap<InodeNumber, Option<EntryPlace>>,
    number_at: HashMap<EntryPlace, InodeNumber>,
    /// The inode generations of numbers that were in use before.
    generations: HashMap<InodeNumber, u32>,
    given: u64,
}

impl Numbers {
    /// Returns the number of the file whose entry is at `place`.
    pub(crate) fn of(&self, place: EntryPlace) -> InodeNumber {
        let moved = self.number_at.get(&place).copied();
        moved.unwrap_or(InodeNumber(place.0))
    }

    /// Returns the place of the file's entry; `None` if the file has no entry.
    pub(crate) fn place(&self, number: InodeNumber) -> Option<EntryPlace> {
        match self.place_of.get(&number) {
            Some(place) => *place,
            None if number.0 >= FIRST_FREE => None,
            None => {
                let place = EntryPlace(number.0);
                (!self.number_at.contains_key(&place)).then_some(place)
            }
        }
    }

    /// Returns the inode generation.
    pub(crate) fn generation(&self, number: InodeNumber) -> u32 {
        self.generations.get(&number).copied().unwrap_or(0)
    }

    /// Assigns a number to a new file at an unused place.
    pub(crate) fn create(&mut self, place: EntryPlace) -> InodeNumber {
        let natural = InodeNumber(place.0);
        if !self.place_of.contains_key(&natural) {
            return natural;
        }
        let number = InodeNumber(FIRST_FREE.saturating_add(self.given));
        self.given = self.given.saturating_add(1);
        self.put(number, place);
        number
    }

    /// Records that the file's entry has moved to an unused place.
    pub(crate) fn move_to(&mut self, number: InodeNumber, place: EntryPlace) {
        self.clear_place(number);
        self.put(number, place);
    }

    /// Records that the file has lost its entry. It keeps its number.
    pub(crate) fn unlink(&mut self, number: InodeNumber) {
        self.clear_place(number);
        self.place_of.insert(number, None);
    }

    /// Releases the number of a file that has been deleted.
    pub(crate) fn remove(&mut self, number: InodeNumber) {
        self.clear_place(number);
        self.place_of.remove(&number);
        if number.0 < FIRST_FREE {
            let generation = self.generations.entry(number).or_default();
            *generation = generation.wrapping_add(1);
        }
    }

    fn clear_place(&mut self, number: InodeNumber) {
        if let Some(place) = self.place(number) {
            self.number_at.remove(&place);
        }
    }

    fn put(&mut self, number: InodeNumber, place: EntryPlace) {
        if number.0 == place.0 {
            self.place_of.remove(&number);
            return;
        }
        self.place_of.insert(number, Some(place));
        self.number_at.insert(place, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_file_keeps_its_number() {
        let mut numbers = Numbers::default();
        let file = numbers.create(EntryPlace(50));
        numbers.move_to(file, EntryPlace(60));
        assert_eq!(
            (numbers.of(EntryPlace(60)), numbers.place(file)),
            (file, Some(EntryPlace(60)))
        );
        let other = numbers.create(EntryPlace(50));
        assert_ne!(other, file);
        assert_eq!(
            (numbers.of(EntryPlace(50)), numbers.place(other)),
            (other, Some(EntryPlace(50)))
        );
        // Move it back when the place is free again.
        numbers.remove(other);
        assert_eq!(numbers.place(other), None);
        numbers.move_to(file, EntryPlace(50));
        assert_eq!(
            (numbers.of(EntryPlace(50)), numbers.of(EntryPlace(60)).0),
            (file, 60)
        );
    }

    #[test]
    fn a_file_without_a_name_keeps_its_number() {
        let mut numbers = Numbers::default();
        let file = numbers.create(EntryPlace(50));
        numbers.unlink(file);
        assert_eq!(numbers.place(file), None);
        let other = numbers.create(EntryPlace(50));
        assert_ne!(other, file);
        numbers.remove(file);
        assert_eq!(numbers.place(other), Some(EntryPlace(50)));
        // Number 50 is unused while place 50 belongs to another file.
        assert_eq!(numbers.place(file), None);
        numbers.remove(other);
        assert_eq!(numbers.create(EntryPlace(50)), file);
        assert_eq!(numbers.generation(file), 1);
    }
}
