//! Doing what a plan says.
//!
//! Directory by directory, what lies deepest first; a batch at a time: look whether each entry is still what the plan saw,
//! write down what is going to be done, bring that to the disk, do it. Links follow when all names are there.

mod follow;
mod judge;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use super::carry::{Carrier, Task, is_alias, lines};
use super::entry::{Identity, Reason, free_name};
use super::group::{Group, Member, Way};
use super::history::History;
use super::journal::{
    Base64, Batch, Entry, Hex, Journal, Left as LeftRecord, Place, Reading, Record, Remainder,
};
use super::mark;
use super::plan::order::order;
use super::plan::{Directory, Kind, Plan, Rename, Retarget, Step, path_in};
use super::roots::{Dir, Names, Roots};
use super::watcher::{Left, Watcher};
use crate::policy::Policy;
use crate::sys::stat::{self, Stat};

/// How many directories a batch holds open: half of what a process may open unless it asks for more.
const MAX_OPEN: usize = 512;

/// How many renames a batch has unless another number is asked for.
pub const BATCH: usize = 4096;

/// How a plan is applied.
#[derive(Clone, Copy, Debug)]
pub struct Options<'p> {
    /// What new names have to satisfy; without it only their bytes are compared.
    pub policy: Option<&'p Policy>,
    /// Whether times of directories are kept.
    pub keep_times: bool,
    /// Whether old names are kept in an attribute.
    pub keep_original: bool,
    /// How many renames a batch has.
    pub batch: usize,
}

/// What has become of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many entries got their new name in this run, or would get it.
    pub renamed: u64,
    /// How many links got another target, or would get it.
    pub retargeted: u64,
    /// How much of the plan was done before.
    pub already: u64,
    /// How much was left undone.
    pub left: u64,
    /// Whether the run was ended before it had come to the end of the plan.
    pub is_interrupted: bool,
    /// How many old names could not be kept in an attribute, by reason.
    pub unmarked: BTreeMap<&'static str, u64>,
}

/// Looks what applying the plan would do, and does nothing.
pub fn rehearse(plan: &Plan, roots: Roots, options: Options<'_>, watcher: &mut dyn Watcher) -> Tally {
    let mut run = Run::new(plan, roots, None, options, watcher);
    run.all().expect("without a journal nothing is written");
    run.tally()
}

/// Applies the plan, and says in `journal` what it does. `reading`: what the journal says already, of a run that was killed
/// or interrupted.
///
/// # Errors
/// The journal cannot be written: on a full disk, for one. Whatever is not written was not done.
pub fn apply(
    plan: &Plan,
    roots: Roots,
    journal: &mut Journal,
    reading: Option<&Reading>,
    options: Options<'_>,
    watcher: &mut dyn Watcher,
) -> io::Result<Tally> {
    let mut run = Run::new(plan, roots, Some(journal), options, watcher);
    if let Some(reading) = reading {
        run.resume(reading)?;
    }
    run.all()?;
    run.end()?;
    Ok(run.tally())
}

/// The names that directories get by the plan, by their paths.
pub fn planned_names(plan: &Plan) -> Names {
    let directories = plan.renames.iter().filter(|rename| rename.identity.kind == Kind::Directory);
    directories
        .map(|rename| (path_in(&rename.directory.path, &rename.old), rename.new.clone().into_bytes()))
        .collect()
}

struct Run<'r> {
    plan: &'r Plan,
    carrier: Carrier<'r>,
    /// None for a rehearsal.
    journal: Option<&'r mut Journal>,
    options: Options<'r>,
    batch: Batch,
    /// The directories of the batch.
    dirs: Vec<Rc<Dir>>,
    /// The new names of the plan, and its links by directory and name; only where there are links.
    names: HashMap<u64, &'r [u8]>,
    links: HashMap<(&'r [u8], &'r [u8]), &'r Retarget>,
    /// What is wrong with renames, by their places in the plan.
    objections: HashMap<usize, String>,
    /// Renames to be tried once more, with a temporary name.
    again: Vec<(Arc<Directory>, Member)>,
    /// The renames that are done.
    done: HashSet<u64>,
    /// Files whose time of change may be our doing, because another name of theirs was changed, or was tried to.
    touched: HashSet<u64>,
    /// The targets that were given to links, by directory and name, according to the journal.
    relinked: HashMap<(Vec<u8>, Vec<u8>), Vec<u8>>,
    tally: Tally,
}

