//! Records as lines.
//!
//! Exact bytes are always there, in base64 and hex. What could act on a terminal or hide from a reader is written as `\u`
//! escapes, so that a plan can be looked at.

use std::fmt::Write as _;

use data_encoding::{BASE64, HEXLOWER};
use serde::Serialize;

use super::{Header, Record, Rename, Retarget, Skipped, VERSION};
use crate::name::display::{acts_or_hides, display};

#[derive(Serialize)]
struct HeaderLine<'r> {
    r#type: &'static str,
    version: u64,
    tool: &'r str,
    created: &'r str,
    roots: Vec<RootPart<'r>>,
    profiles: &'r [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'r str>,
    encoding: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    normalize: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    map: Option<&'r str>,
}

#[derive(Serialize)]
struct RootPart<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'r str>,
    path_base64: String,
    inode: u64,
}

#[derive(Serialize)]
struct RenameLine<'r> {
    r#type: &'static str,
    id: u64,
    old: String,
    new: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<&'r str>,
    confidence: &'static str,
    reading: &'r str,
    reasons: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<&'r str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    alternatives: Vec<AlternativePart<'r>>,
    kind: &'static str,
    old_hex: String,
    inode: u64,
    ctime: String,
    directory_base64: String,
    directory_inode: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory_handle: Option<String>,
}

#[derive(Serialize)]
struct AlternativePart<'r> {
    new: &'r str,
    reading: &'r str,
}

#[derive(Serialize)]
struct RetargetLine<'r> {
    r#type: &'static str,
    name: String,
    old_target: String,
    new_target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<&'r str>,
    after: Vec<PartPart>,
    name_hex: String,
    old_target_base64: String,
    new_target_base64: String,
    inode: u64,
    ctime: String,
    directory_base64: String,
    directory_inode: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory_handle: Option<String>,
}

#[derive(Serialize)]
struct PartPart {
    id: u64,
    component: usize,
}

#[derive(Serialize)]
struct SkippedLine<'r> {
    r#type: &'static str,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<&'r str>,
    why: &'r str,
    reasons: Vec<&'static str>,
    name_hex: String,
    directory_base64: String,
    directory_inode: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory_handle: Option<String>,
}

impl Header {
    /// The line, without a line feed.
    pub fn to_line(&self) -> String {
        let root = |root: &'_ super::Root| (BASE64.encode(&root.path), root.inode);
        let roots = self.roots.iter().map(|r| {
            let (path_base64, inode) = root(r);
            RootPart { path: text(&r.path), path_base64, inode }
        });
        line(&HeaderLine {
            r#type: "plan",
            version: VERSION,
            tool: &self.tool,
            created: &self.created,
            roots: roots.collect(),
            profiles: &self.profiles,
            policy: self.policy.as_deref(),
            encoding: &self.encoding,
            normalize: self.normalize.as_deref(),
            map: self.map.as_deref(),
        })
    }
}

impl Record {
    /// The line, without a line feed.
    pub fn to_line(&self) -> String {
        match self {
            Self::Rename(rename) => rename.to_line(),
            Self::Retarget(retarget) => retarget.to_line(),
            Self::Skipped(skipped) => skipped.to_line(),
        }
    }
}

impl Rename {
    /// The line, without a line feed.
    pub fn to_line(&self) -> String {
        let alternatives = self.alternatives.iter();
        line(&RenameLine {
            r#type: "rename",
            id: self.id,
            old: display(&self.old).to_string(),
            new: &self.new,
            directory: text(&self.directory.path),
            confidence: self.confidence.as_str(),
            reading: &self.reading,
            reasons: self.reasons.iter().map(|rule| rule.name()).collect(),
            evidence: self.evidence.as_deref(),
            alternatives: alternatives
                .map(|a| AlternativePart { new: &a.new, reading: &a.reading })
                .collect(),
            kind: self.identity.kind.as_str(),
            old_hex: HEXLOWER.encode(&self.old),
            inode: self.identity.inode,
            ctime: self.identity.ctime.to_string(),
            directory_base64: BASE64.encode(&self.directory.path),
            directory_inode: self.directory.inode,
            directory_handle: self.directory.handle.as_ref().map(super::Handle::to_string),
        })
    }
}

impl Retarget {
    /// The line, without a line feed.
    pub fn to_line(&self) -> String {
        let after = self.after.iter();
        line(&RetargetLine {
            r#type: "retarget",
            name: display(&self.name).to_string(),
            old_target: display(&self.old_target).to_string(),
            new_target: display(&self.new_target).to_string(),
            directory: text(&self.directory.path),
            after: after.map(|part| PartPart { id: part.rename, component: part.component }).collect(),
            name_hex: HEXLOWER.encode(&self.name),
            old_target_base64: BASE64.encode(&self.old_target),
            new_target_base64: BASE64.encode(&self.new_target),
            inode: self.identity.inode,
            ctime: self.identity.ctime.to_string(),
            directory_base64: BASE64.encode(&self.directory.path),
            directory_inode: self.directory.inode,
            directory_handle: self.directory.handle.as_ref().map(super::Handle::to_string),
        })
    }
}

impl Skipped {
    /// The line, without a line feed.
    pub fn to_line(&self) -> String {
        line(&SkippedLine {
            r#type: "skipped",
            name: display(&self.name).to_string(),
            directory: text(&self.directory.path),
            why: &self.why,
            reasons: self.reasons.iter().map(|rule| rule.name()).collect(),
            name_hex: HEXLOWER.encode(&self.name),
            directory_base64: BASE64.encode(&self.directory.path),
            directory_inode: self.directory.inode,
            directory_handle: self.directory.handle.as_ref().map(super::Handle::to_string),
        })
    }
}

impl std::fmt::Display for super::Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.kind, BASE64.encode(&self.bytes))
    }
}

fn text(path: &[u8]) -> Option<&str> {
    std::str::from_utf8(path).ok()
}

fn line(object: &impl Serialize) -> String {
    let line = serde_json::to_string(object).expect("its keys are strings and nothing in it fails");
    careful(line)
}

/// JSON text in which nothing acts on a terminal or hides. What is escaped stands inside of strings: the rest is ASCII.
fn careful(line: String) -> String {
    if line.bytes().all(|b| matches!(b, b' '..=b'~')) {
        return line;
    }
    let mut careful = String::with_capacity(line.len());
    for c in line.chars() {
        if acts_or_hides(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(careful, "\\u{unit:04x}");
            }
        } else {
            careful.push(c);
        }
    }
    careful
}
