//! The soak of qcow2: several queues use one image at once, its device loses power, and snapshots,
//! bitmaps and changes of the size come in between. Each queue has a range of the disk of its own
//! and knows what it wrote, and `qemu-img` judges the tables.

mod change;
mod marks;
mod power;
mod queue;
mod sample;

use std::ops::AddAssign;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use diskfs_image::{Image, WritableImage};

use crate::image;
use crate::random::Random;
use marks::Marks;
pub use power::Flushes;
use power::{Files, Power};
use queue::{Logged, Queue};
use sample::Sample;

/// The number of phases of a round: requests, a crash, and a change of the image.
const PHASES: u64 = 5;

/// The number of states after a phase that are checked.
const STATES: usize = 60;

/// One of so many states is checked by qemu-img.
const JUDGED: usize = 20;

/// The number of requests in a phase up to which power fails. More are too many to remember all
/// moments.
const CRASHES_UP_TO: usize = 1000;

/// A round of a soak.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// The seed of the random numbers. The requests of each queue are repeatable, their order among
    /// the queues is not.
    pub seed: u64,
    /// The number of queues.
    pub queues: usize,
    /// The number of requests of each queue in a phase. Power fails only if there are at most 1,000.
    pub requests: usize,
    /// The treatment of flushes by the device. A device that drops some must be found out.
    pub flushes: Flushes,
}

/// The work of rounds.
#[derive(Debug, Default, Clone, Copy)]
pub struct Soaked {
    /// The number of requests.
    pub requests: usize,
    /// The number of crash states that were checked.
    pub states: usize,
}

impl AddAssign for Soaked {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.states += other.states;
    }
}

impl Round {
    /// Runs the round on a new image.
    ///
    /// # Errors
    /// The first problem, with the command that repeats the round.
    pub fn run(self) -> Result<Soaked> {
        let directory = image::directory()?;
        let mut random = Random::new(self.seed);
        let (sample, disk) = Sample::create(directory.path(), &mut random)?;
        let mut state = State {
            round: self,
            sample,
            disk,
            snapshots: Vec::new(),
            marks: Vec::new(),
            random,
        };
        let mut soaked = Soaked::default();
        let done = (0..PHASES).try_for_each(|phase| {
            let done = state.phase();
            soaked += done.with_context(|| format!("phase {phase}"))?;
            state.change().with_context(|| format!("change {phase}"))
        });
        done.with_context(|| {
            format!(
                "{}; again: cargo run -p diskfs-crash -- soak --queues {} --requests {} --seed {}",
                state.sample.what, self.queues, self.requests, self.seed
            )
        })?;
        Ok(soaked)
    }
}

/// An image, and what it must contain.
struct State {
    round: Round,
    sample: Sample,
    disk: Vec<u8>,
    /// The names and contents of the snapshots.
    snapshots: Vec<(String, Vec<u8>)>,
    /// The bitmaps.
    marks: Vec<Marks>,
    random: Random,
}

impl State {
    /// Lets the queues use the image in memory, and checks what is left. The image of a crash, or
    /// of the end, is the one that goes on.
    fn phase(&mut self) -> Result<Soaked> {
        let mut queues = self.queues();
        let before = self.sample.files()?;
        let power = Power::new(&before, self.round.flushes, self.random.any());
        let crashes = self.round.requests <= CRASHES_UP_TO;
        let power = if crashes { power } else { power.without_log() };
        let count = || power.logged_count();
        let logged: Logged<'_> = if crashes { Some(&count) } else { None };
        let image = WritableImage::from_device(power.image(), &power.options())?;
        use_at_once(image, &mut queues, self.round.requests, logged)?;
        let mut soaked = Soaked {
            requests: queues.len() * self.round.requests,
            states: 0,
        };
        let crashed = if crashes {
            self.crash(&power, &before, &queues, &mut soaked)?
        } else {
            None
        };
        self.disk = queues.iter().map(Queue::bytes).collect::<Vec<_>>().concat();
        for marks in &mut self.marks {
            let written = queues.iter().flat_map(Queue::written);
            written.for_each(|range| marks.add(range));
        }
        self.sample.write(&power.files())?;
        self.check()?;
        if let (Some((left, disk)), true) = (crashed, self.random.one_in(2)) {
            self.disk = disk;
            self.sample.write(&left)?;
            // They may be incomplete.
            self.remove_bitmaps()?;
            self.check()?;
        }
        Ok(soaked)
    }

