//! Lines as records. All mistakes of a plan are found, each with its line.
//!
//! Nothing comes through that leads out of the roots or that no entry could be called. Whether the new names are free is
//! another question, which needs the directories: [`super::check`].

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use serde::Deserialize;

use super::{
    Alternative, Directory, Handle, Header, Identity, Kind, MAX_HEADER_BYTES, MAX_LINE_BYTES, Part, Plan,
    Record, Rename, Retarget, Root, Skipped, VERSION, components, name_objection, path_objection,
};
use crate::name::display::display;
use crate::policy::Confidence;
use crate::policy::rule::RuleId;

mod wire;

/// So many mistakes are told; a plan with more is no plan.
const MAX_MISTAKES: usize = 100;

/// What is wrong in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line, from 1; 0 for what is wrong with the whole.
    pub line: usize,
    /// A sentence about it, escaped for display.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

impl std::error::Error for Mistake {}

/// Reads a plan line by line. It keeps the directories and, for each rename, its entry; not the records.
#[derive(Debug, Default)]
pub struct Parser {
    header: Option<Header>,
    line: usize,
    directories: HashMap<Vec<u8>, Arc<Directory>>,
    /// The line of each id.
    ids: HashMap<u64, usize>,
    /// The line of each entry that is renamed, by its directory's path.
    renamed: HashMap<Vec<u8>, HashMap<Vec<u8>, usize>>,
    /// The line of each link that is to follow, likewise.
    retargeted: HashMap<Vec<u8>, HashMap<Vec<u8>, usize>>,
    mistakes: Vec<Mistake>,
    further: usize,
}

impl Plan {
    /// Reads a whole plan.
    ///
    /// # Errors
    /// All mistakes in it; no more than a hundred are told.
    pub fn parse(text: &[u8]) -> Result<Self, Vec<Mistake>> {
        let mut parser = Parser::default();
        let (mut renames, mut retargets, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
        for line in text.split(|&b| b == b'\n') {
            match parser.line(line) {
                Some(Record::Rename(rename)) => renames.push(rename),
                Some(Record::Retarget(retarget)) => retargets.push(retarget),
                Some(Record::Skipped(one)) => skipped.push(one),
                None => {}
            }
        }
        let header = parser.finish()?;
        Ok(Self { header, renames, retargets, skipped })
    }
}

impl Parser {
    /// Reads the next line, without its line feed. `None` for the first line, for one with nothing but white space, and for
    /// one with a mistake.
    pub fn line(&mut self, line: &[u8]) -> Option<Record> {
        self.line += 1;
        let room = if self.header.is_none() { MAX_HEADER_BYTES } else { MAX_LINE_BYTES };
        if line.len() > room {
            return self.object(format_args!("is longer than {room} bytes"));
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            return None;
        }
        let kind = match serde_json::from_slice::<wire::Kind<'_>>(line) {
            Ok(wire::Kind { kind }) => kind,
            Err(error) => return self.object(words(&error)),
        };
        match &*kind {
            "plan" => self.header(line),
            _ if self.header.is_none() => {
                self.header = Some(Header::default());
                self.object("the first line has to be the one of type `plan`")
            }
            "rename" => self.rename(line).map(Record::Rename),
            "retarget" => self.retarget(line).map(Record::Retarget),
            "skipped" => self.skipped(line).map(Record::Skipped),
            other => self.object(format_args!("unknown type {}", shown(other.as_bytes()))),
        }
    }

    /// Counts a line that was not read to its end because it is longer than [`MAX_LINE_BYTES`], or the first one longer than
    /// [`MAX_HEADER_BYTES`].
    pub fn too_long(&mut self) {
        self.line += 1;
        self.object::<()>("is longer than a line of a plan can be");
    }

    /// The header, once all lines were read.
    ///
    /// # Errors
    /// All mistakes.
    pub fn finish(mut self) -> Result<Header, Vec<Mistake>> {
        if self.header.is_none() && self.mistakes.is_empty() {
            self.line = 0;
            self.object::<()>("there is no line of type `plan`: this is no plan, or it is empty");
        }
        if self.further > 0 {
            let message = format!("and {} more mistakes", self.further);
            self.mistakes.push(Mistake { line: 0, message });
        }
        match self.header {
            Some(header) if self.mistakes.is_empty() => Ok(header),
            _ => Err(self.mistakes),
        }
    }

    fn object<T>(&mut self, message: impl fmt::Display) -> Option<T> {
        if self.mistakes.len() < MAX_MISTAKES {
            self.mistakes.push(Mistake { line: self.line, message: message.to_string() });
        } else {
            self.further += 1;
        }
        None
    }

