//! What a client believes to be in its directory.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// A file, whatever its names.
pub type FileId = u64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Dir,
    Link(PathBuf),
    File(FileId),
}

#[derive(Debug, Default)]
pub struct Content {
    pub bytes: Vec<u8>,
    pub mode: u32,
    pub ino: u64,
    /// The extended attribute `user.note`.
    pub note: Option<Vec<u8>>,
}

/// Paths are below the client's directory; that itself is the empty one.
#[derive(Debug)]
pub struct Model {
    pub entries: BTreeMap<PathBuf, Entry>,
    pub files: HashMap<FileId, Content>,
    next: FileId,
}

impl Model {
    pub fn new() -> Self {
        Self { entries: BTreeMap::from([(PathBuf::new(), Entry::Dir)]), files: HashMap::new(), next: 0 }
    }

    pub fn add_file(&mut self, path: PathBuf, content: Content) {
        self.next += 1;
        self.files.insert(self.next, content);
        self.entries.insert(path, Entry::File(self.next));
    }

    pub fn names_of(&self, file: FileId) -> u64 {
        self.entries.values().filter(|entry| **entry == Entry::File(file)).count() as u64
    }

    pub fn children(&self, dir: &Path) -> impl Iterator<Item = &Path> {
        self.entries.keys().filter(move |path| path.parent() == Some(dir)).map(PathBuf::as_path)
    }

    pub fn is_empty(&self, dir: &Path) -> bool {
        self.children(dir).next().is_none()
    }

    pub fn remove(&mut self, path: &Path) {
        if let Some(Entry::File(id)) = self.entries.remove(path)
            && self.names_of(id) == 0
        {
            self.files.remove(&id);
        }
    }

    /// All that is at `path` and below it, taken out.
    fn cut(&mut self, path: &Path) -> Vec<(PathBuf, Entry)> {
        let below: Vec<PathBuf> =
            self.entries.keys().filter(|entry| entry.starts_with(path)).cloned().collect();
        below.into_iter().filter_map(|entry| self.entries.remove_entry(&entry)).collect()
    }

    fn put(&mut self, from: &Path, to: &Path, cut: Vec<(PathBuf, Entry)>) {
        for (path, entry) in cut {
            let rest = path.strip_prefix(from).unwrap_or(Path::new(""));
            let path = if rest == Path::new("") { to.to_path_buf() } else { to.join(rest) };
            self.entries.insert(path, entry);
        }
    }

    /// What rename(2) of two different files does where it succeeds.
    pub fn rename(&mut self, from: &Path, to: &Path) {
        self.remove(to);
        let cut = self.cut(from);
        self.put(from, to, cut);
    }

    /// What RENAME_EXCHANGE does.
    pub fn exchange(&mut self, one: &Path, two: &Path) {
        let (at_one, at_two) = (self.cut(one), self.cut(two));
        self.put(one, two, at_one);
        self.put(two, one, at_two);
    }
}
