use std::cell::Cell;
use std::fs;

use tempfile::TempDir;

use super::*;
use crate::passthrough::HandleKey;

fn handle(number: u64, len: usize) -> KernelHandle {
    let bytes: Vec<u8> = number.to_le_bytes().into_iter().cycle().take(len).collect();
    KernelHandle::from_parts(0xF8, &bytes).unwrap()
}

/// The seal of a source: the key alone differs.
fn seal(dir: &TempDir, key: u64) -> Option<HandleSeal> {
    let seal = HandleSeal::new(File::open(dir.path()).unwrap(), HandleKey([key, 0]));
    if seal.is_err() {
        println!("SKIPPED: no file handles in {}", dir.path().display());
    }
    seal.ok()
}

fn renew(dir: &TempDir, seal: &HandleSeal) -> HandleTable {
    HandleTable::renew(File::open(dir.path()).unwrap(), "table", seal.clone()).unwrap()
}

fn note(table: &HandleTable, id: u64, handle: &KernelHandle) {
    table.note(NodeId(id), table.seal.generation(handle), handle, |_| true);
}

fn found(table: &HandleTable, ids: std::ops::Range<u64>) -> Vec<Option<KernelHandle>> {
    ids.map(|id| table.find(NodeId(id))).collect()
}

#[test]
fn what_was_recorded_is_found_by_later_tables_of_the_same_source_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (Some(own), Some(other)) = (seal(&dir, 1), seal(&dir, 2)) else { return };
    let table = renew(&dir, &own);
    for id in 1..=100 {
        note(&table, id, &handle(id, (id as usize) % (LONGEST + 2)));
    }
    // Those that are too long, of 45 bytes, are not recorded. The number of a removed file is used again: its record is replaced.
    assert_eq!(table.find(NodeId(45)), None);
    note(&table, 7, &handle(1007, 8));
    let expected: Vec<_> = (1..=100)
        .map(|id| match id {
            45 | 91 => None,
            7 => Some(handle(1007, 8)),
            _ => Some(handle(id, (id as usize) % (LONGEST + 2))),
        })
        .collect();
    assert_eq!(found(&table, 1..101), expected);
    let len = || fs::metadata(dir.path().join("table")).unwrap().len();
    const LEN: u64 = 99 * 64;
    assert_eq!(len(), LEN, "a head and 98 records");
    let reopened = HandleTable::reopen(File::open(dir.path()).unwrap(), "table", own.clone()).unwrap();
    assert_eq!(found(&reopened, 1..101), expected);
    // What is recorded already costs no write.
    let later = renew(&dir, &own);
    assert_eq!((found(&later, 1..101), len()), (expected.clone(), LEN));
    note(&later, 1, &handle(1, 1));
    assert_eq!(len(), LEN);
    // The server of an earlier mount goes on with its own file.
    note(&table, 200, &handle(200, 8));
    assert_eq!((len(), later.find(NodeId(200))), (LEN, None));
    assert_eq!(found(&renew(&dir, &other), 1..101), vec![None; 100]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn any_damage_costs_the_records_that_it_hits_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let Some(seal) = seal(&dir, 1) else { return };
    let table = renew(&dir, &seal);
    (1..=10).for_each(|id| note(&table, id, &handle(id, 32)));
    let path = dir.path().join("table");
    let whole = fs::read(&path).unwrap();
    // A byte of the head; every byte of the third record; the end of the last one.
    for at in [0, 15].into_iter().chain(3 * 64..4 * 64) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&path, &bytes).unwrap();
        let lost = if at < 64 { 0 } else { 3 };
        let table = renew(&dir, &seal);
        for id in 1..=10 {
            assert_eq!(table.find(NodeId(id)), (id != lost).then(|| handle(id, 32)), "byte {at}, {id}");
        }
    }
    for len in [0, 1, 63, 64, 65, 64 * 10, 64 * 11 - 1] {
        fs::write(&path, &whole[..len]).unwrap();
        let reopened = HandleTable::reopen(File::open(dir.path()).unwrap(), "table", seal.clone()).unwrap();
        let table = renew(&dir, &seal);
        let left = (len / 64).saturating_sub(1) as u64;
        for table in [reopened, table] {
            let found = found(&table, 1..11).iter().flatten().count() as u64;
            assert_eq!(found, left, "{len} bytes");
            note(&table, 10, &handle(10, 32));
            assert_eq!(table.find(NodeId(10)), Some(handle(10, 32)), "{len} bytes");
        }
    }
    // Records whose place was exchanged lead nowhere else: each has its node id.
    let mut bytes = whole.clone();
    bytes[64..128].copy_from_slice(&whole[128..192]);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(found(&renew(&dir, &seal), 1..4), [None, Some(handle(2, 32)), Some(handle(3, 32))]);
}

