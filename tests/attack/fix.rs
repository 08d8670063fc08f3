//! A user swaps files while root renames, in the user's own directory and in one that a group shares.
//!
//! The attack is on everything that `fix apply` and `fix undo` do by name: other entries are put under the temporary names and
//! the names of the plan, and removed again. Every file that is not in the plan must keep its owner, group, mode
//! and attributes, and must not get lost.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use namegate_fix::apply::ApplyOptions;
use namegate_sys::open::beneath;
use namegate_sys::xattr;
use nix::fcntl::{OFlag, RenameFlags, renameat2};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::stat::Mode;
use nix::unistd::geteuid;
use tempfile::TempDir;

use crate::duration;
use crate::tree::{OPTIONS, Recorder, apply_plan, plan, undo_journal};
use namegate_testkit::acting::act_as;
use namegate_testkit::random::Random;

const ATTACKER: u32 = 64321;
const VICTIM: u32 = 64322;
const GROUP: u32 = 64323;

/// Number of links that get a new target in each round, and of files that are renamed.
const LINKS: usize = 8;

/// Number of swapping threads: more than processors, so that root is interrupted everywhere.
const ATTACKERS: u64 = 4;

/// Files of others that are in no plan.
const PRECIOUS: [(&str, u32, u32); 4] =
    [("shadow", 0, 0o600), ("letter", VICTIM, 0o640), ("suid", 0, 0o4755), ("passwd", 0, 0o644)];

/// The directory in which the attacker may rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttackDirectory {
    /// Their own directory.
    Own,
    /// A directory of root that they may write as members of its group, and in which new files belong to the group.
    Shared,
}

/// Attributes of an inode that must not change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Attributes {
    uid: u32,
    gid: u32,
    mode: u32,
    extended: Vec<u8>,
}

/// An entry with its path, held open so that no other inode gets its number.
type HeldEntry = (PathBuf, Attributes, OwnedFd);

/// All entries below `dir`, by inode.
fn attributes(dir: &Path) -> BTreeMap<u64, HeldEntry> {
    let mut found = BTreeMap::new();
    let open = fs::File::open(dir).unwrap();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let meta = entry.metadata().unwrap();
        let held = beneath(&open, &entry.file_name(), OFlag::O_PATH, Mode::empty()).unwrap();
        let mut extended = vec![0; 4096];
        let len = xattr::list(&held, &mut extended).unwrap_or(0);
        extended.truncate(len);
        let attributes = Attributes { uid: meta.uid(), gid: meta.gid(), mode: meta.mode(), extended };
        if meta.is_dir() {
            found.extend(self::attributes(&entry.path()));
        }
        found.insert(meta.ino(), (entry.path(), attributes, held));
    }
    found
}

/// One tree, created anew for each round.
struct AttackedTree {
    dir: TempDir,
    tree: PathBuf,
}

