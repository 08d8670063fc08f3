//! Finds who keeps a file system alive that was unmounted: open files, and copies of the mount in other mount namespaces or at other places,
//! which umount(2) does not reach.

use std::collections::BTreeMap;
use std::fs;

use namegate_core::name::display::shown;
use namegate_sys::mounts::parse;

use super::server::Server;

/// How many copies are named.
const NAMED: usize = 3;

/// Who still uses the file system of `server`, whose device number is `device`.
pub(super) fn holders(server: &Server, device: Option<&str>) -> String {
    let tree = &server.tree;
    let open = [
        (tree.open_files(), "open file", "open files"),
        (tree.open_directories(), "open directory", "open directories"),
    ];
    let mut all: Vec<String> = open
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| counted(count, one, many))
        .collect();
    let copies = device.map(copies).unwrap_or_default();
    let rest = copies.len().saturating_sub(NAMED);
    all.extend(copies.into_values().take(NAMED));
    if rest > 0 {
        all.push(counted(rest, "more copy of the mount", "more copies of the mount"));
    }
    match all.is_empty() {
        true => "a process in one of its directories, or a file open by O_PATH".into(),
        false => all.join(", "),
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The mounts of a file system that any process sees, by their numbers.
fn copies(device: &str) -> BTreeMap<u64, String> {
    let mut found = BTreeMap::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        // A process that has just ended has no table.
        let table = fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        for mount in parse(&table).into_iter().filter(|mount| mount.device == device) {
            found.entry(mount.id).or_insert_with(|| {
                let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                let command = command.trim_end().escape_debug().to_string();
                format!("a copy of the mount on {}, seen by process {pid} ({command})", shown(&mount.point))
            });
        }
    }
    found
}
