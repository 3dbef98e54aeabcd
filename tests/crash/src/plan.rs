//! The test that a plan of `diskfs deploy` is atomic, whenever the power fails.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use diskfs::deploy::{Applied, Deployment, Plan};
use diskfs::{Filesystem, WritableFilesystem};
use diskfs_block::{BlockRead, BlockWrite, Faulty, Overlay, WriteLog};
use diskfs_ext4::{WritableExt4, WriteOptions};
use diskfs_fixtures::{Tree, pattern};
use diskfs_vfs::testing::MemoryFs;
use diskfs_vfs::{FileType, FsRead, FsWrite, InodeNumber, NewAttributes, NewKind};

use crate::crash_points::{self, Base, Points};
use crate::feature_set::FeatureSet;
use crate::layer::Layer;
use crate::random::Random;
use crate::session::Report;
use crate::{e2fsck, image};

/// The feature sets whose journals differ most.
pub const SETS: [&str; 6] = [
    "default",
    "1k-blocks",
    "no-checksums",
    "bigalloc",
    "inline-data",
    "fast-commit",
];

/// The maximum size of an overlay.
const OVERLAY_BYTES: u64 = 256 << 20;

/// A small Debian guest.
const GUEST: &str = "\
-- /etc/os-release --
ID=debian
-- /etc/hostname --
old
-- /etc/hosts --
127.0.0.1 localhost
-- /etc/passwd --
root:x:0:0:root:/root:/bin/bash
-- /etc/shadow --
root:*:19000:0:99999:7:::
-- /etc/group --
root:x:0:
-- /etc/fstab --
UUID=1 / ext4 defaults 0 1
-- /etc/skel/.profile --
umask 022
-- /etc/sudoers.d/README --
-- /root/.profile --
-- /home/.keep --
-- /usr/lib/systemd/systemd --
-- /var/log/syslog --
started
-- /var/cache/app/one --
1
-- /var/cache/app/two --
2
";

