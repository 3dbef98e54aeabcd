"""The views that the checks of the whole page visit, and how to know that each is complete."""
from harness import Skipped

READY = {
    "disk": "map-ready", "files": "list-ready", "details": "list-ready", "search": "list-ready", "treemap": "space-ready", "sunburst": "space-ready",
    "guest": "guest-ready", "packages": "guest-ready", "logs": "log-ready", "compare": "changes-ready", "plan": "plan-ready",
}


def wait(page, mark):
    page.wait_for_function("name => performance.getEntriesByName(name).length > 0", arg=mark)


def file_of(session, image):
    """A small text file that every guest has, or the first file of the root."""
    for path in ("/etc/passwd", "/etc/hosts"):
        try:
            session.api("stat", image=image, path=path)
            return path
        except OSError:
            pass
    files = [entry for entry in session.api("ls", image=image)["entries"] if entry["type"] == "file"]
    if not files:
        raise Skipped("no file in the root")
    return files[0]["path"]


def all_views(session, image=0):
    """Names and fragments of all views."""
    directory, name = file_of(session, image).rsplit("/", 1)
    query = f"?image={image}"
    views = [
        ("disk", f"#/disk{query}"), ("files", f"#/files/{query}"), ("details", f"#/files{directory}{query}&select={name}"),
        ("search", f"#/files{directory}{query}&find={name}"), ("treemap", f"#/space{query}"), ("sunburst", f"#/space{query}&chart=sunburst"),
        ("guest", f"#/guest{query}"), ("packages", f"#/guest/packages{query}"), ("logs", f"#/guest/logs{query}"), ("plan", f"#/changes/plan{query}"),
    ]
    info = session.api("info", image=image)
    if info["image"]["backing"]:
        views.append(("compare", f"#/changes/compare{query}&with=backing%3D1"))
    return views


def visit(session, page, name, fragment):
    session.open(fragment, page)
    wait(page, READY[name])
    if name == "details":
        page.locator(".file-details table.facts").wait_for()
        page.locator(".preview-body pre").wait_for()
    if name == "search":
        page.wait_for_function("() => /match/.test(document.querySelector('.search-results .summary')?.textContent) && !/searching/.test(document.querySelector('.search-results .summary').textContent)")
    if name == "compare":
        rows = page.locator('[role="treegrid"] .change-modified')
        if rows.count():
            rows.first.click()
            page.locator(".wide-panel table").first.wait_for()
    page.wait_for_timeout(150)
