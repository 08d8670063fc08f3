# Sourced by scripts/test-kernels and by the guest: the checks, in the order in which they run.
# shellcheck shell=bash

# File systems below a mount: source-NAME tests a mount of each; suite-NAME runs the mount's own tests on those that have
# the features that the tests use (owners, modes, links); guard-NAME has the kernel check names.
sources=(ext4 ext4-casefold xfs btrfs f2fs nfs vfat exfat ntfs3 ntfs ntfs-3g cifs)
suites=(ext4 xfs btrfs f2fs nfs)
guarded=(tmpfs ext4 ext4-casefold xfs btrfs f2fs vfat exfat ntfs3 overlay)
all_checks=(export "${guarded[@]/#/guard-}" "${sources[@]/#/source-}" "${suites[@]/#/suite-}")
export all_checks
