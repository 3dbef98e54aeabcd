//! The labels of a policy.

use std::collections::HashMap;
use std::sync::Arc;

use crate::lines::lines;
use crate::pattern::Pattern;
use crate::problem::Problems;
use crate::spec::{Matcher, Spec, SpecTarget};
use crate::spec_line::SpecLine;
use crate::subs::Subs;
use crate::{Context, Error, FileKind, Problem, Result, Text};
use crate::{path, stem};

/// The maximum size of a text: forty times that of Fedora's policy.
const MAX_TEXT_BYTES: usize = 16 << 20;

/// The maximum number of specifications, including those of literal paths: ten times as many as
/// Fedora has.
const MAX_SPECS: usize = 1 << 16;

/// The maximum number of patterns that must be compiled. Debian's policy has 900. Each takes some
/// KiB after its first use.
const MAX_PATTERNS: usize = 1 << 13;

/// The maximum number of atoms in all patterns. Debian's policy has 26,000. With both limits, all
/// compiled patterns take less than 200 MiB in the worst case.
const MAX_ATOMS: usize = 1 << 18;

/// The texts of a policy, all from its directory `contexts/files`. Missing files are empty.
///
/// The compiled files (`*.bin`) beside them have the same contents, but in a format that depends on
/// the version and architecture of PCRE, so they are not read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Texts<'a> {
    /// The contents of `file_contexts`.
    pub file_contexts: &'a [u8],
    /// The contents of `file_contexts.homedirs`.
    pub homedirs: &'a [u8],
    /// The contents of `file_contexts.local`.
    pub local: &'a [u8],
    /// The contents of `file_contexts.subs_dist`.
    pub subs_dist: &'a [u8],
    /// The contents of `file_contexts.subs`.
    pub subs: &'a [u8],
}

/// The labels of a policy. Any number of threads can look up labels.
#[derive(Debug, Default)]
pub struct Labels {
    /// The specifications of literal paths: the targets of each path in their order.
    literals: HashMap<Box<[u8]>, Vec<SpecTarget>>,
    /// The other specifications in order. `stems` has their indices by stem.
    specs: Vec<Spec>,
    stems: HashMap<Box<[u8]>, Vec<usize>>,
    literal_count: usize,
    subs_dist: Subs,
    subs: Subs,
    problems: Problems,
}

impl Labels {
    /// Parses the texts of a policy.
    pub fn parse(texts: &Texts<'_>) -> Result<Self> {
        let mut loader = Loader::default();
        loader.labels.subs_dist = loader.subs(Text::SubsDist, texts.subs_dist)?;
        loader.labels.subs = loader.subs(Text::Subs, texts.subs)?;
        loader.specs(Text::FileContexts, texts.file_contexts)?;
        loader.specs(Text::Homedirs, texts.homedirs)?;
        loader.specs(Text::Local, texts.local)?;
        Ok(loader.labels)
    }

    /// Returns the label of a file at an absolute path; `None` if no specification matches, or if
    /// it has no label (`<<none>>`).
    pub fn label_for(&self, path: &[u8], kind: FileKind) -> Option<&Context> {
        let cleaned = path::cleaned(path);
        let substituted = self.substituted(&cleaned);
        let path = substituted.as_deref().unwrap_or(&cleaned);
        self.literal(path, kind)
            .or_else(|| self.by_pattern(path, kind))?
            .context
            .as_deref()
    }

    /// Returns the number of specifications.
    pub const fn len(&self) -> usize {
        self.literal_count.saturating_add(self.specs.len())
    }

    /// Returns true if there are no specifications.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the lines that were skipped, at most the first thousand.
    pub fn problems(&self) -> &[Problem] {
        &self.problems.kept
    }

    /// Returns the number of lines that were skipped.
    pub const fn problem_count(&self) -> usize {
        self.problems.count
    }

    /// Returns the path after substitution of aliases; `None` if there is no alias. The
    /// administrator's aliases are applied first, then those of the distribution.
    fn substituted(&self, path: &[u8]) -> Option<Vec<u8>> {
        match self.subs.apply(path) {
            None => self.subs_dist.apply(path),
            Some(path) => Some(self.subs_dist.apply(&path).unwrap_or(path)),
        }
    }

