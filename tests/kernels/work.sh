#!/bin/bash
# work.sh WORK DIR: does one piece of everyday work in DIR, and lists the result. Exits with 1 if something failed.
set -eu
lab=${lab:?}
cd -- "$2"
export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'

# Everything except times and sizes of directories, which always differ.
list() {
    find "$1" -type d -printf '%p %y %m %U %G\n' -o -printf '%p %y %m %U %G %s %n %l\n' | sort
}

same() { diff -r --no-dereference "$1" "$2" >&2; }

case $1 in
    tar) tar xf "$lab/tree.tar" && same "$lab/tree" tree && list tree ;;
    tar-links) tar xf "$lab/linked.tar" && same "$lab/linked" linked && list linked ;;
    cp) cp -a "$lab/tree" copied && same "$lab/tree" copied && list copied ;;
    cp-links) cp -a "$lab/linked" copied-links && same "$lab/linked" copied-links && list copied-links ;;
    # Within the directory: copies by the kernel, renames of directories, and changes in place.
    copies)
        cp -a tree again
        same tree again
        mv again/dir1 again/dir1-moved
        mv again/many/file-1 again/many/file-2
        mv again/many/file-[3-6]* again
        find again -type f -name 'file-6*' -delete
        for i in {30..50}; do echo more >>"again/file-$i"; done
        truncate -s 100 again/dir2/.hidden
        list again
        ;;
    git)
        git clone -q --no-hardlinks "$lab/repository" git
        cd git
        for i in {1..30}; do echo "$i" >"new-$i"; done
        git add -A
        git -c user.name=lab -c user.email=lab@example.org commit -qm new
        git mv new-2 moved
        git -c gc.auto=0 gc -q --prune=now
        git fsck --strict --no-progress
        git status --porcelain
        git rev-list --count HEAD
        ;;
    rm)
        rm -rf tree linked copied copied-links again git
        # A file that is removed while it is open: its directory must behave as on the file system itself.
        mkdir open
        exec 9>open/file
        rm open/file
        echo data >&9
        rmdir open && echo "rmdir with an open removed file: done" || echo "rmdir with an open removed file: refused"
        exec 9>&-
        rm -rf open
        rm -rf -- * .[!.]*
        ls -A
        ;;
esac
