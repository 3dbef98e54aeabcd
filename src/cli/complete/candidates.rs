//! Completion of words: paths in images, volumes, snapshots, bitmaps, steps of
//! plans.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use diskfs::image::{ImageSpec, host_file};
use diskfs::vfs::{FileType, Follow};
use diskfs::{Disk, Filesystem, Result, Share};

use crate::cli::deploy::reference;
use crate::cli::operand::Operand;
use crate::cli::options::VolumeArgs;
use crate::cli::sandbox;
use crate::cli::show::name::join;

/// The maximum number of candidates; nobody reads more.
const MOST: usize = 10_000;

/// Returns the candidates for the last of these words, each as a whole word. The result is empty if
/// the word is of another kind, or if an image cannot be read.
pub(super) fn candidates(words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let Some((current, before)) = words.split_last() else {
        return Vec::new();
    };
    let line = Line { before };
    line.candidates(current).unwrap_or_default()
}

/// The words before the completed one, beginning with the program's name.
struct Line<'a> {
    before: &'a [Vec<u8>],
}

impl Line<'_> {
    fn candidates(&self, current: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (option, prefix) = match current.iter().position(|&byte| byte == b'=') {
            Some(at) if current.starts_with(b"--") => (Some(&current[..at]), &current[..=at]),
            _ => (self.before.last().map(Vec::as_slice), &[][..]),
        };
        let value = &current[prefix.len()..];
        let is_of_snapshots = self.command() == Some(b"snapshot") && self.image().is_some();
        let is_of_bitmaps = self.command() == Some(b"bitmap") && self.image().is_some();
        let all = match option {
            Some(b"--volume") => self.volumes()?,
            Some(b"--snapshot") => self.snapshots()?,
            Some(b"--describe") => reference::names(),
            _ if current.starts_with(b"-") => Vec::new(),
            _ if is_of_snapshots => self.snapshots()?,
            _ if is_of_bitmaps => self.bitmaps()?,
            _ => return self.paths(current),
        };
        let fitting = all.into_iter().filter(|name| name.starts_with(value));
        Ok(fitting.map(|name| [prefix, &name].concat()).collect())
    }

    /// Returns the first word that is not an option.
    fn command(&self) -> Option<&[u8]> {
        let mut words = self.before.iter().skip(1);
        words
            .find(|word| !word.starts_with(b"-"))
            .map(Vec::as_slice)
    }

    /// Returns the first image of the command line.
    fn image(&self) -> Option<OsString> {
        let mut words = self.before.iter().skip(2);
        words.find_map(|word| {
            let place = Operand::from(OsString::from_vec(word.clone())).split();
            is_file(&place.image).then_some(place.image)
        })
    }

    fn volumes(&self) -> Result<Vec<Vec<u8>>> {
        let Some(image) = self.image() else {
            return Ok(Vec::new());
        };
        let disk = open(&image)?;
        let names = disk.volumes()?.iter().map(|volume| volume.name().into());
        Ok(names.collect())
    }

    fn snapshots(&self) -> Result<Vec<Vec<u8>>> {
        let Some(image) = self.image() else {
            return Ok(Vec::new());
        };
        let disk = open(&image)?;
        let qcow2 = disk.description().qcow2.as_ref();
        let snapshots = qcow2.map_or(&[][..], |qcow2| &qcow2.snapshots);
        Ok(snapshots.iter().map(|it| it.name.clone().into()).collect())
    }

    fn bitmaps(&self) -> Result<Vec<Vec<u8>>> {
        let Some(image) = self.image() else {
            return Ok(Vec::new());
        };
        let disk = open(&image)?;
        let qcow2 = disk.description().qcow2.as_ref();
        let bitmaps = qcow2.map_or(&[][..], |qcow2| &qcow2.bitmaps);
        Ok(bitmaps.iter().map(|it| it.name.clone().into()).collect())
    }

    /// Returns the files in the directory of `IMG:/dir/na` whose names begin with `na`.
    fn paths(&self, current: &[u8]) -> Result<Vec<Vec<u8>>> {
        let place = Operand::from(OsString::from_vec(current.to_vec())).split();
        let path = match place.path {
            Some(path) if is_file(&place.image) => path,
            _ => return Ok(Vec::new()),
        };
        let filesystem = self.filesystem(&open(&place.image)?)?;
        let names_from = path
            .iter()
            .rposition(|&byte| byte == b'/')
            .map_or(0, |at| at + 1);
        let (dir, begin) = path.split_at(names_from);
        let inode = filesystem.resolve(dir, Follow::All)?;
        let fs = filesystem.as_fs();
        let mut found = Vec::new();
        for entry in fs.read_dir(inode, 0).map_err(|e| filesystem.in_image(e))? {
            let Ok(entry) = entry else { break };
            let is_wanted = entry.name != b"."
                && entry.name != b".."
                && entry.name.starts_with(begin)
                && (!entry.name.starts_with(b".") || begin.starts_with(b"."));
            if is_wanted && found.len() < MOST {
                let path = join(dir, &entry.name);
                let is_dir = entry.file_type == Some(FileType::Directory)
                    || filesystem.metadata(&path).is_ok_and(|file| file.is_dir());
                let end: &[u8] = if is_dir { b"/" } else { b"" };
                found.push([place.image.as_bytes(), b":", &path, end].concat());
            }
        }
        found.sort();
        Ok(found)
    }

    /// Opens the filesystem that the volume options of the previous words select.
    fn filesystem(&self, disk: &Disk) -> Result<Filesystem> {
        let after = |names: &[&[u8]]| {
            let at = self
                .before
                .iter()
                .rposition(|word| names.contains(&&**word))?;
            String::from_utf8(self.before.get(at + 1)?.clone()).ok()
        };
        let volume = VolumeArgs {
            volume: after(&[b"--volume"]),
            partition: after(&[b"-p", b"--partition"]).and_then(|number| number.parse().ok()),
            ..VolumeArgs::default()
        };
        volume.filesystem(disk)
    }
}

fn is_file(image: &OsStr) -> bool {
    ImageSpec::parse(image).is_ok_and(|spec| host_file(&spec.path).is_file())
}

/// Opens an image for reading, even while another process writes to it: the result is only used to
/// offer names.
fn open(image: &OsStr) -> Result<Disk> {
    let options = Disk::options().share(Share::Force);
    options.files(sandbox::opener()).open_spec(image)
}

/// Returns the image that the candidates for the last of these words come from.
pub(super) fn image(words: &[Vec<u8>]) -> Option<OsString> {
    let (current, before) = words.split_last()?;
    let of_current = Operand::from(OsString::from_vec(current.clone())).split();
    if of_current.path.is_some() && is_file(&of_current.image) {
        return Some(of_current.image);
    }
    Line { before }.image()
}
