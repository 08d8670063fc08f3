//! Groups paths in any order by directory: collisions and lengths are properties of directories, but lists and archives contain
//! paths.
//!
//! Everything is kept in memory up to a limit. Beyond the limit it is written to temporary files, each of which has all names of
//! some directories; they are read back one at a time. So the memory needed is the limit, or the largest directory if that
//! is more, whatever the length of the list.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::BuildHasher;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::DirectoryBatch;
use crate::source::location::{Container, Location};
use crate::sys::temporary;

/// Bytes that are kept in memory: names and their bookkeeping.
pub const LIMIT: usize = 256 << 20;

/// Number of temporary files among which the directories are distributed.
const PARTS: usize = 64;

/// Maximum number of components in a path. Each is a directory with a path of its own, so the work grows with the
/// square of their number.
pub const MAX_PARTS: usize = 1024;

/// Reports whether a path has few enough components.
pub fn takes(path: &[u8]) -> bool {
    memchr::memchr_iter(b'/', path).nth(MAX_PARTS).is_none()
}

/// How an item is split into names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A path as the system reads it: `a//b` and `./a/b` are `a/b`, and `..` is not a name.
    Path,
    /// A path of which every component counts, such as the key of an object or the name of an archive member: `.`, `..`
    /// and the empty component count too. One `/` at the end marks a directory.
    Key,
    /// One name: a `/` is part of it.
    Name,
}

/// Paths by directory; without a container they are paths of the file system. Each name of each directory is kept
/// once, with the location of the first path that contains it.
pub struct Groups {
    container: Option<Arc<Container>>,
    shape: Shape,
    location: Option<fn(u64) -> Location>,
    limit: usize,
    held: PathsInMemory,
    spilled: Option<Spilled>,
    path: Vec<u8>,
}

impl Groups {
    /// Creates an empty collection. `location` makes the location of a name from the number of its path, if names have locations.
    pub fn new(
        container: Option<Arc<Container>>,
        shape: Shape,
        location: Option<fn(u64) -> Location>,
        limit: usize,
    ) -> Self {
        Self {
            container,
            shape,
            location,
            limit,
            held: PathsInMemory::default(),
            spilled: None,
            path: Vec::new(),
        }
    }

    /// Adds a path.
    ///
    /// # Errors
    /// The temporary files cannot be written.
    pub fn add(&mut self, path: &[u8], number: u64) -> io::Result<()> {
        self.path.clear();
        match self.shape {
            Shape::Name => return self.put(b"", path, number),
            Shape::Key => self.path.extend_from_slice(path.strip_suffix(b"/").unwrap_or(path)),
            Shape::Path => {
                if path.starts_with(b"/") {
                    self.path.push(b'/');
                }
                for part in path.split(|&b| b == b'/').filter(|part| !matches!(*part, b"" | b".")) {
                    if !matches!(self.path.last(), None | Some(b'/')) {
                        self.path.push(b'/');
                    }
                    self.path.extend_from_slice(part);
                }
                if matches!(&self.path[..], b"" | b"/") {
                    return Ok(());
                }
            }
        }
        let whole = std::mem::take(&mut self.path);
        let (mut dir, mut name) = split_last(&whole);
        let done = loop {
            // A known directory was named by the path that added it.
            let is_known = self.held.dirs.contains_key(dir);
            let is_name = self.shape == Shape::Key || !matches!(name, b"" | b".." | b".");
            if is_name && let Err(error) = self.put(dir, name, number) {
                break Err(error);
            }
            if is_known || dir.is_empty() {
                break Ok(());
            }
            // The directory is a `/` at the beginning of the path: it has no name.
            (dir, name) = split_last(dir.strip_suffix(b"/").unwrap_or(dir));
        };
        self.path = whole;
        done
    }

