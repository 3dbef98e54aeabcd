"""Checks of the view "Changes": comparisons, and deploy plans."""
import json

from harness import check, equal, expect
from views import wait

WORDS = {"added": "added", "removed": "removed", "modified": "changed"}


def open_comparison(session):
    image = session.image_with(lambda info: info["image"]["backing"], "a backing file")
    page = session.open(f"#/changes/compare?image={image}")
    page.get_by_role("combobox", name="Compare").select_option("backing=1")
    page.get_by_role("button", name="Compare").click()
    wait(page, "changes-ready")
    page.wait_for_timeout(150)
    return page, session.api("diff", image=image, backing=1)


@check(("change-tree.js", "for (const difference of differences) this.#add(difference);", "for (const difference of differences) if (difference.change !== 'added') this.#add(difference);"))
def changes_tree_equals_diff(session):
    page, answer = open_comparison(session)
    counts = answer["counts"]
    equal(page.locator(".view .summary").inner_text(), f"{counts['added']} added, {counts['removed']} removed, {counts['modified']} changed, {counts['same']} the same", "the counts")
    shown = [row for row in page.locator('[role="treegrid"] .list-body .change').all_inner_texts() if "below" not in row]
    wanted = [WORDS[difference["change"]] for difference in answer["differences"]]
    equal(sorted(shown), sorted(wanted[:len(shown)]), "the changes")
    expect(len(shown) >= min(len(wanted), 8), f"{len(shown)} of {len(wanted)} changes are shown")


@check(("diff-parse.js", "added.push({ number: right++", "removed.push({ number: right++"))
def changes_show_text_side_by_side(session):
    page, answer = open_comparison(session)
    difference = next(d for d in answer["differences"] if d["change"] == "modified" and "content" in d["what"])
    name = difference["path"].rsplit("/", 1)[1]
    page.locator(".change-modified", has_text=name).first.click()
    page.locator("table.diff").wait_for()
    image = session.image_with(lambda info: info["image"]["backing"], "a backing file")
    unified = session.api("diff", image=image, backing=1, only=difference["path"], unified=3)["differences"][0]["unified"].split("\n")
    for sign, kind in (("-", "removed"), ("+", "added")):
        wanted = [line[1:] for line in unified if line.startswith(sign) and not line.startswith(sign * 3)]
        shown = page.locator(f"td.diff-line.{kind}").evaluate_all("list => list.map(e => e.textContent)")
        equal(shown, wanted, f"{kind} lines")


@check(("comparison.js", "...snapshotChoices(names), ", ""))
def changes_offer_snapshots(session):
    image = session.image_with(lambda info: info["image"]["qcow2"] and len(info["image"]["qcow2"]["snapshots"]) > 1, "two snapshots")
    page = session.open(f"#/changes/compare?image={image}")
    choice = page.get_by_role("combobox", name="Compare")
    names = [s["name"] for s in session.api("info", image=image)["image"]["qcow2"]["snapshots"]]
    choice.select_option(f"from_snapshot={names[0]}&to_snapshot={names[1]}")
    page.get_by_role("button", name="Compare").click()
    wait(page, "changes-ready")
    counts = session.api("diff", image=image, from_snapshot=names[0], to_snapshot=names[1])["counts"]
    expect(page.locator(".view .summary").inner_text().startswith(f"{counts['added']} added, {counts['removed']} removed"), "the counts")


@check(("context.js", "result.push(field('Snapshot',", "void (field('Snapshot',"))
def snapshot_is_chosen(session):
    image = session.image_with(lambda info: info["image"]["qcow2"] and info["image"]["qcow2"]["snapshots"], "a snapshot")
    name = session.api("info", image=image)["image"]["qcow2"]["snapshots"][0]["name"]
    page = session.open(f"#/files/etc?image={image}")
    wait(page, "list-ready")
    page.get_by_role("combobox", name="Snapshot").select_option(name, timeout=4000)
    page.wait_for_function("name => location.hash.includes('snapshot=' + name)", arg=name)


def open_plan(session, image=0, page=None):
    page = session.open(f"#/changes/plan?image={image}", page)
    wait(page, "plan-ready")
    return page


