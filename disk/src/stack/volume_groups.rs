//! Changes of volume groups, and new ones.

use std::sync::{Arc, OnceLock};

use diskfs_block::{BlockWrite, wipe_ends};
use diskfs_image::create::Existing;
use diskfs_volume::lvm::{GroupEditor, NewGroup};

use super::Disk;
use super::lvm::Group;
use crate::{Error, ErrorKind, Result};

impl Disk {
    /// Returns the volume group of that name. The group's UUID also names it.
    ///
    /// # Errors
    /// `NotFound`, with the names of the groups; as [`groups`](Self::groups).
    pub fn group(&self, name: &str) -> Result<&Arc<Group>> {
        let groups = self.groups()?;
        let is_named =
            |group: &&Arc<Group>| group.name() == name || group.metadata().id.to_string() == name;
        groups.iter().find(is_named).ok_or_else(|| {
            let known: Vec<&str> = groups.iter().map(|group| group.name()).collect();
            let error = Error::new(
                ErrorKind::NotFound,
                format!("no such volume group: {}", name.escape_debug()),
            );
            self.in_image(if known.is_empty() {
                error.with_hint("the disk has no volume groups")
            } else {
                error.with_hint(format!("the disk has {}", known.join(", ")))
            })
        })
    }

    /// Returns an editor of a volume group, for changes in memory or to look at the free space.
    /// [`edit_volume_group`](Self::edit_volume_group) also writes the changes.
    ///
    /// # Errors
    /// As [`group`](Self::group) and
    /// [`VolumeGroup::editor`](diskfs_volume::lvm::VolumeGroup::editor).
    pub fn volume_group_editor(&self, name: &str) -> Result<GroupEditor> {
        editor(self.group(name)?).map_err(|e| self.in_image(e))
    }

    /// Changes a volume group. When it returns, the changes that `change` made are durable. Returns
    /// what `change` returned, and true if anything was written. After an error of `change` nothing
    /// is written. A crash leaves the old or the new group; the same call completes it.
    ///
    /// All volumes and filesystems of the group must have been dropped: they have the old sizes.
    /// Afterwards [`volume`](Self::volume) returns a volume with its new size. Physical volumes may
    /// be on partitions, arrays, unlocked volumes and on several disks of the machine.
    ///
    /// # Errors
    /// The errors of `change`; `Locked` if a volume of the group is in use; `ReadOnly` if a disk is
    /// open read-only; as [`volume_group_editor`](Self::volume_group_editor) and
    /// [`GroupEditor::write`].
    pub fn edit_volume_group<T>(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut GroupEditor) -> diskfs_block::Result<T>,
    ) -> Result<(T, bool)> {
        let group = Arc::clone(self.group(name)?);
        self.volumes = OnceLock::new();
        if Arc::strong_count(&group) > 1 {
            let reason = format!("cannot change volume group {name}: a volume of it is in use");
            return Err(self.in_image(Error::new(ErrorKind::Locked, reason)));
        }
        let edit = || {
            let mut editor = editor(&group)?;
            let value = change(&mut editor)?;
            let is_written = editor.write(&|entry| group.device_for_writing(entry))?;
            Ok((value, is_written))
        };
        edit().map_err(|e: diskfs_block::Error| self.in_image(e))
    }

    /// Creates a volume group on volumes of the machine, with its logical volumes. The same
    /// arguments lead to the same bytes. A filesystem or the like that is replaced is wiped.
    ///
    /// All volumes and filesystems of the disk must have been dropped.
    ///
    /// # Errors
    /// Before anything is written: `Exists` if a volume has known content, unless it may be
    /// replaced, or if the disk has a group of that name; `ReadOnly`; as [`volume`](Self::volume)
    /// and [`NewGroup::create`].
    pub fn create_volume_group(
        &mut self,
        new: &NewGroup,
        volumes: &[&str],
        existing: Existing,
    ) -> Result<()> {
        self.refuse_group(new, volumes)?;
        let mut devices: Vec<Arc<dyn BlockWrite>> = Vec::new();
        let mut replaced = Vec::new();
        for name in volumes {
            let volume = self.volume(name)?;
            volume.check_replaceable(existing)?;
            let device = volume.writable_device()?;
            if volume.content()?.is_some() {
                replaced.push(Arc::clone(&device));
            }
            devices.push(device);
        }
        let sizes: Vec<u64> = devices.iter().map(|device| device.size_bytes()).collect();
        self.volumes = OnceLock::new();
        let create = || {
            new.check(&sizes)?;
            for device in &replaced {
                wipe_ends(&**device, 0)?;
            }
            new.create(&devices)
        };
        create().map(|_| ()).map_err(|e| self.in_image(e))
    }

    /// Fails if another group has the name of a new one, or if a volume is named twice.
    fn refuse_group(&self, new: &NewGroup, volumes: &[&str]) -> Result<()> {
        let twice = volumes
            .iter()
            .enumerate()
            .find(|(index, name)| volumes[..*index].contains(name));
        if let Some((_, name)) = twice {
            let reason = format!("volume {name} is named twice");
            return Err(self.in_image(Error::new(ErrorKind::Invalid, reason)));
        }
        let mut groups = self.groups()?.iter();
        let same = groups.find(|group| group.metadata().name == new.name);
        let is_replaced = |group: &Arc<Group>| {
            let mut entries = group.metadata().physical_volumes.iter();
            entries.all(|entry| {
                let member = group.member(&entry.id);
                member.is_some_and(|member| volumes.contains(&member.name()))
            })
        };
        match same {
            Some(group) if !is_replaced(group) => {
                let reason = format!("volume group {} already exists", new.name);
                Err(self.in_image(Error::new(ErrorKind::Exists, reason)))
            }
            _ => Ok(()),
        }
    }
}