    fn put(&mut self, dir: &[u8], name: &[u8], number: u64) -> io::Result<()> {
        self.held.put(dir, name, number);
        if self.held.size() < self.limit {
            return Ok(());
        }
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert(Spilled::new()?),
        };
        spilled.take(&std::mem::take(&mut self.held))
    }

    /// Hands over the directories, each once; those in memory sorted by their bytes.
    ///
    /// # Errors
    /// The temporary files cannot be read; the directories that were handed over are complete.
    pub fn finish(mut self, visit: &mut dyn FnMut(DirectoryBatch) -> ControlFlow<()>) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        let Some(mut spilled) = self.spilled.take() else {
            let _ = self.hand_over(held, visit);
            return Ok(());
        };
        spilled.take(&held)?;
        drop(held);
        for part in spilled.parts {
            let part = part.into_inner().map_err(io::IntoInnerError::into_error)?;
            if self.hand_over(PathsInMemory::read(part)?, visit).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn hand_over(
        &self,
        held: PathsInMemory,
        visit: &mut dyn FnMut(DirectoryBatch) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let PathsInMemory { dirs, mut items, bytes, .. } = held;
        let mut dirs: Vec<(Box<[u8]>, u32)> = dirs.into_iter().collect();
        dirs.sort_unstable();
        let mut order = vec![0_u32; dirs.len()];
        for (at, (_, number)) in (0..).zip(&dirs) {
            order[*number as usize] = at;
        }
        items.sort_unstable_by_key(|item| (order[item.dir as usize], item.name(&bytes), item.number));
        items.dedup_by(|next, first| next.dir == first.dir && next.name(&bytes) == first.name(&bytes));
        for of_dir in items.chunk_by(|a, b| a.dir == b.dir) {
            let dir = &dirs[order[of_dir[0].dir as usize] as usize].0;
            // The target of a move has its own root.
            let mut batch = DirectoryBatch::new(
                PathBuf::from(OsStr::from_bytes(dir)),
                usize::from(dir.starts_with(b"/")),
            );
            batch.container = self.container.clone();
            for item in of_dir {
                match self.location {
                    Some(location) => batch.push_located(item.name(&bytes), location(item.number)),
                    None => batch.push(item.name(&bytes)),
                }
            }
            visit(batch)?;
        }
        ControlFlow::Continue(())
    }
}

/// Splits a path into its directory and its last name. The directory of `/a` is `/`, and that of `a//b` is `a//`: without the
/// last separator they would be other directories.
fn split_last(path: &[u8]) -> (&[u8], &[u8]) {
    let Some(at) = memchr::memrchr(b'/', path) else { return (b"", path) };
    let dir = if at == 0 || path[at - 1] == b'/' { &path[..=at] } else { &path[..at] };
    (dir, &path[at + 1..])
}

/// Approximate cost of a directory in addition to its bytes.
const DIRECTORY: usize = 96;

/// Names that are kept in memory.
#[derive(Default)]
struct PathsInMemory {
    dirs: HashMap<Box<[u8]>, u32>,
    dirs_size: usize,
    items: Vec<GroupedName>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
struct GroupedName {
    number: u64,
    start: usize,
    len: u32,
    dir: u32,
}

impl GroupedName {
    fn name<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.start..][..self.len as usize]
    }
}

impl PathsInMemory {
    fn put(&mut self, dir: &[u8], name: &[u8], number: u64) {
        let next = u32::try_from(self.dirs.len()).expect("the memory limit is reached long before");
        let dir = match self.dirs.get(dir) {
            Some(&known) => known,
            None => {
                self.dirs_size += DIRECTORY + dir.len();
                *self.dirs.entry(dir.into()).or_insert(next)
            }
        };
        let len = u32::try_from(name.len()).expect("sources reject names of that length");
        self.items.push(GroupedName { number, start: self.bytes.len(), len, dir });
        self.bytes.extend_from_slice(name);
    }

    fn size(&self) -> usize {
        self.bytes.len() + self.items.len() * size_of::<GroupedName>() + self.dirs_size
    }

    fn read(file: File) -> io::Result<Self> {
        let (mut held, mut file) = (Self::default(), file);
        file.rewind()?;
        let mut file = BufReader::new(file);
        let (mut head, mut text) = ([0; 16], Vec::new());
        loop {
            match file.read_exact(&mut head) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(held),
                Err(error) => return Err(error),
            }
            let [number, lens] = [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|i| head[at + i])));
            let (dir_len, name_len) = ((lens >> 32) as usize, (lens & 0xFFFF_FFFF) as usize);
            text.resize(dir_len + name_len, 0);
            file.read_exact(&mut text)?;
            held.put(&text[..dir_len], &text[dir_len..], number);
        }
    }
}

/// Names in temporary files that are already unlinked.
struct Spilled {
    parts: Vec<BufWriter<File>>,
    /// Seeded at random, so that nobody can make a list whose directories all fall into one file.
    hash: RandomState,
}

impl Spilled {
    fn new() -> io::Result<Self> {
        let parts = (0..PARTS).map(|_| temporary::file().map(BufWriter::new)).collect::<io::Result<_>>()?;
        Ok(Self { parts, hash: RandomState::new() })
    }

