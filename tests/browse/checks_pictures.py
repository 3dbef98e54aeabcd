"""Compares screenshots of the views with kept ones; made with the images of make_images.py."""
import io
import os

from PIL import Image, ImageChops
from harness import Skipped, check, expect
from views import READY, wait

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "screenshots")
SIZE = (640, 450)
VIEWS = [
    ("disk", "#/disk?image=0"), ("files", "#/files/home/ann?image=2"), ("details", "#/files/home/ann?image=2&select=notes.txt"), ("treemap", "#/space?image=2"),
    ("sunburst", "#/space?image=2&chart=sunburst"), ("guest", "#/guest?image=2"), ("packages", "#/guest/packages?image=2"), ("logs", "#/guest/logs?image=2"),
    ("compare", "#/changes/compare?image=0&with=backing%3D1"), ("plan", "#/changes/plan?image=0"),
]
FIXED = ("* { font-family: 'DejaVu Sans Mono', monospace !important; animation: none !important; transition: none !important; caret-color: transparent !important; }"
         " #context, .strip-title { visibility: hidden !important; }")


def shoot(session, page, name, fragment):
    session.open(fragment, page)
    wait(page, READY[name])
    if name == "details":
        page.locator(".file-details table.facts").wait_for()
        page.locator(".preview-body pre").wait_for()
    page.add_style_tag(content=FIXED)
    page.wait_for_timeout(400)
    times = [page.locator(".cell.time"), page.locator(".facts td", has_text="20"), page.locator(".pointed")]
    picture = Image.open(io.BytesIO(page.screenshot(mask=times, mask_color="#808080", animations="disabled", caret="hide")))
    return picture.convert("RGB").resize(SIZE, Image.Resampling.BOX)


def difference(a, b):
    """The share of pixels that differ clearly."""
    histogram = ImageChops.difference(a, b).convert("L").histogram()
    return sum(histogram[48:]) / (a.width * a.height)


@check(("views.css", ".list-row { display: flex;", ".list-row { display: flex; background: #c00;"), ("base.css", "--panel: #f4f5f7", "--panel: #303030"), server="screenshots_url")
def screenshots_are_the_same(session):
    names = [image["name"].rsplit("/", 1)[-1] for image in session.api("images")["images"][:3]]
    if names != ["overlay.qcow2", "snapshots.qcow2", "guest.raw"]:
        raise Skipped("the server has other images")
    page = session.page(bypass_csp=True)
    os.makedirs(KEPT, exist_ok=True)
    worst = []
    for name, fragment in VIEWS:
        picture = shoot(session, page, name, fragment)
        path = os.path.join(KEPT, f"{name}.png")
        if session.options.write_screenshots:
            picture.quantize(64).save(path, optimize=True)
            continue
        expect(os.path.exists(path), f"no kept screenshot of {name}: write it with --write-screenshots")
        kept = Image.open(path).convert("RGB")
        worst.append((difference(picture, kept), name))
        if worst[-1][0] > 0.02:
            picture.save(os.path.join(KEPT, f"{name}.failed.png"))
    bad = [f"{name}: {share:.1%} of the pixels differ" for share, name in worst if share > 0.02]
    expect(not bad, "; ".join(bad))
    return f"{len(VIEWS)} views, largest difference {max(worst)[0]:.2%}" if worst else f"{len(VIEWS)} written"
