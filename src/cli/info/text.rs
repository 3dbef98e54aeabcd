//! The report as text.

use std::fmt::Write as _;

use diskfs::document::{VolumeReport, taken_at};
use diskfs::image::{BitmapState, Description, MappedDetails, PackagedDisk, Qcow2Details};
use diskfs::luks::Header;
use diskfs::vfs::Statistics;
use diskfs::volume::{Partition, PartitionTable};
use diskfs::{ChosenDriver, Disk, Group, Volume};

use crate::cli::show::name::text as safe;
use crate::cli::show::size::units;
use crate::cli::show::table::{Align, lay_out};
use crate::cli::show::time;

/// Returns the whole report.
pub(super) fn text(disk: &Disk, volumes: &[VolumeReport]) -> String {
    let mut out = image(disk.description(), 0);
    out.extend(image_encryption(disk));
    if let Ok(Some(table)) = disk.partition_table() {
        out.push('\n');
        out.push_str(&partitions(table));
    }
    if volumes.iter().any(|report| report.volume.array().is_some()) {
        out.push('\n');
        out.push_str(&arrays(volumes));
    }
    for group in disk.groups().unwrap_or_default() {
        out.push('\n');
        out.push_str(&volume_group(group, volumes));
    }
    if volumes.iter().any(|report| report.content.is_some()) {
        out.push('\n');
        out.push_str(&contents(volumes));
    }
    for report in volumes {
        out.push_str(&details(report));
    }
    out
}

/// Formats rows as `name: value` lines, with the values aligned in a column.
fn fields(rows: &[(&str, String)], indent: usize) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 1;
    let mut out = String::new();
    for (name, value) in rows {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{:indent$}{:width$} {value}", "", format!("{name}:"));
    }
    out
}

fn image(description: &Description, indent: usize) -> String {
    let mut rows = vec![(
        "image",
        safe(description.path.as_os_str().as_encoded_bytes()),
    )];
    let probed = if description.probed {
        " (detected from its contents)"
    } else {
        ""
    };
    if let Some(format) = description.format {
        rows.push(("format", format!("{format}{probed}")));
    }
    let bytes = |bytes: u64| format!("{} ({bytes} bytes)", units(bytes));
    rows.push(("virtual size", bytes(description.virtual_size_bytes)));
    rows.push(("file size", bytes(description.file_size_bytes)));
    rows.push(("allocated", units(description.allocated_bytes)));
    if let Some(qcow2) = &description.qcow2 {
        rows.extend(qcow2_fields(qcow2));
    }
    if let Some(details) = &description.mapped {
        rows.extend(mapped_fields(details));
    }
    let mut out = fields(&rows, indent);
    if let Some(qcow2) = &description.qcow2 {
        out.push_str(&snapshots(qcow2, indent));
        out.push_str(&bitmaps(qcow2, indent));
    }
    if let Some(backing) = &description.backing {
        let _ = writeln!(out, "{:indent$}backing file:", ""); // Writing to a String cannot fail.
        out.push_str(&image(backing, indent + 2));
    }
    out
}