impl AttackedTree {
    fn new(directory: AttackDirectory) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o711)).unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir(&tree).unwrap();
        match directory {
            AttackDirectory::Own => chown(&tree, Some(ATTACKER), Some(ATTACKER)).unwrap(),
            AttackDirectory::Shared => chown(&tree, Some(0), Some(GROUP)).unwrap(),
        }
        let mode = if directory == AttackDirectory::Own { 0o755 } else { 0o2775 };
        fs::set_permissions(&tree, Permissions::from_mode(mode)).unwrap();
        Self { dir, tree }
    }

    /// Creates the entries of the plan, and others.
    fn fill(&self) {
        for entry in fs::read_dir(&self.tree).unwrap() {
            let path = entry.unwrap().path();
            match fs::symlink_metadata(&path).unwrap().is_dir() {
                true => fs::remove_dir_all(path).unwrap(),
                false => fs::remove_file(path).unwrap(),
            }
        }
        for number in 0..LINKS {
            let (bad, link) = (self.tree.join(bad(number)), self.tree.join(format!("l{number}")));
            fs::write(&bad, "of the attacker").unwrap();
            chown(&bad, Some(ATTACKER), Some(ATTACKER)).unwrap();
            symlink(self::bad(number), &link).unwrap();
            lchown(&link, Some(ATTACKER), Some(ATTACKER)).unwrap();
        }
        for (name, owner, mode) in PRECIOUS {
            let path = self.tree.join(name);
            fs::write(&path, name).unwrap();
            chown(&path, Some(owner), Some(owner)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
        for name in ["secret", "empty"] {
            fs::create_dir(self.tree.join(name)).unwrap();
            fs::set_permissions(self.tree.join(name), Permissions::from_mode(0o700)).unwrap();
        }
        fs::write(self.tree.join("secret/key"), "key").unwrap();
        symlink("shadow", self.tree.join("rootlink")).unwrap();
        fs::create_dir(self.tree.join("mine")).unwrap();
        chown(self.tree.join("mine"), Some(ATTACKER), Some(ATTACKER)).unwrap();
    }
}

fn bad(number: usize) -> OsString {
    OsString::from_vec([format!("t{number}").as_bytes(), b"\xFF"].concat())
}

/// Shared state of root and the attackers.
#[derive(Default)]
struct AttackState {
    /// Held by root while nobody attacks.
    turn: RwLock<()>,
    /// Whether names of the plan are swapped too, and not only temporary ones.
    hits_plan: AtomicBool,
    is_ended: AtomicBool,
    /// How often another entry was put in place.
    swaps: AtomicUsize,
}

/// Swaps until told to stop.
fn swap(tree: &Path, seed: u64, state: &AttackState) {
    let dir = fs::File::open(tree).unwrap();
    let watch = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
    watch.add_watch(tree, AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO).unwrap();
    let mut random = Random(seed);
    let stolen = OsString::from(format!("stolen{seed}"));
    let shift =
        |from: &OsStr, to: &OsStr| renameat2(&dir, from, &dir, to, RenameFlags::RENAME_NOREPLACE).is_ok();
    let exchange =
        |from: &OsStr, to: &OsStr| renameat2(&dir, from, &dir, to, RenameFlags::RENAME_EXCHANGE).is_ok();
    while !state.is_ended.load(Relaxed) {
        let _turn = state.turn.read().unwrap();
        let precious = ["shadow", "letter", "suid", "passwd", "secret", "empty", "rootlink", "mine"];
        let precious = OsStr::new(precious[random.below(precious.len())]);
        let events = watch.read_events().unwrap_or_default();
        let temporary = events.into_iter().rev().filter_map(|event| event.name);
        let temporary = temporary.filter(|name| name.as_bytes().starts_with(b".namegate-"));
        let number = random.below(LINKS);
        let name = match temporary.into_iter().next() {
            Some(name) => name,
            // An entry may disappear between looking and renaming.
            None if state.hits_plan.load(Relaxed) && random.chance(500) => match random.below(3) {
                0 => bad(number),
                1 => format!("t{number}").into(),
                _ => format!("l{number}").into(),
            },
            None => continue,
        };
        let is_swapped = match random.below(8) {
            0 => shift(&name, &stolen) && shift(precious, &name),
            _ => exchange(precious, &name),
        };
        if is_swapped {
            state.swaps.fetch_add(1, Relaxed);
        }
        for _ in 0..random.below(200) {
            std::hint::spin_loop();
        }
        // Swap back, so that there is something left to attack.
        let _ = shift(&name, precious) || exchange(&name, precious);
        let _ = shift(&stolen, &name);
        let _ = shift(&stolen, OsStr::new(&format!("left{}", random.below(100_000))));
    }
}

/// Damage to entries in a round.
#[derive(Debug, Default)]
struct Damage {
    lost: Vec<PathBuf>,
    given_away: Vec<String>,
    changed: Vec<String>,
    out_of_reach: Vec<PathBuf>,
}

impl Damage {
    fn check(&mut self, before: &BTreeMap<u64, HeldEntry>, tree: &Path) {
        let after = attributes(tree);
        for (ino, (path, was, _)) in before {
            let name = path.file_name().unwrap().as_bytes();
            let Some((now_at, now, _)) = after.get(ino) else {
                // A link with a new target is another inode. Whoever can put an empty directory under another name can also
                // remove it, so an attacker gains nothing if root does.
                let is_to_follow = was.mode & libc::S_IFMT == libc::S_IFLNK && name != b"rootlink";
                let is_empty = matches!(name, b"empty" | b"mine");
                self.lost.extend((!is_to_follow && !is_empty).then(|| path.clone()));
                continue;
            };
            let what = || format!("{} at {}: {now:?} was {was:?}", path.display(), now_at.display());
            if (now.uid, now.gid) != (was.uid, was.gid) {
                self.given_away.push(what());
            } else if now.mode != was.mode || (now.extended != was.extended && name[0] != b't') {
                self.changed.push(what());
            }
            // A directory that was created for a link, and not one that was put under its name.
            let dir = now_at.parent().unwrap();
            let is_left = dir != tree && !before.contains_key(&fs::metadata(dir).unwrap().ino());
            self.out_of_reach.extend(is_left.then(|| now_at.clone()));
        }
        for (path, now, _) in after.iter().filter(|(ino, _)| !before.contains_key(ino)).map(|(_, new)| new) {
            if now.mode & libc::S_IFMT == libc::S_IFLNK && now.uid != ATTACKER {
                self.given_away.push(format!("{} is new, and of {}", path.display(), now.uid));
            }
        }
    }

    fn total(&self) -> usize {
        self.lost.len() + self.given_away.len() + self.changed.len() + self.out_of_reach.len()
    }
}

fn attack(directory: AttackDirectory, undo: bool) {
    if !geteuid().is_root() {
        return println!("SKIPPED: acting as other users needs root");
    }
    let attacked = AttackedTree::new(directory);
    let state = AttackState::default();
    let (mut rounds, mut changed, mut left, mut damage) = (0, 0, 0, Damage::default());
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let (tree, state) = (&attacked.tree, &state);
        let mine = state.turn.write().unwrap();
        for seed in 0..ATTACKERS {
            scope.spawn(move || {
                act_as(ATTACKER, ATTACKER, &[GROUP], 0o022, || swap(tree, seed, state));
            });
        }
        let mut mine = Some(mine);
        let rounds_of = || -> Result<(), Box<dyn std::any::Any + Send>> {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                while begun.elapsed() < duration() {
                    attacked.fill();
                    let names: Vec<(Vec<u8>, String)> = (0..LINKS)
                        .map(|number| (bad(number).into_encoded_bytes(), format!("t{number}")))
                        .collect();
                    let renames: Vec<(&[u8], &str)> =
                        names.iter().map(|(old, new)| (&**old, &**new)).collect();
                    // If names of the plan are swapped, few of its lines are done, and few temporary names appear.
                    state.hits_plan.store(rounds % 3 == 0, Relaxed);
                    let before = attributes(tree);
                    let plan = plan(tree, &renames);
                    let journal = attacked.dir.path().join(format!("journal{rounds}"));
                    let options =
                        ApplyOptions { keep_original: rounds % 2 == 1, batch_size: LINKS, ..OPTIONS };
                    if !undo {
                        mine = None;
                    }
                    let kept = Recorder::default();
                    let tally = apply_plan(&plan, &journal, options, &kept).unwrap();
                    if !undo {
                        (changed, left) =
                            (changed + tally.renamed + tally.retargeted, left + tally.remaining);
                    } else {
                        mine = None;
                        let tally = undo_journal(&journal, &kept).unwrap();
                        (changed, left) = (changed + tally.restored, left + tally.remaining);
                    }
                    mine = Some(state.turn.write().unwrap());
                    fs::remove_file(&journal).unwrap();
                    damage.check(&before, tree);
                    rounds += 1;
                }
            }))
        };
        let result = { rounds_of }();
        state.is_ended.store(true, Relaxed);
        drop(mine);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
    println!(
        "{directory:?}, undo {undo}: {rounds} rounds, {changed} changes done, {left} left, {} swaps; {} given away, {} changed, {} \
         lost, {} out of reach",
        state.swaps.into_inner(),
        damage.given_away.len(),
        damage.changed.len(),
        damage.lost.len(),
        damage.out_of_reach.len()
    );
    assert_eq!(damage.total(), 0, "{damage:#?}");
}

#[test]
fn fix_apply_gives_no_file_to_a_user_who_swaps_files_in_their_own_directory() {
    attack(AttackDirectory::Own, false);
}

#[test]
fn fix_apply_gives_no_file_to_a_user_who_swaps_files_in_a_shared_directory() {
    attack(AttackDirectory::Shared, false);
}

#[test]
fn fix_undo_gives_no_file_to_a_user_who_swaps_files_in_their_own_directory() {
    attack(AttackDirectory::Own, true);
}

#[test]
fn fix_undo_gives_no_file_to_a_user_who_swaps_files_in_a_shared_directory() {
    attack(AttackDirectory::Shared, true);
}
