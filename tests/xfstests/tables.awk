# Makes the tables of RESULTS.md, and judges results: -v report=NAME, and the files requirements.tsv,
# reasons.tsv and results.

/^#/ || $1 == "test" || $1 == "pattern" { next }

FILENAME == "requirements.tsv" {
    patterns[++requirements] = $1
    requirement[requirements] = $2
    why[requirements] = $3
    next
}

FILENAME == "reasons.tsv" {
    reason[$1] = $2
    next
}

{
    number = $1
    if (!(number in seen)) {
        seen[number] = 1
        order[++tests] = number
    }
    result[number, $2] = $3
    e2fsck[number, $2] = $5
    note[number, $2] = $6
}

# Returns the first requirement whose pattern the suite's words match, or 0.
function required(words, i) {
    for (i = 1; i <= requirements; i++)
        if (words ~ patterns[i])
            return i
    return 0
}

function failed(number, filesystem) {
    return result[number, filesystem] ~ /^(fail|timeout)$/
}

function count(filesystem, pattern, i, n) {
    for (i = 1; i <= tests; i++)
        if (result[order[i], filesystem] ~ pattern)
            n++
    return n + 0
}

function damaged(filesystem, i, n) {
    for (i = 1; i <= tests; i++)
        if ((order[i], filesystem) in e2fsck && e2fsck[order[i], filesystem] !~ /^(clean|-)$/)
            n++
    return n + 0
}

function total(words, pattern) {
    printf "| %s | %d | %d |\n", words, count("diskfs", pattern), count("fuse2fs", pattern)
}

function totals() {
    print "| | diskfs | fuse2fs |"
    print "|---|---|---|"
    total("tests", ".")
    total("passed", "^pass$")
    total("failed", "^fail$")
    total("not ended by the deadline", "^timeout$")
    total("not applicable", "^notrun$")
    printf "| images with errors, by e2fsck | %d | %d |\n", damaged("diskfs"), damaged("fuse2fs")
}

function failures(i, number) {
    print "| test | fuse2fs | reason |"
    print "|---|---|---|"
    for (i = 1; i <= tests; i++) {
        number = order[i]
        if (failed(number, "diskfs"))
            printf "| %s | %s | %s |\n", number, told(result[number, "fuse2fs"]), reason[number]
    }
}

function told(word) {
    if (word == "pass") return "passes"
    if (word == "fail") return "fails"
    if (word == "timeout") return "does not end"
    if (word == "notrun") return "not applicable"
    return "not run"
}

# Prints numbers as lines of at most 100 columns.
function wrapped(numbers, words, n, i, line) {
    n = split(numbers, words, " ")
    for (i = 1; i <= n; i++) {
        if (length(line) + length(words[i]) > 96) {
            print line
            line = ""
        }
        line = line (line == "" ? "" : " ") words[i] (i < n ? "," : "")
    }
    print line
}

# Prints the tests that diskfs passes and fuse2fs does not.
function only_diskfs(i, number, failing, absent) {
    for (i = 1; i <= tests; i++) {
        number = order[i]
        if (result[number, "diskfs"] == "pass" && failed(number, "fuse2fs"))
            failing = failing " " number
        if (result[number, "diskfs"] == "pass" && result[number, "fuse2fs"] == "notrun")
            absent = absent " " number
    }
    print "\nfuse2fs fails, or does not end:\n"
    wrapped(failing)
    print "\nfuse2fs lacks what the test needs:\n"
    wrapped(absent)
    print ""
}

function not_applicable(i, k, number, here, there) {
    for (i = 1; i <= tests; i++) {
        number = order[i]
        if (result[number, "diskfs"] == "notrun")
            here[required(note[number, "diskfs"])]++
        if (result[number, "fuse2fs"] == "notrun")
            there[required(note[number, "fuse2fs"])]++
    }
    print "| diskfs | fuse2fs | requirement | why |"
    print "|---|---|---|---|"
    for (k = 1; k <= requirements; k++)
        if (here[k] + there[k] > 0)
            printf "| %d | %d | %s | %s |\n", here[k], there[k], requirement[k], why[k]
    if (here[0] + there[0] > 0)
        printf "| %d | %d | others | |\n", here[0], there[0]
}

function problem(words) {
    problems++
    print words
}

function judge(i, number) {
    for (i = 1; i <= tests; i++) {
        number = order[i]
        if (!((number, "diskfs") in result))
            continue
        if (failed(number, "diskfs") && !(number in reason))
            problem(number ": failed without a reason in reasons.tsv: " note[number, "diskfs"])
        if (result[number, "diskfs"] == "notrun" && !required(note[number, "diskfs"]))
            problem(number ": not run, for a cause that requirements.tsv lacks: " note[number, "diskfs"])
        if (e2fsck[number, "diskfs"] !~ /^(clean|-)$/)
            problem(number ": the image after the test: e2fsck: " e2fsck[number, "diskfs"])
        if (result[number, "diskfs"] == "pass" && number in reason)
            print number ": passes; remove the reason for its failure from reasons.tsv"
    }
    printf "xfstests: diskfs: %d passed, %d failed, %d not applicable, %d images with errors", count("diskfs", "^pass$"),
        count("diskfs", "^(fail|timeout)$"), count("diskfs", "^notrun$"), damaged("diskfs")
    if (count("fuse2fs", "."))
        printf "; fuse2fs: %d passed, %d failed, %d not applicable, %d images with errors", count("fuse2fs", "^pass$"),
            count("fuse2fs", "^(fail|timeout)$"), count("fuse2fs", "^notrun$"), damaged("fuse2fs")
    print ""
    exit problems > 0
}

END {
    if (report == "judge") judge()
    else if (report == "totals") totals()
    else if (report == "failures") failures()
    else if (report == "only diskfs") only_diskfs()
    else if (report == "not applicable") not_applicable()
    else { print "unknown table " report > "/dev/stderr"; exit 2 }
}
