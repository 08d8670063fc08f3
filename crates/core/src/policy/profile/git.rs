//! git repositories.
//!
//! The profile `windows` has what a checkout on Windows refuses; `git,windows` checks both.

use super::base::{ONE_KIND, UTF8};
use super::windows::PATH;
use super::{Fold, Form, Profile, ProfileRule, Test};
use crate::policy::rule::RuleId::*;

/// git: names that it refuses, and names that collide in a checkout elsewhere.
pub static GIT: Profile = Profile {
    name: "git",
    title: "git repositories (collisions in a checkout elsewhere as warnings; see also windows)",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(
            Test::Plain(DotGitLookalike),
            "git path.c (is_ntfs_dotgit, is_ntfs_dot_generic), utf8.c (next_hfs_char), fsck.c",
        ),
        ProfileRule::warn(PATH, "git on Windows without core.longpaths"),
        ProfileRule::warn(
            Test::SameForm(Form::Nfc),
            "git clone on macOS: \"the following paths have collided\"",
        ),
        ProfileRule::warn(
            Test::SameFold { fold: Fold::Full, form: Some(Form::Nfc) },
            "git clone on macOS and Windows: \"the following paths have collided\"",
        ),
        ONE_KIND,
    ],
};
