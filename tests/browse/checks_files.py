"""Checks of the view "Files"."""
import os
import urllib.request

from harness import Skipped, check, equal, expect
from views import file_of, wait

ETC = "/etc"


def open_files(session, path, query="", image=0):
    page = session.open(f"#/files{path}?image={image}{query}")
    wait(page, "list-ready")
    return page


def rows(page):
    return page.locator(".file-list .list-body .list-row")


def names(page):
    """The names in sight, in the order of the rows."""
    return page.evaluate("""() => [...document.querySelectorAll('.file-list .list-body .list-row')]
        .sort((a, b) => a.dataset.index - b.dataset.index).map(row => row.querySelector('.name .raw').textContent)""")


@check(("file-list.js", "this.entries.push(...entries);", "this.entries.push(...entries.slice(1));"))
def files_list_equals_ls(session):
    page = open_files(session, ETC)
    entries = session.api("ls", path=ETC)["entries"]
    expect(page.locator(".file-list .summary").inner_text().startswith(f"{len(entries):,} entr"), "the count is wrong")
    shown = names(page)
    equal(shown, [entry["name"] for entry in entries][:len(shown)], "names")
    expect(shown, "no row is shown")


@check(("file-list.js", "shown.sort(compare[key])", "shown.sort(compare.name)"))
def files_sort_by_size(session):
    page = open_files(session, ETC)
    page.get_by_role("button", name="Size").click()
    entries = session.api("ls", path=ETC)["entries"]
    largest = max(entries, key=lambda entry: entry["size_bytes"])
    page.wait_for_timeout(100)
    sizes = {entry["name"]: entry["size_bytes"] for entry in entries}
    equal(sizes[names(page)[0]], largest["size_bytes"], "the size of the first")
    equal(page.locator('.file-list [data-key="size"]').get_attribute("aria-sort"), "descending", "aria-sort")


@check(("file-list.js", ".includes(this.filter)", ".includes('')"))
def files_filter(session):
    page = open_files(session, ETC)
    page.get_by_label("Filter").fill("HOST")
    page.wait_for_timeout(150)
    equal(names(page), [e["name"] for e in session.api("ls", path=ETC)["entries"] if "host" in e["name"].lower()], "names")


@check(("file-tree.js", "type: 'd', depth: 1", "type: 'f', depth: 1"))
def files_tree_opens_directories(session):
    page = open_files(session, "/")
    wanted = sorted(entry["name"] for entry in session.api("ls", path="/")["entries"] if entry["type"] == "directory")
    page.get_by_role("treeitem", name="/", exact=True).locator(".twisty").first.click()
    page.wait_for_timeout(300)
    page.goto("about:blank")
    page = open_files(session, "/etc")
    items = page.locator(".tree > li > ul > li > .tree-label")
    page.wait_for_function("count => document.querySelectorAll('.tree > li > ul > li').length >= count", arg=len(wanted))
    equal(sorted(text.strip() for text in items.all_inner_texts()), wanted, "directories in the tree")
    items.get_by_text("home", exact=True).click()
    page.wait_for_function("() => location.hash.startsWith('#/files/home')")


@check(("format.js", "words.push(isDirectory ? 'list' : 'read')", "words.push('x')"))
def files_details_show_metadata(session):
    path = file_of(session, 0)
    directory, name = path.rsplit("/", 1)
    page = open_files(session, directory, f"&select={name}")
    page.locator(".file-details table.facts").wait_for()
    text = page.locator(".file-details").inner_text()
    entry = session.api("stat", path=path)["entries"][0]
    for wanted in (entry["mode"], "owner: read", f"{entry['uid']}:{entry['gid']}", f"{entry['size_bytes']:,} bytes", str(entry["inode"]), entry["modified"][:10]):
        expect(wanted in text, f"{wanted!r} is missing in {text[:400]!r}")


@check(("file-details.js", "[metadata(entry), attributes(entry),", "[metadata(entry), null,"))
def files_details_show_xattrs_and_extents(session):
    found = next((entry for path in ("/home/ann", "/etc", "/usr/bin") for entry in entries_with_xattrs(session, path)), None)
    if not found:
        raise Skipped("no file with extended attributes")
    directory, name = found["path"].rsplit("/", 1)
    page = open_files(session, directory, f"&select={name}")
    page.get_by_text("Extended attributes").wait_for()
    expect(found["xattrs"][0]["name"] in page.locator(".file-details").inner_text(), "the attribute is missing")
    equal(page.locator(".file-details .segment.extent").count(), sum(e["volume_offset_bytes"] is not None for e in found["extents"]), "extents in the picture")


