//! The encoding in which programs read names: those of the caller, of the system's default, and of running services.
//!
//! Sources: locale(7) (LC_ALL before LC_CTYPE before LANG), nl_langinfo(3), locale.conf(5), pam_env(8), proc_pid_environ(5),
//! proc_pid_cgroup(5), proc_pid_stat(5).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStringExt;

use namegate_core::name::display::display;
use namegate_sys::locale::codeset;

use super::{Diagnosis, Machine};

/// A locale that every glibc since 2.35 has, and Debian's much longer.
const UTF8: &str = "C.UTF-8";

pub(super) fn checks(machine: &Machine) -> Vec<Diagnosis> {
    let mut checks = Vec::new();
    if machine.is_live() {
        let variables: Vec<Vec<u8>> = std::env::vars_os()
            .map(|(name, value)| [name.into_vec(), value.into_vec()].join(&b'='))
            .collect();
        checks.push(caller(&variables));
    }
    checks.push(system(machine));
    checks.push(services(machine));
    checks
}

/// The variables that select the encoding, the strongest first.
const VARIABLES: [&str; 3] = ["LC_ALL", "LC_CTYPE", "LANG"];

/// The locale of a program: the variable that selects it and its value, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SelectedLocale<'v>(Option<(&'static str, &'v [u8])>);

impl<'v> SelectedLocale<'v> {
    /// The locale that variables of the form `NAME=value` select. An empty value is none.
    fn new(variables: impl Iterator<Item = &'v [u8]> + Clone) -> Self {
        Self::all(variables).next().unwrap_or(Self(None))
    }

    /// What each variable would select, the strongest first.
    fn all(variables: impl Iterator<Item = &'v [u8]> + Clone) -> impl Iterator<Item = Self> {
        VARIABLES.into_iter().filter_map(move |name| {
            let mut values = variables.clone().filter_map(|variable| {
                variable.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
            });
            values.next().filter(|value| !value.is_empty()).map(|value| Self(Some((name, value))))
        })
    }

    /// The problem with the locale; `None` if its encoding is UTF-8.
    fn objection(self) -> Option<String> {
        let name = self.0.map_or(&b"C"[..], |(_, value)| value);
        match codeset(name) {
            Some(codeset) if is_utf8(&codeset) => None,
            Some(codeset) => Some(format!("{self}: names are {codeset}")),
            None => Some(format!("{self}: not installed, so programs use the locale C")),
        }
    }
}

/// What makes the encoding UTF-8.
struct Remedy {
    /// The variables to remove, the strongest first.
    remove: Vec<&'static str>,
    /// What decides then; `None` if `LANG` must be set.
    decides: Option<String>,
}

impl Remedy {
    fn new<'v>(variables: impl Iterator<Item = &'v [u8]> + Clone) -> Self {
        let mut remove = Vec::new();
        for locale in SelectedLocale::all(variables) {
            if locale.objection().is_none() {
                return Self { remove, decides: Some(locale.to_string()) };
            }
            remove.extend(locale.0.map(|(variable, _)| variable).filter(|variable| *variable != "LANG"));
        }
        Self { remove, decides: None }
    }

    /// The variables to remove, and what they override; `None` if there are none.
    fn overriding(&self) -> Option<String> {
        let verb = if self.remove.len() > 1 { "override" } else { "overrides" };
        let other = self.decides.as_deref().unwrap_or("LANG");
        (!self.remove.is_empty()).then(|| format!("{}, which {verb} {other}", self.remove.join(" and ")))
    }
}

impl fmt::Display for SelectedLocale<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((variable, value)) => write!(f, "{variable}={}", display(value)),
            None => f.write_str("the locale C, because no variable selects another"),
        }
    }
}

fn is_utf8(codeset: &str) -> bool {
    codeset.eq_ignore_ascii_case("utf-8") || codeset.eq_ignore_ascii_case("utf8")
}

/// The locale of the process that runs namegate.
fn caller(variables: &[Vec<u8>]) -> Diagnosis {
    const ID: &str = "locale-caller";
    let locale = SelectedLocale::new(variables.iter().map(Vec::as_slice));
    let Some(objection) = locale.objection() else {
        return Diagnosis::ok(ID, "the locale of this shell is UTF-8");
    };
    let remedy = Remedy::new(variables.iter().map(Vec::as_slice));
    let set = format!("set LANG={UTF8} (or another UTF-8 locale that `locale -a` lists)");
    let advice = match (remedy.overriding(), remedy.decides) {
        (Some(overriding), Some(_)) => format!("unset {overriding}"),
        (Some(overriding), None) => format!("unset {overriding}, and {set}"),
        (None, _) => set,
    };
    Diagnosis::warn(ID, format!("the locale of this shell is not UTF-8: {objection}"), advice)
}

