//! Runs the blocks of every page, in the order of the page, in one sandbox whose `/srv` is the working directory.
//!
//! - `console`: the output is compared, line by line; `...` stands for any lines. With `NAMEGATE_UPDATE=1` the pages get the new
//!   output; edit blocks with `...` by hand.
//! - `sh`, and indented blocks: the status is checked. Scans may end with 1, which is findings.
//! - other languages: `configurations.rs` checks them.
//!
//! A block that cannot run in a test has a comment above it, `<!-- not run: REASON -->`. Its commands are parsed, as those of all blocks
//! (`commands.rs`).

use std::fs;
use std::sync::OnceLock;

use super::commands::ONLY_PARSED;
use super::configurations;
use super::fixtures::{BY_HAND, BY_THEMSELVES, SHARE, make_tree, scripts, write_keys};
use super::markdown::{Block, blocks, pages, read, root};
use super::sandbox::{Sandbox, is_possible};
use super::shell::{self, Recorder};

/// What is run for a command: a mount does not stay in the foreground, and what reports until it is stopped stops after a second.
fn as_run(command: &str) -> String {
    let instead = [
        ("namegate mount ", "namegate mount --daemon "),
        ("namegate watch ", "namegate watch --for 1s "),
        ("namegate guard events", "timeout --preserve-status -s INT 1 namegate guard events"),
    ];
    let found =
        instead.iter().find_map(|(begin, run)| Some(format!("{run}{}", command.strip_prefix(begin)?)));
    format!("set -o pipefail\n{}", found.unwrap_or_else(|| command.to_owned()))
}

/// Other programs that a machine need not have.
const MAY_BE_MISSING: &[&str] = &["gufi_query", "jq", "mail", "maturin", "mmapplypolicy", "rclone", "xz"];

/// Whether a command of a page may end with this status: 1 are findings, of which `xargs` makes 123, or a question that nobody answers.
fn is_as_expected(command: &str, status: i32) -> bool {
    let finds = ["scan ", "check ", "doctor ", "explain ", "verify ", "report ", "why "];
    let finds = finds.iter().any(|name| command.contains(&format!("namegate {name}")));
    let asks = command.contains("fix undo --last") && !command.contains("--yes");
    match status {
        0 => true,
        1 => finds || asks,
        123 => finds && command.contains("xargs "),
        _ => false,
    }
}

/// What unmounts all that a command has mounted.
const UNMOUNT: &str = "findmnt -rno TARGET -t fuse.namegate | sort -r | xargs -r umount";

/// How the blocks of the pages were held by a test.
#[derive(Debug, Default)]
struct Counts {
    compared: usize,
    run: usize,
    parsed: usize,
    configurations: usize,
    texts: usize,
    /// Single commands of blocks that are only run.
    commands: usize,
    /// Commands of other programs that are not run here.
    unheld: Vec<String>,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.compared += other.compared;
        self.run += other.run;
        self.parsed += other.parsed;
        self.configurations += other.configurations;
        self.texts += other.texts;
        self.commands += other.commands;
        self.unheld.extend_from_slice(&other.unheld);
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { compared, run, parsed, configurations, texts, commands, unheld } = self;
        write!(
            f,
            "{compared} blocks were run and their output compared, {run} were run ({commands} commands) and their status checked, \
             {parsed} only parsed, {configurations} configurations checked; {texts} are text. Held by nothing here: {unheld:#?}"
        )
    }
}

/// A page while its blocks are run.
struct Run<'p> {
    page: &'p str,
    sandbox: Sandbox,
    recorder: Recorder,
    counts: Counts,
    wrong: Vec<String>,
    /// What is not run without root is missing in the rest of the page.
    is_cut: bool,
    /// The first line, the number of lines, and the lines that are right, of each console block.
    replacements: Vec<(usize, usize, Vec<String>)>,
}

impl<'p> Run<'p> {
    fn new(page: &'p str) -> Self {
        let sandbox = Sandbox::new();
        if !BY_THEMSELVES.contains(&page) {
            make_tree(&sandbox.srv.join("share"), SHARE);
            fs::create_dir(sandbox.srv.join("mnt")).unwrap();
            write_keys(&sandbox.srv.join("keys.parquet"));
        }
        let run = Self {
            page,
            sandbox,
            recorder: Recorder::new(),
            counts: Counts::default(),
            wrong: Vec::new(),
            is_cut: false,
            replacements: Vec::new(),
        };
        for script in scripts(page).filter(|_| run.sandbox.is_whole()) {
            let root = root().display();
            let (status, said) = run.bash(&format!("set -e\nROOT='{root}' PAGE='{root}/{page}'\n{script}"));
            assert!(status == 0, "{page}: {script}: {said}");
        }
        run
    }

