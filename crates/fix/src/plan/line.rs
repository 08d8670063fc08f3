//! Lines of a plan, as they are written and read. Unknown keys are errors: an editor may have meant them to change something.
//!
//! The exact bytes are always there, in base64 and hex. The text next to them is for people, and is only compared.

use std::borrow::Cow;
use std::sync::Arc;

use data_encoding::BASE64;
use namegate_core::name::display::display;
use namegate_core::policy::Confidence;
use namegate_core::policy::rule::RuleId;
use namegate_files::json::{Base64, Hex, to_line};
use serde::{Deserialize, Serialize};

use super::{Alternative, FileHandle, FileKind, InodeTime, PlanDirectory, PlanHeader, PlanRoot};
use super::{Rename, Retarget, SeenBirth, SeenEntry, Skipped, TargetPart};

/// The `type` of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LineType {
    Plan,
    Rename,
    /// A new target for a symbolic link.
    Retarget,
    /// An entry without a new name.
    Skipped,
}

/// The keys that determine how the rest of a line is parsed.
#[derive(Deserialize)]
pub(super) struct LineHead {
    pub(super) r#type: LineType,
    pub(super) version: Option<u64>,
}

/// The beginning of the line of a rename, as [`Rename::to_line`] writes it. Such a line needs not be parsed for its head, too.
pub(super) const RENAME_BEGIN: &[u8] = br#"{"type":"rename","#;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RootLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    path_base64: Base64,
    inode: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RenameLine<'l> {
    r#type: LineType,
    pub(super) id: u64,
    #[serde(borrow)]
    pub(super) old: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) new: Cow<'l, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory: Option<Cow<'l, str>>,
    pub(super) confidence: Confidence,
    #[serde(borrow)]
    pub(super) reading: Cow<'l, str>,
    pub(super) reasons: Vec<Cow<'l, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) evidence: Option<Cow<'l, str>>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub(super) alternatives: Cow<'l, [Alternative]>,
    kind: FileKind,
    pub(super) old_hex: Hex<Cow<'l, [u8]>>,
    inode: u64,
    ctime: InodeTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<InodeTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mtime: Option<InodeTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// In base64. It is decoded where it differs from that of the line before.
    #[serde(borrow)]
    directory_base64: Cow<'l, str>,
    directory_inode: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory_handle: Option<Cow<'l, FileHandle>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetargetLine<'l> {
    r#type: LineType,
    #[serde(borrow)]
    pub(super) name: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) old_target: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) new_target: Cow<'l, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory: Option<Cow<'l, str>>,
    pub(super) after: Cow<'l, [TargetPart]>,
    pub(super) name_hex: Hex<Cow<'l, [u8]>>,
    pub(super) old_target_base64: Base64<Cow<'l, [u8]>>,
    pub(super) new_target_base64: Base64<Cow<'l, [u8]>>,
    inode: u64,
    ctime: InodeTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<InodeTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mtime: Option<InodeTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// In base64. It is decoded where it differs from that of the line before.
    #[serde(borrow)]
    directory_base64: Cow<'l, str>,
    directory_inode: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory_handle: Option<Cow<'l, FileHandle>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SkippedLine<'l> {
    r#type: LineType,
    #[serde(borrow)]
    pub(super) name: Cow<'l, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory: Option<Cow<'l, str>>,
    #[serde(borrow)]
    pub(super) why: Cow<'l, str>,
    pub(super) reasons: Vec<Cow<'l, str>>,
    pub(super) name_hex: Hex<Cow<'l, [u8]>>,
    /// In base64. It is decoded where it differs from that of the line before.
    #[serde(borrow)]
    directory_base64: Cow<'l, str>,
    directory_inode: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory_handle: Option<Cow<'l, FileHandle>>,
}

/// The directory of the line before: most lines have the same one.
#[derive(Default)]
pub(super) struct KnownDirectory {
    text: String,
    path: Option<String>,
    directory: Option<Arc<PlanDirectory>>,
}

/// The directory keys of a line. They stand among the others: serde's `flatten` would accept unknown keys.
pub(super) trait InDirectory {
    /// The directory; the error is a sentence about the keys.
    fn directory(&self, known: &mut KnownDirectory) -> Result<Arc<PlanDirectory>, String>;
}

macro_rules! in_directory {
    ($($line:ident),*) => {
        $(impl InDirectory for $line<'_> {
            fn directory(&self, known: &mut KnownDirectory) -> Result<Arc<PlanDirectory>, String> {
                let handle = self.directory_handle.as_deref();
                known.find(&self.directory_base64, self.directory.as_deref(), self.directory_inode, handle)
            }
        })*
    };
}

in_directory!(RenameLine, RetargetLine, SkippedLine);

macro_rules! entry {
    ($line:ident, $kind:expr) => {{
        let birth = match ($line.born, $line.mtime, $line.size) {
            (Some(born), Some(mtime), Some(size)) => Some(SeenBirth { born, mtime, size }),
            (None, None, None) => None,
            _ => return Err("`born`, `mtime` and `size` belong together".to_owned()),
        };
        Ok(SeenEntry { inode: $line.inode, ctime: $line.ctime, kind: $kind, birth })
    }};
}

impl RenameLine<'_> {
    /// The entry; the error is a sentence about the keys.
    pub(super) fn entry(&self) -> Result<SeenEntry, String> {
        entry!(self, self.kind)
    }
}

