use super::*;
use std::collections::BTreeMap;

type Directories = BTreeMap<Vec<u8>, Vec<(Vec<u8>, u64)>>;

fn grouped(shape: Shape, limit: usize, paths: &[&[u8]]) -> Directories {
    let mut groups = Groups::new(shape, limit);
    for (number, path) in (1..).zip(paths) {
        groups.add(path, number).unwrap();
    }
    let mut found = Directories::new();
    for part in groups.into_parts().unwrap() {
        let part = part.load().unwrap();
        for directory in (0..part.len()).map(|at| part.directory(at)) {
            let names = directory.names.iter().map(|(_, name)| name);
            let names = names.chain(directory.holding_nul.iter().map(Vec::as_slice));
            let numbers = directory.numbers.iter();
            let names = names.zip(numbers).map(|(name, &number)| (name.to_vec(), number)).collect();
            assert!(found.insert(directory.dir, names).is_none(), "handed over once");
        }
    }
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
fn the_kind_of_a_name_is_known_where_a_path_says_it() {
    use EntryKind::{Directory, File, Unknown};
    let paths: [&[u8]; 7] = [b"a", b"d/x", b"./e/", b"f/.", b"d", b"g//h/..", b"x\0y/z"];
    let kinds = |shape, limit| {
        let mut groups = Groups::new(shape, limit);
        (1..).zip(paths).for_each(|(number, path)| groups.add(path, number).unwrap());
        let mut kinds = BTreeMap::new();
        for part in groups.into_parts().unwrap() {
            let answer = part.each(limit, 8, &mut |names| {
                let mut add = |part: GroupedDirectory| {
                    for (at, name) in part.names.iter() {
                        let dir = if part.dir.is_empty() { vec![] } else { [&part.dir[..], b"/"].concat() };
                        kinds.insert([&dir[..], name].concat(), part.names.kind_at(at));
                    }
                };
                match names {
                    GroupedNames::Whole(directory) => add(directory),
                    GroupedNames::Large(large) => large.each_part(&mut add).unwrap(),
                }
                ControlFlow::Continue(())
            });
            assert!(answer.unwrap().is_continue());
        }
        kinds
    };
    let expected = |of: &[(&str, EntryKind)]| -> BTreeMap<Vec<u8>, EntryKind> {
        of.iter().map(|(name, kind)| (name.as_bytes().to_vec(), *kind)).collect()
    };
    let paths_of = |last| {
        let known = [("d", Directory), ("e", Directory), ("f", Directory), ("g", Directory)];
        let ends = [("a", last), ("d/x", last), ("g/h", Directory), ("x\0y/z", last)];
        expected(&[&known[..], &ends].concat())
    };
    for limit in [1, LIMIT] {
        assert_eq!(kinds(Shape::File, limit), paths_of(File), "limit {limit}");
        let found = kinds(Shape::Path, limit);
        assert_eq!(found, paths_of(Unknown), "limit {limit}");
        let keys = kinds(Shape::Key, limit);
        assert_eq!(keys[&b"a"[..]], File);
        assert_eq!(keys[&b"d"[..]], Directory, "what something is below is no file alone");
    }
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

/// Directories as [`PartSource::each`] hands them over, and how many of them came in parts.
fn handed_over(shape: Shape, limit: usize, most_together: usize, paths: &[&[u8]]) -> (Directories, usize) {
    let mut groups = Groups::new(shape, limit);
    for (number, path) in (1..).zip(paths) {
        groups.add(path, number).unwrap();
    }
    let (mut found, mut in_parts) = (Directories::new(), 0);
    for (at, part) in groups.into_parts().unwrap().into_iter().enumerate() {
        let mut last: Option<Vec<u8>> = None;
        let answer = part.each(limit, most_together, &mut |names| {
            let mut all = Vec::new();
            let mut dir = Vec::new();
            let mut add = |directory: GroupedDirectory, all: &mut Vec<(Vec<u8>, u64)>| {
                let names = directory.names.iter().map(|(_, name)| name);
                let names = names.chain(directory.holding_nul.iter().map(Vec::as_slice));
                let before = all.len();
                all.extend(names.map(<[u8]>::to_vec).zip(directory.numbers.iter().copied()));
                assert_eq!(all.len() - before, directory.numbers.len());
                dir = directory.dir;
            };
            match names {
                GroupedNames::Whole(directory) => add(directory, &mut all),
                GroupedNames::Large(large) => {
                    in_parts += 1;
                    let mut parts = 0;
                    // Some visitors read it once, some again, some never to its end; the next directory comes all the same.
                    for _ in 0..=at % 2 {
                        all.clear();
                        parts = 0;
                        large
                            .each_part(&mut |part| {
                                parts += 1;
                                add(part, &mut all);
                            })
                            .unwrap();
                    }
                    assert!(parts > 1, "{parts} parts");
                    // Those that contain a NUL come last in each part.
                    all.sort_by_key(|(name, _)| (name.contains(&0), name.clone()));
                }
            }
            assert!(last.as_ref().is_none_or(|last| *last < dir), "sorted by their bytes");
            last = Some(dir.clone());
            assert!(found.insert(dir, all).is_none(), "handed over once");
            ControlFlow::Continue(())
        });
        assert!(answer.unwrap().is_continue());
    }
    (found, in_parts)
}

#[test]
fn a_large_directory_comes_in_parts_as_often_as_needed() {
    // In no order, with duplicates that end up in several runs, and small directories before and behind.
    let paths: Vec<Vec<u8>> = (0..9000_u32)
        .map(|n| match n % 3 {
            0 => format!("d/{}", n * 7919 % 2001).into_bytes(),
            1 => format!("d/{}\0{}", n % 50, n % 7).into_bytes(),
            _ => format!("{}/x{n}", ["c", "e", "d/1"][n as usize / 3 % 3]).into_bytes(),
        })
        .collect();
    let paths: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
    let whole = grouped(Shape::Key, LIMIT, &paths);
    for (limit, most_together) in [(1000, 1), (1000, 500), (10_000, 500), (100_000, 1_000)] {
        let (found, in_parts) = handed_over(Shape::Key, limit, most_together, &paths);
        assert_eq!(found, whole, "limits {limit} and {most_together}");
        assert!(in_parts > 0, "limits {limit} and {most_together}");
    }
    assert_eq!(
        handed_over(Shape::Key, LIMIT, 1, &paths),
        (whole, 0),
        "what is in memory is not sorted again"
    );
}

#[test]
fn a_large_directory_that_is_not_read_is_skipped() {
    let paths: Vec<String> = (0..3000).map(|n| format!("{}/{n}", ["a", "b"][n % 2])).collect();
    let mut groups = Groups::new(Shape::Key, 1000);
    paths.iter().for_each(|path| groups.add(path.as_bytes(), 1).unwrap());
    let mut count = 0;
    for part in groups.into_parts().unwrap() {
        let answer = part.each(1, 100, &mut |_| {
            count += 1;
            ControlFlow::Continue(())
        });
        assert!(answer.unwrap().is_continue());
    }
    assert_eq!(count, 3, "the root, a and b");
}

/// The clashes of all directories, however they are handed over.
fn clashes(limit: usize, most_together: usize, paths: &[&[u8]]) -> BTreeMap<Vec<u8>, Clash> {
    let mut groups = Groups::new(Shape::Key, limit);
    for (number, path) in (1..).zip(paths) {
        groups.add(path, number).unwrap();
    }
    let mut found = BTreeMap::new();
    for part in groups.into_parts().unwrap() {
        let mut add = |of: GroupedDirectory| {
            found.extend(
                of.clashes.into_iter().map(|(name, clash)| ([&of.dir, &b":"[..], &name].concat(), clash)),
            );
        };
        let _ = part.each(limit, most_together, &mut |names| {
            match names {
                GroupedNames::Whole(directory) => add(directory),
                GroupedNames::Large(large) => large.each_part(&mut add).unwrap(),
            }
            ControlFlow::Continue(())
        });
    }
    found
}

#[test]
fn a_name_of_a_file_and_of_a_directory_is_found_wherever_its_paths_are() {
    let keys: [&[u8]; 9] = [b"a/b/c", b"x", b"a/b", b"x/", b"only/", b"only/y", b"z", b"z", b"a/b/c/d"];
    let clash = |file, directory| Clash { file, directory };
    let wanted = [(&b"a:b"[..], clash(3, 1)), (b":x", clash(2, 4)), (b"a/b:c", clash(1, 9))];
    let wanted: BTreeMap<_, _> = wanted.map(|(name, clash)| (name.to_vec(), clash)).into();
    for limit in [1, LIMIT] {
        assert_eq!(clashes(limit, LIMIT, &keys), wanted, "limit {limit}");
    }
    let many: Vec<Vec<u8>> = (0..4000_u32)
        .flat_map(|n| [format!("d/{n}"), format!("d/{}/below", (n * 7) % 6000)].map(String::into_bytes))
        .collect();
    let many: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
    let whole = clashes(LIMIT, LIMIT, &many);
    assert!(whole.len() > 1000, "{}", whole.len());
    assert_eq!(clashes(10_000, 2000, &many), whole, "in parts of a large directory");
}
