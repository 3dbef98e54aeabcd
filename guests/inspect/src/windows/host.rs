//! The names and settings of the guest as a host: host name, machine ID, time zone, locale.

use super::hives::Hives;

/// The value of `Nls\Language`, and the language's name (MS-LCID 2.2).
const LOCALES: [(u32, &str); 28] = [
    (0x0404, "zh-TW"),
    (0x0405, "cs-CZ"),
    (0x0406, "da-DK"),
    (0x0407, "de-DE"),
    (0x0408, "el-GR"),
    (0x0409, "en-US"),
    (0x040b, "fi-FI"),
    (0x040c, "fr-FR"),
    (0x040d, "he-IL"),
    (0x040e, "hu-HU"),
    (0x0410, "it-IT"),
    (0x0411, "ja-JP"),
    (0x0412, "ko-KR"),
    (0x0413, "nl-NL"),
    (0x0414, "nb-NO"),
    (0x0415, "pl-PL"),
    (0x0416, "pt-BR"),
    (0x0418, "ro-RO"),
    (0x0419, "ru-RU"),
    (0x041d, "sv-SE"),
    (0x041f, "tr-TR"),
    (0x0422, "uk-UA"),
    (0x0804, "zh-CN"),
    (0x0807, "de-CH"),
    (0x0809, "en-GB"),
    (0x0816, "pt-PT"),
    (0x0c07, "de-AT"),
    (0x0c0a, "es-ES"),
];

/// Returns the host name of TCP/IP, or else that of `NetBIOS`, which is in capitals and has at most
/// 15 letters.
pub(super) fn name(hives: &Hives<'_>) -> Option<String> {
    [
        (r"Services\Tcpip\Parameters", "Hostname"),
        (r"Services\Tcpip\Parameters", "NV Hostname"),
        (r"Control\ComputerName\ComputerName", "ComputerName"),
    ]
    .iter()
    .find_map(|(path, name)| hives.control_text("hostname", path, name))
}

pub(super) fn machine_id(hives: &Hives<'_>) -> Option<String> {
    hives.software_text("machine_id", r"Microsoft\Cryptography", "MachineGuid")
}

/// Returns the time zone by the name that Windows gives it; in versions before Vista, by its
/// localised name.
pub(super) fn timezone(hives: &Hives<'_>) -> Option<String> {
    let zone = r"Control\TimeZoneInformation";
    let name = |name| hives.control_text("timezone", zone, name);
    name("TimeZoneKeyName").or_else(|| name("StandardName"))
}

/// Returns the locale of new users, or the system's language.
pub(super) fn locale(hives: &Hives<'_>) -> Option<String> {
    let international = r"Control Panel\International";
    let default = hives.default.as_ref();
    let name = default.and_then(|hive| hive.answer("locale", international, "LocaleName"));
    name.or_else(|| {
        let language = hives.control_text("locale", r"Control\Nls\Language", "Default")?;
        let number = u32::from_str_radix(&language, 16).ok()?;
        let found = LOCALES.iter().find(|(locale, _)| *locale == number);
        found.map(|(_, name)| (*name).to_owned())
    })
}
