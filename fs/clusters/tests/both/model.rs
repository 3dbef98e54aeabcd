//! Random operations, compared with the model in memory; then the checkers examine the result.

use diskfs_fixtures::image;
use diskfs_vfs::testing::WritableMemoryFs;
use diskfs_vfs::{
    Follow, FsRead, FsWrite, InodeNumber, NewAttributes, NewKind, RenameMode, resolve,
};
use proptest::prelude::*;

use crate::common::{Tree, read, tree};
use crate::kind::{FilesystemType, KINDS};

/// A few names, so that operations collide. No two of them differ in case alone.
const NAMES: [&str; 7] = [
    "A",
    "lower",
    "A longer name, with a tail",
    "b.txt",
    "UPPER.EXT",
    "a third, of three entries or so",
    LONG,
];

/// A name with more entries than the smallest sector has.
const LONG: &str = "a name that is as long as names may be, which is more than two hundred and ten characters, so that its entries do not lie within one sector of five hundred and twelve bytes, and it must be made and removed in two steps, whatever it costs";

#[derive(Debug, Clone)]
enum Step {
    Create(NameIndexes),
    MakeDir(NameIndexes),
    Write(NameIndexes, u32, u16),
    SetLen(NameIndexes, u32),
    Unlink(NameIndexes),
    RemoveDir(NameIndexes),
    Rename(NameIndexes, NameIndexes),
    Hold(NameIndexes),
    ReleaseAll,
    Sync,
}

/// A path of up to three names.
type NameIndexes = Vec<usize>;

fn place() -> impl Strategy<Value = NameIndexes> {
    prop::collection::vec(0..NAMES.len(), 1..=3)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => place().prop_map(Step::Create),
        3 => place().prop_map(Step::MakeDir),
        4 => (place(), 0..60_000_u32, 1..20_000_u16).prop_map(|(p, at, len)| Step::Write(p, at, len)),
        2 => (place(), 0..80_000_u32).prop_map(|(p, len)| Step::SetLen(p, len)),
        2 => place().prop_map(Step::Unlink),
        1 => place().prop_map(Step::RemoveDir),
        3 => (place(), place()).prop_map(|(a, b)| Step::Rename(a, b)),
        1 => place().prop_map(Step::Hold),
        1 => Just(Step::ReleaseAll),
        1 => Just(Step::Sync),
    ]
}

fn path(place: &NameIndexes) -> String {
    let names: Vec<_> = place.iter().map(|&n| NAMES[n]).collect();
    format!("/{}", names.join("/"))
}

/// Returns the parent directory and the last name.
fn parent<'a>(
    fs: &dyn FsWrite,
    base: InodeNumber,
    place: &'a NameIndexes,
) -> diskfs_vfs::Result<(InodeNumber, &'a [u8])> {
    let (last, above) = place.split_last().unwrap();
    let mut dir = base;
    for &n in above {
        dir = fs.lookup(dir, NAMES[n].as_bytes())?;
    }
    Ok((dir, NAMES[*last].as_bytes()))
}

