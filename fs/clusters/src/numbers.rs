//! The numbers of files. A file's number is the place of its directory entry, unless it got another
//! place since (a rename), lost it (an open file without a name), or took the place of one that did.

use diskfs_vfs::InodeNumber;
use foldhash::HashMap;

use crate::place::Place;

/// The root's number: no entry has this place.
pub(crate) const ROOT: InodeNumber = InodeNumber(1);

/// The first number that is no place: no device has so many bytes.
const FIRST_FREE: u64 = 1 << 60;

/// The files whose number is not their place.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    place_of: HashMap<InodeNumber, Option<Place>>,
    number_at: HashMap<Place, InodeNumber>,
    /// Of numbers that were used before: which use it is.
    generations: HashMap<InodeNumber, u32>,
    given: u64,
}

impl Numbers {
    /// The number of the file whose entry is at `place`.
    pub(crate) fn of(&self, place: Place) -> InodeNumber {
        let moved = self.number_at.get(&place).copied();
        moved.unwrap_or(InodeNumber(place.0))
    }

    /// Where the entry of the file of this number is; `None` when it has none.
    pub(crate) fn place(&self, number: InodeNumber) -> Option<Place> {
        match self.place_of.get(&number) {
            Some(place) => *place,
            None if number.0 >= FIRST_FREE => None,
            None => {
                let place = Place(number.0);
                (!self.number_at.contains_key(&place)).then_some(place)
            }
        }
    }

    /// Which use of its number a file is.
    pub(crate) fn generation(&self, number: InodeNumber) -> u32 {
        self.generations.get(&number).copied().unwrap_or(0)
    }

    /// The number of a new file at a place that no file has.
    pub(crate) fn create(&mut self, place: Place) -> InodeNumber {
        let natural = InodeNumber(place.0);
        if !self.place_of.contains_key(&natural) {
            return natural;
        }
        let number = InodeNumber(FIRST_FREE.saturating_add(self.given));
        self.given = self.given.saturating_add(1);
        self.put(number, place);
        number
    }

    /// The file moves to a place that no file has.
    pub(crate) fn move_to(&mut self, number: InodeNumber, place: Place) {
        self.leave(number);
        self.put(number, place);
    }

    /// The file has no entry any more, and keeps its number.
    pub(crate) fn unlink(&mut self, number: InodeNumber) {
        self.leave(number);
        self.place_of.insert(number, None);
    }

    /// The file is gone.
    pub(crate) fn remove(&mut self, number: InodeNumber) {
        self.leave(number);
        self.place_of.remove(&number);
        if number.0 < FIRST_FREE {
            let generation = self.generations.entry(number).or_default();
            *generation = generation.wrapping_add(1);
        }
    }

    fn leave(&mut self, number: InodeNumber) {
        if let Some(place) = self.place(number) {
            self.number_at.remove(&place);
        }
    }

    fn put(&mut self, number: InodeNumber, place: Place) {
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
        let file = numbers.create(Place(50));
        numbers.move_to(file, Place(60));
        assert_eq!(
            (numbers.of(Place(60)), numbers.place(file)),
            (file, Some(Place(60)))
        );
        let other = numbers.create(Place(50));
        assert_ne!(other, file);
        assert_eq!(
            (numbers.of(Place(50)), numbers.place(other)),
            (other, Some(Place(50)))
        );
        // And back, when the place is free again.
        numbers.remove(other);
        assert_eq!(numbers.place(other), None);
        numbers.move_to(file, Place(50));
        assert_eq!((numbers.of(Place(50)), numbers.of(Place(60)).0), (file, 60));
    }

    #[test]
    fn a_file_without_a_name_keeps_its_number() {
        let mut numbers = Numbers::default();
        let file = numbers.create(Place(50));
        numbers.unlink(file);
        assert_eq!(numbers.place(file), None);
        let other = numbers.create(Place(50));
        assert_ne!(other, file);
        numbers.remove(file);
        assert_eq!(numbers.place(other), Some(Place(50)));
        // Number 50 is nobody's while place 50 is another's.
        assert_eq!(numbers.place(file), None);
        numbers.remove(other);
        assert_eq!(numbers.create(Place(50)), file);
        assert_eq!(numbers.generation(file), 1);
    }
}
