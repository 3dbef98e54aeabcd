//! Creation of inodes, with the properties that the directory and the caller give.

use diskfs_vfs::{FileType, NewAttributes, NewKind};

use crate::bytes::{len_u64, put};
use crate::directory;
use crate::error::{Error, ErrorKind, Result};
use crate::features::Incompatible;
use crate::file_blocks;
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags, encode_device};
use crate::posix_acl::{self, PosixAcl};
use crate::volume::Volume;
use crate::xattr;

use super::evict;

/// The maximum length of a target, without its NUL terminator: `PATH_MAX`.
const TARGET_MAX_BYTES: usize = 4095;
const SET_GROUP_ID: u16 = 0o2000;

/// The flags that files inherit from their directory (`EXT4_FL_INHERITED`), as far as this driver
/// supports them.
const INHERITED: InodeFlags = InodeFlags::SYNC
    .union(InodeFlags::NO_DUMP)
    .union(InodeFlags::NO_ATIME)
    .union(InodeFlags::JOURNAL_DATA)
    .union(InodeFlags::NO_TAIL)
    .union(InodeFlags::DIR_SYNC)
    .union(InodeFlags::PROJECT_INHERIT)
    .union(InodeFlags::CASEFOLD)
    .union(InodeFlags::DAX);
/// The inherited flags that only directories get.
const FOR_DIRECTORIES: InodeFlags = InodeFlags::DIR_SYNC
    .union(InodeFlags::PROJECT_INHERIT)
    .union(InodeFlags::CASEFOLD);
/// The inherited flags for files that are neither directories nor regular.
const FOR_OTHERS: InodeFlags = InodeFlags::NO_DUMP.union(InodeFlags::NO_ATIME);

pub(super) const fn file_type(kind: NewKind<'_>) -> FileType {
    match kind {
        NewKind::Regular => FileType::Regular,
        NewKind::Directory => FileType::Directory,
        NewKind::Symlink(_) => FileType::Symlink,
        NewKind::CharacterDevice(_) => FileType::CharacterDevice,
        NewKind::BlockDevice(_) => FileType::BlockDevice,
        NewKind::Fifo => FileType::Fifo,
        NewKind::Socket => FileType::Socket,
    }
}

/// Fails for files that cannot be created in any directory.
pub(super) fn check_kind(kind: NewKind<'_>) -> Result<()> {
    match kind {
        NewKind::Symlink([]) => Err(Error::new(ErrorKind::NotFound, "missing symlink target")),
        NewKind::Symlink(target) if target.len() > TARGET_MAX_BYTES => {
            let reason = "the symlink target is too long: at most 4095 bytes";
            Err(Error::new(ErrorKind::NameTooLong, reason))
        }
        NewKind::Symlink(target) if target.contains(&0) => {
            let reason = "the symlink target contains a NUL";
            Err(Error::new(ErrorKind::Invalid, reason))
        }
        _ => Ok(()),
    }
}

/// Allocates an inode and stores it with its initial contents. It has no name yet. If this fails,
/// nothing of it is left.
pub(super) fn make(
    handle: &Handle<'_>,
    dir: &Inode,
    kind: NewKind<'_>,
    attributes: &NewAttributes,
) -> Result<Inode> {
    let acl = Acl::inherited(handle, dir, kind)?;
    let is_dir = matches!(kind, NewKind::Directory);
    let allocator = handle.allocator;
    let number = allocator.allocate_inode(handle, dir.number, is_dir)?;
    let mut inode = initial_inode(handle.volume(), dir, kind, number);
    owned(&mut inode, dir, attributes);
    inode.permissions = acl.permissions(kind, attributes);
    let filled = handle
        .store_new(&inode)
        .and_then(|()| fill(handle, dir, kind, &mut inode))
        .and_then(|()| acl.store(handle, &mut inode))
        .and_then(|()| handle.store(&inode));
    match filled {
        Ok(()) => Ok(inode),
        Err(e) => {
            evict::undo_new(handle, &mut inode)?;
            Err(e)
        }
    }
}

fn initial_inode(volume: &Volume, dir: &Inode, kind: NewKind<'_>, number: u32) -> Inode {
    let superblock = &volume.superblock;
    let time = volume.ambient.now();
    let generation = volume.ambient.random();
    let mut flags = dir.flags.intersection(INHERITED);
    flags = match kind {
        NewKind::Directory => flags,
        NewKind::Regular => flags.difference(FOR_DIRECTORIES),
        _ => flags.intersection(FOR_OTHERS),
    };
    let has_map = matches!(
        kind,
        NewKind::Regular | NewKind::Directory | NewKind::Symlink(_)
    );
    if has_map && superblock.features.has(Incompatible::EXTENTS) {
        flags |= InodeFlags::EXTENTS;
    }
    Inode {
        number,
        generation,
        file_type: Some(file_type(kind)),
        permissions: 0,
        uid: 0,
        gid: 0,
        links: 1,
        size_bytes: 0,
        allocated_bytes: 0,
        flags,
        accessed: time,
        modified: time,
        changed: time,
        created: Some(time),
        raw_atime: 0,
        version: 0,
        deleted: 0,
        project: if dir.has(InodeFlags::PROJECT_INHERIT) {
            dir.project
        } else {
            0
        },
        extra_isize: superblock.want_extra_isize,
        block: [0; 60],
        xattr_block: 0,
        xattr_bytes: Box::default(),
        checksum_seed: superblock.inode_checksum_seed(number, generation),
    }
}

