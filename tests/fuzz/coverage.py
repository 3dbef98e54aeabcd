"""Prints the table of tests/fuzz/coverage from what llvm-cov has exported."""

import json
import os
import sys


def counts(path):
    """Returns the numbers of covered lines and of all lines, by source file."""
    with open(path, encoding="utf-8") as file:
        files = json.load(file)["data"][0]["files"]
    here = os.getcwd() + "/"
    lines = {file["filename"].removeprefix(here): file["summary"]["lines"] for file in files}
    return {name: (it["covered"], it["count"]) for name, it in lines.items()}


def parsers(path):
    """Yields the crate, the least percentage, and the paths that are not parsers."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split("#")[0].split()
            if words:
                # Errors are formatted for people.
                yield words[0], float(words[1]), [*words[2:], "error.rs"]


def percentage(files, crate, excluded):
    """Returns the covered percentage of the lines of a crate, and their number."""
    covered = total = 0
    for name, (of_file, all_lines) in files.items():
        below = name.removeprefix(crate + "/src/")
        is_excluded = any(below == it or below.startswith(it + "/") for it in excluded)
        if below != name and not is_excluded:
            covered, total = covered + of_file, total + all_lines
    return 100 * covered / max(total, 1), total


def main():
    seeds, mutated = counts(sys.argv[1]), counts(sys.argv[2])
    failed = False
    print(f"{'parser':20} {'lines':>6} {'seeds':>6} {'mutated':>8}")
    for crate, least, excluded in parsers(sys.argv[3]):
        of_seeds, total = percentage(seeds, crate, excluded)
        of_all, _ = percentage(mutated, crate, excluded)
        verdict = "" if of_seeds >= least else f"  less than {least:.0f} %"
        failed = failed or verdict != ""
        print(f"{crate:20} {total:6} {of_seeds:5.1f}% {of_all:7.1f}%{verdict}")
    sys.exit(1 if failed else 0)


main()