/// The locale in which services start: from the environment of the service manager, or otherwise from its configuration.
fn system(machine: &Machine) -> Diagnosis {
    const ID: &str = "locale-system";
    let is_manager = machine.text("proc/1/comm").is_ok_and(|comm| comm == "systemd");
    if is_manager && let Ok(environment) = machine.read("proc/1/environ") {
        let locale = SelectedLocale::new(environment.split(|&byte| byte == 0));
        let Some(objection) = locale.objection() else {
            return Diagnosis::ok(ID, "systemd starts services in a UTF-8 locale");
        };
        let remedy = Remedy::new(environment.split(|&byte| byte == 0));
        let set = format!("localectl set-locale LANG={UTF8}, which writes /etc/locale.conf");
        let remove = remedy.overriding().map(|overriding| {
            format!("remove {overriding}, from systemd's environment (`systemctl show-environment`, the kernel's command line)")
        });
        let steps: Vec<String> = remove.into_iter().chain(remedy.decides.is_none().then_some(set)).collect();
        let advice = format!("{}, and restart services", steps.join("; "));
        return Diagnosis::warn(ID, format!("systemd starts services with {objection}"), advice);
    }
    let files = ["etc/locale.conf", "etc/default/locale"];
    let Some((file, text)) = files.iter().find_map(|file| Some((file, machine.read(file).ok()?))) else {
        return Diagnosis::unknown(ID, "neither systemd's environment nor /etc/locale.conf can be read");
    };
    // The last assignment of a variable is the one in effect.
    let assignments: Vec<Vec<u8>> = text.split(|&byte| byte == b'\n').rev().filter_map(assignment).collect();
    let locale = SelectedLocale::new(assignments.iter().map(Vec::as_slice));
    let Some(objection) = locale.objection() else {
        return Diagnosis::ok(ID, format!("/{file} names a UTF-8 locale"));
    };
    let remedy = Remedy::new(assignments.iter().map(Vec::as_slice));
    let advice = match (remedy.overriding(), remedy.decides) {
        (Some(overriding), Some(_)) => format!("remove {overriding}, from /{file}, and restart services"),
        (Some(overriding), None) => {
            format!("remove {overriding}, from /{file}, set LANG={UTF8} there, and restart services")
        }
        (None, _) => {
            format!("set LANG={UTF8} in /{file} (localectl set-locale LANG={UTF8}), and restart services")
        }
    };
    Diagnosis::warn(ID, format!("/{file} has {objection}"), advice)
}

/// The assignment `NAME=value` in a line of a file of settings, without quotes, `export` and comments; `None` if there is none.
fn assignment(line: &[u8]) -> Option<Vec<u8>> {
    let line = line.trim_ascii();
    let line = line.strip_prefix(b"export ").unwrap_or(line).trim_ascii_start();
    let equals = line.iter().position(|&byte| byte == b'=')?;
    let (name, value) = (&line[..equals], &line[equals + 1..]);
    if matches!(line.first(), Some(b'#' | b';')) {
        return None;
    }
    let value = match value.first() {
        Some(&quote @ (b'"' | b'\'')) => value[1..].split(|&byte| byte == quote).next()?,
        // A shell and pam_env(8) read a comment there; no locale has a `#` in its name.
        _ => value.split(|&byte| byte == b'#').next()?.trim_ascii_end(),
    };
    Some([name, value].join(&b'='))
}

const SERVICES: &str = "locale-services";

/// Services that run in a locale that is not UTF-8, each once.
fn services(machine: &Machine) -> Diagnosis {
    const SHOWN: usize = 8;
    let mut found = BTreeMap::<String, String>::new();
    let (mut remove, mut is_lang_to_set) = (BTreeSet::new(), false);
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
        // A program that sets its title overwrites its environment (sshd, nginx): what is left tells nothing of its locale.
        if !is_environment(&environment) {
            hidden += 1;
            continue;
        }
        looked_at += 1;
        let variables = environment.split(|&byte| byte == 0);
        if let Some(objection) = SelectedLocale::new(variables.clone()).objection() {
            let remedy = Remedy::new(variables);
            is_lang_to_set |= remedy.decides.is_none();
            remove.extend(remedy.remove);
            let objection = match place_of_locale(&service) {
                Some(place) => format!("{objection}; {place} decides"),
                None => objection,
            };
            found.insert(service, objection);
        }
    }
    if found.is_empty() {
        return no_bad_service(looked_at, hidden);
    }
    let mut shown: Vec<String> = found.iter().map(|(service, why)| format!("{service} ({why})")).collect();
    let more = shown.len().saturating_sub(SHOWN);
    shown.truncate(SHOWN);
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    let unset = (!remove.is_empty())
        .then(|| format!("UnsetEnvironment={}", remove.into_iter().collect::<Vec<_>>().join(" ")));
    let set = format!("Environment=LANG={UTF8}");
    let lines: Vec<String> = unset.into_iter().chain(is_lang_to_set.then_some(set)).collect();
    let all = format!("; or localectl set-locale LANG={UTF8} for all of them");
    Diagnosis::warn(
        SERVICES,
        format!("not UTF-8: {}", shown.join(", ")),
        format!(
            "systemctl edit SERVICE, and in [Service] {}{}",
            lines.join(", "),
            if is_lang_to_set { &all } else { "" }
        ),
    )
}