impl<'r> Run<'r> {
    fn new(
        plan: &'r Plan,
        roots: Roots,
        journal: Option<&'r mut Journal>,
        options: Options<'r>,
        watcher: &'r mut dyn Watcher,
    ) -> Self {
        let links = plan.retargets.iter().map(|link| ((&*link.directory.path, &*link.name), link)).collect();
        let names = match plan.retargets.is_empty() {
            true => HashMap::new(),
            false => plan.renames.iter().map(|rename| (rename.id, rename.new.as_bytes())).collect(),
        };
        Self {
            plan,
            names,
            links,
            carrier: Carrier { roots, history: History::default(), watcher, unmarked: BTreeMap::new() },
            journal,
            options,
            batch: Batch { number: 1, ..Batch::default() },
            dirs: Vec::new(),
            objections: HashMap::new(),
            again: Vec::new(),
            done: HashSet::new(),
            touched: HashSet::new(),
            relinked: HashMap::new(),
            tally: Tally::default(),
        }
    }

    fn tally(self) -> Tally {
        Tally { unmarked: self.carrier.unmarked, ..self.tally }
    }

    /// Brings to its end what the journal says was intended. The directories tell what is done: also of batches of which the
    /// journal says that they are, because a machine that loses its power may have lost renames, too.
    fn resume(&mut self, reading: &Reading) -> io::Result<()> {
        if let Some(journal) = &self.journal {
            self.carrier.history = History::of(reading, journal.file())?;
        }
        for (at, told) in reading.batches.iter().enumerate() {
            let Some(journal) = &self.journal else { return Ok(()) };
            let batch = reading.batch(journal.file(), at)?;
            let was_left = |at: usize| told.done.iter().flatten().any(|left| left.entry == at);
            let is_rename = |at: usize| matches!(batch.entries[at].1, Entry::Rename(_));
            let wanted = |at: usize| told.done.is_none() || is_rename(at) && !was_left(at);
            let times: Vec<_> = batch.places.iter().map(|place| (place.atime, place.mtime)).collect();
            let times = (self.options.keep_times && told.done.is_none()).then_some(&times[..]);
            let task = Task { batch: &batch, dirs: None, way: Way::Forward, wanted: &wanted, times };
            let left = self.carrier.carry(&task);
            for (at, (place, entry)) in batch.entries.iter().enumerate() {
                let is_left = was_left(at) || left.iter().any(|(other, _)| *other == at);
                match entry {
                    Entry::Rename(group) => {
                        self.touched.extend(group.members.iter().map(|member| member.what.ino));
                        if !is_left {
                            self.tally.already += group.members.len() as u64;
                            self.done.extend(group.members.iter().map(|member| member.id));
                        }
                    }
                    Entry::Retarget(relink) if !is_left => {
                        let place = batch.places[*place].path.clone();
                        self.relinked.insert((place, relink.name.clone()), relink.new.clone());
                    }
                    Entry::Retarget(_) => {}
                }
            }
            if told.done.is_none() || !left.is_empty() {
                let mut left = self.remainders(&batch, &left);
                left.extend(told.done.iter().flatten().cloned());
                self.push(&Record::Done { batch: batch.number, left });
            }
            self.batch.number = batch.number + 1;
        }
        Ok(())
    }

    fn push(&mut self, record: &Record) {
        if let Some(journal) = &mut self.journal {
            journal.push(record);
        }
    }

    /// The whole plan.
    fn all(&mut self) -> io::Result<()> {
        let plan = self.plan;
        let turns = order(&plan.renames);
        turns.iter().for_each(|turn| self.judge(turn));
        for turn in turns {
            let mut steps = turn.steps.iter();
            let dir = self.carrier.roots.directory(&turn.directory.path, turn.directory.inode);
            while let Some(step) = steps.next() {
                let numbers = match *step {
                    Step::Exchange(one, other) => vec![one, other],
                    Step::Aside(first) => {
                        let behind = steps.by_ref().map_while(|step| match step {
                            Step::Rename(at) => Some(*at),
                            _ => None,
                        });
                        let mut numbers: Vec<usize> = behind.collect();
                        numbers.push(first);
                        numbers.reverse();
                        numbers
                    }
                    Step::Rename(at) | Step::Settle(at) => vec![at],
                };
                self.renames(&turn.directory, &dir, &numbers)?;
                if self.tally.is_interrupted {
                    return Ok(());
                }
            }
        }
        self.flush()?;
        self.try_again()?;
        if self.tally.is_interrupted {
            return Ok(());
        }
        self.retargets()?;
        self.flush()
    }

