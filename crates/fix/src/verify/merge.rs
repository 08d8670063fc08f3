//! Compares the records of both trees, group by group: the entries whose paths some target may treat as one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;

use namegate_core::name::display::display;
use namegate_core::policy::Policy;
use namegate_core::policy::rule::Severity;
use namegate_findings::records::SortedRecords;
use namegate_scan::progress::Observer;
use namegate_sys::open::beneath;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use super::copy_difference::{CopyDifference, DifferenceSink, VerifyCounts, VerifyRequest};
use super::entry_record::{Side, TreeEntry, split_path};
use super::tree_reader::{Roots, Unread};

pub(super) struct Merge<'m, 's> {
    request: &'m VerifyRequest,
    policy: &'m Policy,
    observer: &'m dyn Observer,
    roots: &'m Roots,
    unread: &'m Unread,
    take: &'m mut DifferenceSink<'s>,
    pub counts: VerifyCounts,
}

/// How well the path of an entry at the target is the expected one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    Exact,
    /// The target treats both as one.
    OneName,
    /// They differ in case or normalization.
    Loose,
}

impl<'m, 's> Merge<'m, 's> {
    pub fn new(
        request: &'m VerifyRequest,
        policy: &'m Policy,
        observer: &'m dyn Observer,
        roots: &'m Roots,
        unread: &'m Unread,
        take: &'m mut DifferenceSink<'s>,
    ) -> Self {
        let counts = VerifyCounts { problems: unread.problems, ..VerifyCounts::default() };
        Self { request, policy, observer, roots, unread, take, counts }
    }

    pub fn run(&mut self, records: &SortedRecords) -> io::Result<()> {
        let mut cursor = records.cursor()?;
        let (mut last, mut group) = ((Vec::new(), Vec::new()), Vec::new());
        while let Some(record) = cursor.next()? {
            if (record.dir, record.name) != (&last.0[..], &last.1[..]) {
                self.compare_group(std::mem::take(&mut group))?;
                last = (record.dir.to_vec(), record.name.to_vec());
                if self.observer.is_stopped() {
                    return Ok(());
                }
            }
            group.push(TreeEntry::from_payload(record.payload)?);
        }
        self.compare_group(group)
    }

    fn compare_group(&mut self, group: Vec<TreeEntry>) -> io::Result<()> {
        let (sources, targets): (Vec<TreeEntry>, Vec<TreeEntry>) =
            group.into_iter().partition(|entry| entry.side == Side::Source);
        self.counts.entries += sources.len() as u64;
        let mut matched: Vec<Option<usize>> = vec![None; sources.len()];
        let mut is_used = vec![false; targets.len()];
        for wanted in [Likeness::Exact, Likeness::OneName, Likeness::Loose] {
            for (source, found) in sources.iter().zip(&mut matched).filter(|(_, found)| found.is_none()) {
                let mut free = targets.iter().enumerate().filter(|(at, _)| !is_used[*at]);
                *found = free
                    .find(|(_, target)| self.likeness(&source.expected, &target.path) == wanted)
                    .map(|(at, _)| at);
                if let Some(at) = *found {
                    is_used[at] = true;
                }
            }
        }
        for (source, found) in sources.iter().zip(&matched) {
            match found {
                Some(at) => self.compare(source, &targets[*at])?,
                None => self.report_missing(source, &sources, &matched, &targets)?,
            }
        }
        for (target, _) in targets.iter().zip(is_used).filter(|(_, is_used)| !is_used) {
            match self.unread.may_have(Side::Source, &target.path) {
                true => self.counts.unknown += 1,
                false => self.report(&target.path, CopyDifference::Extra)?,
            }
        }
        Ok(())
    }

    fn likeness(&self, expected: &[u8], found: &[u8]) -> Likeness {
        if expected == found {
            return Likeness::Exact;
        }
        let parts = |path| <[u8]>::split(path, |&byte: &u8| byte == b'/');
        let are_one = |(a, b): (&[u8], &[u8])| {
            let found = || self.policy.collisions(&[a, b]);
            let is_error = |one: &namegate_core::policy::Violation| one.severity == Severity::Error;
            a == b || found().iter().flat_map(|one| &one.violations).any(is_error)
        };
        match parts(expected).zip(parts(found)).all(are_one) {
            true => Likeness::OneName,
            false => Likeness::Loose,
        }
    }