/// The plan, with changes of each kind: files created, changed in place, grown and removed, trees,
/// symlinks, modes.
const PLAN: &str = "steps:
- hostname: web1
- hosts: [{address: 127.0.1.1, names: [web1]}]
- fstab: {add: [{device: UUID=2, path: /srv/data, type: ext4}]}
- user: {name: ann, password: {hash: \"$6$saltsalt$abcdefghijkl\"}, sudo: nopasswd}
- delete: /var/cache/app
- write: {path: /var/cache/app/three, text: \"3\"}
- write: {path: /etc/motd, text: hello, mode: 0600, owner: \"1:2\"}
- upload: {from: LARGE, to: /opt/large}
- upload: {from: LARGE, to: /var/log/syslog}
- link: {path: /etc/localtime, target: ../usr/share/zoneinfo/UTC}
- permissions: {path: /etc/hosts, mode: 0600}
- firstboot: {name: hello, script: echo hello}
- copy-in: {from: TREE, to: /var}
";

/// The number of directories to copy in. Each needs a block and a part of an inode block. Together
/// they need more than a quarter of the journal, the limit of a transaction if several are allowed.
const TREE_DIRS: usize = 300;

/// The size of the file that the plan copies in twice.
const LARGE_BYTES: usize = 300_000;

/// The crashes to simulate.
#[derive(Debug, Clone, Copy)]
pub enum Crashes {
    /// Some crashes.
    Some(Points),
    /// All that [`WriteLog::states`] returns.
    All {
        /// One of so many states is also checked by e2fsck and our writer.
        examine_one_in: u64,
    },
}

/// Deploys the plan to a filesystem of this type, and checks what crashes leave.
///
/// # Errors
/// A partly applied plan, or another problem.
pub fn run(set: &FeatureSet, crashes: Crashes) -> Result<Report> {
    let directory = image::directory()?;
    let directory = directory.path();
    let deployed = Deployed::new(set, directory)?;
    let (images, done) = match crashes {
        Crashes::Some(points) => deployed.check_some(set, points, directory)?,
        Crashes::All { examine_one_in } => deployed.check_all(set, examine_one_in, directory)?,
    };
    ensure!(
        images < 20 || (done > 0 && done < images),
        "{done} of {images} have the plan"
    );
    Ok(Report {
        operations: 1,
        events: deployed.log.events().len(),
        images,
        states: 2,
        ..Report::default()
    })
}

/// A guest to which the plan was deployed.
struct Deployed {
    /// The image without the plan.
    fresh: Vec<u8>,
    log: WriteLog,
    /// The range of the filesystem's superblock in the image.
    superblock: Range<u64>,
    states: States,
}

impl Deployed {
    fn new(set: &FeatureSet, directory: &Path) -> Result<Self> {
        let memory = image::in_memory(&image::make_filesystem(set, directory)?);
        fill(memory.clone())?;
        let fresh = memory.to_vec();
        let before = tree(memory.clone())?;
        let device = Arc::new(Faulty::new(memory.clone(), []));
        deploy(device.clone(), directory)?;
        let after = tree(memory.clone())?;
        ensure!(before != after, "the plan changed nothing");
        Ok(Self {
            fresh,
            log: device.take_log(),
            superblock: Layer::Raw.superblock(&memory)?,
            states: States { before, after },
        })
    }

    /// Returns the number of crash images, and of those with the plan.
    fn check_some(
        &self,
        set: &FeatureSet,
        points: Points,
        directory: &Path,
    ) -> Result<(usize, usize)> {
        let (mut images, mut done) = (0, 0);
        let (fresh, log) = (&self.fresh, &self.log);
        crash_points::each(fresh, &self.superblock, log, points, |point, crashed| {
            let is_done = self.states.examine(set, crashed, directory);
            let name = format!("plan-{}-{}-{}.img", set.name, points.seed, point.events);
            done += usize::from(kept_if_wrong(
                is_done,
                crashed,
                &name,
                &format_args!("{point:?}"),
            )?);
            images += 1;
            Ok(())
        })?;
        Ok((images, done))
    }

    /// Returns the number of crash images, and of those with the plan.
    fn check_all(
        &self,
        set: &FeatureSet,
        examine_one_in: u64,
        directory: &Path,
    ) -> Result<(usize, usize)> {
        let (mut images, mut done) = (0, 0);
        let mut random = Random::new(1);
        let mut base = Base::new(image::in_memory(&self.fresh));
        for state in self.log.states(1) {
            let crashed = base.crash(state.durable(), state.open(), &self.superblock)?;
            let is_done = if random.one_in(examine_one_in) {
                self.states.examine(set, &crashed, directory)
            } else {
                self.states.judge(crashed.clone())
            };
            let name = format!("plan-{}-{}.img", set.name, state.seen());
            done += usize::from(kept_if_wrong(is_done, &crashed, &name, &state)?);
            images += 1;
        }
        Ok((images, done))
    }
}

/// Keeps the image of a crash after which a check failed.
fn kept_if_wrong(
    is_done: Result<bool>,
    crashed: &Arc<dyn BlockRead>,
    name: &str,
    crash: &dyn fmt::Display,
) -> Result<bool> {
    is_done.or_else(|error| {
        let kept = image::save(&**crashed, name)?;
        let kept = kept.display();
        Err(error.context(format!("crash at {crash}, kept in {kept}")))
    })
}

fn open(device: Arc<dyn BlockWrite>) -> Result<Arc<WritableExt4>> {
    let options = WriteOptions {
        commit_interval: None,
        ..WriteOptions::default()
    };
    Ok(Arc::new(WritableExt4::open(device, &options)?))
}

fn fill(device: Arc<dyn BlockWrite>) -> Result<()> {
    let fs = open(device)?;
    let guest = MemoryFs::of_txtar(GUEST);
    copy(&guest, guest.root(), &*fs, fs.root())?;
    fs.close()?;
    Ok(())
}

fn copy(from: &dyn FsRead, dir: InodeNumber, to: &dyn FsWrite, to_dir: InodeNumber) -> Result<()> {
    for entry in from.read_dir(dir, 0)? {
        let entry = entry?;
        if matches!(&*entry.name, b"." | b"..") {
            continue;
        }
        if entry.file_type == Some(FileType::Directory) {
            let attributes = NewAttributes::for_root(0o755);
            let made = to.create(to_dir, &entry.name, NewKind::Directory, &attributes)?;
            copy(from, entry.inode, to, made)?;
        } else {
            let attributes = NewAttributes::for_root(0o644);
            let made = to.create(to_dir, &entry.name, NewKind::Regular, &attributes)?;
            let mut text = vec![0; 4096];
            let len = from.read_at(entry.inode, 0, &mut text)?;
            to.write_at(made, 0, &text[..len])?;
        }
    }
    Ok(())
}

fn deploy(device: Arc<dyn BlockWrite>, directory: &Path) -> Result<()> {
    let large = directory.join("large");
    std::fs::write(&large, pattern("large", LARGE_BYTES))?;
    let tree = directory.join("tree");
    for nth in 0..TREE_DIRS {
        let below = tree.join(format!("dir-{nth}"));
        std::fs::create_dir_all(&below)?;
        std::fs::write(below.join("file"), format!("{nth}"))?;
    }
    let plan = PLAN.replace("LARGE", &large.display().to_string());
    let plan = plan.replace("TREE", &tree.display().to_string());
    let plan = Plan::parse(&plan)?;
    let path = Path::new("guest.img");
    let reader = image::read(device.clone())?;
    let reader = Filesystem::new(Arc::new(reader), path, "disk");
    let deployment = Deployment::prepare(reader, &plan)?;
    let target = WritableFilesystem::new(open(device)?, path, "disk");
    let applied = deployment.apply(&target)?;
    ensure!(
        applied == Applied::OneTransaction,
        "the plan needed several transactions"
    );
    Ok(())
}

fn tree(device: Arc<dyn BlockRead>) -> Result<Tree> {
    let mut tree = Tree::of_filesystem(&image::read(device)?)?;
    // The totals in the superblock are those of the last mount or unmount.
    tree.statfs = None;
    Ok(tree)
}

/// The guest with and without the plan.
struct States {
    before: Tree,
    after: Tree,
}

impl States {
    /// Checks a crash image in all ways. Returns true if the plan is applied.
    fn examine(
        &self,
        set: &FeatureSet,
        crashed: &Arc<dyn BlockRead>,
        directory: &Path,
    ) -> Result<bool> {
        let is_done = self.judge(crashed.clone()).context("replayed in memory")?;
        let same = |found: Result<bool>, by: &'static str| match found.context(by)? {
            found if found == is_done => Ok(()),
            _ => bail!("{by}: the state differs from that replayed in memory"),
        };

        let device = Arc::new(Overlay::in_memory(crashed.clone(), OVERLAY_BYTES));
        open(device.clone())?.close()?;
        let path = directory.join("ours.img");
        image::write(&*device, &path)?;
        e2fsck::check(&path).context("replayed by our writer")?;
        same(self.judge(device), "replayed by our writer")?;

        let path = directory.join("theirs.img");
        image::write(&**crashed, &path)?;
        e2fsck::recover(&path, set.traits)?;
        e2fsck::check(&path)?;
        same(self.judge(image::open(&path)?), "replayed by e2fsck")?;
        Ok(is_done)
    }

    fn judge(&self, device: Arc<dyn BlockRead>) -> Result<bool> {
        let found = tree(device)?;
        let (missing, more) = (
            found.differences(&self.after),
            found.differences(&self.before),
        );
        match (missing.is_empty(), more.is_empty()) {
            (true, _) => Ok(true),
            (_, true) => Ok(false),
            _ => Err(anyhow!(
                "the plan is partly applied; differences from the guest without it: {}\n\nwith it: {}",
                more.join("\n"),
                missing.join("\n")
            )),
        }
    }
}
