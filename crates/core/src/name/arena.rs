//! Stores many names in one piece of memory, so that one pass checks them all.
//!
//! The names of a directory follow one another, each with a NUL at its end. NUL is ASCII, so the whole arena is
//! well-formed if and only if each name is; one SIMD pass decides, and after a bad name it resumes at the next. On names
//! of 20 bytes this is far cheaper than one call per name (`cargo bench --bench names`).
//!
//! An arena cannot store a name that contains NUL. Directory entries never do; names from other sources that do must be
//! checked one by one.

use std::ffi::CStr;
use std::fmt;

use super::Span;
use crate::policy::EntryKind;

/// Names that follow one another in memory, each with a NUL at its end.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    bytes: Vec<u8>,
    /// A name is empty, `.` or `..`.
    has_dots: bool,
    longest: usize,
    /// The offsets of the names of another kind than `others`, in ascending order.
    marked: Vec<(usize, EntryKind)>,
    /// The kind of all other names.
    others: EntryKind,
}

/// The name contains a NUL, which would split it in an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainsNul;

impl fmt::Display for ContainsNul {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name contains a NUL byte")
    }
}

impl std::error::Error for ContainsNul {}

impl Arena {
    /// An empty arena.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty arena for names of which it is known whether they are those of directories.
    pub fn of_known_kinds() -> Self {
        let mut arena = Self::default();
        arena.expect_known_kinds();
        arena
    }

    /// Records that all names are those of files unless they are marked; of an arena that is empty.
    pub fn expect_known_kinds(&mut self) {
        self.others = EntryKind::File;
    }

    /// An empty arena for names of which as much is known as of those in this one.
    pub fn empty_like(&self) -> Self {
        Self { others: self.others, ..Self::default() }
    }

    /// Records that the name at `at`, which was pushed last, is that of an entry of this kind.
    pub fn mark(&mut self, at: usize, kind: EntryKind) {
        if kind != self.others {
            self.marked.push((at, kind));
        }
    }

    /// The kind of the entry whose name starts at `at`.
    pub fn kind_at(&self, at: usize) -> EntryKind {
        let marked = self.marked.binary_search_by_key(&at, |&(marked, _)| marked);
        marked.map_or(self.others, |found| self.marked[found].1)
    }

    /// The kind of the entry of `name`, a slice that the arena gave; [`EntryKind::Unknown`] for any other slice.
    pub fn kind_of(&self, name: &[u8]) -> EntryKind {
        let at = (name.as_ptr() as usize).checked_sub(self.bytes.as_ptr() as usize);
        at.filter(|&at| at < self.bytes.len()).map_or(EntryKind::Unknown, |at| self.kind_at(at))
    }

    /// Appends a name and returns the offset of its first byte.
    ///
    /// # Errors
    /// [`ContainsNul`] if the name contains a NUL byte; the arena is unchanged.
    pub fn push(&mut self, name: &[u8]) -> Result<usize, ContainsNul> {
        if memchr::memchr(0, name).is_some() {
            return Err(ContainsNul);
        }
        let at = self.bytes.len();
        self.bytes.reserve(name.len() + 1);
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        self.note(name);
        Ok(at)
    }

    /// Appends a name as the system gives it, and returns the offset of its first byte.
    pub fn push_c_str(&mut self, name: &CStr) -> usize {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(name.to_bytes_with_nul());
        self.note(name.to_bytes());
        at
    }

    fn note(&mut self, name: &[u8]) {
        self.has_dots |= matches!(name, b"" | b"." | b"..");
        self.longest = self.longest.max(name.len());
    }

    /// Appends all names of another arena.
    pub fn append(&mut self, other: &Self) {
        if self.is_empty() {
            self.others = other.others;
        } else if self.others != other.others && !other.is_empty() {
            self.others = EntryKind::Unknown;
        }
        let at = self.bytes.len();
        self.marked.extend(other.marked.iter().map(|&(marked, kind)| (at + marked, kind)));
        self.bytes.extend_from_slice(&other.bytes);
        self.has_dots |= other.has_dots;
        self.longest = self.longest.max(other.longest);
    }

