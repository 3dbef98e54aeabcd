//! Files as physical volumes, LVM's tools on them, and our editor.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, File, Result};
use diskfs_fixtures::{Lvm, Part, require, require_root, run};
use diskfs_volume::lvm::{GroupEditor, LvmId, PhysicalVolume, VolumeGroup, volume_groups};
use serde_json::Value;

use crate::disk::contents;

pub(crate) const MIB: u64 = 1 << 20;

/// Files as physical volumes, with LVM on them.
pub(crate) struct Rig {
    _directory: tempfile::TempDir,
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) lvm: Lvm,
}

impl Rig {
    /// Returns empty files of a size; `None` without LVM or root.
    pub(crate) fn new(count: usize, size_bytes: u64) -> Option<Self> {
        require_root()?;
        require("lvm")?;
        let directory = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..count)
            .map(|n| directory.path().join(n.to_string()))
            .collect();
        for path in &paths {
            fs::File::create(path).unwrap().set_len(size_bytes).unwrap();
        }
        let part = |image| Part {
            image,
            start_bytes: 0,
            len_bytes: None,
        };
        let parts: Vec<_> = paths.iter().map(|path| part(path.as_path())).collect();
        let lvm = Lvm::new(&parts).unwrap();
        Some(Self {
            _directory: directory,
            paths,
            lvm,
        })
    }

    /// Returns other files with the same contents and sizes.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new(self.paths.len(), MIB).unwrap();
        copy.take(self);
        copy
    }

    /// Takes the contents and sizes of other files.
    pub(crate) fn take(&self, other: &Self) {
        for (number, bytes) in other.bytes().iter().enumerate() {
            self.put(number, bytes);
        }
    }

    /// Adds logical volumes by their text, for types that LVM does not make without the kernel.
    pub(crate) fn restore(&self, logical: &str) {
        let path = self.paths[0].with_extension("backup");
        let shown = path.display();
        self.lvm.run(&format!("vgcfgbackup -f {shown} vg")).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let list = "logical_volumes {\n";
        assert!(text.contains(list), "{text}");
        fs::write(&path, text.replace(list, &format!("{list}{logical}"))).unwrap();
        let restore = format!("vgcfgrestore -q --force -f {shown} vg");
        self.lvm.run(&restore).unwrap();
    }

    /// Returns the contents of all files.
    pub(crate) fn bytes(&self) -> Vec<Vec<u8>> {
        let read = |path| fs::read(path).unwrap();
        self.paths.iter().map(read).collect()
    }

    /// Sets the contents and the size of a file.
    pub(crate) fn put(&self, number: usize, bytes: &[u8]) {
        use std::os::unix::fs::FileExt;
        let file = fs::File::options()
            .write(true)
            .open(&self.paths[number])
            .unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file.sync_all().unwrap();
        self.told_size(number);
    }

    /// Sets the size of a file.
    pub(crate) fn set_len(&self, number: usize, size_bytes: u64) {
        let file = fs::File::options().write(true).open(&self.paths[number]);
        file.unwrap().set_len(size_bytes).unwrap();
        self.told_size(number);
    }

    fn told_size(&self, number: usize) {
        run("losetup", ["-c", self.lvm.device(number)]).unwrap();
    }

    /// Fills the extents with numbers.
    pub(crate) fn fill(&self) {
        for (number, path) in self.paths.iter().enumerate() {
            let file = File::open_read_write(path).unwrap();
            let size = file.size_bytes();
            for at in (MIB..size).step_by(4096) {
                let mark = at / 4096 * 16 + number as u64;
                file.write_at(at, &mark.to_le_bytes().repeat(512)).unwrap();
            }
        }
    }

    pub(crate) fn devices(&self) -> Vec<Arc<File>> {
        let open = |path| Arc::new(File::open_read_write(path).unwrap());
        self.paths.iter().map(open).collect()
    }

    pub(crate) fn physical(&self) -> Vec<PhysicalVolume> {
        let devices = self.devices();
        let physical = devices.iter();
        physical
            .filter_map(|device| PhysicalVolume::read(&**device).unwrap())
            .collect()
    }

    pub(crate) fn group(&self) -> VolumeGroup {
        let physical = self.physical();
        let mut groups = volume_groups(&physical);
        assert_eq!(groups.len(), 1, "{groups:?}");
        groups.remove(0)
    }

    /// Returns the UUID of the physical volume on a file.
    pub(crate) fn id(&self, number: usize) -> LvmId {
        self.physical()[number].id
    }

    /// Makes a change in an editor and writes it.
    pub(crate) fn edit<T>(
        &self,
        change: impl FnOnce(&mut GroupEditor) -> Result<T>,
    ) -> Result<(T, bool)> {
        let physical = self.physical();
        let devices = self.devices();
        let find = |id: LvmId| {
            let number = physical.iter().position(|it| it.id == id)?;
            Some(Arc::clone(&devices[number]))
        };
        let group = self.group();
        let mut editor =
            group.editor(&|entry| Ok(find(entry.id).map(|it| it as Arc<dyn BlockRead>)))?;
        let done = change(&mut editor)?;
        let is_written =
            editor.write(&|entry| Ok(find(entry.id).map(|it| it as Arc<dyn BlockWrite>)))?;
        Ok((done, is_written))
    }

    /// Returns the contents of a logical volume.
    pub(crate) fn open(&self, name: &str) -> Vec<u8> {
        let (group, physical) = (self.group(), self.physical());
        let devices = self.devices();
        let volume = group.logical_volume(name).expect(name);
        let find = |entry: &diskfs_volume::lvm::PvEntry| {
            let number = physical.iter().position(|it| it.id == entry.id).unwrap();
            Ok(Some(Arc::clone(&devices[number])))
        };
        contents(&group.open(volume, &find).unwrap())
    }

    /// Returns LVM's reports of all sizes.
    pub(crate) fn told(&self) -> Vec<Value> {
        let pvs = "pv_uuid,vg_name,pv_size,pv_free,pv_pe_count,pv_pe_alloc_count,pe_start,\
                   pv_mda_count,dev_size,pv_missing,pv_attr";
        let vgs = "vg_name,vg_uuid,vg_attr,vg_size,vg_free,vg_extent_count,vg_free_count,lv_count,\
                   vg_missing_pv_count,vg_mda_count,vg_mda_used_count";
        let lvs = "lv_name,lv_uuid,lv_size,lv_attr,lv_health_status";
        let reports = [("pvs", pvs), ("vgs", vgs), ("lvs -a", lvs)];
        self.reports(&reports)
    }

    /// Returns LVM's reports of the sizes that do not depend on the choice of extents.
    pub(crate) fn sizes(&self) -> Vec<Value> {
        let pvs = "pv_uuid,pv_size,pv_pe_count,pe_start,pv_mda_count,pv_missing";
        let vgs = "vg_name,vg_uuid,vg_size,vg_free,vg_extent_count,vg_free_count,lv_count";
        let lvs = "lv_name,lv_size,lv_attr";
        let reports = [("pvs", pvs), ("vgs", vgs), ("lvs -a", lvs)];
        self.reports(&reports)
    }

    /// Returns the rows of reports, which LVM sorts by the paths of the devices.
    fn reports(&self, reports: &[(&str, &str)]) -> Vec<Value> {
        let reports = reports.iter();
        let rows = reports.flat_map(|(command, fields)| self.lvm.report(command, fields).unwrap());
        let mut rows: Vec<Value> = rows.collect();
        rows.sort_by_key(ToString::to_string);
        rows
    }

    /// Checks that the group is consistent for LVM, in each of its metadata areas, and that LVM has
    /// no remarks.
    pub(crate) fn check(&self) {
        self.lvm.run("vgck vg").unwrap();
        for number in 0..self.paths.len() {
            self.lvm.run(&format!("pvck @{number}")).unwrap();
            let headers = self.lvm.run(&format!("pvck --dump headers @{number}"));
            assert!(headers.is_ok(), "{headers:?}");
        }
        for physical in self.physical() {
            assert_eq!(physical.warnings, [""; 0]);
            if let Some(group) = &physical.group {
                assert_eq!(group, &self.group());
            }
        }
        let told = self.told();
        let group = self.group();
        let number = |row: &Value, field: &str| {
            let text = row[field].as_str().unwrap();
            text.parse::<u64>().unwrap()
        };
        for row in &told {
            if !row["lv_size"].is_null() {
                let name = row["lv_name"].as_str().unwrap().trim_matches(['[', ']']);
                let ours = group.logical_volume(name).unwrap();
                assert_eq!(number(row, "lv_size"), ours.size_bytes, "{row}");
            } else if !row["vg_free"].is_null() {
                assert_eq!(number(row, "vg_free"), group.free_bytes(), "{row}");
                assert_eq!(number(row, "vg_size"), group.size_bytes(), "{row}");
            }
        }
    }
}
