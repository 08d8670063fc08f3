//! File server settings that affect names: those of Samba, and NFS exports of mounts.
//!
//! Sources: smb.conf(5), vfs_catia(8), vfs_fruit(8), exports(5).

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use namegate_core::name::display::{display, shown};
use namegate_sys::mounts::{holding, parse};

use super::{Diagnosis, Machine};

pub(super) fn checks(machine: &Machine) -> Vec<Diagnosis> {
    let mut checks = Vec::new();
    if let Ok(conf) = machine.read("etc/samba/smb.conf") {
        checks.extend(samba(&String::from_utf8_lossy(&conf)));
    }
    checks.extend(daemons(machine));
    checks.extend(nfs(machine));
    checks
}

/// A setting of smb.conf: its section, its name in lower case without spaces, its value.
type Setting = (String, String, String);

/// Parses the settings of a file, in order. A line that ends with a backslash continues on the next.
fn settings(conf: &str) -> Vec<Setting> {
    let (mut section, mut found, mut line) = (String::from("global"), Vec::new(), String::new());
    for part in conf.lines() {
        match part.trim_end().strip_suffix('\\') {
            Some(begun) => {
                line.push_str(begun);
                continue;
            }
            None => line.push_str(part),
        }
        let whole = std::mem::take(&mut line);
        let whole = whole.trim();
        if whole.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = whole.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            section = name.trim().to_owned();
        } else if let Some((name, value)) = whole.split_once('=') {
            let name = name.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase();
            found.push((section.clone(), name, value.trim().to_owned()));
        }
    }
    found
}

fn samba(conf: &str) -> Vec<Diagnosis> {
    const ID: &str = "samba";
    let settings = settings(conf);
    let mut checks = Vec::new();
    for (section, name, value) in &settings {
        let place =
            format!("smb.conf [{}] {} = {}", display(section.as_bytes()), name, display(value.as_bytes()));
        let low = value.to_ascii_lowercase();
        let words = || low.split([' ', '\t', ',']);
        let of_section = |wanted: &str| {
            settings
                .iter()
                .rfind(|(s, n, _)| (s == section || s == "global") && n == wanted)
                .map(|(_, _, v)| v.as_str())
        };
        match name.as_str() {
            "unixcharset" if !matches!(low.as_str(), "utf-8" | "utf8") => checks.push(Diagnosis::warn(
                ID,
                format!("{place}: Samba writes names in an encoding other than UTF-8, and a mount refuses them"),
                "unix charset = UTF-8, after converting existing names (namegate scan, namegate fix)",
            )),
            "manglednames" if matches!(low.as_str(), "yes" | "true" | "1") => checks.push(Diagnosis::warn(
                ID,
                format!("{place}: clients see names that differ from those on disk, and may write them back"),
                "mangled names = illegal, or no, once all names are valid on Windows (--profile smb)",
            )),
            "vfsobjects" if words().any(|word| word == "catia") => checks.push(Diagnosis::warn(
                ID,
                format!(
                    "{place}: characters are mapped ({})",
                    of_section("catia:mappings").map_or_else(|| "none given".into(), |m| display(m.as_bytes()).to_string())
                ),
                "the disk then has other characters than clients wrote; a scan reports private-use ones as `smb-private-use`",
            )),
            "vfsobjects"
                if words().any(|word| word == "fruit") && of_section("fruit:encoding") != Some("native") =>
            {
                checks.push(Diagnosis::ok(
                    ID,
                    format!("{place}: characters reserved by Windows are stored as private-use ones (fruit:encoding = private); a mount with the profile smb or windows needs that, see the rule smb-private-use"),
                ));
            }
            "preservecase" | "shortpreservecase" if matches!(low.as_str(), "no" | "false" | "0") => {
                checks.push(Diagnosis::warn(
                    ID,
                    format!("{place}: the case of new names is changed"),
                    "preserve case = yes",
                ));
            }
            _ => {}
        }
    }
    if checks.is_empty() {
        checks.push(Diagnosis::ok(ID, "smb.conf stores names in UTF-8 and unchanged"));
    }
    checks
}

/// What proftpd takes as yes or no.
const SWITCHES: [&str; 8] = ["on", "off", "yes", "no", "true", "false", "1", "0"];

/// Servers that convert names: the file, the name of the setting, the values that leave names as they are, and what to write. Without
/// the setting, names are not converted.
const CONVERTING: [(&str, &str, &[&str], &str); 4] = [
    ("etc/proftpd/proftpd.conf", "useencoding", &["utf-8", "utf8"], "UseEncoding UTF-8 UTF-8"),
    ("etc/proftpd/conf.d/encoding.conf", "useencoding", &["utf-8", "utf8"], "UseEncoding UTF-8 UTF-8"),
    ("etc/vsftpd.conf", "utf8_filesystem", &["yes"], "utf8_filesystem=YES"),
    ("etc/rsyncd.conf", "charset", &["utf-8", "utf8"], "charset = UTF-8"),
];

