//! Power cuts at every moment while an overlay is rebased or committed, or its backing file is copied
//! into it: the overlay always shows the same disk.

use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use diskfs_block::{Faulty, File, Memory};
use diskfs_fixtures::require;

use crate::base::Identity;
use crate::commit::copy;
use crate::create::{BackingCheck, L2Entries, NewBacking, NewImage, NewQcow2};
use crate::open::Opener;
use crate::rebase::{NewBase, keep_contents, set_base};
use crate::source::Source;
use crate::{CreateOptions, Format, Image, OpenOptions, WritableImage, create, has_copied};

/// A size that needs more than one L2 table with the smallest clusters.
const SIZE_BYTES: u64 = 300 << 10;

/// Returns the options for an image, as in `qemu-img create`.
fn qcow2(cluster_size_bytes: u64, backing: Option<&str>) -> NewQcow2 {
    NewQcow2 {
        cluster_size_bytes,
        backing: backing.map(|name| NewBacking {
            name: name.into(),
            format: Format::Qcow2,
            check: BackingCheck::Skip,
        }),
        ..NewQcow2::default()
    }
}

/// A directory of images, and the disk that `top` shows.
struct Chain {
    dir: tempfile::TempDir,
    disk: Vec<u8>,
}

impl Chain {
    /// Creates `top` over `base`, and `other` as an alternative backing file.
    fn new(top: NewQcow2) -> Self {
        let mut chain = Self {
            dir: tempfile::tempdir().unwrap(),
            disk: Vec::new(),
        };
        chain.make("base", qcow2(4096, None));
        chain.scribble("base", 1);
        chain.make("other", qcow2(65536, None));
        chain.scribble("other", 2);
        chain.make("top", top);
        chain.scribble("top", 3);
        chain.disk = chain.bytes_of("top");
        chain
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn make(&self, name: &str, image: NewQcow2) {
        let image = NewImage::Qcow2(Box::new(image));
        let options = CreateOptions::new(image, Some(SIZE_BYTES));
        create(&self.path(name), &options).unwrap();
    }

    /// Writes data and zeroes to some places, repeatably for the same `seed`.
    fn scribble(&self, name: &str, seed: u8) {
        let image = WritableImage::open(&self.path(name), &OpenOptions::default()).unwrap();
        let disk = image.device();
        for n in 0..12_u64 {
            let at = (n * 1_000_003 + u64::from(seed) * 77_777) % (SIZE_BYTES - 30_000);
            let len = 700 + n * 2_111;
            if n % 3 == 1 {
                disk.write_zeroes(at, len).unwrap();
            } else {
                let bytes = vec![seed; usize::try_from(len).unwrap()];
                disk.write_at(at, &bytes).unwrap();
            }
        }
        image.close().unwrap();
    }

    fn bytes_of(&self, name: &str) -> Vec<u8> {
        let image = Image::open(&self.path(name), &OpenOptions::default()).unwrap();
        let device = image.device();
        let mut bytes = vec![0; usize::try_from(device.size_bytes()).unwrap()];
        device.read_at(0, &mut bytes).unwrap();
        bytes
    }

    /// Opens a file of the chain as an image for writing, with a log of its writes.
    fn logged(&self, name: &str) -> (WritableImage, Arc<Faulty<File>>) {
        let path = self.path(name);
        let file = File::open_read_write(&path).unwrap();
        let device = Arc::new(Faulty::new(Arc::new(file), []));
        let owner = std::fs::metadata(&path).unwrap().uid();
        let source = Source {
            id: None,
            owner: Some(owner),
            path,
            ..Source::of_device("disk".as_ref(), device.clone(), Some(device.clone()))
        };
        let opened = Opener::for_writing(&OpenOptions::default())
            .unwrap()
            .open_source(source)
            .unwrap();
        (WritableImage::from_parts(opened), device)
    }

    /// Replays the log on the file's previous contents up to each moment, and checks that `top`
    /// shows the same disk and that neither tool finds a fault in the file.
    fn cut(&self, name: &str, before: &[u8], device: &Faulty<File>, what: &str) {
        let path = self.path(name);
        let after = std::fs::read(&path).unwrap();
        let mut start = before.to_vec();
        start.resize(8 << 20, 0);
        let log = device.log();
        for (number, state) in log.states(1).enumerate() {
            let left = Memory::new(start.as_slice());
            state.replay(&left).unwrap();
            std::fs::write(&path, left.to_vec()).unwrap();
            let context = format!("{what}: {state}");
            self.check(name, &context);
            // Check a sample only: starting programs takes time.
            if number % 40 == 0 {
                self.check_with_qemu(name, &context);
            }
        }
        std::fs::write(&path, after).unwrap();
        self.check(name, what);
        self.check_with_qemu(name, what);
    }

    fn check(&self, name: &str, context: &str) {
        assert!(self.bytes_of("top") == self.disk, "{context}: bytes");
        let image = Image::open(&self.path(name), &OpenOptions::default()).unwrap();
        let report = image.check().unwrap().unwrap();
        assert_eq!(report.corruptions, 0, "{context}: {report:?}");
    }

    fn check_with_qemu(&self, name: &str, context: &str) {
        if require("qemu-img").is_none() {
            return;
        }
        let code = qemu_img(self.dir.path(), &["check", "-U", "-q", name]);
        assert!(matches!(code, 0 | 3), "{context}: qemu-img check: {code}");
        std::fs::write(self.path("disk.raw"), &self.disk).unwrap();
        let words = ["compare", "-U", "-q", "-F", "raw", "top", "disk.raw"];
        let code = qemu_img(self.dir.path(), &words);
        assert_eq!(code, 0, "{context}: qemu-img compare");
    }

    fn rebase(&self, base: Option<&NewBase>) {
        let before = std::fs::read(self.path("top")).unwrap();
        let (image, device) = self.logged("top");
        let options = OpenOptions::default();
        keep_contents(image, &self.path("top"), base, &options, &mut |_, _| {
            ControlFlow::Continue(())
        })
        .unwrap();
        let identity =
            base.and_then(|base| Identity::of_file(&self.path("x").with_file_name(&base.name)));
        set_base(device.as_ref(), base, identity).unwrap();
        self.cut("top", &before, &device, &format!("{base:?}"));
    }
}

/// Copies the backing file into the overlay, which then works without it.
fn copy_in_background(top: NewQcow2) {
    let chain = Chain::new(top);
    let before = std::fs::read(chain.path("top")).unwrap();
    let (image, device) = chain.logged("top");
    let copy = image.background_copy().unwrap();
    copy.run(&mut |_, _| ControlFlow::Continue(())).unwrap();
    image.close().unwrap();
    chain.cut("top", &before, &device, "copy");
    std::fs::remove_file(chain.path("base")).unwrap();
    chain.check("top", "without the backing file");
    let is_copied = |name: &str| {
        let options = OpenOptions::default();
        has_copied(&chain.path("top"), name.as_ref(), &options).unwrap()
    };
    assert!(is_copied("base") && !is_copied("other"));
}

#[test]
fn a_copy_in_the_background_that_is_cut_off() {
    copy_in_background(qcow2(4096, Some("base")));
    copy_in_background(qcow2(512, Some("base")));
    copy_in_background(NewQcow2 {
        l2_entries: L2Entries::Extended,
        ..qcow2(16384, Some("base"))
    });
}

/// Runs qemu-img without locks, because another test's child process may still hold the locks of a
/// closed image.
fn qemu_img(dir: &Path, words: &[&str]) -> i32 {
    let output = Command::new("qemu-img")
        .args(words)
        .current_dir(dir)
        .output()
        .unwrap();
    output.status.code().unwrap_or(-1)
}

fn base(name: &str) -> NewBase {
    NewBase {
        name: name.into(),
        format: Format::Qcow2,
    }
}

/// Rebases to backing files with names of several lengths and back, and to none.
fn rebase_everywhere(top: NewQcow2) {
    let chain = Chain::new(top);
    for name in ["other", "./././././base", "./other", "base"] {
        chain.rebase(Some(&base(name)));
    }
    chain.rebase(None);
}

#[test]
fn a_rebase_that_is_cut_off() {
    rebase_everywhere(qcow2(4096, Some("base")));
    rebase_everywhere(NewQcow2 {
        l2_entries: L2Entries::Extended,
        ..qcow2(16384, Some("base"))
    });
}

/// The header, its extensions and the name are in one sector.
#[test]
fn a_rebase_of_the_smallest_clusters_that_is_cut_off() {
    rebase_everywhere(qcow2(512, Some("base")));
}

#[test]
fn a_commit_that_is_cut_off() {
    for cluster_size in [512, 4096, 65536] {
        let chain = Chain::new(qcow2(cluster_size, Some("base")));
        let before = std::fs::read(chain.path("base")).unwrap();
        let top = Image::open(&chain.path("top"), &OpenOptions::default()).unwrap();
        let (backing, device) = chain.logged("base");
        copy(&top, backing.device().as_ref(), &mut |_, _| {
            ControlFlow::Continue(())
        })
        .unwrap();
        backing.close().unwrap();
        drop(top);
        chain.cut("base", &before, &device, &format!("{cluster_size}"));
        assert!(chain.bytes_of("base") == chain.disk);
    }
}
