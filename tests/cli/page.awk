# page.awk: the commands of a manual page.
#
# In a literal display (.Bd -literal, .Dl) a line that begins with "$ " is a command, lines that begin with "> "
# go on with it, and what follows up to the next command is what it prints: standard output and error.  Without
# such lines nothing is expected, or rather anything goes.  Comments of the page say more:
#
#     .\" file: NAME       the next display is the file NAME
#     .\" numbers vary     in the output of the next display one number is as good as another
#
# -v mode=list: makes the files, and for each command n of the page DIRECTORY/n.command and, where something is
# expected, DIRECTORY/n.want and perhaps an empty DIRECTORY/n.vary; prints how many there are.
# -v mode=update: prints the page with DIRECTORY/n.got in the place of the outputs that it has, but for those where
# there is a DIRECTORY/n.same.

function plain(text) {
    gsub(/\\&/, "", text)
    gsub(/\\-/, "-", text)
    gsub(/\\\(aq/, "'", text)
    gsub(/\\\(dq/, "\"", text)
    gsub(/\\\(ti/, "~", text)
    gsub(/\\\(ha/, "^", text)
    gsub(/\\\(ga/, "`", text)
    gsub(/\\e/, "\\", text)
    return text
}

function escaped(text) {
    gsub(/\\/, "\\e", text)
    if (text ~ /^[.']/)
        text = "\\&" text
    return text
}

function name(suffix) {
    return directory "/" n "." suffix
}

function command(text) {
    n++
    shown = 0
    print text >name("command")
}

function output(text) {
    if (mode == "list") {
        print text >name("want")
        if (vary)
            printf "" >name("vary")
    } else if ((getline line <name("same")) >= 0) {
        print escaped(text)
    } else if (!shown++) {
        while ((getline line <name("got")) > 0)
            print escaped(line)
    }
}

function display(text, word) {
    if (file) {
        if (mode == "list")
            print text >file
    } else if (text ~ /^\$ /) {
        command(substr(text, 3))
    } else if (text ~ /^> / && n) {
        print substr(text, 3) >name("command")
    } else if (begun()) {
        output(text)
        return mode == "update"
    }
    return 0
}

function begun() {
    return n > before
}

/^\.\\" file: / { coming = $3 }
/^\.\\" numbers vary/ { vary = 1 }
/^\.Bd .*-literal/ || /^\.Bd .*-unfilled/ {
    inside = 1
    before = n
    file = coming
    coming = ""
    print_line()
    next
}
/^\.Ed/ && inside {
    inside = vary = 0
    file = ""
}
/^\.Dl \$ / { before = n; command(plain(substr($0, 7))) }
inside {
    if (!display(plain($0)))
        print_line()
    next
}
{ print_line() }

function print_line() {
    if (mode == "update")
        print
}

END {
    if (mode == "list")
        print n + 0
}