/// Returns the rows for an image that is neither raw nor qcow2.
fn mapped_fields(details: &MappedDetails) -> Vec<(&'static str, String)> {
    let text = |text: &Option<String>| {
        let text = text.as_deref().filter(|text| !text.is_empty());
        text.map(|text| safe(text.as_bytes()))
    };
    let rows = [
        ("variant", text(&details.variant)),
        ("block size", details.block_size_bytes.map(units)),
        ("creator", text(&details.creator)),
        ("identifier", text(&details.id)),
        ("parent", text(&details.parent_name)),
        ("disks", disks(&details.disks)),
    ];
    let filled = rows.into_iter();
    filled
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// Returns the disks of a package; `None` if it has only one.
fn disks(disks: &[PackagedDisk]) -> Option<String> {
    let names = disks.iter().map(|disk| {
        let state = if disk.is_open { " (this one)" } else { "" };
        format!("{}{state}", safe(disk.name.as_bytes()))
    });
    let names: Vec<String> = names.collect();
    (names.len() > 1).then(|| names.join(", "))
}

fn qcow2_fields(qcow2: &Qcow2Details) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("compat", qcow2.compat().to_owned()),
        ("cluster size", units(qcow2.cluster_size_bytes)),
        ("compression", qcow2.compression.name().to_owned()),
        ("refcount bits", qcow2.refcount_bits.to_string()),
    ];
    if !qcow2.features.is_empty() {
        rows.push(("features", safe(qcow2.features.join(", ").as_bytes())));
    }
    if let Some(encryption) = qcow2.encryption {
        let state = if encryption.is_unlocked {
            "unlocked"
        } else {
            "locked"
        };
        rows.push(("encryption", format!("LUKS, {state}")));
    }
    if qcow2.dirty {
        rows.push((
            "dirty",
            "yes: the image was not closed; its refcounts may be wrong".to_owned(),
        ));
    }
    if qcow2.corrupt {
        rows.push((
            "corrupt",
            "yes: a program marked the image as corrupt".to_owned(),
        ));
    }
    if let Some(name) = &qcow2.backing_name {
        let format = qcow2.backing_format_name.as_deref().unwrap_or("not given");
        rows.push((
            "backed by",
            format!(
                "{} (format {})",
                safe(name.as_bytes()),
                safe(format.as_bytes())
            ),
        ));
    }
    if let Some(data_file) = &qcow2.data_file {
        rows.push(("data file", safe(data_file.as_os_str().as_encoded_bytes())));
    }
    rows
}

