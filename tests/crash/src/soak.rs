//! The soak of qcow2: several queues use one image at once, its device loses power, and snapshots,
//! bitmaps and changes of the size come in between. Each queue has a range of the disk of its own
//! and knows what it wrote, and `qemu-img` judges the tables.

mod queue;
mod sample;

use std::fs;
use std::ops::AddAssign;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use diskfs_block::{CrashState, Faulty, Memory, WriteLog};
use diskfs_image::bitmaps::{self, NewBitmap};
use diskfs_image::{Image, ResizeOptions, WritableImage, resize, snapshots};

use crate::image;
use crate::random::Random;
use queue::Queue;
use sample::{Sample, options};

/// The number of phases of a round: requests, a crash, and a change of the image.
const PHASES: u64 = 5;

/// The number of requests of each queue in a phase.
const REQUESTS: usize = 30;

/// The number of states after a phase that are checked.
const STATES: usize = 60;

/// One of so many states is checked by qemu-img.
const JUDGED: usize = 20;

/// The space that is added to a crashed image, so that it can be written.
const ROOM_BYTES: usize = 1 << 20;

/// The size up to which a disk grows.
const DISK_BYTES: usize = 4 << 20;

/// A round of a soak.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// The seed of the random numbers. The requests of each queue are repeatable, their order among
    /// the queues is not.
    pub seed: u64,
    /// The number of queues.
    pub queues: usize,
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
            sample,
            disk,
            snapshots: Vec::new(),
            bitmaps: 0,
            random,
        };
        let mut soaked = Soaked::default();
        let done = (0..PHASES).try_for_each(|phase| {
            let done = state.phase(self.queues);
            soaked += done.with_context(|| format!("phase {phase}"))?;
            state.change().with_context(|| format!("change {phase}"))
        });
        done.with_context(|| {
            format!(
                "{}; again: cargo run -p diskfs-crash -- soak --queues {} --seed {}",
                state.sample.what, self.queues, self.seed
            )
        })?;
        Ok(soaked)
    }
}

/// An image, and what it must contain.
struct State {
    sample: Sample,
    disk: Vec<u8>,
    /// The names and contents of the snapshots.
    snapshots: Vec<(String, Vec<u8>)>,
    /// The number of bitmaps that were added.
    bitmaps: u64,
    random: Random,
}

impl State {
    /// Lets the queues use the image, and checks what is left.
    fn phase(&mut self, queues: usize) -> Result<Soaked> {
        let mut queues = self.queues(queues);
        let mut soaked = Soaked {
            requests: queues.len() * REQUESTS,
            states: 0,
        };
        if self.sample.is_alone {
            soaked.states = self.in_memory(&mut queues)?;
        } else {
            let image = WritableImage::open(&self.sample.path(), &self.sample.options())?;
            use_at_once(image, &mut queues, &|| 0)?;
            self.disk = contents(&queues);
        }
        self.sample.check_all(&self.disk, &self.snapshots)?;
        Ok(soaked)
    }

