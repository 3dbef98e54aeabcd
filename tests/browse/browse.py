#!/usr/bin/env python3
"""The browser tests of `diskfs browse`. They need running servers:

    make_images.py --diskfs diskfs IMAGES       makes the images
    diskfs browse --no-open overlay.qcow2 snapshots.qcow2 guest.raw ...   --url
    diskfs browse --no-open hostile.raw                                   --hostile-url
    diskfs browse --no-open large.raw                                     --large-url

Prints a line for each check, and exits with 1 after a failure. `--prove` breaks the page for each check, which must
then fail.
"""
import argparse

import checks_disk      # noqa: F401 (each module registers its checks)
import checks_files     # noqa: F401
import checks_space     # noqa: F401
import checks_guest     # noqa: F401
import checks_changes   # noqa: F401
import checks_page      # noqa: F401
import checks_hostile   # noqa: F401
import checks_large     # noqa: F401
import checks_pictures  # noqa: F401
import harness


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url")
    parser.add_argument("--hostile-url")
    parser.add_argument("--large-url")
    parser.add_argument("--screenshots-url", help="a server with the images of make_images.py: overlay.qcow2, snapshots.qcow2, guest.raw")
    parser.add_argument("--write-screenshots", action="store_true", help="keep the screenshots instead of comparing them")
    parser.add_argument("--only", action="append", help="run only checks whose name contains this; can be repeated")
    parser.add_argument("--prove", action="store_true", help="break the page for each check, and expect a failure")
    parser.add_argument("--ready-limit", type=float, default=200, help="milliseconds until the first view is ready; more on a slower machine")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


harness.main(parse())
