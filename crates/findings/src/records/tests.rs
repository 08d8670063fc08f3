use proptest::prelude::*;

use super::index::IndexedStore;
use super::*;

const ORDER: DirectoryOrder = DirectoryOrder::EntriesFirst;

type Owned = (Vec<u8>, Vec<u8>, Vec<u8>);

fn all(sorted: &SortedRecords) -> Vec<Owned> {
    let (mut cursor, mut found) = (sorted.cursor().unwrap(), Vec::new());
    while let Some(record) = cursor.next().unwrap() {
        found.push((record.dir.to_vec(), record.name.to_vec(), record.payload.to_vec()));
    }
    found
}

fn sorted(records: &[Owned], limit: usize) -> SortedRecords {
    let mut sorter = RecordSorter::new(ORDER, limit);
    for (dir, name, payload) in records {
        sorter.push(EntryRecord { dir, name, payload }).unwrap();
    }
    sorter.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// In memory, in one run or in many: the records are those of a stable sort.
    #[test]
    fn records_come_sorted_and_are_found_whatever_the_limit(
        keys in prop::collection::vec(("(/[ab]{1,2}){0,3}", "[a-c]{0,2}"), 0..60),
        limit in prop::sample::select(vec![1_usize, 100, 400, 1 << 20]),
        is_sorted: bool,
    ) {
        let mut records: Vec<Owned> = (0..).zip(keys).map(|(number, (dir, name))| {
            let number: u32 = number;
            (dir.into_bytes(), name.into_bytes(), number.to_string().repeat(30).into_bytes())
        }).collect();
        let order = |a: &Owned, b: &Owned| compare(ORDER, (&a.0, &a.1), (&b.0, &b.1));
        if is_sorted {
            records.sort_by(order);
        }
        let found = sorted(&records, limit);
        if is_sorted && let RecordStore::Runs { runs, .. } = &found.0 {
            prop_assert_eq!(runs.len(), 1, "what comes sorted is one run");
        }
        let mut expected = records.clone();
        expected.sort_by(order);
        prop_assert_eq!(&all(&found), &expected);
        prop_assert_eq!(&all(&found), &expected, "a second time too");
        let mut cursor = found.cursor().unwrap();
        for at in 0..=expected.len() {
            let (mut fork, mut rest) = (cursor.fork(), Vec::new());
            while let Some(record) = fork.next().unwrap() {
                rest.push((record.dir.to_vec(), record.name.to_vec(), record.payload.to_vec()));
            }
            prop_assert_eq!(&rest, &expected[at..], "a fork has the rest");
            cursor.advance().unwrap();
        }
        let index = found.index().unwrap();
        prop_assert_eq!(index.is_empty(), records.is_empty());
        for (dir, name, _) in &records {
            let first = expected.iter().find(|other| (&other.0, &other.1) == (dir, name)).unwrap();
            prop_assert_eq!(index.find(dir, name).unwrap(), Some(first.2.clone()));
        }
        prop_assert_eq!(index.find(b"/none", b"x").unwrap(), None);
    }
}

#[test]
fn many_records_are_found_through_the_index() {
    let records: Vec<Owned> = (0..20_000_u32)
        .map(|number| {
            let dir = format!("/d{}", number.wrapping_mul(2_654_435_761) % 500);
            (dir.into_bytes(), format!("n{number}").into_bytes(), number.to_le_bytes().to_vec())
        })
        .collect();
    let index = sorted(&records, 64 << 10).index().unwrap();
    let IndexedStore::File { index: entries, .. } = &index.0 else { panic!("they are in a file") };
    assert!(entries.len() > 50);
    for (dir, name, payload) in records.iter().step_by(37) {
        assert_eq!(index.find(dir, name).unwrap().as_deref(), Some(&payload[..]));
        assert_eq!(index.find(dir, &[name, &b"x"[..]].concat()).unwrap(), None);
    }
}