def entries_with_xattrs(session, path):
    try:
        files = [e for e in session.api("ls", path=path)["entries"] if e["type"] == "file"][:40]
    except OSError:
        return
    for file in files:
        entry = session.api("stat", path=file["path"])["entries"][0]
        if entry["xattrs"]:
            yield entry


@check(("preview.js", "appendRaw(text, fromBytes(", "appendRaw(text, '' && fromBytes("))
def preview_shows_text(session):
    path = file_of(session, 0)
    directory, name = path.rsplit("/", 1)
    page = open_files(session, directory, f"&select={name}")
    page.locator(".preview pre.text").wait_for()
    with urllib.request.urlopen(f"{session.base}api/cat?path={path}") as answer:
        equal(page.locator(".preview pre.text").text_content(), answer.read().decode(), "the text")


def large_file(session, magic=None):
    for entry in session.api("find", path="/home", type="f", size="+300k")["entries"] + session.api("find", path="/var", type="f", size="+300k")["entries"]:
        with urllib.request.urlopen(f"{session.base}api/cat?length=4096&path={entry['path']}") as answer:
            if 0 not in answer.read():
                return entry
    raise Skipped("no long text file")


@check(("preview.js", "add(await this.#read(end, STEP))", "add(await this.#read(0, STEP))"))
def preview_shows_more(session):
    entry = large_file(session)
    directory, name = entry["path"].rsplit("/", 1)
    page = open_files(session, directory, f"&select={name}")
    page.get_by_role("button", name="Show more").click()
    wanted = min(entry["size_bytes"], 512 * 1024)
    with urllib.request.urlopen(f"{session.base}api/cat?length={wanted}&path={entry['path']}") as answer:
        text = answer.read().decode(errors="replace")
    page.wait_for_function("length => document.querySelector('pre.text').textContent.length >= length", arg=len(text) - 8)
    expect(page.locator("pre.text").text_content()[:len(text) - 8] == text[:len(text) - 8], "the text is not the file's")


@check(("preview.js", "const MAGIC = [", "const MAGIC = []; const UNUSED = ["))
def preview_shows_pictures(session):
    found = session.api("find", path="/", name="*.png", type="f")["entries"]
    if not found:
        raise Skipped("no picture")
    directory, name = found[0]["path"].rsplit("/", 1)
    page = open_files(session, directory, f"&select={name}")
    image = page.locator(".preview img")
    image.wait_for()
    page.wait_for_function("() => document.querySelector('.preview img').naturalWidth > 0")
    expect(image.get_attribute("src").startswith("blob:"), "the picture has no blob address")


@check(("hex.js", "${hex(offset + start, 8)}", "${hex(start, 8)}"))
def preview_shows_bytes_by_page(session):
    path = next(e for e in session.api("find", path="/home", type="f", size="+4k")["entries"] + session.api("find", path="/usr", type="f", size="+4k")["entries"])["path"]
    directory, name = path.rsplit("/", 1)
    page = open_files(session, directory, f"&select={name}")
    page.get_by_role("button", name="Hex").click()
    page.get_by_role("button", name="Next page").click()
    page.wait_for_function("() => document.querySelector('.hex')?.textContent.startsWith('00000400')")
    with urllib.request.urlopen(f"{session.base}api/cat?offset=1024&length=16&path={path}") as answer:
        codes = answer.read().hex(" ")
    expect(codes in page.locator(".hex").text_content().split("\n")[0].replace("  ", " "), f"{codes} is missing")
    page.get_by_label("Offset").fill("0x800")
    page.get_by_label("Offset").press("Enter")
    page.wait_for_function("() => document.querySelector('.hex').textContent.startsWith('00000800')")


@check(("hex.js", "if (this.offset !== offset) return;", ""))
def preview_follows_the_last_click(session):
    """The first page arrives after the second one."""
    path = next(e for e in session.api("find", path="/home", type="f", size="+4k")["entries"])["path"]
    directory, name = path.rsplit("/", 1)
    page = open_files(session, directory, f"&select={name}")
    late = []
    page.route("**/api/cat?*offset=0&length=1024*", lambda route: late.append(route))
    page.get_by_role("button", name="Hex").click()
    page.get_by_role("button", name="Next page").click()
    page.wait_for_function("() => document.querySelector('.hex')?.textContent.startsWith('00000400')")
    expect(late, "the first page was not asked for")
    with page.expect_response(lambda answer: "offset=0&length=1024" in answer.url):
        # The last request is that of the view which is shown.
        late.pop().continue_()
    page.wait_for_timeout(200)
    expect(page.locator(".hex").text_content().startswith("00000400"), "an old page replaced the one that was asked for last")