    /// One rename, or those of a cycle, by their places in the plan.
    fn renames(
        &mut self,
        directory: &Arc<Directory>,
        dir: &Result<Rc<Dir>, Reason>,
        places: &[usize],
    ) -> io::Result<()> {
        let plan = self.plan;
        let renames = &places.iter().map(|&at| &plan.renames[at]).collect::<Vec<_>>()[..];
        if renames.iter().all(|rename| self.done.contains(&rename.id)) {
            return Ok(());
        }
        let objection = places.iter().find_map(|at| self.objections.get(at));
        let objection = objection.map(|why| Reason::Objection(why.clone()));
        let checked = dir.clone().and_then(|dir| self.check(&dir, renames).map(|group| (dir, group)));
        let checked = match (checked, objection) {
            (Ok((_, Some(_))), Some(objection)) => Err(objection),
            (checked, _) => checked,
        };
        match checked {
            Ok((dir, Some(group))) => self.intend(directory, dir, Entry::Rename(group)),
            Ok((_, None)) => {
                self.tally.already += renames.len() as u64;
                for rename in renames {
                    self.took(
                        rename.id,
                        rename.identity.kind,
                        &directory.path,
                        &rename.old,
                        rename.new.as_bytes(),
                    );
                }
                Ok(())
            }
            Err(reason) => {
                for rename in renames {
                    self.leave(&directory.path, &rename.old, rename.new.as_bytes(), &reason);
                }
                Ok(())
            }
        }
    }

    /// An entry has its new name.
    fn took(&mut self, id: u64, kind: Kind, directory: &[u8], old: &[u8], new: &[u8]) {
        self.done.insert(id);
        if kind == Kind::Directory {
            self.carrier.roots.note(directory, old, new);
        }
    }

    fn member(&mut self, dir: &Dir, rename: &Rename, stat: &Stat) -> Member {
        let mut marked = false;
        if self.options.keep_original {
            match rename.identity.kind {
                Kind::File | Kind::Directory => match mark::is_marked(dir, &rename.old) {
                    Ok(is_marked) => marked = !is_marked,
                    Err(error) => *self.carrier.unmarked.entry(error.desc()).or_default() += 1,
                },
                _ => *self.carrier.unmarked.entry("neither a file nor a directory").or_default() += 1,
            }
        }
        if stat.links > 1 && rename.identity.kind != Kind::Directory {
            self.touched.insert(stat.ino);
        }
        Member {
            id: rename.id,
            old: rename.old.clone(),
            new: rename.new.clone().into_bytes(),
            what: Identity::of(stat),
            ctime: stat.ctime,
            marked,
        }
    }

