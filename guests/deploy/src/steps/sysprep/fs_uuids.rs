//! New UUIDs for the guest's filesystems.

use diskfs_disk::{Result, UuidChange, Volume};
use uuid::{Builder, Uuid};

use super::super::super::guest::Guest;
use super::super::super::volumes::{NewUuid, Volumes};
use super::named_uuids::replace;
use super::operations::files;

/// What starts the guest and can't be edited as text. GRUB's own image of a BIOS is compressed: `load.cfg`
/// is what was put into it.
const PROGRAMS: &[&str] = &[
    "/boot/grub/i386-pc/load.cfg",
    "/boot/grub2/i386-pc/load.cfg",
    "/boot/grub/powerpc-ieee1275/load.cfg",
    "/boot/grub2/powerpc-ieee1275/load.cfg",
    "/boot/efi/EFI/*/*.[eE][fF][iI]",
    "/boot/EFI/*/*.[eE][fF][iI]",
    "/efi/EFI/*/*.[eE][fF][iI]",
];

/// Larger programs are not looked through.
const MAX_PROGRAM_BYTES: u64 = 512 << 20;

/// Gives the filesystems that the guest mounts new UUIDs. One that can't get another, or is named where that can't be
/// changed, keeps its own, which is noted: the guest must start.
pub(super) fn renew(guest: &mut Guest, is_named: bool) -> Result<()> {
    let Some(volumes) = guest.volumes.clone() else {
        if is_named {
            return Err(guest.invalid("fs-uuids: only the filesystem is known, not its disk"));
        }
        return Ok(());
    };
    let mut renewed: Vec<NewUuid> = Vec::new();
    let mut seen = Vec::new();
    for (path, volume) in &volumes.mounts {
        // One may be mounted at several places.
        if seen.contains(&volume.name()) || guest.volume_changes.has_filesystem(path) {
            continue;
        }
        seen.push(volume.name());
        let old = volume.content()?.and_then(|content| content.uuid.clone());
        let Some(old) = old else { continue };
        if let Some(why) = hindrance(guest, &volumes, volume, &old)? {
            guest.note(format!(
                "filesystem {} keeps its UUID: {why}",
                volume.name()
            ));
            continue;
        }
        let new = Builder::from_random_bytes(guest.random()?).into_uuid();
        guest.volume_changes.add_filesystem(path, *new.as_bytes());
        renewed.push(NewUuid {
            of: format!("filesystem {}", volume.name()),
            old,
            new: new.to_string(),
        });
    }
    replace(guest, &renewed)?;
    guest.tell_uuids(renewed);
    Ok(())
}

/// Returns why a filesystem has to keep its UUID.
fn hindrance(
    guest: &Guest,
    volumes: &Volumes,
    volume: &Volume,
    old: &str,
) -> Result<Option<String>> {
    let change = match volume.uuid_change() {
        Ok(change) => change,
        Err(error) => return Ok(Some(error.reason().clone())),
    };
    if Uuid::parse_str(old).is_err() {
        return Ok(Some(format!("`{old}` is an unusual UUID")));
    }
    let boot = volumes.holding("/boot").map(Volume::name);
    if change == UuidChange::AddsChecksumSeed && boot == Some(volume.name()) {
        let why = "the boot loader reads it, and GRUB before 2.12 would not with metadata_csum_seed, which a new UUID needs: \
                   run `tune2fs -O metadata_csum_seed` where the boot loader can read it";
        return Ok(Some(why.to_owned()));
    }
    if let Some(other) = same_uuid(volumes, volume, old) {
        return Ok(Some(format!("{other} has the same one")));
    }
    if let Some(unseen) = unmounted_esp(volumes) {
        let why = format!("the guest does not mount {unseen}, whose boot loader may name it");
        return Ok(Some(why));
    }
    for path in files(guest, PROGRAMS)? {
        if names(guest, &path, old)? {
            return Ok(Some(format!("{path} names it, which has to be made anew")));
        }
    }
    Ok(None)
}

/// Returns another volume with that UUID: what names it may mean either.
fn same_uuid<'v>(volumes: &'v Volumes, volume: &Volume, uuid: &str) -> Option<&'v str> {
    let mut others = volumes.all.iter().filter(|it| it.name() != volume.name());
    let other = others.find(|other| {
        let content = other.content().ok().flatten();
        content.is_some_and(|content| content.uuid.as_deref() == Some(uuid))
    });
    other.map(Volume::name)
}

/// Returns a FAT that the guest does not mount: boot loaders there are not seen.
fn unmounted_esp(volumes: &Volumes) -> Option<&str> {
    let mut others = volumes.all.iter().filter(|volume| {
        let mut mounts = volumes.mounts.iter();
        mounts.all(|(_, mounted)| mounted.name() != volume.name())
    });
    let is_fat = |volume: &&Volume| {
        let content = volume.content().ok().flatten();
        content.is_some_and(|content| content.kind == "vfat")
    };
    others.find(is_fat).map(Volume::name)
}

/// Whether a program has a text in it.
fn names(guest: &Guest, path: &str, text: &str) -> Result<bool> {
    const PIECE_BYTES: usize = 1 << 20;
    let file = guest.stage.guest().open(path)?;
    if file.size_bytes() > MAX_PROGRAM_BYTES {
        return Ok(true);
    }
    let text = text.as_bytes();
    let mut piece = vec![0; PIECE_BYTES];
    let mut kept = 0;
    let mut offset = 0;
    loop {
        let len = file.read_at(offset, piece.get_mut(kept..).unwrap_or_default())?;
        if len == 0 {
            return Ok(false);
        }
        let end = kept.saturating_add(len);
        let read = piece.get(..end).unwrap_or_default();
        let mut parts = read.windows(text.len());
        if parts.any(|part| part.eq_ignore_ascii_case(text)) {
            return Ok(true);
        }
        // It may begin in this piece and end in the next one.
        let from = end.saturating_sub(text.len());
        piece.copy_within(from..end, 0);
        kept = end.saturating_sub(from);
        offset = offset.saturating_add(u64::try_from(len).unwrap_or(u64::MAX));
    }
}