    fn take(&mut self, held: &PathsInMemory) -> io::Result<()> {
        let mut dirs: Vec<&[u8]> = vec![b""; held.dirs.len()];
        for (dir, &number) in &held.dirs {
            dirs[number as usize] = dir;
        }
        let parts: Vec<usize> =
            dirs.iter().map(|dir| (self.hash.hash_one(dir) % PARTS as u64) as usize).collect();
        for item in &held.items {
            let (dir, part) = (dirs[item.dir as usize], &mut self.parts[parts[item.dir as usize]]);
            part.write_all(&item.number.to_le_bytes())?;
            part.write_all(&((dir.len() as u64) << 32 | u64::from(item.len)).to_le_bytes())?;
            part.write_all(dir)?;
            part.write_all(item.name(&held.bytes))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    type Directories = BTreeMap<Vec<u8>, Vec<(Vec<u8>, u64)>>;

    fn grouped(shape: Shape, limit: usize, paths: &[&[u8]]) -> Directories {
        let container = Some(Arc::new(Container::List { file: b"-".to_vec() }));
        let mut groups = Groups::new(container, shape, Some(Location::Item), limit);
        for (number, path) in (1..).zip(paths) {
            groups.add(path, number).unwrap();
        }
        let mut found = Directories::new();
        let mut visit = |batch: DirectoryBatch| {
            let names =
                batch.names.iter().map(|(_, name)| name).chain(batch.holding_nul.iter().map(Vec::as_slice));
            let number =
                |location: &Location| if let Location::Item(number) = location { *number } else { 0 };
            let names =
                names.zip(batch.locations.iter().map(number)).map(|(name, n)| (name.to_vec(), n)).collect();
            assert!(
                found.insert(batch.dir.as_os_str().as_bytes().to_vec(), names).is_none(),
                "handed over once"
            );
            ControlFlow::Continue(())
        };
        groups.finish(&mut visit).unwrap();
        found
    }

    fn expected(dirs: &[(&[u8], &[(&[u8], u64)])]) -> Directories {
        let names = |names: &[(&[u8], u64)]| names.iter().map(|&(name, n)| (name.to_vec(), n)).collect();
        dirs.iter().map(|&(dir, of_dir)| (dir.to_vec(), names(of_dir))).collect()
    }

    #[test]
    fn each_name_of_a_path_is_once_in_its_directory_with_its_first_number() {
        let paths: [&[u8]; 6] = [b"a/b/c", b"a/b/d", b"a/b/c", b"z", b"a/b/", b"a/\0"];
        let wanted = expected(&[
            (b"", &[(b"a", 1), (b"z", 4)]),
            (b"a", &[(b"b", 1), (b"\0", 6)]),
            (b"a/b", &[(b"c", 1), (b"d", 2)]),
        ]);
        assert_eq!(grouped(Shape::Path, LIMIT, &paths), wanted);
        assert_eq!(grouped(Shape::Key, LIMIT, &paths), wanted);
    }

    #[test]
    fn a_path_is_split_as_the_system_does() {
        let found = grouped(Shape::Path, LIMIT, &[b"./a//b/./c/", b"/srv//x", b".", b"/", b"", b"../up/y"]);
        let wanted = expected(&[
            (b"", &[(b"a", 1)]),
            (b"a", &[(b"b", 1)]),
            (b"a/b", &[(b"c", 1)]),
            (b"/", &[(b"srv", 2)]),
            (b"/srv", &[(b"x", 2)]),
            (b"..", &[(b"up", 6)]),
            (b"../up", &[(b"y", 6)]),
        ]);
        assert_eq!(found, wanted);
    }

    #[test]
    fn every_component_of_a_key_counts() {
        let found = grouped(Shape::Key, LIMIT, &[b"/a", b"b//c", b"d/../e", b"./f"]);
        let wanted = expected(&[
            (b"", &[(b"", 1), (b".", 4), (b"b", 2), (b"d", 3)]),
            (b"/", &[(b"a", 1)]),
            (b"b", &[(b"", 2)]),
            (b"b//", &[(b"c", 2)]),
            (b"d", &[(b"..", 3)]),
            (b"d/..", &[(b"e", 3)]),
            (b".", &[(b"f", 4)]),
        ]);
        assert_eq!(found, wanted);
        assert_eq!(grouped(Shape::Name, LIMIT, &[b"a/b"]), expected(&[(b"", &[(b"a/b", 1)])]));
    }

    #[test]
    fn paths_that_do_not_fit_into_memory_are_grouped_all_the_same() {
        let paths: Vec<Vec<u8>> =
            (0..5000_u32).map(|n| format!("d{}/e{}/f{n}\0/g", n % 7, n % 131).into_bytes()).collect();
        let paths: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
        let whole = grouped(Shape::Key, LIMIT, &paths);
        assert_eq!(whole.values().map(Vec::len).sum::<usize>(), 7 + 7 * 131 + 5000 + 5000);
        for limit in [1, 1000, 100_000] {
            assert_eq!(grouped(Shape::Key, limit, &paths), whole, "limit {limit}");
        }
    }
}
