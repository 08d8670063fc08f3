"""summary.py KERNEL.results...: prints the results of all kernels as Markdown tables: what passed, failed and was skipped, and why.
Exits with 1 if anything failed, or if there is no result at all."""

import re
import sys
from collections import Counter, defaultdict

counts = defaultdict(Counter)
reasons = {"FAIL": defaultdict(list), "SKIPPED": defaultdict(list)}
seconds = {}
kernels = [re.sub(r"-amd64\.results$", "", path) for path in sys.argv[1:]]
checks = []
for kernel, path in zip(kernels, sys.argv[1:]):
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "BEGIN" and rest not in checks:
                checks.append(rest)
            elif word == "END":
                check, took = rest.split()
                seconds[check, kernel] = took
            elif word in ("PASS", "FAIL", "SKIPPED"):
                check, who, rest = rest.split(" ", 2)
                if check not in checks:
                    checks.append(check)
                counts[check, kernel][word] += 1
                if word in reasons:
                    reasons[word][check, f"{who} {rest}"].append(kernel)


def cell(check, kernel):
    found = counts[check, kernel]
    parts = [f"{found[word]} {label}" for word, label in (("PASS", "passed"), ("FAIL", "**failed**"), ("SKIPPED", "skipped"))
             if found[word]]
    return ", ".join(parts) or "no result"


print("| check | " + " | ".join(kernels) + " |")
print("|---" * (len(kernels) + 1) + "|")
for check in checks:
    print(f"| {check} | " + " | ".join(cell(check, kernel) for kernel in kernels) + " |")
for word, title in (("FAIL", "Failed"), ("SKIPPED", "Skipped")):
    print(f"\n{title}:\n")
    for (check, what), where in reasons[word].items():
        print(f"- {check}, {what} ({', '.join(where)})")
    if not reasons[word]:
        print("- nothing")
total = Counter()
for found in counts.values():
    total.update(found)
print(f"\nTotal: {total['PASS']} passed, {total['FAIL']} failed, {total['SKIPPED']} skipped.")
missing = [f"{check} on {kernel}" for check in checks for kernel in kernels if not counts[check, kernel]]
if missing:
    print("No result: " + ", ".join(missing))
sys.exit(bool(total["FAIL"] or missing or not total["PASS"]))
