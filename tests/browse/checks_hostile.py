"""Checks that names and contents of a hostile image are shown as text and do nothing."""
from harness import check, equal, expect
from views import wait

MARKUP = "<img src=x onerror=alert(1)>"
PARTS = ["#/disk", "#/files/evil", "#/files/evil?select=page.html", "#/files/evil?select=picture.svg", "#/files/evil?select=not-a-picture.png",
         "#/files/evil?select=control.txt", "#/space/evil", "#/space/evil?chart=sunburst", "#/guest", "#/guest/packages", "#/guest/logs",
         "#/files?find=img", "#/files?grep=onerror", "#/files/evil?select=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E"]
# Elements that only the image could have brought in: the page itself has its two scripts, and pictures only with blob addresses.
FOREIGN = """() => [...document.querySelectorAll('img, script, iframe, object, embed, i, b, a[href^="javascript:"], [onerror], [onload]')]
    .filter(e => !(e.tagName === 'SCRIPT' && /\\/web\\/(app|early)\\.js$/.test(e.src)) && !(e.tagName === 'IMG' && e.src.startsWith('blob:'))).map(e => e.outerHTML)"""


@check(("dom.js", "element.append(string);", "element.innerHTML = string;"), server="hostile_url")
def hostile_names_inject_nothing(session):
    page = session.page()
    titles = set()
    for fragment in PARTS:
        session.open(fragment, page)
        page.wait_for_timeout(700)
        equal(page.evaluate(FOREIGN), [], f"foreign elements in {fragment}")
        titles.add(page.title())
    expect(titles <= {f"{name} - diskfs browse" for name in ("Disk", "Files", "Space", "Guest", "Changes")}, f"titles {titles}")
    return f"{len(PARTS)} views"


@check(("dom.js", "'class': 'code-point'".replace("'class'", "class"), "class: 'x'"), server="hostile_url")
def hostile_names_are_visible(session):
    page = session.open("#/files/evil")
    wait(page, "list-ready")
    texts = page.locator(".list-body .name .raw").all_inner_texts()
    expect(MARKUP in texts, f"{MARKUP} is not shown as text: {texts}")
    for wanted in ("new\\nline", "tab\\there", "U+202Egnp.exe", "U+2066isolateU+2069", "invalid-\\xff\\xfe-utf8", "\\e[31mescape", "__proto__"):
        expect(any(wanted == text for text in texts), f"{wanted!r} is missing in {texts}")
    marks = page.locator(".list-body .name .code-point").all_inner_texts()
    expect("U+202E" in marks and "\\xff" in marks, f"special characters are not marked: {marks}")


@check(("paths.js", "return { path_base64:", "return { path: text(path), unused:"), ("paths.js", "export const parentOf", "const text = (path) => path.toWellFormed();\nexport const parentOf"), server="hostile_url")
def hostile_files_are_opened(session):
    page = session.open("#/files/evil")
    wait(page, "list-ready")
    count = page.locator(".list-body .list-row").count()
    opened = 0
    for index in range(count):
        row = page.locator(f'.list-body .list-row[data-index="{index}"]')
        if row.locator(".type-file").count() == 0:
            continue
        row.click()
        page.locator(".file-details table.facts").wait_for(timeout=5000)
        expect(page.locator(".file-details [role=alert]").count() == 0, f"{row.inner_text()!r}: {page.locator('.file-details').inner_text()[:200]}")
        inside = page.evaluate("document.querySelector('.file-details h3').textContent")
        expect(inside == page.evaluate(f"document.querySelector('.list-row[data-index=\"{index}\"] .name .raw').textContent"), f"the details of {index} are those of {inside!r}")
        opened += 1
        page.reload()
        wait(page, "list-ready")
        page.locator(".file-details table.facts").wait_for(timeout=5000)
    return f"{opened} files"
