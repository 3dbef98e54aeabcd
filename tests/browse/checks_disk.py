"""Checks of the view "Disk"."""
from harness import check, equal, expect
from views import wait


def open_disk(session, image, extra=""):
    page = session.open(f"#/disk?image={image}{extra}")
    wait(page, "map-ready")
    return page


@check(("disk-details.js", "return grid(info.volumes, [", "return grid(info.volumes.slice(1), ["))
def disk_volumes_are_listed(session):
    page = open_disk(session, 0)
    table = page.locator("table", has=page.locator("caption", has_text="Volumes"))
    equal(table.locator("tbody tr td:first-child").all_inner_texts(), [volume["volume"] for volume in session.api("info")["volumes"]], "volumes")


@check(("disk-layout.js", "const isPartition = (from, to) =>", "const isPartition = () => false; const unused = (from, to) =>"))
def disk_tiny_partitions_are_wide_enough(session):
    image = session.image_with(lambda info: info["partition_table"] and any(
        part["size_bytes"] * 100 < info["image"]["virtual_size_bytes"] for part in info["partition_table"]["partitions"]), "a tiny partition")
    page = open_disk(session, image)
    widths = page.locator(".strip").first.locator(".segment:not(.free)").evaluate_all("list => list.map(e => e.getBoundingClientRect().width)")
    expect(min(widths) >= 8, f"a partition is {min(widths)} pixels wide")


@check(("disk-map.js", "onchoose(segments[index]);", ""))
def disk_segments_show_details(session):
    page = open_disk(session, 0)
    info = session.api("info")
    volume = info["volumes"][-1]["volume"]
    page.locator(".strip .segment", has_text=f"{volume} ").first.click()
    expect(page.locator(".panel h3").inner_text() == volume, "the details of the segment are not shown")


@check(("disk-map.js", "'ArrowRight' || ", "'F13' || "))
def disk_strips_work_by_keyboard(session):
    page = open_disk(session, 0)
    strip = page.locator(".strip[role=listbox]").first
    strip.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    active = strip.get_attribute("aria-activedescendant")
    second = strip.locator("[role=option]").nth(1).get_attribute("id")
    equal(active, second, "the chosen segment")
    expect(page.locator(".panel table.facts").count() == 1, "the details are not shown")


@check(("disk-view.js", "file = file.backing", "file = null"))
def disk_files_of_the_chain_have_strips(session):
    image = session.image_with(lambda info: info["image"]["backing"], "a backing file")
    page = open_disk(session, image)
    info = session.api("info", image=image)
    titles = page.locator(".strip-title").all_inner_texts()
    for path in (info["image"]["path"], info["image"]["backing"]["path"]):
        expect(path in titles, f"no strip for {path}: {titles}")
    stored = sum(extent["length_bytes"] for extent in session.api("map", image=image)["extents"] if extent["kind"] == "data" and extent["depth"] == 0)
    cell = page.locator("table", has=page.locator("caption", has_text="Files of the image")).locator("tbody tr").first.locator("td").nth(2)
    expect(abs(stored / 1024 - float(cell.inner_text().split()[0])) < 1 or "KiB" not in cell.inner_text(), f"{stored} bytes are shown as {cell.inner_text()}")


@check(("disk-view.js", "...warnings(info, messages)", "..."+"[]"))
def disk_warnings_are_shown(session):
    image = session.image_with(lambda info: info["warnings"], "warnings")
    page = open_disk(session, image)
    warning = session.api("info", image=image)["warnings"][0]
    expect(warning in page.locator(".message.warning").first.inner_text(), "the warning is not shown")


@check(("disk-layout.js", "return array ? array.members.filter(Boolean) : [];", "return [];"))
def disk_nested_volumes_have_rows(session):
    image = session.image_with(lambda info: info["arrays"], "an md array")
    page = open_disk(session, image)
    names = [array["volume"] for array in session.api("info", image=image)["arrays"]]
    shown = page.locator(".strip").nth(1).locator(".segment").evaluate_all("list => list.map(e => e.getAttribute('aria-label').split(':')[0])")
    equal(sorted(shown), sorted(names), "arrays in the second row")


@check(("disk-layout.js", "extent.volume_offset_bytes * scale", "0"))
def disk_shows_extents_of_a_file(session):
    image = session.image_with(lambda info: info["partition_table"] and any(f["type"] == "ext4" for f in info["filesystems"]), "ext4 in a partition")
    path = "/etc/passwd"
    entry = session.api("stat", image=image, path=path)["entries"][0]
    info = session.api("info", image=image)
    start = next(v["start_bytes"] for v in info["volumes"] if v["volume"] == entry["volume"])
    page = open_disk(session, image, f"&file={path}")
    extent = page.locator(".segment.extent").first
    extent.wait_for()
    partition = next(v for v in info["volumes"] if v["volume"] == entry["volume"])
    segment = page.locator(".strip .segment", has_text=f"{entry['volume']} ").first.bounding_box()
    wanted = segment["x"] + segment["width"] * (entry["extents"][0]["volume_offset_bytes"]) / partition["size_bytes"]
    expect(start is not None and abs(extent.bounding_box()["x"] - wanted) < 3, f"the extent is at {extent.bounding_box()['x']}, expected {wanted}")