    /// Removes all names and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.marked.clear();
        (self.has_dots, self.longest) = (false, 0);
    }

    /// The length of the longest name, in bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The number of bytes of all names, each with its NUL.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the arena has no names.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The name that starts at `at`, an offset that [`Arena::push`] gave.
    ///
    /// # Panics
    /// If `at` lies beyond the arena.
    pub fn name_at(&self, at: usize) -> &[u8] {
        let rest = &self.bytes[at..];
        let len = memchr::memchr(0, rest).expect("every name ends in NUL");
        &rest[..len]
    }

    /// All names in order, each with the offset of its first byte.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut at = 0;
        std::iter::from_fn(move || {
            (at < self.bytes.len()).then(|| {
                let (start, name) = (at, self.name_at(at));
                at += name.len() + 1;
                (start, name)
            })
        })
    }

    /// All names as text, each with the offset of its first byte; `None` if a name is not UTF-8. One pass checks all names.
    ///
    /// ```
    /// use namegate_core::name::arena::Arena;
    /// let mut arena = Arena::new();
    /// arena.push("café".as_bytes()).unwrap();
    /// arena.push(b"x").unwrap();
    /// assert_eq!(arena.texts().unwrap().collect::<Vec<_>>(), [(0, "café"), (6, "x")]);
    /// arena.push(b"caf\xE9").unwrap();
    /// assert!(arena.texts().is_none());
    /// ```
    pub fn texts(&self) -> Option<impl Iterator<Item = (usize, &str)>> {
        let mut rest = simdutf8::basic::from_utf8(&self.bytes).ok()?;
        let mut at = 0;
        Some(std::iter::from_fn(move || {
            let len = memchr::memchr(0, rest.as_bytes())?;
            let (start, name) = (at, &rest[..len]);
            (rest, at) = (&rest[len + 1..], at + len + 1);
            Some((start, name))
        }))
    }

    /// Calls `take` with each name that has one of the bytes `any`, or `pair`. Two fast passes look for them in all names together.
    ///
    /// ```
    /// use namegate_core::name::arena::Arena;
    /// let mut arena = Arena::new();
    /// for name in ["a%b%c", "plain", "=?x", "&"] {
    ///     arena.push(name.as_bytes()).unwrap();
    /// }
    /// let mut found = Vec::new();
    /// arena.each_with(*b"%&#", b"=?", &mut |name| found.push(name.to_vec()));
    /// assert_eq!(found, [&b"a%b%c"[..], b"&", b"=?x"]);
    /// ```
    pub fn each_with(&self, any: [u8; 3], pair: &[u8; 2], take: &mut dyn FnMut(&[u8])) {
        let name_around = |at: usize| {
            let start = memchr::memrchr(0, &self.bytes[..at]).map_or(0, |end| end + 1);
            (start, self.name_at(start))
        };
        let mut next = 0;
        for at in memchr::memchr3_iter(any[0], any[1], any[2], &self.bytes) {
            if at >= next {
                let (start, name) = name_around(at);
                next = start + name.len();
                take(name);
            }
        }
        next = 0;
        for at in memchr::memmem::find_iter(&self.bytes, pair) {
            if at >= next {
                let (start, name) = name_around(at);
                next = start + name.len();
                // The first pass had the others.
                if memchr::memchr3(any[0], any[1], any[2], name).is_none() {
                    take(name);
                }
            }
        }
    }

    /// Reserves memory for `len` more bytes of names.
    pub fn reserve(&mut self, len: usize) {
        self.bytes.reserve(len);
    }

    /// Whether a name cannot occur in a directory: it is empty, `.`, `..`, or contains `/`.
    pub fn holds_impossible(&self) -> bool {
        self.has_dots || memchr::memchr(b'/', &self.bytes).is_some()
    }

    /// The names that are not UTF-8, in order, each with the offset of its first byte: one pass over the whole arena.
    ///
    /// ```
    /// use namegate_core::name::arena::Arena;
    /// let mut arena = Arena::new();
    /// for name in [&b"good"[..], b"caf\xE9", "café".as_bytes(), b"\xED\xA0\x80"] {
    ///     arena.push(name).unwrap();
    /// }
    /// let bad: Vec<&[u8]> = arena.ill_formed().map(|(_, name)| name).collect();
    /// assert_eq!(bad, [&b"caf\xE9"[..], b"\xED\xA0\x80"]);
    /// ```
    pub fn ill_formed(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let span = next_ill_formed(&self.bytes, at)?;
            at = span.end + 1;
            Some((span.start, span.slice(&self.bytes)))
        })
    }
}

