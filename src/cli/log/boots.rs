//! The output of `diskfs log --list-boots`, in the columns of journalctl(1).

use std::io::Write;

use diskfs::Result;
use diskfs::logs::{Boot, Logs};
use serde_json::json;

use super::format::timestamp;
use crate::cli::session::{Output, Session};
use crate::cli::show::table::{Align, lay_out_by};
use crate::cli::show::time;

pub(super) fn list(logs: &Logs, session: &mut Session, out: &mut impl Write) -> Result<()> {
    let (boots, problems) = logs.boots();
    for problem in problems {
        session.warn(&problem.to_string());
    }
    // As in journalctl(1), the last boot has the number 0, and the one before it -1.
    let numbers = (0..boots.len()).map(|index| format!("-{}", boots.len() - 1 - index));
    let numbers = numbers.map(|number| {
        if number == "-0" {
            "0".to_owned()
        } else {
            number
        }
    });
    let numbered = numbers.zip(&boots);
    match session.output() {
        Output::Json => {
            for (number, boot) in numbered {
                let object = json!({
                    "index": number.parse::<i64>().unwrap_or(0),
                    "boot_id": boot.id.simple().to_string(),
                    "first_entry": boot.first_us,
                    "last_entry": boot.last_us,
                });
                serde_json::to_writer(&mut *out, &object).map_err(std::io::Error::from)?;
                writeln!(out)?;
            }
        }
        Output::Text => {
            let head = ["IDX", "BOOT ID", "FIRST ENTRY", "LAST ENTRY"].map(str::to_owned);
            let rows = numbered.map(|(number, boot)| row(number, boot));
            let rows: Vec<Vec<String>> = [head.to_vec()].into_iter().chain(rows).collect();
            let align = [Align::Right, Align::Left, Align::Left, Align::Left];
            out.write_all(lay_out_by(" ", &align, &rows).as_bytes())?;
        }
    }
    Ok(())
}

fn row(number: String, boot: &Boot) -> Vec<String> {
    let shown = |time_us| format!("{} UTC", time::with_weekday(timestamp(time_us)));
    let id = boot.id.simple().to_string();
    vec![number, id, shown(boot.first_us), shown(boot.last_us)]
}