impl RetargetLine<'_> {
    /// The link; the error is a sentence about the keys.
    pub(super) fn entry(&self) -> Result<SeenEntry, String> {
        entry!(self, FileKind::Symlink)
    }
}

impl KnownDirectory {
    fn find(
        &mut self,
        base64: &str,
        path: Option<&str>,
        inode: u64,
        handle: Option<&FileHandle>,
    ) -> Result<Arc<PlanDirectory>, String> {
        let known = self.directory.as_ref().filter(|known| {
            (self.text.as_str(), self.path.as_deref()) == (base64, path)
                && (known.inode, known.handle.as_ref()) == (inode, handle)
        });
        if let Some(known) = known {
            return Ok(Arc::clone(known));
        }
        let exact =
            BASE64.decode(base64.as_bytes()).map_err(|error| format!("`{base64}` is not base64: {error}"))?;
        compare("directory", path, "directory_base64", &exact)?;
        let directory = Arc::new(PlanDirectory { path: exact, inode, handle: handle.cloned() });
        *self = Self {
            text: base64.to_owned(),
            path: path.map(str::to_owned),
            directory: Some(Arc::clone(&directory)),
        };
        Ok(directory)
    }
}

/// Compares a path with the text next to it, if there is one.
fn compare(key: &str, text: Option<&str>, key_exact: &str, exact: &[u8]) -> Result<(), String> {
    match text {
        Some(text) if text.as_bytes() != exact => {
            Err(format!("`{key}` differs from `{key_exact}`; only `new` can be edited"))
        }
        _ => Ok(()),
    }
}

impl TryFrom<RootLine> for PlanRoot {
    type Error = String;

    fn try_from(RootLine { path, path_base64: Base64(exact), inode }: RootLine) -> Result<Self, String> {
        compare("path", path.as_deref(), "path_base64", &exact)?;
        Ok(Self { path: exact, inode })
    }
}

impl From<PlanRoot> for RootLine {
    fn from(PlanRoot { path, inode }: PlanRoot) -> Self {
        Self { path: text(&path).map(str::to_owned), path_base64: Base64(path), inode }
    }
}

fn text(path: &[u8]) -> Option<&str> {
    std::str::from_utf8(path).ok()
}

fn shown(bytes: &[u8]) -> Cow<'static, str> {
    display(bytes).to_string().into()
}

fn names(rules: &[RuleId]) -> Vec<Cow<'static, str>> {
    rules.iter().map(|rule| rule.name().into()).collect()
}

impl PlanHeader {
    /// The line, without a line feed.
    pub fn to_line(&self) -> String {
        to_line(self)
    }
}

impl Rename {
    /// The line, without a line feed.
    pub fn to_line(&self) -> String {
        to_line(&RenameLine {
            r#type: LineType::Rename,
            id: self.id,
            old: shown(&self.old),
            new: (&*self.new).into(),
            directory: text(&self.directory.path).map(Cow::from),
            confidence: self.confidence,
            reading: (&*self.reading).into(),
            reasons: names(&self.reasons),
            evidence: self.evidence.as_deref().map(Cow::from),
            alternatives: (&*self.alternatives).into(),
            kind: self.entry.kind,
            old_hex: Hex((&*self.old).into()),
            inode: self.entry.inode,
            ctime: self.entry.ctime,
            born: self.entry.birth.map(|birth| birth.born),
            mtime: self.entry.birth.map(|birth| birth.mtime),
            size: self.entry.birth.map(|birth| birth.size),
            directory_base64: BASE64.encode(&self.directory.path).into(),
            directory_inode: self.directory.inode,
            directory_handle: self.directory.handle.as_ref().map(Cow::Borrowed),
        })
    }
}

impl Retarget {
    /// The line, without a line feed.
    pub fn to_line(&self) -> String {
        to_line(&RetargetLine {
            r#type: LineType::Retarget,
            name: shown(&self.name),
            old_target: shown(&self.old_target),
            new_target: shown(&self.new_target),
            directory: text(&self.directory.path).map(Cow::from),
            after: (&*self.after).into(),
            name_hex: Hex((&*self.name).into()),
            old_target_base64: Base64((&*self.old_target).into()),
            new_target_base64: Base64((&*self.new_target).into()),
            inode: self.entry.inode,
            ctime: self.entry.ctime,
            born: self.entry.birth.map(|birth| birth.born),
            mtime: self.entry.birth.map(|birth| birth.mtime),
            size: self.entry.birth.map(|birth| birth.size),
            directory_base64: BASE64.encode(&self.directory.path).into(),
            directory_inode: self.directory.inode,
            directory_handle: self.directory.handle.as_ref().map(Cow::Borrowed),
        })
    }
}

impl Skipped {
    /// The line, without a line feed.
    pub fn to_line(&self) -> String {
        to_line(&SkippedLine {
            r#type: LineType::Skipped,
            name: shown(&self.name),
            directory: text(&self.directory.path).map(Cow::from),
            why: (&*self.why).into(),
            reasons: names(&self.reasons),
            name_hex: Hex((&*self.name).into()),
            directory_base64: BASE64.encode(&self.directory.path).into(),
            directory_inode: self.directory.inode,
            directory_handle: self.directory.handle.as_ref().map(Cow::Borrowed),
        })
    }
}