/// Formats rows as a table, indented by `indent` spaces.
fn indented(align: &[Align], rows: &[Vec<String>], indent: usize) -> String {
    let mut out = String::new();
    for line in lay_out(align, rows).lines() {
        let _ = writeln!(out, "{:indent$}{line}", "");
    }
    out
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

fn snapshots(qcow2: &Qcow2Details, indent: usize) -> String {
    use Align::{Left, Right};
    if qcow2.snapshots.is_empty() {
        return String::new();
    }
    let mut rows = vec![row(["ID", "Name", "Taken", "Disk", "VM state"])];
    for (n, snapshot) in qcow2.snapshots.iter().enumerate() {
        let mut cells = vec![
            safe(snapshot.id.as_bytes()),
            safe(snapshot.name.as_bytes()),
            time::minutes(taken_at(snapshot)),
            snapshot
                .virtual_size_bytes
                .map_or_else(|| "-".to_owned(), units),
            units(snapshot.vm_state_bytes),
        ];
        if qcow2.opened_snapshot == Some(n) {
            cells[1].push_str(" (opened)");
        }
        rows.push(cells);
    }
    let table = indented(&[Left, Left, Left, Right, Right], &rows, indent + 2);
    format!("{:indent$}snapshots:\n{table}", "")
}

fn bitmaps(qcow2: &Qcow2Details, indent: usize) -> String {
    use Align::{Left, Right};
    if qcow2.bitmaps.is_empty() {
        return String::new();
    }
    let mut rows = vec![row(["Name", "Granularity", "State"])];
    rows.extend(qcow2.bitmaps.iter().map(|bitmap| {
        let state = match bitmap.state {
            BitmapState::Consistent => "consistent",
            _ => "inconsistent",
        };
        let recording = if bitmap.recording { ", recording" } else { "" };
        vec![
            safe(bitmap.name.as_bytes()),
            units(bitmap.granularity_bytes),
            format!("{state}{recording}"),
        ]
    }));
    let table = indented(&[Left, Right, Left], &rows, indent + 2);
    format!("{:indent$}bitmaps:\n{table}", "")
}

fn partitions(table: &PartitionTable) -> String {
    use Align::{Left, Right};
    let mut out = fields(
        &[
            ("partition table", table.kind.to_string()),
            ("disk id", table.disk_id.clone()),
            ("sector size", format!("{} bytes", table.sector_size)),
        ],
        0,
    );
    let mut rows = vec![row([
        "Partition",
        "Start",
        "Size",
        "Type",
        "Name",
        "PARTUUID",
    ])];
    rows.extend(table.partitions.iter().map(partition));
    out.push_str(&lay_out(&[Left, Right, Right, Left, Left, Left], &rows));
    out
}

fn partition(partition: &Partition) -> Vec<String> {
    let problem = partition.problem.map(|problem| format!(" ({problem})"));
    vec![
        format!("p{}", partition.number),
        partition.start_bytes.to_string(),
        units(partition.len_bytes),
        format!("{}{}", partition.type_name(), problem.unwrap_or_default()),
        safe(partition.name().unwrap_or("-").as_bytes()),
        partition.uuid().unwrap_or_else(|| "-".to_owned()),
    ]
}

fn arrays(volumes: &[VolumeReport]) -> String {
    use Align::{Left, Right};
    let mut rows = vec![row(["Array", "Size", "Level", "Name", "Members"])];
    for report in volumes {
        let Some(array) = report.volume.array() else {
            continue;
        };
        let members = array.members();
        let members = members.map(|member| member.map_or("missing", Volume::name));
        rows.push(vec![
            report.volume.name().to_owned(),
            units(report.volume.size_bytes()),
            with_problem(&array.metadata().level, &report.volume),
            safe(array.metadata().name.as_bytes()),
            members.collect::<Vec<_>>().join(", "),
        ]);
    }
    lay_out(&[Left, Right, Left, Left, Left], &rows)
}

fn volume_group(group: &Group, volumes: &[VolumeReport]) -> String {
    use Align::{Left, Right};
    let metadata = group.metadata();
    let physical = metadata.physical_volumes.iter().map(|entry| {
        let place = group.member(&entry.id).map(Volume::name);
        let place = place.map(str::to_owned);
        place.unwrap_or_else(|| format!("missing ({})", entry.id))
    });
    let mut out = fields(
        &[
            ("volume group", group.name().to_owned()),
            ("uuid", metadata.id.to_string()),
            ("extent size", units(metadata.extent_bytes)),
            ("size", units(metadata.size_bytes())),
            ("free", units(metadata.free_bytes())),
            ("on", physical.collect::<Vec<_>>().join(", ")),
        ],
        0,
    );
    let mut rows = vec![row(["Volume", "Size", "Layout", "UUID"])];
    for report in volumes {
        let Some((of, logical)) = report.volume.logical() else {
            continue;
        };
        if of.name() == group.name() {
            let layout = with_problem(&logical.layout, &report.volume);
            rows.push(vec![
                report.volume.name().to_owned(),
                units(report.volume.size_bytes()),
                safe(layout.as_bytes()),
                logical
                    .id
                    .map_or_else(|| "-".to_owned(), |id| id.to_string()),
            ]);
        }
    }
    out.push_str(&lay_out(&[Left, Right, Left, Left], &rows));
    out
}

/// Appends the problem that keeps a volume from being opened, if there is one.
fn with_problem(what: &str, volume: &Volume) -> String {
    match volume.problem() {
        Some(problem) => format!("{what} ({problem})"),
        None => what.to_owned(),
    }
}

fn contents(volumes: &[VolumeReport]) -> String {
    use Align::{Left, Right};
    let mut rows = vec![row([
        "Volume", "Type", "Driver", "Label", "UUID", "Size", "Used", "Use%",
    ])];
    for report in volumes {
        let Some(content) = &report.content else {
            continue;
        };
        let usage = report
            .filesystem
            .as_ref()
            .map(|(_, statistics)| usage(statistics));
        let (size, used, percent) = usage.unwrap_or_else(|| {
            (
                units(report.volume.size_bytes()),
                "-".to_owned(),
                "-".to_owned(),
            )
        });
        let label = if content.label.is_empty() {
            "-".to_owned()
        } else {
            safe(&content.label)
        };
        let uuid = content.uuid.clone().unwrap_or_else(|| "-".to_owned());
        let uuid = safe(uuid.as_bytes());
        let volume = report.volume.name().to_owned();
        rows.push(vec![
            volume,
            content.kind.to_owned(),
            driver(report).to_owned(),
            label,
            uuid,
            size,
            used,
            percent,
        ]);
    }
    lay_out(&[Left, Left, Left, Left, Left, Right, Right, Right], &rows)
}

fn driver(report: &VolumeReport) -> &'static str {
    match report.driver {
        Some(ChosenDriver::Native) => "native",
        Some(ChosenDriver::Fallback(_)) => "microVM",
        _ => "-",
    }
}

