//! A run: a feature set, a seed, operations, and what is done with them.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use diskfs_block::{BlockRead, Faulty, Memory, WriteLog};
use diskfs_fixtures::Mount;
use diskfs_vfs::FsWrite;
use diskfs_vfs::testing::WritableMemoryFs;

use crate::chance::Chance;
use crate::crash_points::{self, Point, Points};
use crate::examine::examine;
use crate::feature_set::FeatureSet;
use crate::generate::{Plan, generate};
use crate::host::Host;
use crate::layer::{Crashed, Layer};
use crate::lockstep::Lockstep;
use crate::mirror::mirror;
use crate::operation::Operation;
use crate::{e2fsck, image, writer};

/// What is run.
#[derive(Debug, Clone)]
pub struct Session {
    /// On which kind of filesystem.
    pub set: FeatureSet,
    /// In which kind of image.
    pub layer: Layer,
    /// From which seed everything random comes.
    pub seed: u64,
    /// How many operations.
    pub operations: usize,
    /// Of these only the ones of these numbers, if not all.
    pub only: Option<BTreeSet<usize>>,
    /// How many crashes.
    pub points: usize,
}

/// What a run came to.
#[derive(Debug, Default, Clone, Copy)]
pub struct Report {
    /// Operations that were done.
    pub operations: usize,
    /// Of these, how many there was no room for.
    pub refused: usize,
    /// Events of the device.
    pub events: usize,
    /// Crash images that were looked at.
    pub images: usize,
    /// How many different states they showed.
    pub states: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            operations,
            refused,
            events,
            images,
            states,
        } = self;
        write!(
            f,
            "{operations} operations ({refused} without room), {events} events, {images} crash \
             images of {states} states"
        )
    }
}

impl Session {
    /// The command that does this run again.
    pub fn command(&self) -> String {
        let layer = match self.layer {
            Layer::Raw => String::new(),
            Layer::Qcow2 { cluster_size } => format!(" --qcow2 {cluster_size}"),
        };
        let only = match &self.only {
            None => String::new(),
            Some(only) => {
                let numbers: Vec<_> = only.iter().map(ToString::to_string).collect();
                format!(" --only {}", numbers.join(","))
            }
        };
        format!(
            "cargo run -p diskfs-crash -- run --feature-set {} --seed {} --operations {} \
             --points {}{layer}{only}",
            self.set.name, self.seed, self.operations, self.points
        )
    }

