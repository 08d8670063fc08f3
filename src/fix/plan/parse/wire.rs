//! The lines as they are written. No key is let in that is not known: it may be meant to change something.

use std::borrow::Cow;

use serde::Deserialize;

/// What a line is about; whatever else is in it is read later.
#[derive(Deserialize)]
pub(super) struct Kind<'l> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'l, str>,
}

/// The version, which says whether the rest can be understood.
#[derive(Deserialize)]
pub(super) struct Version {
    pub(super) version: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header<'l> {
    #[serde(rename = "type")]
    _type: serde::de::IgnoredAny,
    #[serde(rename = "version")]
    _version: serde::de::IgnoredAny,
    #[serde(borrow)]
    pub(super) tool: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) created: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) roots: Vec<Root<'l>>,
    pub(super) profiles: Vec<String>,
    #[serde(borrow)]
    pub(super) policy: Option<Cow<'l, str>>,
    #[serde(borrow)]
    pub(super) encoding: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) normalize: Option<Cow<'l, str>>,
    #[serde(borrow)]
    pub(super) map: Option<Cow<'l, str>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Root<'l> {
    #[serde(borrow)]
    pub(super) path: Option<Cow<'l, str>>,
    #[serde(borrow)]
    pub(super) path_base64: Cow<'l, str>,
    pub(super) inode: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rename<'l> {
    #[serde(rename = "type")]
    _type: serde::de::IgnoredAny,
    pub(super) id: u64,
    #[serde(borrow)]
    pub(super) old: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) old_hex: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) new: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) confidence: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) reading: Cow<'l, str>,
    pub(super) reasons: Vec<String>,
    #[serde(borrow)]
    pub(super) evidence: Option<Cow<'l, str>>,
    #[serde(borrow, default)]
    pub(super) alternatives: Vec<Alternative<'l>>,
    #[serde(borrow)]
    pub(super) kind: Cow<'l, str>,
    pub(super) inode: u64,
    #[serde(borrow)]
    pub(super) ctime: Cow<'l, str>,
    #[serde(borrow)]
    directory: Option<Cow<'l, str>>,
    #[serde(borrow)]
    directory_base64: Cow<'l, str>,
    directory_inode: u64,
    #[serde(borrow)]
    directory_handle: Option<Cow<'l, str>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Alternative<'l> {
    #[serde(borrow)]
    pub(super) new: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) reading: Cow<'l, str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Retarget<'l> {
    #[serde(rename = "type")]
    _type: serde::de::IgnoredAny,
    #[serde(borrow)]
    pub(super) name: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) name_hex: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) old_target: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) old_target_base64: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) new_target: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) new_target_base64: Cow<'l, str>,
    pub(super) after: Vec<Part>,
    pub(super) inode: u64,
    #[serde(borrow)]
    pub(super) ctime: Cow<'l, str>,
    #[serde(borrow)]
    directory: Option<Cow<'l, str>>,
    #[serde(borrow)]
    directory_base64: Cow<'l, str>,
    directory_inode: u64,
    #[serde(borrow)]
    directory_handle: Option<Cow<'l, str>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    pub(super) id: u64,
    pub(super) component: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Skipped<'l> {
    #[serde(rename = "type")]
    _type: serde::de::IgnoredAny,
    #[serde(borrow)]
    pub(super) name: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) name_hex: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) why: Cow<'l, str>,
    pub(super) reasons: Vec<String>,
    #[serde(borrow)]
    directory: Option<Cow<'l, str>>,
    #[serde(borrow)]
    directory_base64: Cow<'l, str>,
    directory_inode: u64,
    #[serde(borrow)]
    directory_handle: Option<Cow<'l, str>>,
}

/// The keys that tell a directory. They stand among the others: serde's `flatten` would let unknown keys in.
pub(super) struct Directory<'l> {
    pub(super) path: Option<&'l str>,
    pub(super) base64: &'l str,
    pub(super) inode: u64,
    pub(super) handle: Option<&'l str>,
}

macro_rules! has_directory {
    ($($line:ident),*) => {
        $(impl $line<'_> {
            /// The directory that it tells.
            pub(super) fn directory(&self) -> Directory<'_> {
                Directory {
                    path: self.directory.as_deref(),
                    base64: &self.directory_base64,
                    inode: self.directory_inode,
                    handle: self.directory_handle.as_deref(),
                }
            }
        })*
    };
}

has_directory!(Rename, Retarget, Skipped);