fn editor(group: &Group) -> diskfs_block::Result<GroupEditor> {
    group.metadata().editor(&|entry| group.device(entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskfs_volume::Guid;
    use diskfs_volume::edit::{NewPartition, NewSize, NewTable, PartitionType};
    use diskfs_volume::lvm::{LvmId, MetadataOrigin, NewVolume};

    const MIB: u64 = 1 << 20;

    fn id(number: u8) -> LvmId {
        LvmId::from_random([number; 32])
    }

    fn new_group(devices: u8) -> NewGroup {
        NewGroup {
            name: "vg0".to_owned(),
            id: id(1),
            physical_volumes: (0..devices).map(|number| id(10 + number)).collect(),
            extent_bytes: NewGroup::DEFAULT_EXTENT_BYTES,
            volumes: vec![NewVolume {
                name: "root".to_owned(),
                id: id(2),
                size: NewSize::Bytes(8 * MIB),
            }],
            origin: MetadataOrigin {
                host: "builder".to_owned(),
                time_seconds: 0,
                description: String::new(),
            },
        }
    }

    fn open(path: &std::path::Path) -> Disk {
        Disk::options().read_only(false).open(path).unwrap()
    }

    fn new_disk(size_bytes: u64) -> (tempfile::TempDir, Disk) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk.raw");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(size_bytes).unwrap();
        let mut disk = open(&path);
        let table = NewTable::Gpt {
            guid: Guid::from_u128(2),
        };
        disk.create_partition_table(table, Existing::Keep, None)
            .unwrap();
        (directory, disk)
    }

    fn partition(size_bytes: Option<u64>, number: u128) -> NewPartition {
        NewPartition {
            number: None,
            start_bytes: None,
            size_bytes,
            partition_type: PartitionType::LINUX,
            name: String::new(),
            guid: Guid::from_u128(number),
            flags: Vec::new(),
            role: None,
        }
    }

    #[test]
    fn a_volume_grows_with_its_partition() {
        let (directory, mut disk) = new_disk(64 * MIB);
        disk.edit_partitions(None, |e| e.add(&partition(Some(17 * MIB), 3)))
            .unwrap();
        disk.create_volume_group(&new_group(1), &["p1"], Existing::Keep)
            .unwrap();
        assert_eq!(disk.volume("vg0/root").unwrap().size_bytes(), 8 * MIB);
        let device = disk.volume("vg0/root").unwrap().writable_device().unwrap();
        device.write_at(8 * MIB - 512, &[7; 512]).unwrap();
        drop(device);

        disk.edit_partitions(None, |e| e.grow(1, NewSize::Largest))
            .unwrap();
        let physical = disk.group("vg0").unwrap().physical_volume_on("p1").unwrap();
        let (size, is_written) = disk
            .edit_volume_group("vg0", |e| {
                assert_eq!(e.grow_physical_volume(&physical)?, 44 * MIB);
                e.extend("root", NewSize::Largest)
            })
            .unwrap();
        assert_eq!((size, is_written), (60 * MIB, true));
        let volume = disk.volume("vg0/root").unwrap();
        assert_eq!(volume.size_bytes(), 60 * MIB);
        let mut bytes = [0; 512];
        volume
            .device()
            .unwrap()
            .read_at(8 * MIB - 512, &mut bytes)
            .unwrap();
        assert_eq!(bytes, [7; 512]);

        let error = disk.edit_volume_group("vg0", |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
        drop(volume);
        let nothing = disk.edit_volume_group("vg0", GroupEditor::grow_physical_volumes);
        assert_eq!(nothing.unwrap(), (0, false));
        let error = disk.edit_volume_group("vg1", |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        disk.close().unwrap();

        let mut disk = Disk::open(directory.path().join("disk.raw")).unwrap();
        let free = disk.volume_group_editor("vg0").unwrap().free_bytes();
        assert_eq!(free, 0);
        let error = disk
            .edit_volume_group("vg0", |e| e.reduce("root", MIB))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    }

    #[test]
    fn a_group_is_created_on_several_volumes() {
        let (_directory, mut disk) = new_disk(64 * MIB);
        disk.edit_partitions(None, |e| {
            e.add(&partition(Some(9 * MIB), 3))?;
            e.add(&partition(Some(9 * MIB), 4))
        })
        .unwrap();
        let new = NewGroup {
            volumes: vec![NewVolume {
                name: "root".to_owned(),
                id: id(2),
                size: NewSize::Largest,
            }],
            ..new_group(2)
        };
        let twice = disk.create_volume_group(&new, &["p1", "p1"], Existing::Keep);
        assert_eq!(twice.unwrap_err().kind(), ErrorKind::Invalid);
        disk.create_volume_group(&new, &["p1", "p2"], Existing::Keep)
            .unwrap();
        assert_eq!(disk.volume("vg0/root").unwrap().size_bytes(), 16 * MIB);
        let again = disk.create_volume_group(&new, &["p1", "p2"], Existing::Keep);
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Exists);
        let part = disk.create_volume_group(&new_group(1), &["p1"], Existing::Replace);
        assert_eq!(part.unwrap_err().kind(), ErrorKind::Exists);
        disk.create_volume_group(&new, &["p1", "p2"], Existing::Replace)
            .unwrap();
        disk.close().unwrap();
    }

    #[test]
    fn physical_volumes_in_luks_and_on_several_images() {
        if diskfs_fixtures::require("cryptsetup").is_none() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let paths = ["secret.raw", "plain.raw"].map(|name| directory.path().join(name));
        let set_len = |path: &std::path::Path, size_bytes| {
            let file = std::fs::File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .open(path);
            file.unwrap().set_len(size_bytes).unwrap();
        };
        set_len(&paths[0], 24 * MIB);
        set_len(&paths[1], 8 * MIB);
        let options = "luksFormat --batch-mode --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \
                       --luks2-metadata-size 16k --luks2-keyslots-size 256k";
        let words = options.split_ascii_whitespace().map(std::path::Path::new);
        let words = words.chain([&*paths[0], std::path::Path::new("-")]);
        diskfs_fixtures::run_with_input("cryptsetup", words, "secret").unwrap();
        let open = || {
            let keys = super::super::Keys::default();
            let keys = keys.with_all(diskfs_luks::Key::passphrase(b"secret"));
            let options = Disk::options().read_only(false).keys(keys).add(&paths[1]);
            options.open(&paths[0]).unwrap()
        };
        let mut disk = open();
        let new = NewGroup {
            volumes: Vec::new(),
            ..new_group(2)
        };
        disk.create_volume_group(&new, &["disk/luks", "disk2"], Existing::Keep)
            .unwrap();
        disk.edit_volume_group("vg0", |e| e.add(&new_group(1).volumes[0]))
            .unwrap();
        let volume = disk.volume("vg0/root").unwrap().writable_device().unwrap();
        volume.write_at(8 * MIB - 512, &[7; 512]).unwrap();
        drop(volume);
        disk.close().unwrap();

        set_len(&paths[0], 32 * MIB);
        set_len(&paths[1], 16 * MIB);
        let mut disk = open();
        let on_plain = disk.group("vg0").unwrap().physical_volume_on("disk2");
        let (added, _) = disk
            .edit_volume_group("vg0", |e| {
                let added = e.grow_physical_volume(&on_plain.unwrap())?;
                Ok([added, e.grow_physical_volumes()?])
            })
            .unwrap();
        assert_eq!(added, [8 * MIB, 8 * MIB]);
        disk.edit_volume_group("vg0", |e| e.extend("root", NewSize::Largest))
            .unwrap();
        let volume = disk.volume("vg0/root").unwrap();
        assert_eq!(volume.size_bytes(), 40 * MIB);
        let mut bytes = [0; 512];
        let device = volume.device().unwrap();
        device.read_at(8 * MIB - 512, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 512]);
        assert!(disk.warnings().is_empty(), "{:?}", disk.warnings());
        drop((volume, device));
        disk.close().unwrap();
    }
}