    /// The operations, with their numbers.
    ///
    /// # Errors
    /// Whatever the filesystem answers that they begin on.
    pub fn operations(&self, fresh: &[u8]) -> Result<Vec<(usize, Operation)>> {
        let model = WritableMemoryFs::new();
        let subject = image::read(image::in_memory(fresh))?;
        let (_, files) = mirror(&subject, &model)?;
        let plan = Plan {
            operations: self.operations,
            size_bytes: self.set.size_mib << 20,
            unit_bytes: self.set.unit_bytes(),
            large_values: self.set.traits.large_values,
        };
        // Not the same operations on every kind of filesystem.
        let salt = self.set.name.bytes().fold(self.seed, |hash, byte| {
            hash.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte)
        });
        let all = generate(plan, Chance::new(salt), &model, files);
        let wanted = |number: &usize| self.only.as_ref().is_none_or(|only| only.contains(number));
        Ok((0..)
            .zip(all)
            .filter(|(number, _)| wanted(number))
            .collect())
    }

    /// Does most of the operations on our writer, some on the kernel's mount, and the rest on ours
    /// again, which each find what the other left. Then lets the power fail at many moments of the
    /// time that was ours, and looks at what that leaves.
    ///
    /// # Errors
    /// When something is wrong; with the command that shows it again.
    pub fn run(&self) -> Result<Report> {
        self.run_all()
            .with_context(|| format!("again: {}", self.command()))
    }

    fn run_all(&self) -> Result<Report> {
        let directory = image::directory()?;
        let fresh = image::fresh(&self.set, directory.path())?;
        let operations = self.operations(&fresh)?;
        let by_kernel = self.set.traits.mountable && rustix::process::geteuid().is_root();
        let mut run = Run::new(self, fresh, directory.path());
        // What is left out is left out of the part that it was in.
        let part = |from: usize, to: usize| {
            let bounds = self.operations * from / 10..self.operations * to / 10;
            let inside = |(number, _): &&(usize, Operation)| bounds.contains(number);
            operations.iter().filter(inside).collect::<Vec<_>>()
        };
        run.ours(&part(0, 6)).context("ours")?;
        if by_kernel {
            run.kernels(&part(6, 8)).context("the kernel's")?;
        }
        run.ours(&part(8, 10)).context("ours after the kernel's")?;
        if by_kernel {
            run.kernels(&[]).context("the kernel's at the end")?;
        }
        self.crash(&run)
    }

    fn crash(&self, run: &Run<'_>) -> Result<Report> {
        let mut states = BTreeSet::new();
        let mut report = run.report();
        for part in &run.recorded {
            let share = part.log.events().len() * self.points / report.events.max(1);
            let points = Points {
                count: share + 1,
                seed: self.seed,
            };
            let look = |point: Point, crashed: &Arc<dyn BlockRead>| {
                report.images += 1;
                states.insert(self.look(run, part, point, crashed)?);
                Ok(())
            };
            crash_points::each(&part.before, &part.superblock, &part.log, points, look)?;
        }
        report.states = states.len();
        Ok(report)
    }

    fn look(
        &self,
        run: &Run<'_>,
        part: &Recorded,
        point: Point,
        crashed: &Arc<dyn BlockRead>,
    ) -> Result<usize> {
        let Some(lockstep) = &run.lockstep else {
            bail!("nothing was done");
        };
        let history = lockstep.history();
        let window = history.window(part.first_event + point.events);
        examine(
            &self.set,
            self.layer,
            history,
            window,
            crashed,
            run.directory,
        )
        .or_else(|error| {
            let name = format!("{}-{}-{}.img", self.set.name, self.seed, point.events);
            let kept = image::keep(&**crashed, &name)?;
            let kept = kept.display();
            Err(error.context(format!("crash at {point:?}, {window:?}, kept in {kept}")))
        })
    }

    /// Does the operations on the kernel's mount, and takes what is in the image behind it at many
    /// moments for a crash. This tests the harness: the kernel is taken to be right.
    ///
    /// # Errors
    /// When something is wrong.
    pub fn run_on_kernel(&self) -> Result<Report> {
        if !self.set.traits.mountable {
            bail!("the kernel does not mount {}", self.set.name);
        }
        let directory = image::directory()?;
        let fresh = image::fresh(&self.set, directory.path())?;
        let operations = self.operations(&fresh)?;
        let path = directory.path().join("mounted.img");
        image::write(&Memory::new(fresh.as_slice()), &path)?;
        let mount = mount(&self.set, &path)?;
        let mut lockstep = Lockstep::new(Arc::new(Host::open(mount.path())?), self.set.traits)?;
        let mut chance = Chance::new(self.seed);
        let every = (operations.len() / self.points.max(1)).max(1) as u64;
        let mut snapshots = Vec::new();
        let clock = Cell::new(0);
        // What an operation does to the image happens between two of these.
        let events = || clock.replace(clock.get() + 1) + 1;
        for operation in &operations {
            step(&mut lockstep, operation, &events)?;
            if chance.one_in(every) {
                std::thread::sleep(std::time::Duration::from_millis(chance.below(40)));
                snapshots.push((clock.get(), std::fs::read(&path)?));
            }
        }
        lockstep.check_all()?;
        lockstep.close(&events)?;
        mount.unmount()?;
        let (operations, refused) = lockstep.counts();
        let mut states = BTreeSet::new();
        let images = snapshots.len();
        for (events, bytes) in snapshots {
            let window = lockstep.history().window(events);
            let crashed: Arc<dyn BlockRead> = image::in_memory(&bytes);
            let (set, history) = (&self.set, lockstep.history());
            let layer = Layer::Raw;
            let state = examine(set, layer, history, window, &crashed, directory.path());
            states.insert(state.with_context(|| format!("after {events} events, {window:?}"))?);
        }
        Ok(Report {
            operations,
            refused,
            events: 0,
            images,
            states: states.len(),
        })
    }
}

