//! The encoding in which programs read names: those of the caller, of the system's default, and of running services.
//!
//! Sources: locale(7) (LC_ALL before LC_CTYPE before LANG), nl_langinfo(3), locale.conf(5), proc_pid_environ(5),
//! proc_pid_cgroup(5), proc_pid_stat(5).

use std::collections::BTreeMap;
use std::fs;

use super::{Diagnosis, Machine};
use crate::name::display::display;
use crate::sys::locale::codeset;

const ADVICE: &str = "set LANG=C.UTF-8 (or another UTF-8 locale that `locale -a` lists)";

pub(super) fn checks(machine: &Machine) -> Vec<Diagnosis> {
    let mut checks = Vec::new();
    if machine.is_live() {
        checks.push(caller());
    }
    checks.push(system(machine));
    checks.push(services(machine));
    checks
}

fn is_utf8(codeset: &str) -> bool {
    codeset.eq_ignore_ascii_case("utf-8") || codeset.eq_ignore_ascii_case("utf8")
}

/// The problem with a locale; `None` if its encoding is UTF-8.
fn objection(name: Option<&[u8]>) -> Option<String> {
    let name = name.unwrap_or(b"C");
    match codeset(name) {
        Some(codeset) if is_utf8(&codeset) => None,
        Some(codeset) => Some(format!("{}: names are {codeset}", display(name))),
        None => Some(format!("{}: not installed, so programs use the locale C", display(name))),
    }
}

/// The locale that variables of the form `NAME=value` select for the encoding.
fn asked<'v>(variables: impl Iterator<Item = &'v [u8]> + Clone) -> Option<&'v [u8]> {
    ["LC_ALL=", "LC_CTYPE=", "LANG="].iter().find_map(|name| {
        let mut values = variables.clone().filter_map(|variable| variable.strip_prefix(name.as_bytes()));
        values.next().filter(|value| !value.is_empty())
    })
}

fn caller() -> Diagnosis {
    const ID: &str = "locale-caller";
    match codeset(b"") {
        Some(codeset) if is_utf8(&codeset) => Diagnosis::ok(ID, "the locale of this shell is UTF-8"),
        Some(codeset) => {
            Diagnosis::warn(ID, format!("the locale of this shell has the encoding {codeset}"), ADVICE)
        }
        None => Diagnosis::warn(
            ID,
            "the locale of this shell is not installed: programs use the locale C",
            ADVICE,
        ),
    }
}

/// The locale in which services start: from the environment of the service manager, or otherwise from its configuration.
fn system(machine: &Machine) -> Diagnosis {
    const ID: &str = "locale-system";
    let advice = "localectl set-locale LANG=C.UTF-8, which writes /etc/locale.conf, and restart services";
    let is_manager = machine.text("proc/1/comm").is_ok_and(|comm| comm == "systemd");
    if is_manager && let Ok(environment) = machine.read("proc/1/environ") {
        let name = asked(environment.split(|&byte| byte == 0));
        return match objection(name) {
            None => Diagnosis::ok(ID, "systemd starts services in a UTF-8 locale"),
            Some(objection) => Diagnosis::warn(ID, format!("systemd starts services in {objection}"), advice),
        };
    }
    let files = ["etc/locale.conf", "etc/default/locale"];
    let Some((file, text)) = files.iter().find_map(|file| Some((file, machine.read(file).ok()?))) else {
        return Diagnosis::unknown(ID, "neither systemd's environment nor /etc/locale.conf can be read");
    };
    let unquoted: Vec<Vec<u8>> = text
        .split(|&byte| byte == b'\n')
        .map(|line| line.trim_ascii().iter().copied().filter(|byte| !matches!(byte, b'"' | b'\'')).collect())
        .collect();
    match objection(asked(unquoted.iter().map(Vec::as_slice))) {
        None => Diagnosis::ok(ID, format!("/{file} names a UTF-8 locale")),
        Some(objection) => Diagnosis::warn(ID, format!("/{file} asks for {objection}"), advice),
    }
}

/// Services that run in a locale that is not UTF-8, each once.
fn services(machine: &Machine) -> Diagnosis {
    const ID: &str = "locale-services";
    const SHOWN: usize = 8;
    let mut found = BTreeMap::<String, String>::new();
    let (mut looked_at, mut hidden) = (0, 0);
    let pids = fs::read_dir(machine.path("proc")).into_iter().flatten().filter_map(|entry| {
        let pid = entry.ok()?.file_name().into_string().ok()?;
        pid.bytes().all(|byte| byte.is_ascii_digit()).then_some(pid)
    });
    for pid in pids {
        let Some(service) = service(machine, &pid) else { continue };
        let Ok(environment) = machine.read(&format!("proc/{pid}/environ")) else {
            hidden += 1;
            continue;
        };
        looked_at += 1;
        if let Some(objection) = objection(asked(environment.split(|&byte| byte == 0))) {
            found.insert(service, objection);
        }
    }
    if found.is_empty() {
        return match (looked_at, hidden) {
            (0, 0) => Diagnosis::ok(ID, "no service is running"),
            (0, hidden) => Diagnosis::unknown(
                ID,
                format!("only root can read the environment of services ({hidden} hidden)"),
            ),
            (_, 0) => Diagnosis::ok(ID, format!("all services have a UTF-8 locale ({looked_at} examined)")),
            (_, _) => Diagnosis::ok(
                ID,
                format!("all visible services have a UTF-8 locale ({looked_at} examined, {hidden} hidden)"),
            ),
        };
    }
    let mut shown: Vec<String> = found.iter().map(|(service, why)| format!("{service} ({why})")).collect();
    let more = shown.len().saturating_sub(SHOWN);
    shown.truncate(SHOWN);
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    Diagnosis::warn(
        ID,
        format!("not UTF-8: {}", shown.join(", ")),
        "systemctl edit SERVICE, and in [Service] Environment=LANG=C.UTF-8; or localectl set-locale for all of them",
    )
}

/// The unit of a process, or its own name if it leads a session without a terminal; `None` if it is not a service.
fn service(machine: &Machine, pid: &str) -> Option<String> {
    // A kernel thread has no command line.
    if machine.read(&format!("proc/{pid}/cmdline")).ok()?.is_empty() || pid == "1" {
        return None;
    }
    let groups = machine.text(&format!("proc/{pid}/cgroup")).unwrap_or_default();
    let unit = groups.lines().find_map(|line| {
        let path = line.splitn(3, ':').nth(2)?;
        let unit = path.split('/').rfind(|part| part.ends_with(".service"))?;
        // Programs in user sessions are not services.
        (!path.contains("/user.slice/") && !path.starts_with("/user.slice")).then(|| unit.to_owned())
    });
    if let Some(unit) = unit {
        return Some(display(unit.as_bytes()).to_string());
    }
    let stat = machine.text(&format!("proc/{pid}/stat")).ok()?;
    // The name of the program is in parentheses, and can contain any character.
    let (head, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let (session, terminal) = (*fields.get(3)?, *fields.get(4)?);
    let name = head.split_once('(')?.1;
    (session == pid && terminal == "0").then(|| display(name.as_bytes()).to_string())
}