fn owned(inode: &mut Inode, dir: &Inode, attributes: &NewAttributes) {
    inode.uid = attributes.uid;
    inode.gid = if dir.permissions & SET_GROUP_ID == 0 {
        attributes.gid
    } else {
        dir.gid
    };
}

/// Writes the initial contents.
fn fill(handle: &Handle<'_>, dir: &Inode, kind: NewKind<'_>, inode: &mut Inode) -> Result<()> {
    match kind {
        NewKind::Regular => {
            file_blocks::initialise(inode);
            Ok(())
        }
        NewKind::Directory => {
            inode.links = 2;
            if dir.permissions & SET_GROUP_ID != 0 {
                inode.permissions |= SET_GROUP_ID;
            }
            file_blocks::initialise(inode);
            directory::initialise(handle, inode, dir.number)
        }
        NewKind::Symlink(target) => symlink(handle, inode, target),
        NewKind::CharacterDevice(device) | NewKind::BlockDevice(device) => {
            inode.block = encode_device(device);
            Ok(())
        }
        NewKind::Fifo | NewKind::Socket => Ok(()),
    }
}

/// Writes a symlink's target: in `i_block` if it is shorter than that, otherwise in a block.
fn symlink(handle: &Handle<'_>, inode: &mut Inode, target: &[u8]) -> Result<()> {
    if target.len() < inode.block.len() {
        inode.flags.remove(InodeFlags::EXTENTS);
        put(&mut inode.block, 0, target);
        inode.size_bytes = len_u64(target.len());
        return Ok(());
    }
    file_blocks::initialise(inode);
    let (_, block) = file_blocks::append_block(handle, inode)?;
    let mut bytes = vec![0; handle.volume().superblock.block_size.len()];
    // A target may be longer than a block of 1 or 2 KiB.
    if target.len() >= bytes.len() {
        return Err(Error::new(
            ErrorKind::NameTooLong,
            "the symlink target is too long: it must fit into one block",
        ));
    }
    put(&mut bytes, 0, target);
    handle.device.write_block(block, &bytes)?;
    inode.size_bytes = len_u64(target.len());
    Ok(())
}

/// The access control lists of a new file.
struct Acl {
    default: Option<PosixAcl>,
    is_dir: bool,
    access: Option<PosixAcl>,
}

impl Acl {
    /// Returns the lists that a file of this kind inherits from `dir`.
    fn inherited(handle: &Handle<'_>, dir: &Inode, kind: NewKind<'_>) -> Result<Self> {
        let default = match kind {
            NewKind::Symlink(_) => None,
            _ => xattr::get(handle.volume(), dir, posix_acl::DEFAULT)?,
        };
        let default = match default {
            Some(value) => PosixAcl::parse(&value)?,
            None => None,
        };
        Ok(Self {
            access: default.clone(),
            default,
            is_dir: matches!(kind, NewKind::Directory),
        })
    }

    /// Returns the mode of the new file, and restricts its access list by the requested mode.
    fn permissions(&self, kind: NewKind<'_>, attributes: &NewAttributes) -> u16 {
        if matches!(kind, NewKind::Symlink(_)) {
            return 0o777;
        }
        let asked = attributes.permissions & 0o7777;
        match &self.access {
            None => asked & !attributes.umask,
            Some(access) => {
                let mut access = access.clone();
                access.restrict(asked);
                (asked & !0o777) | access.permissions()
            }
        }
    }

    /// Stores the lists of the new file. A list that the mode expresses completely is not stored.
    fn store(&self, handle: &Handle<'_>, inode: &mut Inode) -> Result<()> {
        if let Some(access) = &self.access {
            let mut access = access.clone();
            access.set_permissions(inode.permissions);
            if !access.is_mode() {
                let value = access.to_bytes();
                xattr::set(handle, inode, posix_acl::ACCESS, Some(&value))?;
            }
        }
        if let Some(default) = &self.default
            && self.is_dir
        {
            let value = default.to_bytes();
            xattr::set(handle, inode, posix_acl::DEFAULT, Some(&value))?;
        }
        Ok(())
    }
}
