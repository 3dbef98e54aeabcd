//! The version of Windows: `Microsoft\Windows NT\CurrentVersion`.

use super::hives::Hives;
use crate::Release;

const CURRENT_VERSION: &str = r"Microsoft\Windows NT\CurrentVersion";

/// The first build of Windows 11, whose `ProductName` is Windows 10.
const WINDOWS_11: u64 = 22_000;

pub(super) fn of(hives: &Hives<'_>) -> Release {
    let text = |question, name| hives.software_text(question, CURRENT_VERSION, name);
    Release {
        kind: Some("windows"),
        distribution: Some(String::from("windows")),
        version: version(hives),
        code_name: text("code_name", "DisplayVersion").or_else(|| text("code_name", "ReleaseId")),
        product: text("product", "ProductName").map(|name| corrected(hives, &name)),
        variant: text("variant", "InstallationType"),
        ..Release::default()
    }
}

pub(super) fn edition(hives: &Hives<'_>) -> Option<String> {
    hives.software_text("edition", CURRENT_VERSION, "EditionID")
}

pub(super) fn service_pack(hives: &Hives<'_>) -> Option<String> {
    hives.software_text("service_pack", CURRENT_VERSION, "CSDVersion")
}

fn build(hives: &Hives<'_>) -> Option<String> {
    let text = |name| hives.software_text("version", CURRENT_VERSION, name);
    text("CurrentBuild").or_else(|| text("CurrentBuildNumber"))
}

fn corrected(hives: &Hives<'_>, product: &str) -> String {
    let build = build(hives).and_then(|build| build.parse().ok());
    if build.is_some_and(|build: u64| build >= WINDOWS_11) {
        return product.replacen("Windows 10", "Windows 11", 1);
    }
    product.to_owned()
}

/// Returns the version: `10.0.19045.3803`; before Windows 10, `6.1.7601`.
fn version(hives: &Hives<'_>) -> Option<String> {
    let software = hives.software.as_ref()?;
    let number = |name| software.number(CURRENT_VERSION, name);
    let major = number("CurrentMajorVersionNumber").zip(number("CurrentMinorVersionNumber"));
    let version = match major {
        Some((major, minor)) => format!("{major}.{minor}"),
        None => software.answer("version", CURRENT_VERSION, "CurrentVersion")?,
    };
    let revision = number("UBR").filter(|_| major.is_some());
    let revision = revision.map(|number| number.to_string());
    let parts = [Some(version), build(hives), revision];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join("."))
}