    /// Puts something into the batch, and does the batch if it is full then.
    fn intend(&mut self, directory: &Directory, dir: Rc<Dir>, entry: Entry) -> io::Result<()> {
        if self.journal.is_none() {
            self.count(&entry);
            return Ok(());
        }
        if self.batch.places.last().is_none_or(|place| place.path != directory.path) {
            // What it was when it was opened may be older than the batch before.
            let stat = stat::at(&*dir, OsStr::new("")).unwrap_or(dir.stat);
            let (path, ino) = (directory.path.clone(), directory.inode);
            self.batch.places.push(Place { path, ino, atime: stat.atime, mtime: stat.mtime });
            self.dirs.push(dir);
        }
        self.batch.entries.push((self.batch.places.len() - 1, entry));
        match self.batch.entries.len() >= self.options.batch || self.dirs.len() >= MAX_OPEN {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Counts what is done, or would be.
    fn count(&mut self, entry: &Entry) {
        match entry {
            Entry::Rename(group) => {
                self.tally.renamed += group.members.len() as u64;
                self.done.extend(group.members.iter().map(|member| member.id));
            }
            Entry::Retarget(_) => self.tally.retargeted += 1,
        }
    }

    /// Writes the batch down, brings that to the disk, and does it.
    fn flush(&mut self) -> io::Result<()> {
        let Some(journal) = self.journal.as_deref_mut().filter(|_| !self.batch.entries.is_empty()) else {
            return Ok(());
        };
        let next = Batch { number: self.batch.number + 1, ..Batch::default() };
        let (batch, dirs) = (std::mem::replace(&mut self.batch, next), std::mem::take(&mut self.dirs));
        journal.push_batch(&batch);
        journal.commit(self.carrier.watcher)?;
        let times: Vec<_> = batch.places.iter().map(|place| (place.atime, place.mtime)).collect();
        let times = self.options.keep_times.then_some(&times[..]);
        let task = Task { batch: &batch, dirs: Some(&dirs), way: Way::Forward, wanted: &|_| true, times };
        let mut left = self.carrier.carry(&task);
        left.sort_unstable_by_key(|(at, _)| *at);
        let mut remainders = left.iter().peekable();
        let mut records = Vec::new();
        for (at, (place, entry)) in batch.entries.iter().enumerate() {
            let Some((_, reason)) = remainders.next_if(|(left, _)| *left == at) else {
                self.count(entry);
                continue;
            };
            let mut again = false;
            if let (Reason::Taken, Entry::Rename(group)) = (reason, entry)
                && is_alias(&*dirs[*place], group)
            {
                again = true;
                let place = &batch.places[*place];
                let directory = Directory { path: place.path.clone(), inode: place.ino, handle: None };
                self.again.push((Arc::new(directory), group.members[0].clone()));
            } else {
                self.tell(&batch.places[*place], entry, reason);
            }
            records.push(Remainder { entry: at, reason: reason.to_string(), again });
        }
        self.push(&Record::Done { batch: batch.number, left: records });
        self.tally.is_interrupted = self.carrier.watcher.wants_end();
        Ok(())
    }

    /// Tells of an entry of a batch that was left.
    fn tell(&mut self, place: &Place, entry: &Entry, reason: &Reason) {
        for line in lines(place, entry, reason, Way::Forward) {
            self.tally.left += 1;
            self.carrier.watcher.left(&line);
        }
    }

    fn remainders(&mut self, batch: &Batch, left: &[(usize, Reason)]) -> Vec<Remainder> {
        let record = |(at, reason): &(usize, Reason)| {
            let (place, entry) = &batch.entries[*at];
            self.tell(&batch.places[*place], entry, reason);
            Remainder { entry: *at, reason: reason.to_string(), again: false }
        };
        left.iter().map(record).collect()
    }

    /// The renames in directories that take the old and the new name for one: by way of a temporary name.
    fn try_again(&mut self) -> io::Result<()> {
        for (directory, member) in std::mem::take(&mut self.again) {
            let dir = self.carrier.roots.directory(&directory.path, directory.inode);
            let via = dir.and_then(|dir| Ok((free_name(&*dir)?, dir)));
            match via {
                Ok((via, dir)) => {
                    let group = Group { members: vec![member], via: Some(via) };
                    self.intend(&directory, dir, Entry::Rename(group))?;
                }
                Err(reason) => self.leave(&directory.path, &member.old, &member.new, &reason),
            }
        }
        self.flush()
    }

    /// Leaves a line of the plan as it is.
    fn leave(&mut self, directory: &[u8], old: &[u8], new: &[u8], reason: &Reason) {
        self.tally.left += 1;
        self.carrier.watcher.left(&Left { directory, old, new, reason });
        if self.journal.is_some() {
            let [old, new] = [old, new].map(|name| Hex(name.to_vec()));
            let (directory, reason) = (Base64(directory.to_vec()), reason.to_string());
            self.push(&Record::Left(LeftRecord { directory, old, new, reason }));
        }
    }

    /// Writes down how it ended. What was renamed is on the disk before the journal says that the plan is done.
    fn end(&mut self) -> io::Result<()> {
        let Some(journal) = self.journal.as_deref_mut() else { return Ok(()) };
        if !self.tally.is_interrupted {
            for top in self.carrier.roots.tops() {
                top.sync()?;
            }
            journal.push(&Record::End);
        }
        journal.commit(self.carrier.watcher)
    }
}
