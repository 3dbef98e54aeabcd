//! A session: a feature set, a seed, operations, and crashes.

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

use crate::crash_points::{self, Point, Points};
use crate::examine::examine;
use crate::feature_set::FeatureSet;
use crate::generate::{Plan, generate};
use crate::host::Host;
use crate::layer::{Crashed, Layer};
use crate::lockstep::Lockstep;
use crate::mirror::mirror;
use crate::operation::Operation;
use crate::random::Random;
use crate::{e2fsck, image, writer};

/// The parameters of a session.
#[derive(Debug, Clone)]
pub struct Session {
    /// The type of filesystem.
    pub set: FeatureSet,
    /// The type of image.
    pub layer: Layer,
    /// The seed of all random choices.
    pub seed: u64,
    /// The number of operations.
    pub operations: usize,
    /// The numbers of the operations to run; `None` for all.
    pub only: Option<BTreeSet<usize>>,
    /// The number of crashes.
    pub points: usize,
}

/// The result of a session.
#[derive(Debug, Default, Clone, Copy)]
pub struct Report {
    /// The number of operations.
    pub operations: usize,
    /// The number of operations that failed for lack of space.
    pub refused: usize,
    /// The number of device events.
    pub events: usize,
    /// The number of crash images that were checked.
    pub images: usize,
    /// The number of different states that they showed.
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
            "{operations} operations ({refused} without space), {events} events, {images} crash \
             images of {states} states"
        )
    }
}

impl Session {
    /// Returns the command that repeats the session.
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

    /// Returns the operations with their numbers.
    ///
    /// # Errors
    /// The errors of the initial filesystem.
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
        // Different feature sets get different operations.
        let salt = self.set.name.bytes().fold(self.seed, |hash, byte| {
            hash.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte)
        });
        let all = generate(plan, Random::new(salt), &model, files);
        let wanted = |number: &usize| self.only.as_ref().is_none_or(|only| only.contains(number));
        Ok((0..)
            .zip(all)
            .filter(|(number, _)| wanted(number))
            .collect())
    }

    /// Runs most of the operations on our writer, some on the kernel's mount, and the rest on our
    /// writer again; each continues with the filesystem of the other. Then simulates power failures
    /// during the parts with our writer, and checks what they leave.
    ///
    /// # Errors
    /// A problem, with the command that repeats the session.
    pub fn run(&self) -> Result<Report> {
        self.run_all()
            .with_context(|| format!("again: {}", self.command()))
    }

    fn run_all(&self) -> Result<Report> {
        let directory = image::directory()?;
        let fresh = image::make_filesystem(&self.set, directory.path())?;
        let operations = self.operations(&fresh)?;
        let by_kernel = self.set.traits.mountable && rustix::process::geteuid().is_root();
        let mut run = Run::new(self, fresh, directory.path());
        // An operation that is left out is left out of its part.
        let part = |from: usize, to: usize| {
            let bounds = self.operations * from / 10..self.operations * to / 10;
            let inside = |(number, _): &&(usize, Operation)| bounds.contains(number);
            operations.iter().filter(inside).collect::<Vec<_>>()
        };
        run.run_writer(&part(0, 6)).context("ours")?;
        if by_kernel {
            run.kernels(&part(6, 8)).context("on the kernel's mount")?;
        }
        run.run_writer(&part(8, 10))
            .context("on our writer after the kernel's mount")?;
        if by_kernel {
            run.kernels(&[])
                .context("on the kernel's mount at the end")?;
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
                states.insert(self.check_state(run, part, point, crashed)?);
                Ok(())
            };
            crash_points::each(&part.before, &part.superblock, &part.log, points, look)?;
        }
        report.states = states.len();
        Ok(report)
    }

    fn check_state(
        &self,
        run: &Run<'_>,
        part: &Recorded,
        point: Point,
        crashed: &Arc<dyn BlockRead>,
    ) -> Result<usize> {
        let Some(lockstep) = &run.lockstep else {
            bail!("no operation was run");
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
            let kept = image::save(&**crashed, &name)?;
            let kept = kept.display();
            Err(error.context(format!("crash at {point:?}, {window:?}, kept in {kept}")))
        })
    }

    /// Runs the operations on the kernel's mount, and takes the contents of the image at many
    /// moments as crashes. This tests the harness: the kernel is assumed to be correct.
    ///
    /// # Errors
    /// A problem of the harness.
    pub fn run_on_kernel(&self) -> Result<Report> {
        if !self.set.traits.mountable {
            bail!("the kernel cannot mount {}", self.set.name);
        }
        let directory = image::directory()?;
        let fresh = image::make_filesystem(&self.set, directory.path())?;
        let operations = self.operations(&fresh)?;
        let path = directory.path().join("mounted.img");
        image::write(&Memory::new(fresh.as_slice()), &path)?;
        let mount = mount(&self.set, &path)?;
        let mut lockstep = Lockstep::new(Arc::new(Host::open(mount.path())?), self.set.traits)?;
        let mut random = Random::new(self.seed);
        let every = (operations.len() / self.points.max(1)).max(1) as u64;
        let mut snapshots = Vec::new();
        let clock = Cell::new(0);
        // The changes of an operation to the image happen between two of these numbers.
        let events = || clock.replace(clock.get() + 1) + 1;
        for operation in &operations {
            step(&mut lockstep, operation, &events)?;
            if random.one_in(every) {
                std::thread::sleep(std::time::Duration::from_millis(random.below(40)));
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

/// A filesystem that several drivers write in turn.
struct Run<'a> {
    set: FeatureSet,
    layer: Layer,
    seed: u64,
    directory: &'a Path,
    bytes: Vec<u8>,
    lockstep: Option<Lockstep>,
    recorded: Vec<Recorded>,
    /// The number of events, with one between two turns.
    events: usize,
}

/// The recording of our writer from opening the filesystem to closing it.
struct Recorded {
    before: Vec<u8>,
    superblock: Range<u64>,
    log: WriteLog,
    /// The number of events before the recording.
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

    /// Runs operations on our writer.
    fn run_writer(&mut self, operations: &[&(usize, Operation)]) -> Result<()> {
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

    /// Runs operations on the kernel's mount.
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
            bail!("no filesystem is open");
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

/// Mounts with the kernel, without commits at intervals, which could happen between the calls of
/// one operation.
fn mount(set: &FeatureSet, image: &Path) -> Result<Mount> {
    let options = if set.traits.journal {
        "commit=300,noatime"
    } else {
        "noatime"
    };
    Mount::of_image(image, options)
}
