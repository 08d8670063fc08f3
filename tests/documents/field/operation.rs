//! The cases of operation of `docs/FIELD.md`.

use super::{Case, Trial};

/// All of them, in the order of the page.
pub const OPERATION: &[Case] = &[
    Case {
        reports: &["s3fs-fuse/s3fs-fuse#1468", "trapexit/mergerfs#687", "juicedata/juicefs#2840"],
        tried: "`mount -a` again, with the line mounted",
        trial: Trial::Operate("a_line_in_fstab_is_sufficient", "status 0, nothing done"),
        right: "status 0, nothing done",
        then: Some("status 32"),
    },
    Case {
        reports: &["trapexit/mergerfs#687"],
        tried: "options of other FUSE programs in fstab (`nonempty`, `big_writes`, `uid=`)",
        trial: Trial::Operate(
            "options_of_others_are_no_options_here_and_have_one_answer",
            "an error that says why it is not needed",
        ),
        right: "an error that says why it is not needed",
        then: Some("suggestions of unrelated options"),
    },
    Case {
        reports: &["rclone/rclone#5808"],
        tried: "options for fstab and systemd",
        trial: Trial::Operate("what_is_for_fstab_is_passed_over", "ignored"),
        right: "ignored",
        then: None,
    },
    Case {
        reports: &["awslabs/mountpoint-s3#44", "rclone/rclone#3246"],
        tried: "a mount that autofs or systemd unmounts when it is idle",
        trial: Trial::Operate(
            "a_server_whose_mount_is_gone_does_not_look_its_mount_point_up",
            "stays unmounted until somebody looks",
        ),
        right: "stays unmounted until somebody looks",
        then: Some("mounted again at once, by the server that ended"),
    },
    Case {
        reports: &["made here"],
        tried: "the lines of fstab in OPERATIONS.md, by systemd's generator",
        trial: Trial::Operate("systemd_generates_units_from_the_fstab_lines", "a unit for each"),
        right: "a unit for each",
        then: Some("the line over a disk of its own was dropped"),
    },
    Case {
        reports: &["made here"],
        tried: "`mount -o remount,ro` of a mount that is not in fstab",
        trial: Trial::Operate(
            "a_remount_changes_flags_and_explains_how_to_change_other_settings",
            "read-only",
        ),
        right: "read-only",
        then: Some("unrecognized subcommand, still writable"),
    },
    Case {
        reports: &["made here"],
        tried: "a mount of the bare directory below an unmounted disk",
        trial: Trial::Operate("a_bare_directory_below_an_unmounted_disk_is_refused", "refused"),
        right: "refused",
        then: Some("served"),
    },
    Case {
        reports: &["inotify-tools/inotify-tools#233", "modem-dev/hunk#1077"],
        tried: "watch: the watched path is removed and made again",
        trial: Trial::Operate("a_path_that_is_removed_and_made_again_is_watched_again", "watched again"),
        right: "watched again",
        then: Some("silent: no finding, no warning"),
    },
    Case {
        reports: &["rjeczalik/notify#109"],
        tried: "watch: more directories than the kernel watches for a user",
        trial: Trial::Operate("too_few_watches_are_reported_clearly_as_an_error", "one error"),
        right: "one error",
        then: None,
    },
    Case {
        reports: &["cajasmota/grafel#6921"],
        tried: "watch: the queue overflows",
        trial: Trial::Operate(
            "names_that_appeared_while_events_were_lost_are_found_and_reported_once",
            "all names, once",
        ),
        right: "all names, once",
        then: None,
    },
    Case {
        reports: &["emcrisostomo/fswatch#330"],
        tried: "watch: tens of thousands of names a second",
        trial: Trial::Operate(
            "of_tens_of_thousands_per_second_no_bad_name_is_missed_or_reported_twice",
            "all names, once",
        ),
        right: "all names, once",
        then: None,
    },
    Case {
        reports: &["coalesce-labs/catalyst#3695"],
        tried: "alerts for every reason of lost audit records",
        trial: Trial::Operate("the_alert_rules_fire_when_they_should_and_only_then", "an alert"),
        right: "an alert",
        then: Some("none for the limit of bytes, which is reached first"),
    },
    Case {
        reports: &["prometheus/node_exporter#713"],
        tried: "a mount with metrics in a file ends, or is killed",
        trial: Trial::Operate("the_alert_rules_fire_when_they_should_and_only_then", "an alert"),
        right: "an alert",
        then: Some("none for one that ended regularly"),
    },
    Case {
        reports: &["systemd/systemd#17617"],
        tried: "the mount helper fails",
        trial: Trial::Operate("the_helper_follows_the_protocol_of_mount", "a status for it, and no mount"),
        right: "a status for it, and no mount",
        then: None,
    },
    Case {
        reports: &["rozofs/rozofs#141", "rustfs/rustfs#8011"],
        tried: "a mount with open files when its program is upgraded",
        trial: Trial::Operate("an_upgrade_goes_on_with_open_files_and_under_load", "no error"),
        right: "no error",
        then: None,
    },
    Case {
        reports: &["awslabs/mountpoint-s3#44"],
        tried: "autofs: access, idle, access again",
        trial: Trial::Operate(
            "autofs_mounts_on_access_and_unmounts_when_idle_for_good",
            "mounted once each time",
        ),
        right: "mounted once each time",
        then: Some("mounted again when it was idle"),
    },
    Case {
        reports: &["trusteddomainproject/OpenDMARC#322"],
        tried: "a reload with a broken configuration",
        trial: Trial::Operate(
            "an_invalid_file_changes_nothing_and_the_error_is_reported_to_everyone",
            "the previous one stays, with an error",
        ),
        right: "the previous one stays, with an error",
        then: None,
    },
    Case {
        reports: &["MagnaCapax/PMSS#695"],
        tried: "a storm of the same refusal",
        trial: Trial::Operate(
            "a_storm_of_the_same_refusal_is_one_record_and_one_with_a_count",
            "one record, and one with the number",
        ),
        right: "one record, and one with the number",
        then: Some("a record each, up to the limit"),
    },
    Case {
        reports: &["sensu/sensu-build#104"],
        tried: "the audit log is rotated while names are refused",
        trial: Trial::Operate("a_rotated_audit_log_is_created_again", "no record lost"),
        right: "no record lost",
        then: None,
    },
    Case {
        reports: &["prometheus/node_exporter#946"],
        tried: "the textfile of a mount in the directory of node_exporter",
        trial: Trial::Operate(
            "the_file_for_node_exporter_is_updated_and_removed_with_the_mount",
            "read without errors",
        ),
        right: "read without errors",
        then: None,
    },
    Case {
        reports: &["made here"],
        tried: "a source that was removed, detached, covered, made read-only or filled",
        trial: Trial::Operate(
            "status_list_and_metrics_show_a_source_that_is_not_what_was_mounted",
            "shown in status, list, metrics",
        ),
        right: "shown in status, list, metrics",
        then: Some("shown nowhere"),
    },
    Case {
        reports: &["made here"],
        tried: "Samba: names that are not UTF-8 in listings",
        trial: Trial::Operate(
            "samba_lists_through_the_mount_what_it_leaves_out_of_the_plain_directory",
            "listed and removed through the mount",
        ),
        right: "listed and removed through the mount",
        then: None,
    },
    Case {
        reports: &["rclone/rclone#6098"],
        tried: "rclone copies entries with bad names from a mount",
        trial: Trial::Operate("programs_that_copy_keep_escaped_names", "copied"),
        right: "copied",
        then: Some("left out, with whole directories"),
    },
    Case {
        reports: &["made here"],
        tried: "sftp, FTP, DAV, rsync: a refused upload",
        trial: Trial::Operate("proftpd_says_the_message_of_the_errno", "an error, nothing left behind"),
        right: "an error, nothing left behind",
        then: None,
    },
    Case {
        reports: &["made here"],
        tried: "Java in the locale C and in UTF-8",
        trial: Trial::Operate("java_needs_a_utf8_locale_and_sees_the_errno", "as the page says"),
        right: "as the page says",
        then: None,
    },
    Case {
        reports: &["doismellburning/samoyed#654"],
        tried: "a configuration that the mount refuses: `config check`",
        trial: Trial::Operate("what_a_mount_refuses_is_no_valid_configuration", "an error"),
        right: "an error",
        then: Some("valid, and refused at the start"),
    },
    Case {
        reports: &["made here"],
        tried: "`why` with a policy of 10,000 names",
        trial: Trial::Operate("a_policy_too_long_for_an_attribute_is_known", "the rule"),
        right: "the rule",
        then: Some("breaks no rule"),
    },
    Case {
        reports: &["made here"],
        tried: "a watch log is rotated while the policy is broken",
        trial: Trial::Operate(
            "a_hangup_reopens_files_and_reloads_the_policy_each_if_the_other_fails",
            "reopened",
        ),
        right: "reopened",
        then: Some("written to the removed file"),
    },
];