    fn literal(&self, path: &[u8], kind: FileKind) -> Option<&SpecTarget> {
        let targets = self.literals.get(path)?;
        targets.iter().rev().find(|target| target.is_for(kind))
    }

    /// Returns the last pattern that matches.
    fn by_pattern(&self, path: &[u8], kind: FileKind) -> Option<&SpecTarget> {
        let mut best = None;
        for stem in stem::of_path(path) {
            let indices = self.stems.get(stem).map(Vec::as_slice).unwrap_or_default();
            let later = indices
                .iter()
                .rev()
                .take_while(|index| best.is_none_or(|best| **index > best));
            let fits = |index: &&usize| {
                let spec = self.specs.get(**index);
                spec.is_some_and(|spec| spec.target.is_for(kind) && spec.matcher.is_match(path))
            };
            best = later.copied().find(|index| fits(&index)).or(best);
        }
        best.and_then(|best| self.specs.get(best))
            .map(|spec| &spec.target)
    }
}

/// The state of loading a policy, with the counters for its limits.
#[derive(Debug, Default)]
struct Loader {
    labels: Labels,
    contexts: HashMap<Context, Arc<Context>>,
    patterns: usize,
    atoms: usize,
}

impl Loader {
    fn subs(&mut self, text: Text, bytes: &[u8]) -> Result<Subs> {
        check_len(text, bytes)?;
        Subs::parse(text, bytes, &mut self.labels.problems)
    }

    fn specs(&mut self, text: Text, bytes: &[u8]) -> Result<()> {
        check_len(text, bytes)?;
        for line in lines(bytes) {
            let added = match SpecLine::parse(&line) {
                Ok(None) => continue,
                Ok(Some(spec)) => self.add(spec),
                Err(reason) => Err(reason),
            };
            if let Err(reason) = added {
                self.labels.problems.add(text, line.number, reason);
            }
            self.check_limits(text, line.number)?;
        }
        Ok(())
    }

    fn add(&mut self, line: SpecLine<'_>) -> std::result::Result<(), &'static str> {
        if let Some(path) = stem::literal(line.pattern.as_bytes()) {
            let target = self.target(line);
            self.labels
                .literals
                .entry(path.into())
                .or_default()
                .push(target);
            self.labels.literal_count = self.labels.literal_count.saturating_add(1);
            return Ok(());
        }
        let pattern = Pattern::parse(line.pattern)?;
        let atoms = pattern.atoms;
        let matcher = Matcher::new(pattern, line.pattern);
        if matches!(matcher, Matcher::Regex(_)) {
            self.patterns = self.patterns.saturating_add(1);
            self.atoms = self.atoms.saturating_add(atoms);
        }
        let stem = stem::of_pattern(line.pattern).into();
        let target = self.target(line);
        let index = self.labels.specs.len();
        self.labels.specs.push(Spec { matcher, target });
        self.labels.stems.entry(stem).or_default().push(index);
        Ok(())
    }

    /// Builds a target. Equal contexts are shared: a policy has a thousand different ones for six
    /// thousand lines.
    fn target(&mut self, line: SpecLine<'_>) -> SpecTarget {
        let context = line.context.map(|context| {
            let shared = Arc::new(context.clone());
            Arc::clone(self.contexts.entry(context).or_insert(shared))
        });
        SpecTarget {
            kind: line.kind,
            context,
        }
    }

    fn check_limits(&self, text: Text, line: usize) -> Result<()> {
        let counts = [
            ("specifications", self.labels.len(), MAX_SPECS),
            ("patterns", self.patterns, MAX_PATTERNS),
            ("atoms in patterns", self.atoms, MAX_ATOMS),
        ];
        match counts.into_iter().find(|(_, count, limit)| count > limit) {
            None => Ok(()),
            Some((what, _, limit)) => Err(Error::TooMany {
                text,
                line,
                what,
                limit,
            }),
        }
    }
}

const fn check_len(text: Text, bytes: &[u8]) -> Result<()> {
    if bytes.len() > MAX_TEXT_BYTES {
        return Err(Error::TextTooLong {
            text,
            bytes: bytes.len(),
            limit_bytes: MAX_TEXT_BYTES,
        });
    }
    Ok(())
}