    /// Divides the disk among queues, at any bytes.
    fn queues(&mut self, count: usize) -> Vec<Queue> {
        let part = self.disk.len() / count.max(1);
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

    /// Runs a phase on a device in memory that can lose power. Returns the number of states that were
    /// checked. The image of a crash, or of the end, is the one that goes on.
    fn in_memory(&mut self, queues: &mut [Queue]) -> Result<usize> {
        let before = fs::read(self.sample.path())?;
        let memory = Arc::new(Memory::new(before.as_slice()));
        let device = Arc::new(Faulty::new(Arc::clone(&memory), []));
        let image = WritableImage::from_device(device.clone(), &options())?;
        use_at_once(image, queues, &|| device.logged())?;
        self.disk = contents(queues);
        let after = memory.to_vec();
        let log = device.take_log();
        let states = self.chosen(&log);
        let mut start = before;
        start.resize(after.len().max(start.len()) + ROOM_BYTES, 0);
        let mut last = None;
        for (number, state) in states.iter().enumerate() {
            let left = Arc::new(Memory::new(start.as_slice()));
            state.replay(&*left)?;
            let judged = number % JUDGED == 0;
            let checked = self.check_state(&left, state, queues, judged);
            let disk = checked.with_context(|| state.to_string())?;
            last = Some((left, disk));
        }
        fs::write(self.sample.path(), &after)?;
        if let (Some((left, disk)), true) = (last, self.random.one_in(2)) {
            self.disk = disk;
            fs::write(self.sample.path(), left.to_vec())?;
        }
        Ok(states.len())
    }

    /// Returns a random choice of the states that a crash can leave.
    fn chosen<'a>(&mut self, log: &'a WriteLog) -> Vec<CrashState<'a>> {
        let mut chosen = Vec::new();
        // The number of states depends on the order of the queues.
        let mut random = Random::new(self.random.any());
        for (number, state) in log.states(random.any()).enumerate() {
            if number < STATES {
                chosen.push(state);
            } else if let Some(place) = chosen.get_mut(random.index(number + 1)) {
                *place = state;
            }
        }
        chosen
    }

    /// Checks what a crash left, and that it can be used. Returns the contents of the disk.
    fn check_state(
        &self,
        left: &Arc<Memory>,
        state: &CrashState<'_>,
        queues: &[Queue],
        judged: bool,
    ) -> Result<Vec<u8>> {
        let image = Image::from_device(left.clone(), &options())?;
        is_sound(&image)?;
        let disk = disk_of(&image, self.disk.len())?;
        for queue in queues {
            queue.check(state.seen(), &disk)?;
        }
        if judged {
            fs::write(self.sample.path(), left.to_vec())?;
            self.sample.check_all(&disk, &self.snapshots)?;
        }
        let used = Arc::new(Memory::new(left.to_vec()));
        let image = WritableImage::from_device(used.clone(), &options())?;
        let half = disk.len() / 2;
        image.device().write_at(half as u64 - 700, &[0xc3; 1400])?;
        image.close()?;
        let image = Image::from_device(used, &options())?;
        is_sound(&image).context("after one more write")?;
        let mut expected = disk.clone();
        expected[half - 700..half + 700].fill(0xc3);
        let is_same = disk_of(&image, expected.len())? == expected;
        ensure!(is_same, "one more write changed other bytes");
        Ok(disk)
    }

    /// Changes the image as a whole.
    fn change(&mut self) -> Result<()> {
        let path = self.sample.path();
        let options = self.sample.options();
        match self.random.below(6) {
            0 | 1 if self.snapshots.len() < 3 => {
                let name = format!("s{}", self.random.below(1_000_000));
                if !self.snapshots.iter().any(|(known, _)| *known == name) && self.sample.is_alone {
                    snapshots::create(&path, &name, &options)?;
                    self.snapshots.push((name, self.disk.clone()));
                }
            }
            1 | 2 if !self.snapshots.is_empty() => {
                let at = self.random.index(self.snapshots.len());
                let (name, _) = self.snapshots.remove(at);
                snapshots::delete(&path, &name, &options)?;
            }
            3 if self.bitmaps == 0 && !self.snapshots.is_empty() => {
                let at = self.random.index(self.snapshots.len());
                let (name, bytes) = &self.snapshots[at];
                snapshots::apply(&path, name, &options)?;
                self.disk.clone_from(bytes);
            }
            4 if self.bitmaps == 0 && self.disk.len() < DISK_BYTES => {
                let more = 512 * (1 + self.random.index(1500));
                self.disk.resize(self.disk.len() + more, 0);
                let size = self.disk.len() as u64;
                resize(&path, size, ResizeOptions::default(), &options)?;
            }
            5 => {
                let name = format!("b{}", self.bitmaps);
                bitmaps::add(&path, &name, NewBitmap::default(), &options)?;
                self.bitmaps += 1;
            }
            _ => {}
        }
        self.sample.check_all(&self.disk, &self.snapshots)
    }
}

/// Runs all queues at once, and closes the image.
fn use_at_once(
    image: WritableImage,
    queues: &mut [Queue],
    logged: &(dyn Fn() -> usize + Sync),
) -> Result<()> {
    let disk = image.device();
    thread::scope(|scope| {
        let start = |queue| {
            let disk = &*disk;
            scope.spawn(move || Queue::run(queue, disk, REQUESTS, logged))
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

fn contents(queues: &[Queue]) -> Vec<u8> {
    queues.iter().map(Queue::bytes).collect::<Vec<_>>().concat()
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