/// The first name at or after `from` that is not UTF-8. `from` is the first byte of a name or the end.
fn next_ill_formed(bytes: &[u8], from: usize) -> Option<Span> {
    let error = simdutf8::compat::from_utf8(&bytes[from..]).err()?;
    let bad = from + error.valid_up_to();
    // An ill-formed sequence never includes the NUL after the name, so the bad byte lies inside its name.
    let start = memchr::memrchr(0, &bytes[from..bad]).map_or(from, |nul| from + nul + 1);
    let end = bad + memchr::memchr(0, &bytes[bad..]).expect("every name ends in NUL");
    Some(Span::new(start, end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_with_nul_is_refused_and_leaves_the_arena_as_it_was() {
        let mut arena = Arena::new();
        assert_eq!(arena.push(b"a\0b"), Err(ContainsNul));
        assert!(arena.is_empty());
        assert_eq!(arena.push(b"ab"), Ok(0));
        assert!(!arena.holds_impossible());
        assert_eq!(arena.push(b""), Ok(3));
        assert_eq!(arena.push(b"c"), Ok(4));
        assert_eq!(arena.push_c_str(c"de"), 6);
        assert_eq!(arena.iter().collect::<Vec<_>>(), [(0, &b"ab"[..]), (3, b""), (4, b"c"), (6, b"de")]);
        arena.clear();
        assert_eq!(arena.iter().count(), 0);
        assert!(arena.push_c_str(c"..") == 0 && arena.holds_impossible());
        arena.clear();
        for name in [&b""[..], b".", b"..", b"a/b"] {
            assert!(!arena.holds_impossible());
            arena.push(name).unwrap();
            assert!(arena.holds_impossible(), "{name:?}");
            arena.clear();
        }
    }

    #[test]
    fn the_kind_of_a_name_stays_with_it() {
        let mut arena = Arena::of_known_kinds();
        let file = arena.push(b"file").unwrap();
        let directory = arena.push(b"directory").unwrap();
        let unclear = arena.push(b"unclear").unwrap();
        arena.mark(file, EntryKind::File);
        arena.mark(directory, EntryKind::Directory);
        arena.mark(unclear, EntryKind::Unknown);
        assert_eq!((arena.kind_at(file), arena.kind_at(directory)), (EntryKind::File, EntryKind::Directory));
        let mut both = Arena::of_known_kinds();
        both.append(&arena);
        both.append(&arena);
        let kinds: Vec<_> = both.iter().map(|(at, name)| (both.kind_at(at), both.kind_of(name))).collect();
        let twice = |kind| (kind, kind);
        let expected = [EntryKind::File, EntryKind::Directory, EntryKind::Unknown];
        assert_eq!(kinds, expected.map(twice).repeat(2));
        assert_eq!(both.kind_of(b"elsewhere"), EntryKind::Unknown);
        let mut unknown = Arena::new();
        unknown.push(b"x").unwrap();
        both.append(&unknown);
        assert_eq!(both.kind_at(file), EntryKind::Unknown, "nobody knows it of all names");
        assert_eq!(both.kind_at(directory), EntryKind::Directory);
        arena.clear();
        assert_eq!(arena.push(b"directory"), Ok(0));
        assert_eq!(arena.kind_at(0), EntryKind::File);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_arena_finds_the_same_names_as_one_call_per_name(
            names in prop::collection::vec(
                prop_oneof![
                    "[a-z.]{0,12}".prop_map(String::into_bytes),
                    "\\PC{0,8}".prop_map(|s| s.replace('\0', "").into_bytes()),
                    prop::collection::vec(1_u8..=255, 0..12),
                    prop::sample::select(vec![&b"\xED\xA0\x80"[..], b"\xC3", b"\xF4\x8F\xBF", b"\x80", b"\xC0\x80"])
                        .prop_map(<[u8]>::to_vec),
                ],
                0..40,
            )
        ) {
            let mut arena = Arena::new();
            for name in &names {
                arena.push(name).unwrap();
            }
            let expected: Vec<&[u8]> =
                names.iter().map(Vec::as_slice).filter(|n| std::str::from_utf8(n).is_err()).collect();
            let found: Vec<&[u8]> = arena.ill_formed().map(|(_, n)| n).collect();
            prop_assert_eq!(found, expected);
            for (at, name) in arena.iter() {
                prop_assert_eq!(arena.name_at(at), name);
            }
        }
    }
}
