//! The exhaustive search: each short sequence of operations, and after it each state that a crash
//! can leave.

use std::fmt;
use std::ops::{AddAssign, Range};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use diskfs_block::{BlockRead, BlockWrite, CrashState, Faulty, Memory, Overlay, WriteLog};

use crate::crash_points::Base;
use crate::examine::{examine, read_unrepaired, replayed_in_memory};
use crate::feature_set::FeatureSet;
use crate::history::History;
use crate::image;
use crate::layer::Layer;
use crate::lockstep::Lockstep;
use crate::operation::Operation;
use crate::random::Random;
use crate::vocabulary::{ELEMENTS, Element, Persistence, setup};
use crate::writer;

/// The maximum size of what one sequence writes.
const OVERLAY_BYTES: u64 = 256 << 20;

/// A sequence of elements, each with what follows it.
#[derive(Debug, Clone)]
pub struct Sequence(Vec<(Element, Persistence)>);

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (element, persistence)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{},{}", element.name, persistence.name())?;
        }
        Ok(())
    }
}

impl Sequence {
    /// Parses the names of a sequence: each element and what follows it.
    ///
    /// # Errors
    /// An unknown name; an element without what follows it.
    pub fn parse(names: &[String]) -> Result<Self> {
        let pairs = names.chunks(2).map(|pair| {
            let [element, persistence] = pair else {
                anyhow::bail!("the last element is followed by nothing; add `-`");
            };
            Ok((Element::named(element)?, Persistence::named(persistence)?))
        });
        Ok(Self(pairs.collect::<Result<_>>()?))
    }

    /// Returns all sequences of this many elements.
    pub fn all(len: usize) -> Vec<Self> {
        let mut sequences = vec![Self(Vec::new())];
        for _ in 0..len {
            let longer = |sequence: &Self| {
                let before = sequence.0.clone();
                choices().map(move |choice| {
                    let mut elements = before.clone();
                    elements.push(choice);
                    Self(elements)
                })
            };
            sequences = sequences.iter().flat_map(longer).collect();
        }
        sequences
    }

    /// Returns a random sequence of this many elements.
    pub fn random(len: usize, random: &mut Random) -> Self {
        let all: Vec<_> = choices().collect();
        let elements = (0..len).filter_map(|_| random.pick(&all).copied());
        Self(elements.collect())
    }

    fn operations(&self) -> Vec<Operation> {
        let mut operations = setup();
        for (element, persistence) in &self.0 {
            let first = operations.len();
            let own = element.operations(first);
            let after = persistence.operation(&own, first);
            operations.extend(own.into_iter().chain(after));
        }
        operations
    }

    /// Returns the number of the first operation that the sequence has and no shorter one: the call
    /// that makes the last element durable, or else the element.
    fn first_new(&self) -> usize {
        let Some(((last, persistence), before)) = self.0.split_last() else {
            return setup().len();
        };
        let first = Self(before.to_vec()).operations().len();
        let own = last.operations(first);
        match persistence.operation(&own, first) {
            Some(_) => first + own.len(),
            None => first,
        }
    }
}

fn choices() -> impl Iterator<Item = (Element, Persistence)> {
    ELEMENTS.iter().flat_map(|element| {
        let persistences = Persistence::ALL.iter();
        persistences.map(|(_, persistence)| (*element, *persistence))
    })
}

/// The number of states that were checked.
#[derive(Debug, Default, Clone, Copy)]
pub struct Found {
    /// All states.
    pub states: usize,
    /// The number of states that e2fsck, our writer and qemu-img have also checked.
    pub examined: usize,
}

impl AddAssign for Found {
    fn add_assign(&mut self, other: Self) {
        self.states += other.states;
        self.examined += other.examined;
    }
}

/// The states of a sequence that are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum States {
    /// All from the first element on.
    All,
    /// States that no shorter sequence has: until the last call is made, all is as in the sequence
    /// without it.
    New,
}

/// A search on one type of filesystem.
#[derive(Debug)]
pub struct Search {
    set: FeatureSet,
    layer: Layer,
    /// The image before a sequence.
    start: Arc<Memory>,
    /// The range of the filesystem's superblock in it.
    superblock: Range<u64>,
    /// One of so many states is also checked by other programs.
    examine_one_in: u64,
    /// True if the device reports a flush as done and keeps writes in its cache.
    flushes_lie: bool,
}

impl Search {
    /// Makes the filesystem on which each sequence starts.
    ///
    /// # Errors
    /// The errors of mke2fs and qemu-img.
    pub fn new(set: FeatureSet, layer: Layer, examine_one_in: u64) -> Result<Self> {
        let directory = image::directory()?;
        let fresh = image::make_filesystem(&set, directory.path())?;
        let start = image::in_memory(&layer.image_of(&fresh, directory.path())?);
        Ok(Self {
            set,
            layer,
            superblock: layer.superblock(&start)?,
            start,
            examine_one_in,
            flushes_lie: false,
        })
    }

