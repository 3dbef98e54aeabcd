//! The steps `timezone` and `locale`.

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::text::{has_variable, with_variable};
use diskfs_disk::Result;

/// The time zone that programs use: localtime(5).
const LOCALTIME: &str = "/etc/localtime";
const ZONES: &str = "/usr/share/zoneinfo";

/// The name of the time zone on Debian, Gentoo and Alpine.
const TIMEZONE: &str = "/etc/timezone";

/// The name of the time zone on Red Hat and SUSE before systemd: files and their keys.
const CLOCK: [(&str, &str); 2] = [
    ("/etc/sysconfig/clock", "ZONE"),
    ("/etc/sysconfig/clock", "TIMEZONE"),
];

/// The files that set the locale: locale.conf(5), and those of Debian and Red Hat before it.
const LOCALE: &str = "/etc/locale.conf";
const LOCALES: [&str; 3] = ["/etc/default/locale", "/etc/sysconfig/i18n", LOCALE];

/// The name of a zone in the time zone database: `Europe/Berlin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Timezone(pub String);

/// The value of `LANG`: `de_DE.UTF-8`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Locale(pub String);

impl Timezone {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let zone = &*self.0;
        let is_part = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"+-_".contains(&b))
        };
        if !zone.split('/').all(is_part) {
            return Err(guest.invalid(format!(
                "invalid time zone `{zone}`: expected a name such as Europe/Berlin"
            )));
        }
        if guest.stage.exists(ZONES)? && !guest.stage.is_file(&format!("{ZONES}/{zone}"))? {
            return Err(guest.invalid(format!(
                "no such time zone: `{zone}` (in {ZONES} of the guest)"
            )));
        }
        if !guest.stage.exists(ZONES)? {
            guest.note(
                "tzdata is not installed in the guest: the time zone takes effect once it is",
            );
        }
        guest
            .stage
            .symlink(LOCALTIME, &format!("..{ZONES}/{zone}"))?;
        if guest.stage.exists(TIMEZONE)? {
            guest.stage.write_text(TIMEZONE, &format!("{zone}\n"))?;
        }
        for (file, key) in CLOCK {
            let text = guest.stage.text(file)?.filter(|it| has_variable(it, key));
            if let Some(text) = text {
                let text = with_variable(&text, key, &format!("\"{zone}\""));
                guest.stage.write_text(file, &text)?;
            }
        }
        Ok(())
    }
}

impl Locale {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let locale = &*self.0;
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"_.@-".contains(&byte);
        if locale.is_empty() || !locale.bytes().all(is_good) {
            return Err(guest.invalid(format!(
                "invalid locale `{locale}`: expected a name such as de_DE.UTF-8"
            )));
        }
        let mut known = Vec::new();
        for file in LOCALES {
            if guest.stage.exists(file)? {
                known.push(file);
            }
        }
        if known.is_empty() {
            known.push(LOCALE);
        }
        for file in known {
            let text = guest.stage.text(file)?.unwrap_or_default();
            let text = with_variable(&text, "LANG", locale);
            guest.stage.write_text(file, &text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, apply, guest, text};
    use crate::EntryKind;

    const GUEST: &str = "-- /etc/timezone --\nEtc/UTC\n-- /usr/share/zoneinfo/Europe/Berlin --\nTZif\n\
        -- /etc/default/locale --\n# it\nLANG=C\nLC_TIME=C\n";

    #[test]
    fn a_debian() {
        let guest = after(GUEST, "- timezone: Europe/Berlin\n- locale: de_DE.UTF-8");
        let link = guest.stage.link_entry("/etc/localtime").unwrap().unwrap();
        let target = "../usr/share/zoneinfo/Europe/Berlin".to_owned();
        assert_eq!(link.kind, EntryKind::Symlink(target));
        assert_eq!(text(&guest, "/etc/timezone"), "Europe/Berlin\n");
        let locale = "# it\nLANG=de_DE.UTF-8\nLC_TIME=C\n";
        assert_eq!(text(&guest, "/etc/default/locale"), locale);
        assert!(!guest.stage.exists("/etc/locale.conf").unwrap());
    }

    #[test]
    fn what_is_not_there_is_refused() {
        for step in [
            "- timezone: Europe/Nowhere",
            "- timezone: ../../../etc/passwd",
            "- locale: \"a b\"",
        ] {
            assert!(apply(&mut guest(GUEST), step).is_err(), "{step}");
        }
    }
}