/// One filesystem, that is written by turns.
struct Run<'a> {
    set: FeatureSet,
    layer: Layer,
    seed: u64,
    directory: &'a Path,
    bytes: Vec<u8>,
    lockstep: Option<Lockstep>,
    recorded: Vec<Recorded>,
    /// How many events there were, with one between two turns.
    events: usize,
}

/// What our writer did from when it opened the filesystem until it closed it.
struct Recorded {
    before: Vec<u8>,
    superblock: Range<u64>,
    log: WriteLog,
    /// How many events there were before.
    first_event: usize,
}

impl<'a> Run<'a> {
    fn new(session: &Session, bytes: Vec<u8>, directory: &'a Path) -> Self {
        Self {
            set: session.set,
            layer: session.layer,
            seed: session.seed,
            directory,
            bytes,
            lockstep: None,
            recorded: Vec::new(),
            events: 0,
        }
    }

    fn report(&self) -> Report {
        let (operations, refused) = self.lockstep.as_ref().map_or((0, 0), Lockstep::counts);
        let logs = self.recorded.iter().map(|part| part.log.events().len());
        Report {
            operations,
            refused,
            events: logs.sum(),
            ..Report::default()
        }
    }

    /// Does operations on our writer.
    fn ours(&mut self, operations: &[&(usize, Operation)]) -> Result<()> {
        let before = self.layer.image_of(&self.bytes, self.directory)?;
        let memory = image::in_memory(&before);
        let superblock = self.layer.superblock(&memory)?;
        let device = Arc::new(Faulty::new(memory.clone(), []));
        let guest = self.layer.open_writable(device.clone())?;
        let first_event = self.events;
        let events = || first_event + device.logged();
        self.go_on_with(writer::open(guest.disk.clone(), self.seed)?)?;
        self.work(operations, &events)?;
        guest.close()?;
        self.layer.check(&*memory, Crashed::No, self.directory)?;
        let disk = self.layer.open(memory.clone())?;
        disk.read_at(0, &mut self.bytes)?;
        let length = usize::try_from(memory.size_bytes())?;
        let before = self.layer.long_enough(before, length);
        let log = device.take_log();
        self.events += log.events().len() + 1;
        self.recorded.push(Recorded {
            before,
            superblock,
            log,
            first_event,
        });
        let path = self.directory.join("closed.img");
        image::write(&*disk, &path)?;
        e2fsck::check(&path).context("after closing")
    }

    /// Does operations on the kernel's mount.
    fn kernels(&mut self, operations: &[&(usize, Operation)]) -> Result<()> {
        let path = self.directory.join("mounted.img");
        image::write(&Memory::new(self.bytes.as_slice()), &path)?;
        let mount = mount(&self.set, &path)?;
        self.go_on_with(Arc::new(Host::open(mount.path())?))?;
        let now = self.events;
        self.work(operations, &|| now)?;
        self.events += 1;
        mount.unmount()?;
        self.bytes = std::fs::read(&path)?;
        Ok(())
    }

    fn go_on_with(&mut self, subject: Arc<dyn FsWrite>) -> Result<()> {
        match &mut self.lockstep {
            None => self.lockstep = Some(Lockstep::new(subject, self.set.traits)?),
            Some(lockstep) => lockstep.go_on_with(subject).context("opened again")?,
        }
        Ok(())
    }

    fn work(
        &mut self,
        operations: &[&(usize, Operation)],
        events: &dyn Fn() -> usize,
    ) -> Result<()> {
        let Some(lockstep) = &mut self.lockstep else {
            bail!("nothing is open");
        };
        for operation in operations {
            step(lockstep, operation, events)?;
        }
        lockstep.check_all()?;
        lockstep.close(events).context("closing")
    }
}

fn step(
    lockstep: &mut Lockstep,
    (number, operation): &(usize, Operation),
    events: &dyn Fn() -> usize,
) -> Result<()> {
    lockstep
        .step(*number, operation, events)
        .with_context(|| format!("operation {number}: {operation:?}"))
}

/// The kernel's mount. Without commits by the clock, which could come between the calls that one
/// operation takes.
fn mount(set: &FeatureSet, image: &Path) -> Result<Mount> {
    let options = if set.traits.journal {
        "commit=300,noatime"
    } else {
        "noatime"
    };
    Mount::of_image(image, options)
}
