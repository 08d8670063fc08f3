"""The functions of xfstests' generic/556, which tests directories with casefold, over a mount that ignores case in all of them. The test as it is
runs on ext4, f2fs and tmpfs only; its functions are read from a checkout that XFSTESTS names."""
import os
import re

from mounts import run

# What the test's expected output has for a function; nothing for the others.
WANTED = {
    "symlink_with_inexact_name": "SCRATCH_MNT/symlink/ind1/TARGET\n",
    "xattrs_lookups": '# file: SCRATCH_MNT/xattrs/x\nuser.foo="bar"\n\n# file: SCRATCH_MNT/xattrs/x/f1\nuser.foo="bar"\n\n',
}
# Functions that do not apply, with the reason.
OTHERS = {
    "casefold_flag_basic": "FUSE has no such attribute of a directory",
    "casefold_flag_removal": "FUSE has no such attribute of a directory",
    "nesting_sensitive_insensitive_tree_simple": "the option is for the whole mount",
    "nesting_sensitive_insensitive_tree_complex": "the option is for the whole mount",
    "bad_casefold_lookup": "names that are not UTF-8 are refused",
    "file_rename": "it expects that case cannot be renamed",
    "strict_mode_invalid_filename": "names that are not UTF-8 are refused, with EILSEQ instead of EINVAL",
}
# What the test has from other files.
GIVEN = """
export LC_ALL=C.UTF-8
SETFATTR_PROG=setfattr GETFATTR_PROG=getfattr
_filter_scratch() { sed "s,$SCRATCH_MNT,SCRATCH_MNT,g"; }
_filter_touch() { cat; }
_casefold_check_exact_name() { find "$1" | grep -q "$2"; }
_casefold_set_attr() { :; }
_casefold_unset_attr() { :; }
_casefold_lsattr_dir() { :; }
_scratch_sync() { sync -f "$SCRATCH_MNT"; }
"""


def run_all(new_place, only, rows):
    """Runs each function, and prints a line for it. Returns whether one failed."""
    at = os.environ.get("XFSTESTS", "")
    if not at:
        print("mount: SKIPPED: generic/556 of xfstests: XFSTESTS names no checkout")
        return False
    with open(os.path.join(at, "tests/generic/556")) as file:
        text = file.read()
    # From the names of files to the last function.
    text = text[text.index("filename1="):text.index("# Run tests #")]
    failed = False
    for function in re.findall(r"^test_(\w+)\(\)", text, re.M):
        name = f"generic/556: {function.replace('_', ' ')}"
        if only not in name:
            continue
        if function in OTHERS:
            said = f"SKIPPED: {OTHERS[function]}"
        else:
            top = new_place("--normalize", "nfc", "--on-mismatch", "match", case="unicode")
            done = run("bash", "-c", GIVEN + text + f"\ntest_{function}", SCRATCH_MNT=top, cwd=top)
            output = done.stdout.decode(errors="backslashreplace")
            said = "PASS" if output == WANTED.get(function, "") else f"FAIL: {output!r}"
            failed |= said != "PASS"
        print(f"mount: {name}: {said}", flush=True)
        rows.setdefault(name, {})["mount"] = said.split(":")[0]
    return failed