    /// Changes the device to one that ignores flushes, on which the search must find problems. This
    /// tests the harness.
    #[must_use]
    pub fn with_lying_flushes(mut self) -> Self {
        self.flushes_lie = true;
        self
    }

    /// Runs a sequence, and checks the states that crashes during and after it leave.
    ///
    /// # Errors
    /// The first problem, with the command that repeats it.
    pub fn run(&self, sequence: &Sequence, states: States) -> Result<Found> {
        let directory = image::directory()?;
        let checked = self
            .record(sequence, states)
            .and_then(|recorded| self.check_all(sequence, &recorded, directory.path()));
        checked.with_context(|| {
            let layer = match self.layer {
                Layer::Raw => String::new(),
                Layer::Qcow2 { cluster_size } => format!(" --qcow2 {cluster_size}"),
            };
            format!(
                "again: cargo run -p diskfs-crash -- exhaustive --feature-set {}{layer} \
                 --sequence={sequence}",
                self.set.name
            )
        })
    }

    fn record(&self, sequence: &Sequence, states: States) -> Result<Recorded> {
        let below = self.copy(0);
        let device = Arc::new(Faulty::new(Arc::clone(&below), []));
        let guest = self.layer.open_writable(device.clone())?;
        let events = || device.logged();
        let mut lockstep = Lockstep::new(writer::open(guest.disk.clone(), 0)?, self.set.traits)?;
        let mut first_event = 0;
        let first_checked = match states {
            States::All => setup().len(),
            States::New => sequence.first_new(),
        };
        for (number, operation) in sequence.operations().iter().enumerate() {
            if number == first_checked {
                first_event = device.logged();
            }
            lockstep
                .step(number, operation, &events)
                .with_context(|| format!("operation {number}: {operation:?}"))?;
        }
        lockstep.check_all()?;
        lockstep.close(&events).context("closing")?;
        guest.close()?;
        Ok(Recorded {
            lockstep,
            log: device.take_log(),
            first_event,
            size_bytes: below.size_bytes(),
        })
    }

    /// Returns a copy of the initial image, with room for an image that grew to this size. A raw
    /// image, which doesn't grow, is copied where it is written.
    fn copy(&self, grown_bytes: u64) -> Arc<dyn BlockWrite> {
        if self.layer == Layer::Raw {
            return Arc::new(Overlay::in_memory(self.start.clone(), OVERLAY_BYTES));
        }
        let bytes = self.start.to_vec();
        Arc::new(Memory::new(match usize::try_from(grown_bytes) {
            Ok(grown) if grown > 0 => self.layer.long_enough(bytes, grown),
            _ => bytes,
        }))
    }

    fn check_all(
        &self,
        sequence: &Sequence,
        recorded: &Recorded,
        directory: &Path,
    ) -> Result<Found> {
        let mut found = Found::default();
        let name = sequence.to_string();
        let seed = name.bytes().fold(1, |hash: u64, byte| {
            hash.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte)
        });
        let mut random = Random::new(seed);
        let mut base = Base::new(self.copy(recorded.size_bytes));
        let states: Box<dyn Iterator<Item = _>> = if self.flushes_lie {
            Box::new(recorded.log.states_without_flushes(seed))
        } else {
            Box::new(recorded.log.states(seed))
        };
        for state in states {
            if state.seen() <= recorded.first_event {
                continue;
            }
            let crashed = base.crash(state.durable(), state.open(), &self.superblock)?;
            let examined = random.one_in(self.examine_one_in);
            self.check(recorded, &state, &crashed, examined, directory)
                .with_context(|| state.to_string())?;
            found.states += 1;
            found.examined += usize::from(examined);
        }
        Ok(found)
    }

    fn check(
        &self,
        recorded: &Recorded,
        state: &CrashState<'_>,
        crashed: &Arc<dyn BlockRead>,
        examined: bool,
        directory: &Path,
    ) -> Result<()> {
        let history = recorded.history();
        let window = history.window(state.seen());
        if examined {
            examine(&self.set, self.layer, history, window, crashed, directory)?;
        } else {
            let disk = self.layer.open(Arc::clone(crashed))?;
            if self.set.traits.journal {
                replayed_in_memory(history, window, &disk).context("replayed in memory")?;
            } else {
                read_unrepaired(&disk);
            }
        }
        Ok(())
    }
}

/// A sequence that our writer has run.
struct Recorded {
    lockstep: Lockstep,
    log: WriteLog,
    /// The number of events before the states that are checked.
    first_event: usize,
    /// The size of the image at the end.
    size_bytes: u64,
}

impl Recorded {
    fn history(&self) -> &History {
        self.lockstep.history()
    }
}
