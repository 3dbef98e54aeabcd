//! Labels of `SELinux` for what is made: as the guest's own policy has them, so that it needs no relabelling.

use diskfs_selinux::{Config, FileKind, Labels, Mode, Texts};

use super::StepReport;
use super::guest::Guest;
use super::stage::Kind;
use diskfs_disk::Result;

const CONFIG: &str = "/etc/selinux/config";

/// The attribute that has the label.
const XATTR: &str = "security.selinux";

impl Guest {
    /// Gives what is made the labels that the guest's policy has for it, where it uses `SELinux`.
    pub(super) fn label_all(&mut self) -> Result<Option<StepReport>> {
        let is_labelled = put(self)?;
        Ok(is_labelled.then(|| self.report("selinux-labels")))
    }
}

/// Whether the guest uses `SELinux`, and what is made has its labels.
fn put(guest: &mut Guest) -> Result<bool> {
    let Some(text) = guest.stage.bytes(CONFIG)? else {
        return Ok(false);
    };
    let config = Config::parse(&text);
    let made = guest.stage.made();
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
                .set_xattr_of_made(&path, XATTR, label.xattr_value());
        }
    }
    Ok(true)
}

/// The labels of the guest's policy; `None`, which is told, without one that can be read.
fn read(guest: &mut Guest, config: &Config) -> Result<Option<Labels>> {
    let Some(directory) = config.contexts_directory() else {
        guest.note(format!(
            "{CONFIG} names no policy: nothing that is made has a label"
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
                "there is no policy in {directory}: nothing that is made has a label"
            ));
            Ok(None)
        }
        Err(error) => {
            guest.note(format!(
                "{directory}: {error}: nothing that is made has a label"
            ));
            Ok(None)
        }
    }
}

fn kind_of(kind: &Kind) -> FileKind {
    match kind {
        Kind::File(_) | Kind::Other(_) => FileKind::Regular,
        Kind::Directory => FileKind::Directory,
        Kind::Symlink(_) => FileKind::Symlink,
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
        // What was there has its label.
        assert_eq!(label("/etc/passwd"), None);
    }
}
