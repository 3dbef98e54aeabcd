"""Checks with a directory of 100,000 files."""
from harness import check, equal, expect
from views import wait

COUNT = 100_000
FRAMES = """async () => {
  const list = document.querySelector('.file-list .list');
  const times = [];
  let isDone = false;
  const frame = (time) => { times.push(time); if (!isDone) requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
  window.stopFrames = () => { isDone = true; return { times, rows: document.querySelectorAll('.list-row').length, top: list.scrollTop }; };
}"""


def open_many(session):
    page = session.open("#/files/many")
    page.set_default_timeout(90000)
    wait(page, "list-ready")
    return page


def scroll(page, steps, distance):
    """Scrolls by wheel; the result is frames in a second, the slowest frame in milliseconds, and the most rows."""
    box = page.locator(".file-list .list").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 200)
    page.evaluate(FRAMES)
    most = 0
    for step in range(steps):
        page.mouse.wheel(0, distance)
        if step % 10 == 0:
            most = max(most, page.evaluate("document.querySelectorAll('.file-list .list-row').length"))
    result = page.evaluate("stopFrames()")
    times = result["times"]
    gaps = [b - a for a, b in zip(times, times[1:])]
    return 1000 * len(gaps) / (times[-1] - times[0]), max(gaps), max(most, result["rows"]), result["top"]


@check(("virtual-list.js", "const OVERSCAN = 8;", "const OVERSCAN = 300;"), server="large_url")
def large_list_keeps_few_rows(session):
    page = open_many(session)
    expect(page.locator(".file-list .summary").inner_text() == f"{COUNT:,} entries", page.locator(".file-list .summary").inner_text())
    _, _, rows, top = scroll(page, 60, 4000)
    expect(top > 100_000, f"scrolled to {top} only")
    expect(rows < 200, f"{rows} rows are in the document")
    page.locator(".file-list .list").focus()
    page.keyboard.press("End")
    page.wait_for_timeout(200)
    expect(f"file-{COUNT - 1:06}.txt" in page.locator(".file-list .list-row[aria-selected=true]").inner_text(), "the last row is not chosen")
    return f"{rows} rows"


@check(("virtual-list.js", "const offset = this.#offset();\n    const shift", "for (const end = performance.now() + 80; performance.now() < end;);\n    const offset = this.#offset();\n    const shift"), server="large_url")
def large_list_scrolls_smoothly(session):
    page = open_many(session)
    rate, slowest, rows, _ = scroll(page, 150, 1500)
    expect(rate >= 30, f"{rate:.0f} frames a second")
    return f"{rate:.0f} frames a second, slowest frame {slowest:.0f} ms"


@check(("file-list.js", "if (this.sort.key === 'name' && !this.sort.isDescending) {", "if (false) {"), ("file-list.js", "> 1000", "> 1e9"), server="large_url")
def large_list_is_shown_while_it_loads(session):
    page = session.page()
    page.add_init_script("window.first = 0; new MutationObserver(() => { if (!first && document.querySelector('.file-list .list-body .list-row')) first = performance.now(); })"
                         ".observe(document, { subtree: true, childList: true });")
    session.open("#/files/many", page)
    page.set_default_timeout(90000)
    wait(page, "list-ready")
    first, ready = page.evaluate("[first, performance.getEntriesByName('list-ready')[0].startTime]")
    expect(0 < first < ready * 0.7, f"the first row is shown after {first:.0f} of {ready:.0f} ms")
    return f"first row after {first:.0f} ms, all after {ready:.0f} ms"


@check(("file-list.js", "if (isDescending) shown.reverse();", ""), server="large_url")
def large_list_sorts_and_filters(session):
    page = open_many(session)
    page.get_by_role("button", name="Size").click()
    page.wait_for_function("() => document.querySelector('.list-body .list-row[data-index=\"0\"] .name')?.textContent.includes('file-099000')")
    page.get_by_label("Filter").fill("99999")
    page.wait_for_function("() => document.querySelector('.file-list .summary').textContent.startsWith('1 of')")
    equal(page.locator(".file-list .list-body .list-row").count(), 1, "rows after the filter")
