//! More reports about mounts.

use super::{Case, Trial};

pub const MOUNTS: &[Case] = &[
    Case {
        reports: &["rclone/rclone#7270", "nextcloud/desktop#10087"],
        tried: "mount with `--mode encode`: a program that lists what it has written, and deletes what it does not know",
        trial: Trial::Operate(
            "what_a_client_writes_is_what_it_lists_and_the_source_has_what_is_valid",
            "the names that it wrote",
        ),
        right: "the names that it wrote",
        then: Some("other names; rsync removed the file in each run"),
    },
    Case {
        reports: &["kubernetes/kubernetes#66567"],
        tried: "the server is told to end while a container has a copy of the mount",
        trial: Trial::Operate(
            "a_mount_of_which_a_container_has_a_copy_is_served_until_the_copy_is_gone",
            "says who has it, and ends with the copy",
        ),
        right: "says who has it, and ends with the copy",
        then: Some("did not say why it stays"),
    },
    Case {
        reports: &["made here"],
        tried: "mount: `RWF_NOAPPEND`, `RWF_DONTCACHE`, IOPOLL, swap files and fanotify for names, which FUSE does not have",
        trial: Trial::Operate(
            "what_fuse_does_not_support_is_done_in_another_way",
            "another way is in the page",
        ),
        right: "another way is in the page",
        then: Some("not in the page"),
    },
    Case {
        reports: &["made here"],
        tried: "mount: a write through a map, then `utimensat`, then close",
        trial: Trial::Mount("a_time_that_is_set_after_a_write_through_memory_stays"),
        right: "as in a plain directory",
        then: Some("the time of the close where contents go through the server"),
    },
    Case {
        reports: &["containers/fuse-overlayfs#80"],
        tried: "mount: locks of many processes",
        trial: Trial::Mount("a_lock_excludes_other_processes_until_it_is_released"),
        right: "as in a plain directory",
        then: None,
    },
    Case {
        reports: &["trapexit/mergerfs#468"],
        tried: "mount: a directory is listed while entries come and go",
        trial: Trial::Operate(
            "a_directory_that_keeps_changing_is_listed_correctly",
            "entries that stay, once each",
        ),
        right: "entries that stay, once each",
        then: None,
    },
    Case {
        reports: &["macfuse/macfuse#1112"],
        tried: "mount: a file without a name is truncated, written and asked for its attributes",
        trial: Trial::Mount("a_file_without_a_name_is_used_as_in_a_plain_directory"),
        right: "as in a plain directory",
        then: None,
    },
    Case {
        reports: &["cloud-hypervisor/fuse-backend-rs#111", "trapexit/mergerfs#1487"],
        tried: "mount: random operations of several descriptors",
        trial: Trial::Mount("random_operations_do_the_same_as_on_a_plain_directory"),
        right: "as in a plain directory",
        then: None,
    },
    Case {
        reports: &["juicedata/juicefs#4239"],
        tried: "mount: times before 1970, after 2446, and of nanoseconds",
        trial: Trial::Mount("extreme_times_are_stored_as_in_a_plain_directory"),
        right: "as in a plain directory",
        then: None,
    },
    Case {
        reports: &["macfuse/macfuse#293"],
        tried: "mount: extended attributes",
        trial: Trial::Mount("extended_attributes_work_as_in_a_plain_directory"),
        right: "as in a plain directory",
        then: None,
    },
    Case {
        reports: &["matchlock#81"],
        tried: "mount: an open file is replaced",
        trial: Trial::Mount("an_open_file_keeps_its_content_after_it_is_replaced"),
        right: "as in a plain directory",
        then: None,
    },
    Case {
        reports: &["libfuse/libfuse#41"],
        tried: "the server is killed, and the tree mounted again",
        trial: Trial::Operate(
            "a_dead_mount_is_replaced_by_the_next_mount",
            "the new mount replaces the dead one",
        ),
        right: "the new mount replaces the dead one",
        then: None,
    },
    Case {
        reports: &["made here"],
        tried: "mount with `--survive`: the server is killed while clients work",
        trial: Trial::Operate("clients_wait_and_no_call_fails_or_is_made_twice", "no call fails"),
        right: "no call fails",
        then: None,
    },
    Case {
        reports: &["made here"],
        tried: "mount: the owner of a FIFO or a socket with set-id bits changes",
        trial: Trial::Operate(
            "a_change_of_owner_clears_the_set_id_bits_of_files_of_every_type",
            "the bits are cleared",
        ),
        right: "the bits are cleared",
        then: Some("the bits stayed"),
    },
    Case {
        reports: &["gsd-build/gsd-2#3396", "trapexit/mergerfs#976"],
        tried: "mount: SQLite with four writers and mapped memory, in every mode of its journal",
        trial: Trial::Mount("a_database_with_four_writers_is_whole_with_every_kind_of_journal"),
        right: "as in a plain directory",
        then: None,
    },
    Case {
        reports: &["rfjakob/gocryptfs#641", "juicedata/juicefs#1989"],
        tried: "mount: an overlay with all its layers on it",
        trial: Trial::Mount("an_overlay_with_its_layers_on_the_mount_is_as_one_in_a_plain_directory"),
        right: "as in a plain directory",
        then: None,
    },
    Case {
        reports: &["kahing/catfs#15"],
        tried: "mount: a loop device of a file on it, with ext4",
        trial: Trial::Operate("a_file_system_in_a_file_on_the_mount_has_no_errors_after_use", "no errors"),
        right: "no errors",
        then: None,
    },
    Case {
        reports: &["systemd/systemd#40574"],
        tried: "mount: a control group with clients is frozen while the server runs",
        trial: Trial::Operate(
            "clients_that_wait_for_the_server_can_be_frozen_and_go_on_afterwards",
            "frozen, five times of five",
        ),
        right: "frozen, five times of five",
        then: None,
    },
];
