//! New UUIDs for the guest's filesystems.

use diskfs_disk::{Result, UuidChange, Volume};
use uuid::{Builder, Uuid};

use super::super::super::guest::Guest;
use super::super::super::volumes::{NewUuid, Volumes};
use super::named_uuids::replace;
use super::operations::files;

/// The programs that boot the guest and cannot be edited as text. GRUB's own image for BIOS is
/// compressed, and `load.cfg` holds the configuration that was embedded in it.
const PROGRAMS: &[&str] = &[
    "/boot/grub/i386-pc/load.cfg",
    "/boot/grub2/i386-pc/load.cfg",
    "/boot/grub/powerpc-ieee1275/load.cfg",
    "/boot/grub2/powerpc-ieee1275/load.cfg",
    "/boot/efi/EFI/*/*.[eE][fF][iI]",
    "/boot/EFI/*/*.[eE][fF][iI]",
    "/efi/EFI/*/*.[eE][fF][iI]",
];

/// The limit on the size of programs that are searched.
const MAX_PROGRAM_BYTES: u64 = 512 << 20;

/// Gives new UUIDs to the filesystems that the guest mounts. A filesystem keeps its UUID, with a
/// note, if its UUID cannot be changed, or if something that cannot be changed refers to the UUID:
/// the guest must still boot.
pub(super) fn renew(guest: &mut Guest, is_named: bool) -> Result<()> {
    let Some(volumes) = guest.volumes.clone() else {
        if is_named {
            return Err(
                guest.invalid("fs-uuids: the target is a single filesystem, not a whole disk")
            );
        }
        return Ok(());
    };
    let mut renewed: Vec<NewUuid> = Vec::new();
    let mut seen = Vec::new();
    for (path, volume) in &volumes.mounts {
        // A filesystem may be mounted at several mount points.
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
    guest.report_uuids(renewed);
    Ok(())
}

/// Returns the reason why a filesystem must keep its UUID, if there is one.
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
        return Ok(Some(format!("`{old}` is not a standard UUID")));
    }
    let boot = volumes.holding("/boot").map(Volume::name);
    if change == UuidChange::AddsChecksumSeed && boot == Some(volume.name()) {
        let why = "a new UUID needs the feature metadata_csum_seed, and the boot loader reads this \
                   filesystem, which GRUB before 2.12 cannot do with that feature: \
                   run `tune2fs -O metadata_csum_seed` if the boot loader supports it";
        return Ok(Some(why.to_owned()));
    }
    if let Some(other) = same_uuid(volumes, volume, old) {
        return Ok(Some(format!("{other} has the same UUID")));
    }
    if let Some(unseen) = unmounted_esp(volumes) {
        let why =
            format!("a boot loader on {unseen}, which the guest does not mount, may refer to it");
        return Ok(Some(why));
    }
    for path in files(guest, PROGRAMS)? {
        if names(guest, &path, old)? {
            return Ok(Some(format!(
                "{path} refers to it and would have to be rebuilt"
            )));
        }
    }
    Ok(None)
}

/// Returns another volume with the same UUID: a reference to the UUID may mean either of them.
fn same_uuid<'v>(volumes: &'v Volumes, volume: &Volume, uuid: &str) -> Option<&'v str> {
    let mut others = volumes.all.iter().filter(|it| it.name() != volume.name());
    let other = others.find(|other| {
        let content = other.content().ok().flatten();
        content.is_some_and(|content| content.uuid.as_deref() == Some(uuid))
    });
    other.map(Volume::name)
}

/// Returns a FAT filesystem that the guest does not mount. Boot loaders on it cannot be examined.
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

/// Returns true if a program contains the text.
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
        // The text may begin in this piece and end in the next one.
        let from = end.saturating_sub(text.len());
        piece.copy_within(from..end, 0);
        kept = end.saturating_sub(from);
        offset = offset.saturating_add(u64::try_from(len).unwrap_or(u64::MAX));
    }
}
