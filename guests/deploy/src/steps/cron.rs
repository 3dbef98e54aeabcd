//! The step `cron`: jobs in crontab(5) files.

use serde::{Deserialize, Serialize};

use super::super::accounts;
use super::super::guest::Guest;
use super::super::text::{WRITTEN, of_lines};
use diskfs_disk::Result;

const CRON_D: &str = "/etc/cron.d";

/// The directories of user crontabs: of busybox on Alpine and `OpenWrt`, of Debian, of others.
const TABLES: [&str; 3] = [
    "/etc/crontabs",
    "/var/spool/cron/crontabs",
    "/var/spool/cron",
];

/// A cron job: a file in `/etc/cron.d` if the guest has that directory, otherwise a line of the
/// user's crontab, below a comment with the job's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CronStep {
    /// The name of the job.
    pub name: String,
    /// The schedule: five fields, or `@reboot`, `@daily` and the like.
    pub schedule: String,
    /// The user who runs the job; default: `root`.
    #[serde(default = "root")]
    pub user: String,
    /// The command to run.
    pub command: String,
}

fn root() -> String {
    "root".to_owned()
}

impl CronStep {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        self.check(guest)?;
        if guest.stage.is_dir(CRON_D)? {
            let fields = [&*self.schedule, &self.user, &self.command].join(" ");
            let text = of_lines([WRITTEN, &fields]);
            let path = format!("{CRON_D}/{}", self.name);
            return guest.stage.write_with(&path, &text, 0o644);
        }
        for dir in TABLES {
            if guest.stage.is_dir(dir)? {
                return self.put_into_table(guest, &format!("{dir}/{}", self.user));
            }
        }
        Err(guest.invalid("cron is not installed in the guest; install the package first"))
    }

    fn put_into_table(&self, guest: &mut Guest, path: &str) -> Result<()> {
        let before = guest.stage.text(path)?;
        let is_new = before.is_none();
        let text = before.unwrap_or_default();
        let table = self.table_with_job(&text);
        if text.lines().eq(table.lines()) {
            return Ok(());
        }
        guest.stage.write_text(path, &table)?;
        if is_new {
            guest.stage.set_permissions(path, 0o600)?;
        }
        Ok(())
    }

    /// Returns a crontab with this job, below a comment with its name, by which a later deployment
    /// finds it again. A job without the comment is somebody else's, and is kept.
    fn table_with_job(&self, table: &str) -> String {
        let name = format!("# diskfs deploy: {}", self.name);
        let job = format!("{} {}", self.schedule, self.command);
        let mut lines: Vec<&str> = table.lines().collect();
        let after_name = lines.iter().position(|line| *line == name);
        let after_name = after_name.map(|at| at.saturating_add(1));
        let is_job = |line: &&str| !line.is_empty() && !line.starts_with('#');
        match after_name {
            Some(at) if lines.get(at).is_some_and(is_job) => {
                lines.splice(at..=at, [&*job]);
            }
            Some(at) => lines.insert(at, &job),
            None if lines.contains(&&*job) => {}
            None => lines.extend([&*name, &*job]),
        }
        of_lines(lines)
    }

    fn check(&self, guest: &Guest) -> Result<()> {
        // cron ignores files with a dot or other characters in their names.
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if self.name.is_empty() || !self.name.bytes().all(is_good) {
            let reason = format!(
                "invalid job name `{}`: expected letters, digits, - and _",
                self.name
            );
            return Err(guest.invalid(reason));
        }
        let fields = self.schedule.split_whitespace().count();
        let is_schedule = fields == 5 || (fields == 1 && self.schedule.starts_with('@'));
        if !is_schedule || self.schedule.contains('\n') {
            return Err(guest.invalid(format!(
                "invalid schedule `{}`: expected five fields, or a word such as @daily",
                self.schedule
            )));
        }
        if self.command.is_empty() || self.command.contains('\n') {
            return Err(guest.invalid("invalid cron job: a field contains a line break"));
        }
        if self.user != "root" && accounts::user(&guest.stage, &self.user)?.is_none() {
            return Err(guest.invalid(format!("no such user: `{}`", self.user)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, apply, attributes, guest, text};

    const STEP: &str = "- cron: {name: clean, schedule: \"5 4 * * *\", command: /usr/bin/clean -a}";

    #[test]
    fn a_file_or_a_line() {
        let debian = after("-- /etc/cron.d/e2scrub_all --\nx\n", STEP);
        let expected = "# Written by diskfs deploy.\n5 4 * * * root /usr/bin/clean -a\n";
        assert_eq!(text(&debian, "/etc/cron.d/clean"), expected);
        let alpine = after("-- /etc/crontabs/root --\n# x\n", STEP);
        assert_eq!(
            text(&alpine, "/etc/crontabs/root"),
            "# x\n# diskfs deploy: clean\n5 4 * * * /usr/bin/clean -a\n"
        );
        let other = after("-- /var/spool/cron/ann --\n# x\n", STEP);
        assert_eq!(attributes(&other, "/var/spool/cron/root"), "0600 0:0");
    }

    #[test]
    fn a_changed_job_replaces_the_former_one_alone() {
        let tree = "-- /etc/crontabs/root --\n1 1 * * * a\n# diskfs deploy: clean\n@daily old\n\
                    2 2 * * * b\n# diskfs deploy: other\n# x\n";
        let changed = after(tree, STEP);
        assert_eq!(
            text(&changed, "/etc/crontabs/root"),
            "1 1 * * * a\n# diskfs deploy: clean\n5 4 * * * /usr/bin/clean -a\n2 2 * * * b\n\
             # diskfs deploy: other\n# x\n"
        );
        let removed = after(tree, &STEP.replace("clean,", "other,"));
        let table = text(&removed, "/etc/crontabs/root");
        assert!(table.ends_with("# diskfs deploy: other\n5 4 * * * /usr/bin/clean -a\n# x\n"));
        let own = "-- /etc/crontabs/root --\n5 4 * * * /usr/bin/clean -a\n";
        let same = after(own, STEP);
        assert_eq!(
            text(&same, "/etc/crontabs/root"),
            "5 4 * * * /usr/bin/clean -a\n"
        );
    }

    #[test]
    fn what_is_no_job_is_refused() {
        let tree = "-- /etc/cron.d/x --\nx\n";
        for step in [
            "- cron: {name: a.b, schedule: \"* * * * *\", command: x}",
            "- cron: {name: a, schedule: \"* * *\", command: x}",
            "- cron: {name: a, schedule: \"@daily\", command: \"x\\ny\"}",
            "- cron: {name: a, schedule: \"@daily\", user: nobody, command: x}",
        ] {
            assert!(apply(&mut guest(tree), step).is_err(), "{step}");
        }
    }
}
