//! Input of attackers.

use super::{Case, Trial};

pub const HOSTILE: &[Case] = &[
    Case {
        reports: &["made here"],
        tried: "tar, a pax record whose value has a line feed, before `path`: `scan --archive`",
        trial: Trial::Operate(
            "what_extended_headers_say_of_a_member_is_checked_whatever_a_value_contains",
            "the path is checked",
        ),
        right: "the path is checked",
        then: Some("“clean”; later records were dropped"),
    },
    Case {
        reports: &["made here"],
        tried: "tar, a global pax header with `path`: `scan --archive`",
        trial: Trial::Operate(
            "what_extended_headers_say_of_a_member_is_checked_whatever_a_value_contains",
            "the path is checked",
        ),
        right: "the path is checked",
        then: Some("“clean”; ignored"),
    },
    Case {
        reports: &["made here"],
        tried: "tar, a size that programs read differently: `scan --archive`",
        trial: Trial::Operate(
            "a_tar_that_programs_read_differently_is_reported_and_all_its_members_are_checked",
            "damaged, all members checked",
        ),
        right: "damaged, all members checked",
        then: Some("“clean”; members were hidden"),
    },
    Case {
        reports: &["made here"],
        tried: "gzip of 2.6 MB that unpacks to 245 GB: `scan --archive`",
        trial: Trial::Operate(
            "what_an_archive_unpacks_to_has_a_limit_that_can_be_raised",
            "a limit, reported",
        ),
        right: "a limit, reported",
        then: Some("read to its end"),
    },
    Case {
        reports: &["made here"],
        tried: "git, a tree that has the next one twice, 41 levels deep: `scan --git-all`",
        trial: Trial::Operate(
            "a_tree_that_contains_itself_twice_many_levels_deep_takes_little_memory",
            "ends with status 2 in little memory",
        ),
        right: "ends with status 2 in little memory",
        then: Some("no end, 2.4 GB"),
    },
    Case {
        reports: &["made here"],
        tried: "the same with names of 1,500 bytes",
        trial: Trial::Operate(
            "long_paths_of_a_tree_that_contains_itself_are_bounded_and_reported",
            "ends with status 2",
        ),
        right: "ends with status 2",
        then: Some("no end"),
    },
    Case {
        reports: &["made here"],
        tried: "a name of 65,000 bytes FF in a list, in JSON",
        trial: Trial::Operate(
            "a_name_with_very_many_violations_has_some_listed_and_all_counted",
            "less than 2 MB, all violations counted",
        ),
        right: "less than 2 MB, all violations counted",
        then: Some("12 MB, an object for each byte"),
    },
    Case {
        reports: &["made here"],
        tried: "a path of 65,536 bytes and 1,024 components in a list, in CSV",
        trial: Trial::Operate(
            "what_a_path_of_a_list_makes_a_report_write_is_bounded",
            "less than 30 MB, or reported",
        ),
        right: "less than 30 MB, or reported",
        then: Some("1,538 MB"),
    },
    Case {
        reports: &["made here"],
        tried: "Parquet, mutants in every compression",
        trial: Trial::Operate("mutants_in_every_compression_are_errors_and_nothing_panics", "errors"),
        right: "errors",
        then: Some("one with a backtrace before it"),
    },
    Case {
        reports: &["made here"],
        tried: "CSV with two columns of the header that is asked for",
        trial: Trial::Operate("a_column_is_found_by_its_number_or_its_header", "an error"),
        right: "an error",
        then: Some("the first was read, and others read the last"),
    },
];