    /// The status of a script, and what it prints.
    fn bash(&self, script: &str) -> (i32, String) {
        let output = self.sandbox.run(&["bash", "-c", &format!("exec 2>&1\n{script}")]);
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// What a shell prints for the command of a session.
    fn printed(&self, command: &str) -> String {
        let output = self.sandbox.run(&["sh", "-c", &format!("exec 2>&1\n{command}")]);
        let text = String::from_utf8(output.stdout).unwrap();
        steady(&text).replace(self.sandbox.srv.to_str().unwrap(), "/srv")
    }

    /// The reason why the block cannot run here, or anywhere.
    fn obstacle(&self, block: &Block) -> Option<String> {
        if let Some(reason) = block.not_run {
            assert!(reason.len() > 8, "say why a block is not run: {reason:?}");
            return Some(reason.to_owned());
        }
        let needs = ["namegate mount ", "namegate watch "];
        let needs_root = block.language == "sh"
            || block.lines.iter().any(|line| needs.iter().any(|command| line.contains(command)));
        (!self.sandbox.is_whole() && (needs_root || self.is_cut))
            .then(|| "needs root, /dev/fuse and the right to unshare(2)".to_owned())
    }

    /// A command is not run. `commands.rs` has checked its calls of programs of the project, if it has any.
    fn is_only_parsed(&mut self, command: String) {
        if self.recorder.calls(&command).is_empty() {
            self.counts.unheld.push(format!("{}: {command}", self.page));
        }
    }

    fn can_guard(&self) -> bool {
        static CAN: OnceLock<bool> = OnceLock::new();
        *CAN.get_or_init(|| self.bash("namegate guard check").0 == 0)
    }

    fn session(&mut self, block: &Block) {
        self.counts.compared += 1;
        let mut actual = Vec::new();
        for (command, shown) in commands(block) {
            let printed = self.printed(command);
            let printed: Vec<&str> = printed.lines().collect();
            actual.push(format!("$ {command}"));
            let is_as_shown = matches(&shown, &printed);
            if !is_as_shown {
                self.wrong.push(format!("{}: $ {command}\n{}\n", self.page, printed.join("\n")));
            }
            let kept = if is_as_shown { &shown } else { &printed };
            actual.extend(kept.iter().map(|&line| line.to_owned()));
        }
        self.replacements.push((block.first, block.lines.len(), actual));
    }

    fn commands(&mut self, block: &Block) {
        let mut run = 0;
        for command in shell::commands(block) {
            if ONLY_PARSED.iter().any(|(program, _)| command.starts_with(program)) {
                self.is_only_parsed(command);
                continue;
            }
            if command.starts_with("namegate guard ") && !self.can_guard() {
                println!(
                    "SKIPPED: {}: `namegate guard check` says that this kernel cannot guard: {command}",
                    self.page
                );
                continue;
            }
            let (status, said) = self.bash(&as_run(&command));
            let missing =
                MAY_BE_MISSING.iter().find(|program| said.contains(&format!("{program}: command not found")));
            if let Some(program) = missing {
                println!("SKIPPED: {}: no {program}: {command}", self.page);
                self.is_only_parsed(command);
                continue;
            }
            run += 1;
            if !is_as_expected(&command, status) {
                self.wrong.push(format!("{}: {command}\nstatus {status}: {said}\n", self.page));
            }
            for (_, _, script) in
                BY_HAND.iter().filter(|(page, after, _)| *page == self.page && command.starts_with(after))
            {
                let (status, said) = self.bash(script);
                assert_eq!(status, 0, "{script}: {said}");
            }
            if command.contains("mount ") {
                let (status, said) = self.bash(UNMOUNT);
                assert_eq!(status, 0, "{}: {command}: {said}", self.page);
            }
        }
        self.counts.commands += run;
        *(if run > 0 { &mut self.counts.run } else { &mut self.counts.parsed }) += 1;
    }

    fn block(&mut self, block: &Block) {
        let at = format!("{}:{}", self.page, block.first);
        match block.language {
            "console" | "sh" => match self.obstacle(block) {
                Some(reason) => {
                    println!("SKIPPED: {at}: {reason}");
                    self.counts.parsed += 1;
                    shell::commands(block).into_iter().for_each(|command| self.is_only_parsed(command));
                    self.is_cut |= block.not_run.is_none();
                }
                None if block.language == "console" => self.session(block),
                None => self.commands(block),
            },
            "text" => self.counts.texts += 1,
            _ => {
                self.counts.configurations += 1;
                self.wrong.extend(configurations::error(block).map(|why| format!("{at}: {why}")));
            }
        }
    }

    /// Runs all blocks. If sessions print something else, the page gets it, where that was asked for.
    fn finish(mut self) -> (Counts, Vec<String>) {
        let text = read(self.page);
        blocks(&text).iter().for_each(|block| self.block(block));
        if !self.wrong.is_empty() && std::env::var_os("NAMEGATE_UPDATE").is_some() {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            // From last to first, so that replacing one block does not move the others.
            for (first, length, actual) in self.replacements.into_iter().rev() {
                lines.splice(first..first + length, actual);
            }
            fs::write(root().join(self.page), lines.join("\n") + "\n").unwrap();
        }
        (self.counts, self.wrong)
    }
}

/// Fails if a page is wrong.
fn report(wrong: &[String]) {
    assert!(
        wrong.is_empty(),
        "the pages are wrong; `NAMEGATE_UPDATE=1 cargo test --test documents` writes the output of sessions into them:\n\n{}",
        wrong.join("\n")
    );
}

/// `text` with all times, ages and process numbers replaced.
fn steady(text: &str) -> String {
    let (mut steady, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let is_time = rest.starts_with("20") && rest.as_bytes().get(10) == Some(&b'T');
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let age = rest.find(" ago").filter(|&end| steady.ends_with("was refused ") && end < 12);
        let (instead, length) = match rest.find('Z') {
            Some(end) if is_time => ("2026-11-22T05:29:53Z", end + 1),
            _ if age.is_some() => ("0 seconds", age.unwrap_or_default()),
            _ if digits > 0 && (steady.ends_with("pid ") || steady.ends_with("\"pid\":")) => ("4711", digits),
            _ => (&rest[..first.len_utf8()], first.len_utf8()),
        };
        steady += instead;
        rest = &rest[length..];
    }
    steady
}

/// The commands of a block, each with the lines below it.
fn commands<'b, 't>(block: &'b Block<'t>) -> Vec<(&'t str, Vec<&'b str>)> {
    let mut commands: Vec<(&str, Vec<&str>)> = Vec::new();
    for &line in &block.lines {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command, Vec::new())),
            (None, Some((_, output))) => output.push(line),
            (None, None) => panic!("a console block begins with `$ `: {line}"),
        }
    }
    commands
}