/// Servers of FTP and rsync that store names in an encoding other than UTF-8.
fn daemons(machine: &Machine) -> Vec<Diagnosis> {
    const ID: &str = "server-encoding";
    let mut checks = Vec::new();
    for (file, setting, good, advice) in CONVERTING {
        let Ok(conf) = machine.read(file) else { continue };
        let conf = String::from_utf8_lossy(&conf);
        for line in conf.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let (name, value) =
                line.split_once(|c: char| c == '=' || c.is_whitespace()).unwrap_or((line, ""));
            if !name.eq_ignore_ascii_case(setting) {
                continue;
            }
            // proftpd has the encoding of the disk first, then that of its clients.
            let mut words = value.trim_start_matches([' ', '\t', '=']).split_whitespace();
            let value = words.next().unwrap_or_default();
            let (is_proftpd, is_alone) = (setting == "useencoding", words.next().is_none());
            if is_proftpd && SWITCHES.iter().any(|switch| value.eq_ignore_ascii_case(switch)) {
                continue;
            }
            if is_proftpd && is_alone {
                checks.push(Diagnosis::fail(
                    ID,
                    format!(
                        "/{file} has {}: proftpd does not start with one encoding",
                        display(line.as_bytes())
                    ),
                    format!("{advice} in /{file}: that of the disk, and that of clients"),
                ));
            } else if !good.iter().any(|good| value.eq_ignore_ascii_case(good)) {
                checks.push(Diagnosis::warn(
                    ID,
                    format!("/{file} has {}: names are stored in another encoding than UTF-8, or not marked as UTF-8", display(line.as_bytes())),
                    format!("{advice} in /{file}, after converting existing names (namegate scan, namegate fix)"),
                ));
            }
        }
    }
    checks
}

/// Exports of mounts without an `fsid`, which the server refuses.
fn nfs(machine: &Machine) -> Vec<Diagnosis> {
    const ID: &str = "nfs-exports";
    let mut files = vec![machine.path("etc/exports")];
    let more = fs::read_dir(machine.path("etc/exports.d")).into_iter().flatten().flatten();
    files.extend(
        more.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "exports")),
    );
    let table = machine.read("proc/self/mountinfo").map(|table| parse(&table)).unwrap_or_default();
    let (mut checks, mut exported) = (Vec::new(), 0);
    for line in files.iter().filter_map(|file| fs::read(file).ok()).flat_map(|text| lines(&text)) {
        let Some((path, options)) = export(&line) else { continue };
        let path = Path::new(std::ffi::OsStr::from_bytes(&path));
        let Some(mount) = holding(&table, path).filter(|mount| mount.kind.starts_with("fuse.namegate"))
        else {
            continue;
        };
        exported += 1;
        if !options.windows(5).any(|window| window == b"fsid=") {
            checks.push(Diagnosis::fail(
                ID,
                format!(
                    "{} is exported from the mount {} without an fsid",
                    shown(path),
                    shown(&mount.point)
                ),
                "add fsid=NUMBER to its options in /etc/exports: a FUSE mount has no device to derive it from",
            ));
        }
    }
    if exported > 0 && checks.is_empty() {
        checks.push(Diagnosis::ok(ID, "exports of mounts have fsid="));
    }
    checks
}

/// Lines of exports(5): a backslash at the end continues the line, `#` begins a comment.
fn lines(text: &[u8]) -> Vec<Vec<u8>> {
    let (mut found, mut line) = (Vec::new(), Vec::new());
    for part in text.split(|&byte| byte == b'\n') {
        let part = part.split(|&byte| byte == b'#').next().unwrap_or_default();
        match part.strip_suffix(b"\\") {
            Some(begun) => line.extend_from_slice(begun),
            None => {
                line.extend_from_slice(part);
                found.push(std::mem::take(&mut line));
            }
        }
    }
    found
}

/// The path of an export and the rest of its line.
fn export(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let line = line.trim_ascii();
    let (path, rest) = match line.strip_prefix(b"\"") {
        Some(quoted) => {
            let end = quoted.iter().position(|&byte| byte == b'"')?;
            (&quoted[..end], &quoted[end + 1..])
        }
        None => {
            let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
            line.split_at(end)
        }
    };
    (path.first() == Some(&b'/')).then(|| (namegate_sys::mounts::unescaped(path), rest))
}