#[test]
fn a_full_table_forgets_removed_files_first() {
    let dir = tempfile::tempdir().unwrap();
    let Some(seal) = seal(&dir, 1) else { return };
    let file = renew(&dir, &seal).file;
    let table = HandleTable::over(file, seal, &[], 20);
    let examined = Cell::new(0);
    let note = |id: u64, is_there: &dyn Fn(u64) -> bool| {
        let exists = |found: &KernelHandle| {
            examined.set(examined.get() + 1);
            (1..1000).any(|id| handle(id, 8) == *found && is_there(id))
        };
        table.note(NodeId(id), table.seal.generation(&handle(id, 8)), &handle(id, 8), exists);
    };
    (1..=20).for_each(|id| note(id, &|_| true));
    assert_eq!(examined.get(), 0);
    // The files 4 and 9 were removed.
    [21, 22].into_iter().for_each(|id| note(id, &|id| ![4, 9].contains(&id)));
    let missing =
        |ids: std::ops::Range<u64>| ids.filter(|&id| table.find(NodeId(id)).is_none()).collect::<Vec<_>>();
    assert_eq!(missing(1..23), [4, 9]);
    // All files exist: any record is replaced, after a few were examined.
    examined.set(0);
    note(23, &|_| true);
    assert_eq!((missing(1..24).len(), examined.get()), (3, PROBES));
    assert_eq!(fs::metadata(dir.path().join("table")).unwrap().len(), 21 * 64);
}

#[test]
fn on_a_full_disk_nothing_is_recorded_and_later_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let Some(seal) = seal(&dir, 1) else { return };
    let full = File::options().read(true).write(true).open("/dev/full").unwrap();
    let mut table = HandleTable::over(full, seal.clone(), &[], 20);
    note(&table, 1, &handle(1, 8));
    assert_eq!((table.find(NodeId(1)), table.index.lock().slots.len()), (None, 0));
    table.file = renew(&dir, &seal).file;
    note(&table, 1, &handle(1, 8));
    assert_eq!(table.find(NodeId(1)), Some(handle(1, 8)));
    assert_eq!(found(&renew(&dir, &seal), 1..2), [Some(handle(1, 8))]);
}

#[test]
fn only_a_file_of_that_name_is_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let Some(seal) = seal(&dir, 1) else { return };
    let open = || HandleTable::renew(File::open(dir.path()).unwrap(), "table", seal.clone()).map(drop);
    std::os::unix::fs::symlink("elsewhere", dir.path().join("table")).unwrap();
    assert_eq!(open().unwrap_err().raw_os_error(), Some(libc::ELOOP));
    fs::remove_file(dir.path().join("table")).unwrap();
    fs::create_dir(dir.path().join("table")).unwrap();
    assert_eq!(open().unwrap_err().raw_os_error(), Some(libc::EISDIR));
    // A server was killed while it wrote a new table.
    fs::remove_dir(dir.path().join("table")).unwrap();
    fs::write(dir.path().join("table.new"), "half").unwrap();
    open().unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}