/// Compares `printed` with `shown`, where a line `...` stands for any lines.
fn matches(shown: &[&str], printed: &[&str]) -> bool {
    match shown {
        [] => printed.is_empty(),
        ["...", rest @ ..] => (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..])),
        [line, rest @ ..] => printed.first() == Some(line) && matches(rest, &printed[1..]),
    }
}

#[test]
fn every_block_of_every_page_does_what_the_page_says() {
    let (mut all, mut wrong) = (Counts::default(), Vec::new());
    for page in &pages() {
        if blocks(&read(page)).is_empty() {
            continue;
        }
        let (counts, of_page) = Run::new(page).finish();
        all.add(&counts);
        wrong.extend(of_page);
    }
    println!("{all}");
    report(&wrong);
    let least = if is_possible() { 21 } else { 3 };
    assert!(all.compared >= least, "only {} sessions were run", all.compared);
}

#[test]
fn output_is_compared_line_by_line_and_times_and_processes_are_not() {
    assert!(matches(&["a", "...", "c"], &["a", "b", "b", "c"]) && matches(&["..."], &[]));
    assert!(!matches(&["a", "...", "c"], &["a", "c", "d"]) && !matches(&[], &["a"]));
    let line = "{\"time\":\"2026-11-22T15:05:33.19Z\",\"pid\":31502,\"x\":1}; pid 77 \"touch\" was refused 1 second ago\n[2026-11-22T15:05:32Z WARN ]";
    assert_eq!(
        steady(line),
        "{\"time\":\"2026-11-22T05:29:53Z\",\"pid\":4711,\"x\":1}; pid 4711 \"touch\" was refused 0 seconds ago\n[2026-11-22T05:29:53Z WARN ]"
    );
    let block = Block { language: "console", not_run: None, lines: vec!["$ a", "b", "$ c"], first: 0 };
    assert_eq!(commands(&block), [("a", vec!["b"]), ("c", vec![])]);
}