fn run(
    fs: &dyn FsWrite,
    base: InodeNumber,
    held: &mut Vec<InodeNumber>,
    step: &Step,
) -> diskfs_vfs::Result<u64> {
    let any = NewAttributes::for_root(0o755);
    let file = |place: &NameIndexes| {
        let (dir, name) = parent(fs, base, place)?;
        fs.lookup(dir, name)
    };
    match step {
        Step::Create(place) => {
            let (dir, name) = parent(fs, base, place)?;
            fs.create(dir, name, NewKind::Regular, &any).map(|_| 0)
        }
        Step::MakeDir(place) => {
            let (dir, name) = parent(fs, base, place)?;
            fs.create(dir, name, NewKind::Directory, &any).map(|_| 0)
        }
        Step::Write(place, at, len) => {
            let data = diskfs_fixtures::pattern(&path(place), usize::from(*len));
            fs.write_at(file(place)?, u64::from(*at), &data)
                .map(|n| n as u64)
        }
        Step::SetLen(place, len) => fs.set_len(file(place)?, u64::from(*len)).map(|()| 0),
        Step::Unlink(place) => {
            let (dir, name) = parent(fs, base, place)?;
            fs.unlink(dir, name).map(|()| 0)
        }
        Step::RemoveDir(place) => {
            let (dir, name) = parent(fs, base, place)?;
            fs.rmdir(dir, name).map(|()| 0)
        }
        Step::Rename(from, to) => {
            let (dir, name) = parent(fs, base, from)?;
            let (to_dir, to_name) = parent(fs, base, to)?;
            fs.rename(dir, name, to_dir, to_name, RenameMode::Replace)
                .map(|()| 0)
        }
        Step::Hold(place) => {
            let inode = file(place)?;
            if fs.metadata(inode)?.is_dir() {
                return Ok(0);
            }
            fs.hold(inode);
            held.push(inode);
            Ok(0)
        }
        Step::ReleaseAll => {
            for inode in held.drain(..) {
                fs.release(inode)?;
            }
            Ok(0)
        }
        Step::Sync => fs.sync().map(|()| 0),
    }
}

/// Returns the paths and contents below `base`.
fn shown(fs: &dyn FsRead, base: &str) -> Tree {
    let whole = tree(fs);
    let below = whole.into_iter().filter_map(|(path, file)| {
        let path = path.strip_prefix(base)?.to_owned();
        Some((path, file.map(|(contents, _)| (contents, 0))))
    });
    below.filter(|(path, _)| !path.is_empty()).collect()
}

fn compare(kind: &FilesystemType, name: &str, steps: &[Step]) -> Result<(), TestCaseError> {
    let image = image(name);
    let fs = kind.write(&image.path());
    let model = WritableMemoryFs::new();
    let any = NewAttributes::for_root(0o755);
    let above = FilesystemType::roomy(name);
    let dir = resolve(&*fs, above.as_bytes(), Follow::All).unwrap();
    let base = fs.create(dir, b"base", NewKind::Directory, &any).unwrap();
    let base_path = match above {
        "" => "/base".to_owned(),
        above => format!("/{above}/base"),
    };
    let (mut held, mut held_model) = (Vec::new(), Vec::new());
    for step in steps {
        let ours = run(&*fs, base, &mut held, step).map_err(|e| e.kind());
        let theirs = run(&model, model.root(), &mut held_model, step).map_err(|e| e.kind());
        prop_assert_eq!(ours, theirs, "{:?}", step);
        for (ours, theirs) in held.iter().zip(&held_model) {
            prop_assert_eq!(read(&*fs, *ours), read(&model, *theirs));
        }
    }
    let ours = shown(&*fs, &base_path);
    prop_assert_eq!(&ours, &shown(&model, ""));
    fs.close().unwrap();
    let again = kind.read(&image.path());
    prop_assert_eq!(shown(&*again, &base_path), ours);
    kind.judge(&image.path(), name);
    Ok(())
}

/// Returns a strategy for the images of a filesystem.
fn image_of(kind: &FilesystemType) -> impl Strategy<Value = &'static str> + use<> {
    prop::sample::select(kind.in_model.to_vec())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn fat_does_what_the_model_does(name in image_of(&KINDS[0]), steps in steps()) {
        compare(&KINDS[0], name, &steps)?;
    }

    #[test]
    fn exfat_does_what_the_model_does(name in image_of(&KINDS[1]), steps in steps()) {
        compare(&KINDS[1], name, &steps)?;
    }
}

#[test]
fn renames_that_failed_once() {
    let into_a_missing = [Step::Create(vec![2]), Step::Rename(vec![0], vec![2, 0])];
    let onto_its_parent = [
        Step::MakeDir(vec![4]),
        Step::Create(vec![4, 2]),
        Step::Rename(vec![4, 2], vec![4]),
    ];
    for kind in &KINDS {
        let [name, ..] = kind.in_model else {
            panic!("no images");
        };
        compare(kind, name, &into_a_missing).unwrap();
        compare(kind, name, &onto_its_parent).unwrap();
    }
}