    /// The value, or nothing and a mistake.
    fn told<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|message| self.object::<()>(message)).ok()
    }

    fn read<'l, T: Deserialize<'l>>(&mut self, line: &'l [u8]) -> Option<T> {
        let read = serde_json::from_slice(line).map_err(|error| words(&error));
        self.told(read)
    }

    fn header<T>(&mut self, line: &[u8]) -> Option<T> {
        if self.header.is_some() {
            return self.object("a second line of type `plan`");
        }
        // Whatever is wrong with it, the lines behind it are looked at too.
        self.header = Some(Header::default());
        let version = serde_json::from_slice::<wire::Version>(line).map_err(|error| words(&error));
        let wire::Version { version } = self.told(version)?;
        if version != VERSION {
            return self.object(format_args!(
                "version {version} of the format; this program knows version {VERSION} alone"
            ));
        }
        let wire: wire::Header<'_> = self.read(line)?;
        let mut roots = Vec::with_capacity(wire.roots.len());
        for root in wire.roots {
            let path = self.told(bytes("path", root.path.as_deref(), "path_base64", &root.path_base64))?;
            if let Some(why) = path_objection(&path) {
                return self.object(format_args!("the root {} {why}", display(&path)));
            }
            roots.push(Root { path, inode: root.inode });
        }
        if roots.is_empty() {
            return self.object("there is no root: nothing could be renamed");
        }
        self.header = Some(Header {
            tool: wire.tool.into_owned(),
            created: wire.created.into_owned(),
            roots,
            profiles: wire.profiles,
            policy: wire.policy.map(Into::into),
            encoding: wire.encoding.into_owned(),
            normalize: wire.normalize.map(Into::into),
            map: wire.map.map(Into::into),
        });
        None
    }

    fn rename(&mut self, line: &[u8]) -> Option<Rename> {
        let wire: wire::Rename<'_> = self.read(line)?;
        let old = self.told(name("old", &wire.old, "old_hex", &wire.old_hex))?;
        let directory = self.directory(&wire.directory(), &old)?;
        if let Some(why) = name_objection(wire.new.as_bytes()) {
            return self.object(format_args!("the new name {} {why}", shown(wire.new.as_bytes())));
        }
        if wire.new.as_bytes() == old {
            return self.object("the new name is the old one; delete the line to leave the name as it is");
        }
        let identity = self.told(identity(wire.inode, &wire.ctime, &wire.kind))?;
        let reasons = self.told(rules(&wire.reasons))?;
        let confidence = self.told(confidence(&wire.confidence))?;
        if wire.id == 0 {
            return self.object("ids count from 1");
        }
        if let Some(other) = self.ids.insert(wire.id, self.line) {
            return self.object(format_args!("the id {} is that of line {other} too", wire.id));
        }
        let of_directory = self.renamed.entry(directory.path.clone()).or_default();
        if let Some(other) = of_directory.insert(old.clone(), self.line) {
            return self.object(format_args!("line {other} renames {} too", shown(&old)));
        }
        Some(Rename {
            id: wire.id,
            directory,
            old,
            new: wire.new.into_owned(),
            identity,
            reasons,
            confidence,
            reading: wire.reading.into_owned(),
            evidence: wire.evidence.map(Into::into),
            alternatives: (wire.alternatives.into_iter())
                .map(|a| Alternative { new: a.new.into_owned(), reading: a.reading.into_owned() })
                .collect(),
        })
    }

    fn retarget(&mut self, line: &[u8]) -> Option<Retarget> {
        let wire: wire::Retarget<'_> = self.read(line)?;
        let link = self.told(name("name", &wire.name, "name_hex", &wire.name_hex))?;
        let directory = self.directory(&wire.directory(), &link)?;
        let identity = self.told(identity(wire.inode, &wire.ctime, Kind::Symlink.as_str()))?;
        let [old_target, new_target] = [
            ("old_target_base64", &wire.old_target_base64, &wire.old_target),
            ("new_target_base64", &wire.new_target_base64, &wire.new_target),
        ]
        .map(|(key, value, shown)| {
            let target = self.told(base64(key, value))?;
            // Only the bytes count, and whoever edits the text next to them would be surprised.
            let key = key.trim_end_matches("_base64");
            match display(&target).to_string() == **shown {
                true => Some(target),
                false => self.object(format_args!("`{key}` is not what `{key}_base64` says")),
            }
        });
        let (old_target, new_target) = (old_target?, new_target?);
        if old_target.contains(&0) || new_target.contains(&0) {
            return self.object("no link has a target with a NUL in it");
        }
        let count = components(&old_target).count();
        if let Some(part) = wire.after.iter().find(|part| part.component >= count) {
            return self
                .object(format_args!("the target has {count} components, and none at {}", part.component));
        }
        let of_directory = self.retargeted.entry(directory.path.clone()).or_default();
        if let Some(other) = of_directory.insert(link.clone(), self.line) {
            return self.object(format_args!("line {other} is about the link {} too", shown(&link)));
        }
        let after =
            wire.after.iter().map(|part| Part { rename: part.id, component: part.component }).collect();
        Some(Retarget { directory, name: link, identity, old_target, new_target, after })
    }

    fn skipped(&mut self, line: &[u8]) -> Option<Skipped> {
        let wire: wire::Skipped<'_> = self.read(line)?;
        let entry = self.told(name("name", &wire.name, "name_hex", &wire.name_hex))?;
        let directory = self.directory(&wire.directory(), &entry)?;
        let reasons = self.told(rules(&wire.reasons))?;
        Some(Skipped { directory, name: entry, reasons, why: wire.why.into_owned() })
    }

    /// The directory that a line tells of, in which `name` stands.
    fn directory(&mut self, wire: &wire::Directory<'_>, name: &[u8]) -> Option<Arc<Directory>> {
        let path = self.told(bytes("directory", wire.path, "directory_base64", wire.base64))?;
        let handle = wire.handle.map(handle).transpose();
        let directory = Directory { path, inode: wire.inode, handle: self.told(handle)? };
        if let Some(known) = self.directories.get(&directory.path) {
            let known = Arc::clone(known);
            return match *known == directory {
                true => self.covered(known, name),
                false => self.object(format_args!(
                    "the directory {} has another inode or handle here than in a line above",
                    display(&known.path)
                )),
            };
        }
        if let Some(why) = path_objection(&directory.path) {
            return self.object(format_args!("the directory {} {why}", display(&directory.path)));
        }
        let directory = self.covered(Arc::new(directory), name)?;
        self.directories.insert(directory.path.clone(), Arc::clone(&directory));
        Some(directory)
    }

    fn covered(&mut self, directory: Arc<Directory>, name: &[u8]) -> Option<Arc<Directory>> {
        let header = self.header.as_ref()?;
        // A header with a mistake has no roots, and its mistake is told already.
        if header.roots.is_empty() || header.covers(&directory.path, name) {
            return Some(directory);
        }
        self.object(format_args!("{} in {} is outside of the roots", shown(name), display(&directory.path)))
    }
}

