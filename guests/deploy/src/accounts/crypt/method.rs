//! The hash method that a guest uses for its passwords.

use diskfs_etc::shadow;

use super::super::super::guest::Guest;
use super::super::SHADOW;
use super::super::defaults::Defaults;
use super::super::pam;
use super::super::table::Table;
use diskfs_disk::Result;

/// The directories of shared libraries.
const LIB_DIRS: [&str; 4] = ["/usr/lib64", "/lib64", "/usr/lib", "/lib"];

/// The libraries of libxcrypt, which supports yescrypt. The library of glibc is `libcrypt-2.31.so`.
const LIBXCRYPT: [&str; 2] = ["libcrypt.so.1.1.0", "libcrypt.so.2"];

/// A hash method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super::super) enum Method {
    Yescrypt,
    Sha512,
    Sha256,
}

impl Method {
    /// Returns the guest's method: from PAM, which `passwd` uses, from login.defs, or from existing
    /// hashes. The default is SHA-512, which is supported since glibc 2.7 and musl 1.0. It also
    /// replaces methods that are too weak.
    pub(in super::super::super) fn of(guest: &Guest) -> Result<Self> {
        let defaults = Defaults::read(&guest.stage)?;
        let of_login = || defaults.login("ENCRYPT_METHOD").and_then(Self::named);
        let found = match Self::of_pam(guest)?.or_else(of_login) {
            Some(method) => Some(method),
            None => Self::of_shadow(guest)?,
        };
        match found {
            Some(Self::Yescrypt) if has_libxcrypt(guest)? => Ok(Self::Yescrypt),
            Some(Self::Yescrypt) | None => Ok(Self::Sha512),
            Some(method) => Ok(method),
        }
    }

    fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "yescrypt" => Some(Self::Yescrypt),
            "sha512" => Some(Self::Sha512),
            "sha256" => Some(Self::Sha256),
            _ => None,
        }
    }

    fn of_pam(guest: &Guest) -> Result<Option<Self>> {
        pam::first_word(guest, &["pam_unix.so"], Self::named)
    }

    fn of_shadow(guest: &Guest) -> Result<Option<Self>> {
        let Some(table) = Table::read(&guest.stage, SHADOW)? else {
            return Ok(None);
        };
        let mut hashes = table.rows().map(|row| row.field(shadow::HASH));
        Ok(hashes.find_map(|hash| match hash.split('$').nth(1)? {
            "y" => Some(Self::Yescrypt),
            "6" => Some(Self::Sha512),
            "5" => Some(Self::Sha256),
            _ => None,
        }))
    }
}

/// Returns the cost that PAM configures.
pub(super) fn rounds_of_pam(guest: &Guest) -> Result<Option<u32>> {
    pam::first_word(guest, &["pam_unix.so"], |word| {
        word.strip_prefix("rounds=")?.parse().ok()
    })
}

/// Returns true if the guest's crypt(3) supports yescrypt.
fn has_libxcrypt(guest: &Guest) -> Result<bool> {
    for dir in LIB_DIRS {
        if LIBXCRYPT.iter().any(|name| has_library(guest, dir, name)) {
            return Ok(true);
        }
        // Debian has one directory per architecture.
        if !guest.stage.is_dir(dir)? {
            continue;
        }
        for name in guest.stage.names(dir)? {
            let is_of_debian = name.contains("-linux-");
            let below = format!("{dir}/{name}");
            if is_of_debian
                && LIBXCRYPT
                    .iter()
                    .any(|name| has_library(guest, &below, name))
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn has_library(guest: &Guest, dir: &str, name: &str) -> bool {
    // A file that cannot be examined counts as missing.
    guest
        .stage
        .exists(&format!("{dir}/{name}"))
        .unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::super::super::super::steps::testing::guest;
    use super::*;

    fn method(txtar: &str) -> Method {
        Method::of(&guest(txtar)).unwrap()
    }

    #[test]
    fn guests_say_it_in_many_ways() {
        let libxcrypt = "-- /usr/lib/x86_64-linux-gnu/libcrypt.so.1.1.0 --\n";
        let debian = "-- /etc/login.defs --\n#ENCRYPT_METHOD DES\nENCRYPT_METHOD YESCRYPT\n";
        assert_eq!(method(&format!("{debian}{libxcrypt}")), Method::Yescrypt);
        assert_eq!(method(debian), Method::Sha512);
        let pam = "-- /etc/pam.d/common-password --\n# yescrypt\npassword [success=1] pam_unix.so obscure yescrypt\n";
        assert_eq!(method(&format!("{pam}{libxcrypt}")), Method::Yescrypt);
        // Debian 12 has SHA-512 in login.defs, but PAM uses yescrypt.
        let both = format!("{pam}-- /etc/login.defs --\nENCRYPT_METHOD SHA512\n{libxcrypt}");
        assert_eq!(method(&both), Method::Yescrypt);
        let sha = "-- /etc/pam.d/common-password --\npassword [success=1 default=ignore] pam_unix.so sha512 rounds=6000\n";
        let both = format!("{sha}{debian}{libxcrypt}");
        assert_eq!(method(&both), Method::Sha512);
        let red_hat = "-- /etc/pam.d/system-auth --\nauth sufficient pam_unix.so\npassword sufficient pam_unix.so sha256 shadow\n";
        assert_eq!(method(red_hat), Method::Sha256);
        let shadow = "-- /etc/shadow --\nroot:*:1::::::\nann:$5$a$b:1::::::\n";
        assert_eq!(method(shadow), Method::Sha256);
        assert_eq!(
            method("-- /etc/login.defs --\nENCRYPT_METHOD DES\n"),
            Method::Sha512
        );
        assert_eq!(method("-- /etc/passwd --\n"), Method::Sha512);
    }
}