/// Returns the reason why the driver of diskfs is not used.
fn driver_reason(report: &VolumeReport) -> Option<(&'static str, String)> {
    match report.driver.as_ref()? {
        ChosenDriver::Fallback(reason) => Some(("microVM", safe(reason.as_bytes()))),
        ChosenDriver::None(reason) => Some(("no driver", safe(reason.as_bytes()))),
        _ => None,
    }
}

fn usage(s: &Statistics) -> (String, String, String) {
    let bytes = |blocks: u64| blocks.saturating_mul(s.block_size.into());
    let used = s.blocks.saturating_sub(s.blocks_free);
    let percent = (u128::from(used) * 100)
        .checked_div(u128::from(s.blocks))
        .unwrap_or(0);
    (
        units(bytes(s.blocks)),
        units(bytes(used)),
        format!("{percent}%"),
    )
}

/// Describes the LUKS header of an image whose own data is encrypted.
fn image_encryption(disk: &Disk) -> Option<String> {
    // A problem of the header is reported when a key is given for it.
    let header = disk.image_luks().ok()??;
    let description = disk.description();
    let own = description.qcow2.as_ref()?.encryption?;
    let name = description.path.file_name().unwrap_or_default();
    let name = safe(name.as_encoded_bytes());
    let unlocked = own.is_unlocked.then(|| "unlocked".to_owned());
    Some(encryption(&name, unlocked, &header))
}

/// Describes the header of an encrypted volume.
fn volume_encryption(volume: &Volume, header: &Header) -> String {
    let name = volume.name();
    let unlocked = volume
        .is_unlocked()
        .then(|| format!("unlocked as {name}/luks"));
    encryption(name, unlocked, header)
}

fn encryption(name: &str, unlocked: Option<String>, header: &Header) -> String {
    let slots = header
        .keyslots()
        .map(|slot| format!("{} ({})", slot.id, slot.kdf));
    let slots: Vec<String> = slots.collect();
    let state = match (header.problem(), unlocked) {
        (Some(problem), _) => problem.to_string(),
        (None, Some(unlocked)) => unlocked,
        (None, None) => format!("locked; give its key, for example with --key {name}:ask"),
    };
    let mut rows = vec![
        ("uuid", safe(header.uuid().as_bytes())),
        ("cipher", safe(header.cipher().as_bytes())),
    ];
    rows.extend(
        header
            .sector_size()
            .map(|size| ("sector size", size.to_string())),
    );
    rows.push(("key slots", safe(slots.join(", ").as_bytes())));
    rows.push(("state", safe(state.as_bytes())));
    let notes = header.warnings().iter();
    rows.extend(notes.map(|text| ("note", safe(text.as_bytes()))));
    let version = header.version().number();
    format!("\n{name} (LUKS{version}):\n{}", fields(&rows, 2))
}

/// Describes the features and notes of a readable filesystem, or the encryption of a volume.
fn details(report: &VolumeReport) -> String {
    if let Some(header) = &report.luks {
        return volume_encryption(&report.volume, header);
    }
    let mut rows: Vec<_> = driver_reason(report).into_iter().collect();
    let Some((identity, _)) = &report.filesystem else {
        return section(report, &rows);
    };
    if !identity.features.is_empty() {
        rows.push(("features", safe(identity.features.join(", ").as_bytes())));
    }
    rows.extend(
        identity
            .notes
            .iter()
            .map(|note| ("note", safe(note.as_bytes()))),
    );
    section(report, &rows)
}

fn section(report: &VolumeReport, rows: &[(&str, String)]) -> String {
    match &report.content {
        Some(content) if !rows.is_empty() => {
            let (name, kind) = (report.volume.name(), content.kind);
            format!("\n{name} ({kind}):\n{}", fields(rows, 2))
        }
        _ => String::new(),
    }
}
