//! `SELinux` labels of new files, from the guest's own policy, so that the guest needs no relabel.

use diskfs_selinux::{Config, FileKind, Labels, Mode, Texts};

use super::StepReport;
use super::guest::Guest;
use super::stage::EntryKind;
use diskfs_disk::Result;

const CONFIG: &str = "/etc/selinux/config";

/// The extended attribute of the label.
const XATTR: &str = "security.selinux";

impl Guest {
    /// Labels new files according to the guest's policy, if the guest uses `SELinux`.
    pub(super) fn label_all(&mut self) -> Result<Option<StepReport>> {
        let is_labelled = put(self)?;
        Ok(is_labelled.then(|| self.report("selinux-labels")))
    }
}

/// Labels new files. Returns true if the guest uses `SELinux` and the files have labels.
fn put(guest: &mut Guest) -> Result<bool> {
    let Some(text) = guest.stage.bytes(CONFIG)? else {
        return Ok(false);
    };
    let config = Config::parse(&text);
    let made = guest.stage.new_entries();
    if config.mode == Some(Mode::Disabled) || made.is_empty() {
        return Ok(false);
    }
    let Some(labels) = read(guest, &config)? else {
        return Ok(false);
    };
    for (path, kind) in made {
        let label = labels.label_for(path.as_bytes(), kind_of(&kind));
        if let Some(label) = label {
            guest
                .stage
                .set_xattr_of_new(&path, XATTR, label.xattr_value());
        }
    }
    Ok(true)
}

/// Reads the labels of the guest's policy. If there is no readable policy, adds a note and returns
/// `None`.
fn read(guest: &mut Guest, config: &Config) -> Result<Option<Labels>> {
    let Some(directory) = config.contexts_directory() else {
        guest.note(format!(
            "{CONFIG} names no policy: new files have no SELinux label"
        ));
        return Ok(None);
    };
    let mut texts: [Vec<u8>; 5] = Default::default();
    for (text, suffix) in texts
        .iter_mut()
        .zip(["", ".homedirs", ".local", ".subs_dist", ".subs"])
    {
        let path = format!("{directory}/file_contexts{suffix}");
        *text = guest.stage.bytes(&path)?.unwrap_or_default();
    }
    let [file_contexts, homedirs, local, subs_dist, subs] = &texts;
    let labels = Labels::parse(&Texts {
        file_contexts,
        homedirs,
        local,
        subs_dist,
        subs,
    });
    match labels {
        Ok(labels) if !labels.is_empty() => Ok(Some(labels)),
        Ok(_) => {
            guest.note(format!(
                "missing policy in {directory}: new files have no SELinux label"
            ));
            Ok(None)
        }
        Err(error) => {
            guest.note(format!(
                "cannot read the policy in {directory}: {error}; new files have no SELinux label"
            ));
            Ok(None)
        }
    }
}

fn kind_of(kind: &EntryKind) -> FileKind {
    match kind {
        EntryKind::File(_) | EntryKind::Other(_) => FileKind::Regular,
        EntryKind::Directory => FileKind::Directory,
        EntryKind::Symlink(_) => FileKind::Symlink,
    }
}

#[cfg(test)]
mod tests {
    use super::super::steps::testing::{apply, guest};

    #[test]
    fn what_is_made_has_the_label_of_the_policy() {
        let tree = "-- /etc/selinux/config --\nSELINUX=enforcing\nSELINUXTYPE=targeted\n\
            -- /etc/selinux/targeted/contexts/files/file_contexts --\n/.*\tsystem_u:object_r:default_t:s0\n/etc(/.*)?\tsystem_u:object_r:etc_t:s0\n\
            /etc/.*\\.pem\t--\tsystem_u:object_r:cert_t:s0\n/etc/passwd\tsystem_u:object_r:passwd_t:s0\n-- /etc/passwd --\nx\n";
        let mut guest = guest(tree);
        let steps = "- write: {path: /etc/x.pem, text: x}\n- mkdir: {path: /etc/y.pem}\n- write: {path: /etc/passwd, text: y}\n- link: {path: /opt/z, target: x}";
        apply(&mut guest, steps).unwrap();
        guest.label_all().unwrap();
        let label = |path: &str| {
            let entry = guest.stage.link_entry(path).unwrap().unwrap();
            let label = entry.xattrs.get("security.selinux").cloned();
            label.map(|label| String::from_utf8(label).unwrap())
        };
        let told = |kind: &str| Some(format!("system_u:object_r:{kind}:s0\0"));
        assert_eq!(label("/etc/x.pem"), told("cert_t"));
        assert_eq!(label("/etc/y.pem"), told("etc_t"));
        assert_eq!(label("/opt/z"), told("default_t"));
        // An existing file keeps its label.
        assert_eq!(label("/etc/passwd"), None);
    }
}
