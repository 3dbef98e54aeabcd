"""Checks of the view "Space"."""
from harness import check, equal, expect
from views import wait


def open_space(session, path="", query=""):
    page = session.open(f"#/space{path}?image=0{query}")
    wait(page, "space-ready")
    page.wait_for_timeout(300)
    return page


def largest(session, path="/"):
    entries = [e for e in session.api("du", path=path, depth=1)["entries"] if e["depth"] == 1]
    return sorted(entries, key=lambda entry: -entry["allocated_bytes"])


@check(("space-tree.js", "at.bytes += bytes;", "at.bytes += bytes / 2;"))
def space_table_equals_du(session):
    page = open_space(session)
    first = largest(session)[0]
    row = page.locator(".space-view table tbody tr").first.locator("td").all_inner_texts()
    equal(row[0], first["path"][1:], "the largest directory")
    total = session.api("du", path="/", depth=0)["total"]["allocated_bytes"]
    expect(abs(float(row[2].split()[0]) - 100 * first["allocated_bytes"] / total) < 0.2, f"{row[2]} of {total}")


@check(("treemap.js", "scale = rectangle.width * rectangle.height / total", "scale = rectangle.width * 100 / total"))
def space_treemap_fills_the_area(session):
    page = open_space(session)
    first = largest(session)[0]
    total = session.api("du", path="/", depth=0)["total"]["allocated_bytes"]
    option = page.locator(".chart-option").first
    expect(option.get_attribute("aria-label").startswith(first["path"][1:] + ":"), "the first option is not the largest directory")
    area = option.locator("rect").first.evaluate("e => e.width.baseVal.value * e.height.baseVal.value")
    expect(abs(area / (800 * 480) - first["allocated_bytes"] / total) < 0.02, f"area {area}")


@check(("sunburst.js", "const total = node.bytes || 1;", "const total = 2 * node.bytes || 1;"))
def space_sunburst_goes_around(session):
    page = open_space(session, query="&chart=sunburst")
    first = largest(session)[0]
    total = session.api("du", path="/", depth=0)["total"]["allocated_bytes"]
    label = page.locator(".chart-option").first.get_attribute("aria-label")
    expect(label.startswith(first["path"][1:] + ":"), label)
    box = page.locator("path.ring-0").first.evaluate("e => e.getAttribute('d').split('A')[1].split(' ')[3]")
    equal(box, "1" if first["allocated_bytes"] / total > 0.5 else "0", "the large-arc flag")


@check(("chart.js", "event.key === 'Enter'", "event.key === 'F13'"))
def space_zooms_by_keyboard(session):
    page = open_space(session)
    page.locator(".chart-frame").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    path = largest(session)[0]["path"]
    page.wait_for_function("path => location.hash.startsWith('#/space' + path)", arg=path)
    equal(page.locator(".space-view .breadcrumbs a").last.inner_text(), path[1:], "the breadcrumb")
    page.locator(".chart-frame").focus()
    page.keyboard.press("Backspace")
    page.wait_for_function("() => /^#\\/space\\/?\\?/.test(location.hash)")


@check(("space-view.js", "this.tree.addFiles(path, files);", ""))
def space_shows_files_of_a_directory(session):
    found = max(session.api("find", path="/", type="f", size="+64k")["entries"], key=lambda e: e["allocated_bytes"])
    directory, name = found["path"].rsplit("/", 1)
    page = open_space(session, directory)
    expect(name in page.locator(".space-view table td:first-child").all_inner_texts(), f"{name} is missing")


@check(("space-view.js", "Math.min(1, bytes / this.used)", "0"))
def space_shows_progress(session):
    page = session.page()
    page.add_init_script("window.seen = []; new MutationObserver(() => { const p = document.querySelector('progress'); if (p) seen.push(p.value); })"
                         ".observe(document, { subtree: true, childList: true, attributes: true, characterData: true });")
    session.open("#/space?image=0", page)
    wait(page, "space-ready")
    page.wait_for_timeout(800)
    expect(max(page.evaluate("seen")) > 0.3, f"the bar stayed at {max(page.evaluate('seen'))}")
    expect(" of " in page.locator(".space-view .toolbar .note").inner_text(), "the used bytes are not shown")
