# Sourced by scripts/test-kernels and by the guest: the checks, in the order in which they run.
# shellcheck shell=bash

# File systems below a mount: source-NAME tests a mount of each; suite-NAME runs the mount's own tests on those that have
# the features that the tests use (owners, modes, links); guard-NAME has the kernel check names; cost-guard measures what that costs,
# cost-mount and cost-rows what a mount costs, and cost-case what it costs to ignore case; target-NAME asks it which names it stores.
sources=(ext4 ext4-casefold xfs btrfs f2fs nfs vfat exfat ntfs3 ntfs ntfs-3g cifs)
suites=(ext4 xfs btrfs f2fs nfs)
targets=(tmpfs ext4 ext4-casefold xfs btrfs f2fs nfs vfat exfat ntfs3 ntfs-3g cifs ecryptfs)
guarded=(tmpfs ext4 ext4-casefold xfs btrfs f2fs vfat exfat ntfs3 overlay mount nfs nfs-client cifs life without-bpf)
all_checks=(export export-listing requests coherent "${targets[@]/#/target-}" "${guarded[@]/#/guard-}" cost-guard cost-mount cost-rows cost-case "${sources[@]/#/source-}" "${suites[@]/#/suite-}")
export all_checks

# machine_of CHECK: what is special about the machine that this check runs in: `plain`, `icount` or `without-bpf`.
machine_of() {
    case $1 in
        cost-*) echo icount ;;
        guard-without-bpf) echo without-bpf ;;
        *) echo plain ;;
    esac
}