    /// Divides the disk among queues, at any bytes.
    fn queues(&mut self) -> Vec<Queue> {
        let count = self.round.queues.max(1);
        let part = self.disk.len() / count;
        let mut starts: Vec<usize> = (1..count)
            .map(|nth| nth * part + self.random.index(1000))
            .collect();
        starts.insert(0, 0);
        let ends = starts.iter().skip(1).copied().chain([self.disk.len()]);
        let ranges = starts.iter().copied().zip(ends);
        ranges
            .map(|(start, end)| {
                let random = Random::new(self.random.any());
                Queue::new(start as u64, &self.disk[start..end], random)
            })
            .collect()
    }

    /// Checks some of the states that a crash can leave, and returns the last one with the contents
    /// of its disk.
    fn crash(
        &mut self,
        power: &Power,
        before: &Files,
        queues: &[Queue],
        soaked: &mut Soaked,
    ) -> Result<Option<(Files, Vec<u8>)>> {
        // The number of requests to the device depends on the order of the queues.
        let mut random = Random::new(self.random.any());
        let count = power.logged_count();
        let mut last = None;
        for number in 0..STATES {
            let seen = random.index(count + 1);
            let left = power.crash(before, seen, &mut random)?;
            let is_judged = number % JUDGED == 0;
            let checked = self.check_state(&left, seen, queues, is_judged);
            let disk = checked.with_context(|| format!("crash after request {seen} of {count}"))?;
            soaked.states += 1;
            last = Some((left, disk));
        }
        Ok(last)
    }

    /// Checks what a crash left, and that it can be used. Returns the contents of the disk.
    fn check_state(
        &self,
        left: &Files,
        seen: usize,
        queues: &[Queue],
        is_judged: bool,
    ) -> Result<Vec<u8>> {
        let power = Power::new(left, Flushes::Done, 0);
        let image = Image::from_device(power.image(), &power.options())?;
        is_sound(&image)?;
        let disk = disk_of(&image, self.disk.len())?;
        for queue in queues {
            queue.check(seen, &disk)?;
        }
        for marks in &self.marks {
            marks.check_crashed(&image, &self.disk, &disk)?;
        }
        drop(image);
        if is_judged {
            self.sample.write(left)?;
            self.sample.check_all(&disk, &self.snapshots)?;
        }
        let image = WritableImage::from_device(power.image(), &power.options())?;
        let half = disk.len() / 2;
        image.device().write_at(half as u64 - 700, &[0xc3; 1400])?;
        image.close()?;
        let image = Image::from_device(power.image(), &power.options())?;
        is_sound(&image).context("after one more write")?;
        let mut expected = disk.clone();
        expected[half - 700..half + 700].fill(0xc3);
        let is_same = disk_of(&image, expected.len())? == expected;
        ensure!(is_same, "one more write changed other bytes");
        Ok(disk)
    }

    /// Removes all bitmaps.
    fn remove_bitmaps(&mut self) -> Result<()> {
        for marks in self.marks.drain(..) {
            let (path, options) = (self.sample.path(), self.sample.options());
            diskfs_image::bitmaps::remove(&path, &marks.name, &options)?;
        }
        Ok(())
    }

    /// Checks the image in its directory: tables, contents, snapshots and bitmaps.
    fn check(&self) -> Result<()> {
        self.sample.check_all(&self.disk, &self.snapshots)?;
        let image = Image::open(&self.sample.path(), &self.sample.options())?;
        self.marks.iter().try_for_each(|marks| marks.check(&image))
    }
}

/// Runs all queues at once, and closes the image.
fn use_at_once(
    image: WritableImage,
    queues: &mut [Queue],
    requests: usize,
    logged: Logged<'_>,
) -> Result<()> {
    let disk = image.device();
    thread::scope(|scope| {
        let start = |queue| {
            let disk = &*disk;
            scope.spawn(move || Queue::run(queue, disk, requests, logged))
        };
        let threads: Vec<_> = queues.iter_mut().map(start).collect();
        let ended = threads.into_iter().map(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err(anyhow!("a queue panicked")))
        });
        ended
            .collect::<Vec<_>>()
            .into_iter()
            .collect::<Result<()>>()
    })?;
    drop(disk);
    Ok(image.close()?)
}

fn disk_of(image: &Image, len: usize) -> Result<Vec<u8>> {
    let mut disk = vec![0x5a; len];
    image.device().read_at(0, &mut disk)?;
    Ok(disk)
}

/// Checks that no table of an image is wrong. Clusters may be leaked.
fn is_sound(image: &Image) -> Result<()> {
    let report = image.check()?.context("the image has no tables")?;
    ensure!(report.corruptions == 0, "corruptions: {report:?}");
    Ok(())
}