fn shown(name: &[u8]) -> String {
    format!("`{}`", cut(name))
}

/// As it may be shown: of what is hostile the beginning is enough.
fn cut(text: &[u8]) -> String {
    const MAX_SHOWN: usize = 300;
    match text.get(..MAX_SHOWN) {
        Some(part) => format!("{}...", display(part)),
        None => display(text).to_string(),
    }
}

/// What serde_json has to say, without the line, which is always its first; its words may hold what the plan holds.
fn words(error: &serde_json::Error) -> String {
    let told = error.to_string();
    let told = told.split(" at line ").next().unwrap_or_default();
    let place = match error.column() {
        0 => String::new(),
        column => format!(" (column {column})"),
    };
    format!("{}{place}", cut(told.as_bytes()))
}

/// Bytes that are told twice: as they are, if they are UTF-8, and in base64, which counts.
fn bytes(key: &str, text: Option<&str>, key_base64: &str, value: &str) -> Result<Vec<u8>, String> {
    let bytes = base64(key_base64, value)?;
    match text {
        Some(text) if text.as_bytes() != bytes => Err(format!("`{key}` is not what `{key_base64}` says")),
        _ => Ok(bytes),
    }
}

fn base64(key: &str, value: &str) -> Result<Vec<u8>, String> {
    BASE64.decode(value.as_bytes()).map_err(|error| format!("`{key}` is no base64: {error}"))
}

/// A name that is told twice: as it is shown, and in hex, which counts.
fn name(key: &str, text: &str, key_hex: &str, hex: &str) -> Result<Vec<u8>, String> {
    let decoded = HEXLOWER_PERMISSIVE.decode(hex.as_bytes());
    let bytes = decoded.map_err(|error| format!("`{key_hex}` is no hexadecimal: {error}"))?;
    if let Some(why) = name_objection(&bytes) {
        return Err(format!("`{key_hex}`: a name that {why}"));
    }
    match display(&bytes).to_string() == text {
        true => Ok(bytes),
        false => Err(format!("`{key}` is not what `{key_hex}` says; `new` is what can be changed")),
    }
}

fn handle(text: &str) -> Result<Handle, String> {
    /// `MAX_HANDLE_SZ` of linux/exportfs.h.
    const MAX_BYTES: usize = 128;
    let read = || {
        let (kind, bytes) = text.split_once(':')?;
        let bytes = BASE64.decode(bytes.as_bytes()).ok().filter(|bytes| bytes.len() <= MAX_BYTES)?;
        Some(Handle { kind: kind.parse().ok()?, bytes })
    };
    read().ok_or_else(|| "`directory_handle` is no kernel file handle as TYPE:BASE64".to_owned())
}

fn identity(inode: u64, ctime: &str, kind: &str) -> Result<Identity, String> {
    let kind = Kind::ALL.into_iter().find(|known| known.as_str() == kind);
    let kind = kind.ok_or("`kind` is no type of an entry")?;
    let ctime = ctime.parse().map_err(|_| "`ctime` is no time as SECONDS.NNNNNNNNN")?;
    Ok(Identity { inode, ctime, kind })
}

fn rules(names: &[String]) -> Result<Vec<RuleId>, String> {
    let rule =
        |name: &'_ String| name.parse::<RuleId>().map_err(|unknown| cut(unknown.to_string().as_bytes()));
    names.iter().map(rule).collect()
}

fn confidence(word: &str) -> Result<Confidence, String> {
    let all = [Confidence::Certain, Confidence::Likely, Confidence::Guess];
    all.into_iter()
        .find(|confidence| confidence.as_str() == word)
        .ok_or_else(|| "`confidence` is one of certain, likely, guess".to_owned())
}