    fn report_missing(
        &mut self,
        source: &TreeEntry,
        sources: &[TreeEntry],
        matched: &[Option<usize>],
        targets: &[TreeEntry],
    ) -> io::Result<()> {
        if self.unread.may_have(Side::Target, &source.expected) {
            self.counts.unknown += 1;
            return Ok(());
        }
        let holder = sources.iter().zip(matched).find(|(_, at)| {
            at.is_some_and(|at| self.likeness(&source.expected, &targets[at].path) < Likeness::Loose)
        });
        let merged = holder.map(|(other, _)| CopyDifference::Merged(other.path.clone()));
        self.report(&source.path, merged.unwrap_or(CopyDifference::Missing))
    }

    fn report(&mut self, path: &[u8], difference: CopyDifference) -> io::Result<()> {
        match difference.is_harmless() {
            true => self.counts.same_names += 1,
            false => self.counts.different += 1,
        }
        (self.take)(path, &difference)
    }

    /// Compares an entry with what arrived.
    fn compare(&mut self, source: &TreeEntry, target: &TreeEntry) -> io::Result<()> {
        self.counts.arrived += 1;
        let names = [&source.expected, &target.path].map(|path| split_path(path).1);
        if names[0] != names[1] {
            let name = names[1].to_vec();
            let difference = match self.likeness(names[0], names[1]) {
                Likeness::Loose => CopyDifference::Respelled(name),
                _ => CopyDifference::SameName(name),
            };
            self.report(&source.path, difference)?;
        }
        let property = |name, values: [String; 2]| {
            let [source, target] = values;
            (source != target).then_some(CopyDifference::Property(name, source, target))
        };
        let both = [source, target];
        let is_file = source.kind == libc::S_IFREG;
        let difference = property("kind", both.map(|entry| kind_name(entry.kind).to_owned()))
            .or_else(|| property("link text", both.map(|entry| display(&entry.text).to_string())))
            .or_else(|| property("size", both.map(|entry| entry.size.to_string())).filter(|_| is_file))
            .or_else(|| {
                let links = property("links", both.map(|entry| entry.links.to_string()));
                links.filter(|_| is_file && self.request.compares_links)
            });
        if let Some(difference) = difference {
            return self.report(&source.path, difference);
        }
        if is_file && self.request.compares_contents {
            match self.are_same(source, target) {
                Ok(true) => {}
                Ok(false) => self.report(&source.path, CopyDifference::Contents)?,
                Err(error) => {
                    let path = display(&source.path);
                    self.observer.problem(&format_args!("cannot compare the contents of {path}: {error}"));
                    self.counts.problems += 1;
                    self.counts.unknown += 1;
                }
            }
        }
        Ok(())
    }

    /// Compares contents.
    fn are_same(&self, source: &TreeEntry, target: &TreeEntry) -> io::Result<bool> {
        let open = |entry: &TreeEntry| -> io::Result<BufReader<File>> {
            let (dir, name) = split_path(&entry.path);
            let dir = self.roots.open(entry.side, dir)?;
            let file =
                beneath(&dir, OsStr::from_bytes(name), OFlag::O_RDONLY | OFlag::O_NONBLOCK, Mode::empty())?;
            Ok(BufReader::with_capacity(1 << 17, file.into()))
        };
        let (mut source, mut target) = (open(source)?, open(target)?);
        loop {
            let (first, second) = (source.fill_buf()?, target.fill_buf()?);
            let length = first.len().min(second.len());
            if length == 0 {
                return Ok(first.len() == second.len());
            }
            if first[..length] != second[..length] {
                return Ok(false);
            }
            source.consume(length);
            target.consume(length);
        }
    }
}

fn kind_name(kind: u32) -> &'static str {
    match kind {
        libc::S_IFREG => "file",
        libc::S_IFDIR => "directory",
        libc::S_IFLNK => "symbolic link",
        libc::S_IFIFO => "FIFO",
        libc::S_IFSOCK => "socket",
        libc::S_IFBLK => "block device",
        _ => "character device",
    }
}
