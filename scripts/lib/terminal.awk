# Makes a picture, in SVG, of lines as a terminal shows them: awk -v title=WHAT -f scripts/lib/terminal.awk LINES
#
# It is light or dark as the reader's system is. Each colour becomes a class. Only visible characters count for the width: no
# continuation bytes.
BEGIN { esc = sprintf("%c", 27) }
{
    gsub(/&/, "\\&amp;"); gsub(/</, "\\&lt;"); gsub(/>/, "\\&gt;")
    line = $0; text = ""; visible = ""; open = 0
    while ((at = index(line, esc "[")) > 0) {
        text = text substr(line, 1, at - 1); visible = visible substr(line, 1, at - 1)
        line = substr(line, at + 2); end = index(line, "m"); code = substr(line, 1, end - 1); line = substr(line, end + 1)
        if (code == "0" || code == "") while (open) { text = text "</tspan>"; open-- }
        else { gsub(/;/, " c", code); text = text "<tspan class=\"c" code "\">"; open++ }
    }
    text = text line; visible = visible line
    while (open) { text = text "</tspan>"; open-- }
    gsub(/&[a-z]+;/, "x", visible); gsub(/[\200-\277]/, "", visible)
    if (length(visible) > columns) columns = length(visible)
    lines[NR] = text
}
END {
    width = int(columns * 8.43 + 40); height = NR * 19 + 32
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n", width, height, width, height
    print "<title>" title "</title>"
    print "<style>"
    print "text { font: 14px ui-monospace, \"DejaVu Sans Mono\", Menlo, Consolas, monospace; fill: #e6e6e6; white-space: pre }"
    print "rect { fill: #1c2128 }"
    print ".c1 { font-weight: bold } .c2 { fill: #9a9a9a } .c31 { fill: #ff7b72 } .c32 { fill: #7ee787 }"
    print ".c33 { fill: #e3b341 } .c34 { fill: #79c0ff } .c35 { fill: #d2a8ff } .c36 { fill: #76e3ea }"
    print "@media (prefers-color-scheme: light) {"
    print "text { fill: #1f2328 } rect { fill: #f3f5f7 }"
    print ".c2 { fill: #656d76 } .c31 { fill: #c21f2b } .c32 { fill: #116329 }"
    print ".c33 { fill: #7d4e00 } .c34 { fill: #0550ae } .c35 { fill: #6e40c9 } .c36 { fill: #1b6d73 }"
    print "}"
    print "</style>"
    print "<rect width=\"100%\" height=\"100%\" rx=\"8\"/>"
    for (n = 1; n <= NR; n++) if (lines[n] != "") printf "<text x=\"20\" y=\"%d\" xml:space=\"preserve\">%s</text>\n", n * 19 + 12, lines[n]
    print "</svg>"
}
