//! Directories: look-ups by the hash of a name, and listings in the order of creation.

mod entries;
mod parent;

use diskfs_vfs::InodeNumber;

pub(crate) use self::entries::Entries;
pub(crate) use self::parent::{parent, path_within, place_of};
use crate::checksum::name_hash;
use crate::dir_item::{DirRecord, DirRecords, NAME_MAX, Target};
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, item};
use crate::root_ref::RootRef;
use crate::subvolumes::{FileId, ROOT_INODE, Subvolumes};
use crate::volume::Volume;

/// Looks up a name in a directory.
pub(crate) fn lookup(
    volume: &Volume,
    subvolumes: &Subvolumes,
    dir: &FileId,
    name: &[u8],
) -> Result<InodeNumber> {
    match name {
        b"." => return dir.number(),
        b".." => return parent(volume, subvolumes, dir)?.number(),
        _ if name.len() > NAME_MAX => return Err(ErrorKind::NameTooLong.into()),
        _ => {}
    }
    let key = Key::new(dir.inode, item::DIR_ITEM, name_hash(name));
    let not_found = || Error::from(ErrorKind::NotFound);
    let found = volume
        .find(&dir.subvolume.tree, key)?
        .ok_or_else(not_found)?;
    for record in DirRecords::of(&found) {
        let record = record?;
        if record.name == name {
            let target = record.target(&found)?;
            return number_of(volume, subvolumes, dir, &record, target);
        }
    }
    Err(not_found())
}

/// Returns the inode number of an entry of `dir`.
fn number_of(
    volume: &Volume,
    subvolumes: &Subvolumes,
    dir: &FileId,
    record: &DirRecord<'_>,
    target: Target,
) -> Result<InodeNumber> {
    match target {
        Target::Inode(inode) => FileId {
            subvolume: dir.subvolume.clone(),
            inode,
        }
        .number(),
        Target::Subvolume(id) => {
            if !is_at(volume, dir, id, record.name)? {
                return dir.placeholder_number();
            }
            match subvolumes.open(volume, id) {
                Ok(subvolume) => FileId {
                    subvolume,
                    inode: ROOT_INODE,
                }
                .number(),
                Err(error) if error.kind() == ErrorKind::NotFound => dir.placeholder_number(),
                Err(error) => Err(error),
            }
        }
    }
}

/// Returns true if the root tree has a subvolume at this entry. A snapshot has the entries of its
/// origin, but not the subvolumes.
fn is_at(volume: &Volume, dir: &FileId, id: u64, name: &[u8]) -> Result<bool> {
    let key = Key::new(dir.subvolume.id, item::ROOT_REF, id);
    let Some(found) = volume.find(&volume.root_tree, key)? else {
        return Ok(false);
    };
    let place = RootRef::parse(&found)?;
    Ok(place.dir == dir.inode && place.name == name)
}
