"""Checks of the view "Guest"."""
import json
from datetime import datetime, timezone

from harness import Skipped, check, equal, expect
from views import wait


def system(session):
    systems = session.api("inspect", image=0, packages=1)["systems"]
    if not systems:
        raise Skipped("no operating system")
    return systems[0]


@check(("guest-report.js", "['Host name', system.hostname]", "['Host name', 'x']"))
def guest_report_equals_inspect(session):
    facts = system(session)
    page = session.open("#/guest?image=0")
    wait(page, "guest-ready")
    text = page.locator(".report").inner_text()
    wanted = [facts["product"], facts["hostname"], *(user["name"] for user in facts["users"]), *(service["name"] for service in facts["services"]),
              *(interface["name"] for interface in facts["network"]["interfaces"])]
    for value in filter(None, wanted):
        expect(value in text, f"{value!r} is missing")


@check(("packages.js", "includes(wanted)", "includes('')"))
def guest_packages_are_searched(session):
    packages = system(session)["packages"]["installed"]
    page = session.open("#/guest/packages?image=0")
    wait(page, "guest-ready")
    equal(page.locator(".packages .summary").inner_text(), f"{len(packages):,} packages", "the count")
    page.get_by_label("Filter").fill("bash")
    wanted = [p["name"] for p in packages if any("bash" in (p.get(key) or "").lower() for key in ("name", "version", "summary"))]
    expect(page.locator(".packages .summary").inner_text().startswith(f"{len(wanted)} of"), "the filtered count")
    page.wait_for_timeout(100)
    shown = page.locator(".packages .list-body .name").all_inner_texts()
    equal(shown, wanted[:len(shown)], "names")


@check(("guest-view.js", "address('sbom', { ...this.parameters, format })", "address('sbom', {})"))
def guest_sbom_is_downloaded(session):
    system(session)
    page = session.open("#/guest/packages?image=0")
    session.allowed_errors = ["Failed to load resource"]
    for title, test in (("SPDX", lambda d: d["spdxVersion"]), ("CycloneDX", lambda d: d["bomFormat"] == "CycloneDX")):
        with page.expect_download(timeout=10000) as download:
            page.get_by_role("link", name=title).click()
        expect(test(json.load(open(download.value.path()))), f"{title} is not what was downloaded")


@check(("logs.js", "this.inputs[name].value.trim()", "''"))
def guest_log_is_filtered(session):
    try:
        records = session.lines("log", image=0, lines=1000, reverse=1)
    except OSError:
        records = []
    if not records:
        raise Skipped("no log")
    page = session.open("#/guest/logs?image=0")
    wait(page, "log-ready")
    expect(page.locator(".logs .summary").inner_text().startswith(f"{len(records):,} record"), "the count of records")
    message = next(r["MESSAGE"] for r in records if isinstance(r.get("MESSAGE"), str))
    expect(message[:40] in page.locator(".logs .list-body .line-text").first.inner_text() or len(records) > 1, "the newest record")
    word = next(w for w in message.split() if w.isalnum())
    page.get_by_label("Text").fill(word)
    page.get_by_role("button", name="Show").click()
    wanted = len(session.lines("log", image=0, lines=1000, reverse=1, grep=word))
    page.wait_for_function("() => location.hash.includes('grep=')", timeout=3000)
    page.wait_for_function("text => document.querySelector('.logs .summary').textContent.startsWith(text)", arg=f"{wanted:,} record")
    page.locator(".logs .list-body .list-row").first.click()
    page.locator(".logs .panel pre").wait_for()


def clock(microseconds):
    """A time as the page shows it."""
    return datetime.fromtimestamp(microseconds // 1_000_000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


@check(("guest-report.js", "(boot) => boot.boot_id", "() => ''"), server="large_url")
def guest_boots_are_listed(session):
    boots = session.lines("boots", image=0)
    expect(len(boots) == 3, f"the journal of three boots has {len(boots)}")
    page = session.open("#/guest?image=0")
    rows = page.locator("table", has=page.locator("caption", has_text="Boots")).locator("tbody tr")
    rows.first.wait_for()
    wanted = [[str(b["index"]), clock(b["first_entry"]), clock(b["last_entry"]), b["boot_id"]] for b in boots]
    equal([row.locator("td").all_inner_texts() for row in rows.all()], wanted, "the boots")
    session.open("#/guest/logs?image=0", page)
    wait(page, "boots-ready")
    choices = page.get_by_role("combobox", name="Boot")
    equal(choices.locator("option").all_inner_texts()[1:], [f"{row[0]}: {row[1]}" for row in wanted], "the choice of boots")
    choices.select_option(index=1)
    page.get_by_role("button", name="Show").click()
    page.wait_for_function("() => location.hash.includes('boot=')", timeout=3000)
    chosen = len(session.lines("log", image=0, lines=1000, reverse=1, boot=boots[0]["boot_id"]))
    page.wait_for_function("text => document.querySelector('.logs .summary').textContent.startsWith(text)", arg=f"{chosen:,} record")