@check(("file-details.js", "{ ...parameters, download: 1 }", "{ download: 1 }"))
def downloads_give_the_file(session):
    path = file_of(session, 0)
    directory, name = path.rsplit("/", 1)
    page = open_files(session, directory, f"&select={name}")
    with page.expect_download() as download:
        page.locator(".file-details a.button").click()
    with urllib.request.urlopen(f"{session.base}api/cat?path={path}") as answer:
        expect(open(download.value.path(), "rb").read() == answer.read(), "the download differs from the file")
    with page.expect_download() as download:
        page.locator(".files-center a[download]").click()
    expect(b"ustar" in open(download.value.path(), "rb").read(1024), "the directory is not a tar archive")


@check(("search.js", "`*${text}*`", "text"))
def search_by_name(session):
    page = open_files(session, "/etc")
    page.get_by_label("for", exact=True).fill("ost")
    page.get_by_role("button", name="Search").click()
    wanted = [entry["path"] for entry in session.api("find", path="/etc", name="*ost*")["entries"]]
    summary = page.locator(".search-results .summary")
    page.wait_for_function("() => /\\d match(es)?$/.test(document.querySelector('.search-results .summary').textContent)")
    expect(summary.inner_text().startswith(f"{len(wanted):,} match"), f"{summary.inner_text()}, expected {len(wanted)}")
    shown = page.locator(".search-results .list-body .name").all_inner_texts()
    equal(sorted(shown), sorted(wanted[:len(shown)]), "paths")


@check(("search.js", "pattern: text", "pattern: `${text}x`"))
def search_in_contents(session):
    page = open_files(session, "/etc")
    page.get_by_label("Search in").select_option("grep")
    page.get_by_label("for", exact=True).fill("localhost")
    page.get_by_role("button", name="Search").click()
    matches = session.api("grep", path="/etc", pattern="localhost", fixed=1, ignore_case=1)["matches"]
    page.wait_for_function("() => /\\d match(es)?$/.test(document.querySelector('.search-results .summary').textContent)")
    expect(page.locator(".search-results .summary").inner_text().startswith(f"{len(matches):,} match"), "the count is wrong")
    expect(matches[0]["line"].split("\t")[0] in page.locator(".search-results .line-text").nth(1).inner_text(), "the line is not shown")


@check(("search.js", "this.abort?.abort();\n  }\n\n  hide", "}\n\n  hide"))
def search_is_cancelled(session):
    page = session.page()
    held = []
    page.route("**/api/find?*name=*", lambda route: held.append(route))
    session.open("#/files/etc?find=host", page)
    page.get_by_role("button", name="Cancel").click()
    page.locator(".search-results .summary", has_text="cancelled").wait_for(timeout=3000)
    for route in held:
        route.abort()


@check(("virtual-list.js", "event.key === 'Enter' && item", "event.key === 'F13' && item"))
def keyboard_opens_a_file(session):
    page = open_files(session, "/")
    entries = session.api("ls", path="/")["entries"]
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role') === 'grid'"):
            break
    equal(page.evaluate("document.activeElement.getAttribute('aria-label')"), "Files", "the focused element")
    index = [entry["name"] for entry in entries].index("etc")
    page.keyboard.press("Home")
    for _ in range(index):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.startsWith('#/files/etc')")
    wait(page, "list-ready")
    inside = session.api("ls", path="/etc")["entries"]
    position = next(i for i, entry in enumerate(inside) if entry["type"] == "file")
    page.wait_for_function("count => document.querySelector('.file-list .list').getAttribute('aria-rowcount') == count + 1", arg=len(inside))
    page.keyboard.press("Home")
    for _ in range(position):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator(".file-details table.facts").wait_for()
    expect(inside[position]["path"] in page.locator(".file-details").inner_text(), "the details of the file are not shown")


@check(("paths.js", "if (name === '..') names.pop();", "if (name === '..') continue;"))
def links_lead_to_their_target(session):
    links = [e for e in session.api("find", path="/", type="l")["entries"] if not e["target"].startswith("/") or e["path"].startswith("/home")]
    if not links:
        raise Skipped("no symbolic link")
    link = next((e for e in links if e["target"].startswith("..")), links[0])
    directory, name = link["path"].rsplit("/", 1)
    page = open_files(session, directory, f"&select={name}")
    page.get_by_role("link", name="Show the target").click()
    wanted = os.path.normpath(os.path.join(directory or "/", link["target"]))
    page.wait_for_function("path => document.querySelector('.file-details .facts td')?.textContent === path", arg=wanted)


@check(("files-view.js", "selected === ITSELF ? route.path", "selected === 'x' ? route.path"))
def directories_have_details(session):
    page = open_files(session, "/etc")
    session.allowed_errors = ["status of 404"]
    page.get_by_role("link", name="Show its details").click()
    page.locator(".file-details table.facts").wait_for(timeout=4000)
    equal(page.locator(".file-details .facts td").first.inner_text(), "/etc", "the path")