/// No service has a locale that is not UTF-8, as far as that can be seen.
fn no_bad_service(looked_at: usize, hidden: usize) -> Diagnosis {
    match (looked_at, hidden) {
        (0, 0) => Diagnosis::ok(SERVICES, "no service is running"),
        (0, hidden) => Diagnosis::unknown(
            SERVICES,
            format!(
                "the environment of no service can be read: only root can, and not where a title has replaced it ({hidden} hidden)"
            ),
        ),
        (_, 0) => Diagnosis::ok(SERVICES, format!("all services have a UTF-8 locale ({looked_at} examined)")),
        (_, _) => Diagnosis::ok(
            SERVICES,
            format!("all visible services have a UTF-8 locale ({looked_at} examined, {hidden} hidden)"),
        ),
    }
}

/// Whether it is an environment as exec gave it: variables, each with its end.
fn is_environment(environment: &[u8]) -> bool {
    let Some(variables) = environment.strip_suffix(b"\0") else { return false };
    // A title leaves zeros, or a text without variables.
    variables.split(|&byte| byte == 0).all(|variable| variable.iter().skip(1).any(|&byte| byte == b'='))
}

/// Where the locale of a service is set that does not take the one of the service manager.
fn place_of_locale(service: &str) -> Option<&'static str> {
    Some(match service.strip_suffix(".service").unwrap_or(service) {
        "apache2" | "httpd" => "/etc/apache2/envvars",
        "cron" | "crond" => "the crontab (LC_ALL=... in a line of its own) or /etc/environment",
        "ssh" | "sshd" => "AcceptEnv with SendEnv of the client, or /etc/environment,",
        "tomcat9" | "tomcat10" | "java" => {
            "LC_ALL in the unit (JAVA_OPTS cannot: Java 17 ignores -Dsun.jnu.encoding)"
        }
        _ => return None,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The condition, the finding and the advice for a program with these variables.
    fn caller_with(variables: &[&str]) -> (bool, String, String) {
        let variables: Vec<Vec<u8>> = variables.iter().map(|variable| variable.as_bytes().to_vec()).collect();
        let diagnosis = caller(&variables);
        let is_good = diagnosis.condition == super::super::Condition::Ok;
        (is_good, diagnosis.found, diagnosis.advice.unwrap_or_default())
    }

    #[test]
    fn lc_all_comes_before_lc_ctype_and_lang_and_the_advice_says_so() {
        for good in [
            &["LC_ALL=C.UTF-8", "LC_CTYPE=C", "LANG=C"][..],
            &["LANG=C", "LC_CTYPE=C.UTF-8"],
            &["LC_ALL=", "LC_CTYPE=", "LANG=C.UTF-8"],
        ] {
            assert!(caller_with(good).0, "{good:?}");
        }
        for (bad, selected, overriding) in [
            (
                &["LANG=C", "LC_CTYPE=C.UTF-8", "LC_ALL=C"][..],
                "LC_ALL=C:",
                "unset LC_ALL, which overrides LC_CTYPE=C.UTF-8",
            ),
            (
                &["LANG=C.UTF-8", "LC_CTYPE=C", "LC_ALL=C"],
                "LC_ALL=C:",
                "unset LC_ALL and LC_CTYPE, which override LANG=C.UTF-8",
            ),
            (
                &["LANG=C", "LC_CTYPE=POSIX"],
                "LC_CTYPE=POSIX",
                "unset LC_CTYPE, which overrides LANG, and set LANG=",
            ),
            (&["LANG=xx_XX.UTF-8"], "LANG=xx_XX.UTF-8: not installed", "set LANG="),
            (&["A=1"], "no variable", "set LANG="),
        ] {
            let (is_good, found, advice) = caller_with(bad);
            assert!(
                !is_good && found.contains(selected) && advice.starts_with(overriding),
                "{found}: {advice}"
            );
        }
    }
}
