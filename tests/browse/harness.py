"""Runs checks of the page in Chromium. Each check names a way to break the page; with `--prove` it must fail then."""
import json
import os
import sys
import traceback
import urllib.parse
import urllib.request
from dataclasses import dataclass, field

from playwright.sync_api import sync_playwright

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--font-render-hinting=none"]
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")


class Failure(Exception):
    """A check that found something wrong."""


class Skipped(Exception):
    """A check that needs an image that the server does not have."""


def expect(condition, text):
    if not condition:
        raise Failure(text)


def equal(found, wanted, what):
    expect(found == wanted, f"{what}: found {str(found)[:300]!r}, expected {str(wanted)[:300]!r}")


@dataclass
class Check:
    name: str
    run: object
    breaks: list
    server: str = "url"


CHECKS = []


def check(*breaks, server="url"):
    """Registers a check. A break is `(file, old text, new text)`."""
    def register(function):
        CHECKS.append(Check(function.__name__, function, list(breaks), server))
        return function
    return register


@dataclass
class Session:
    """A browser context on one server, which records what must not happen."""
    browser: object
    base: str
    options: object
    breaks: list = field(default_factory=list)
    problems: list = field(default_factory=list)
    requests: list = field(default_factory=list)
    contexts: list = field(default_factory=list)
    pages: list = field(default_factory=list)
    notes: set = field(default_factory=set)

    def page(self, **options):
        context = self.browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "color_scheme": "light",
                                              "reduced_motion": "reduce", "locale": "en-US", "timezone_id": "UTC", **options})
        self.contexts.append(context)
        context.set_default_timeout(15000)
        for name in {name for name, _, _ in self.breaks}:
            target = self.base if name == "index.html" else f"{self.base}web/{name}"
            context.route(target, lambda route, _request, name=name: self._broken(route, name))
        page = context.new_page()
        self.pages.append(page)
        self.allowed_errors = []
        page.on("console", lambda message: self._console(message))
        page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", lambda dialog: (self.problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        return page

    def _console(self, message):
        # The browser itself reports the answer 404, which a guest without any log gets.
        if "/api/log" in message.location.get("url", "") and "404" in message.text:
            self.notes.add("the guest has no log")
        elif message.type in ("error", "warning") and not any(text in message.text for text in self.allowed_errors):
            self.problems.append(f"console {message.type}: {message.text}")

    def _broken(self, route, name):
        response = route.fetch()
        text = response.text()
        headers = dict(response.headers)
        for file, old, new in self.breaks:
            if file != name:
                continue
            if old == "header":
                headers.pop(new, None)
                continue
            if old not in text:
                raise SystemExit(f"{name} does not contain {old!r}: correct the break of the check")
            text = text.replace(old, new, 1)
        route.fulfill(response=response, headers=headers, body=text)

    def open(self, fragment="", page=None, **options):
        page = page or self.page(**options)
        page.goto("about:blank")
        page.goto(self.base + fragment)
        return page

    def api(self, command, **parameters):
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.base}api/{command}?{query}") as answer:
            return json.load(answer)

    def lines(self, command, **parameters):
        """A command whose answer is one object per line."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.base}api/{command}?{query}") as answer:
            return [json.loads(line) for line in answer.read().splitlines() if line.strip()]

    def image_with(self, test, what):
        """The index of the first image whose `info` passes the test."""
        for index, _ in enumerate(self.api("images")["images"]):
            try:
                if test(self.api("info", image=index)):
                    return index
            except OSError:
                pass
        raise Skipped(f"no image with {what}")

    def check_quiet(self):
        origin = urllib.parse.urlsplit(self.base)._replace(path="", query="", fragment="").geturl()
        for page in self.pages:
            if not page.is_closed():
                page.wait_for_timeout(20)
        foreign = [url for url in self.requests if not url.startswith((origin + "/", "blob:" + origin, "about:", "data:"))]
        expect(not foreign, f"requests to another origin: {foreign[:3]}")
        expect(not self.problems, f"{len(self.problems)} problems: {self.problems[:3]}")

    def close(self):
        for context in self.contexts:
            context.close()


def run_check(browser, options, item, is_broken):
    base = getattr(options, item.server)
    if base is None:
        return "skipped", f"no --{item.server.replace('_', '-')}"
    session = Session(browser, base if base.endswith("/") else base + "/", options, item.breaks if is_broken else [])
    try:
        note = item.run(session)
        session.check_quiet()
        return "ok", ", ".join(filter(None, [note, *session.notes]))
    except Skipped as reason:
        return "skipped", str(reason)
    except Failure as reason:
        return "failed", str(reason)
    except Exception as error:  # A timeout of Playwright says that an element did not appear.
        text = str(error).split("\n")[0]
        if options.verbose:
            traceback.print_exc()
        return "failed", f"{type(error).__name__}: {text}"
    finally:
        session.close()


def main(options):
    failed = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for item in CHECKS:
            if options.only and not any(text in item.name for text in options.only):
                continue
            result, note = run_check(browser, options, item, options.prove)
            if options.prove and result != "skipped":
                good = result == "failed"
                print(f"{'proven' if good else 'NOT PROVEN'}  {item.name}{': ' + note if note else ''}", flush=True)
            else:
                # A machine for CI has everything that the checks need.
                good = result == "ok" or result == "skipped" and os.environ.get("CI") != "true"
                print(f"{result}  {item.name}{': ' + note if note else ''}", flush=True)
            failed += not good
        browser.close()
    sys.exit(1 if failed else 0)