@check(("schema-check.js", "const [name] = step.required;", "const name = 'x';"))
def plan_lists_the_steps(session):
    page = open_plan(session)
    schema = session.api("plan-schema")
    wanted = [step["required"][0] for step in schema["$defs"]["Step"]["oneOf"]]
    equal(page.locator(".steps summary > code").all_inner_texts(), wanted, "the steps")


@check(("json-check.js", "before.split('\\n').length", "1"))
def plan_errors_have_positions(session):
    page = open_plan(session)
    text = page.get_by_label("Plan (JSON)")
    text.fill('{\n  "steps": [\n    {"hostname": "a",}\n  ]\n}')
    expect("line 3, column 22" in page.locator(".plan-check").inner_text(), page.locator(".plan-check").inner_text())
    text.fill('{\n  "steps": [\n    {"hostnamex": "a"}\n  ]\n}')
    expect("line 3, column 5" in page.locator(".plan-check").inner_text(), page.locator(".plan-check").inner_text())
    text.fill('{\n  "steps": [\n    {"write": {"path": "/etc/motd", "text": "x", "nope": 1}}\n  ]\n}')
    expect("line 3" in page.locator(".plan-check").inner_text() and "nope" in page.locator(".plan-check").inner_text(), page.locator(".plan-check").inner_text())
    expect(page.get_by_role("button", name="Show the dry run").is_disabled(), "the dry run can be started")
    text.fill('{"steps": [{"hostname": "a"}, {"write": {"path": "/etc/motd", "text": "x"}}]}')
    equal(page.locator(".plan-check").inner_text().strip(), "The plan is valid.", "the report")


@check(("plan-editor.js", "[{ [name]: example(this.schema, value) }]".replace("[{", "{").replace("}]", "}"), "{}"))
def plan_steps_are_inserted(session):
    page = open_plan(session)
    page.get_by_role("button", name="Insert the step hostname").click()
    equal(json.loads(page.get_by_label("Plan (JSON)").input_value()), {"steps": [{"hostname": ""}]}, "the plan")


@check(("plan-editor.js", "await this.changes.compare({ ...parameters, preview: 1 })", "null"))
def plan_dry_run_shows_the_changes(session):
    page = open_plan(session)
    page.get_by_label("Plan (JSON)").fill('{"steps": [{"write": {"path": "/etc/motd-of-a-plan", "text": "hello\\n"}}]}')
    page.get_by_role("button", name="Show the dry run").click()
    wait(page, "plan-run")
    page.locator(".change-added", has_text="motd-of-a-plan").click(timeout=4000)
    page.locator("table.diff").wait_for()
    equal(page.locator("td.diff-line.added").all_inner_texts(), ["hello"], "the added lines")
    expect(not page.get_by_role("button", name="Apply", exact=True).is_visible() or session.api("images")["writable"], "a page that only reads offers to apply")


@check(("plan-editor.js", "el('strong', {}, raw(visible(name)))", "el('strong')"))
def plan_is_applied_after_a_confirmation(session):
    page = session.page()
    posted = []
    images = session.api("images")

    def deploy(route):
        posted.append(route.request.url)
        route.fulfill(json={"diskfs": {}, "dry_run": "dry_run" in route.request.url, "guests": [{"image": "x", "steps": []}]})
    page.route("**/api/images", lambda route: route.fulfill(json={**images, "writable": True}))
    page.route("**/api/deploy*", deploy)
    page.route("**/api/diff*", lambda route: route.fulfill(body='{"diskfs":{},\n"differences":[],\n"counts":{"added":0,"modified":0,"removed":0,"same":1}}'))
    open_plan(session, page=page)
    apply = page.get_by_role("button", name="Apply", exact=True)
    expect(apply.is_disabled(), "a plan can be applied without a dry run")
    page.get_by_role("button", name="Show the dry run").click()
    wait(page, "plan-run")
    apply.click()
    expect(images["images"][0]["name"] in page.get_by_role("dialog").inner_text(), "the confirmation does not name the image")
    equal(len(posted), 1, "requests before the confirmation")
    page.get_by_role("button", name="Apply the plan").click()
    page.locator(".plan-result h3", has_text="What the plan changed").wait_for()
    expect("dry_run" not in posted[1], posted[1])
