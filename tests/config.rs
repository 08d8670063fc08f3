//! Configuration files: their meaning, the position of every error, hostile text, and the law that writing and reading a
//! policy gives the same policy.

use namegate_core::name::casefold::Fold;
use namegate_core::name::normalize::Form;
use namegate_core::policy::config::{Config, ConfigErrors, EqualNames, LengthLimits};
use namegate_core::policy::profile::{self, Chars, Profile, ProfileRule, ProfileSet, Test};
use namegate_core::policy::rule::{RULES, RuleId, Severity};
use namegate_core::policy::{EntryKind, Normalization, OnMismatch, Policy};
use proptest::prelude::*;

fn errors(text: &str) -> ConfigErrors {
    match Config::parse(text).and_then(|config| config.policy()) {
        Ok(_) => panic!("no mistake found in {:?}", text.chars().take(200).collect::<String>()),
        Err(error) => error,
    }
}

#[test]
fn every_error_has_its_position_and_the_nearest_known_word() {
    const SEVERITIES: &str = r#"(one of "error", "warn", "off")"#;
    /// Line, column, message.
    type Told<'m> = (usize, usize, &'m str);
    let cases: &[(&str, &[Told<'_>])] = &[
        ("profile = []", &[(1, 1, "unknown key `profile`; did you mean `profiles`?")]),
        ("xyzzy = 1", &[(1, 1, "unknown key `xyzzy`")]),
        ("[rule]\n", &[(1, 2, "unknown key `rule`; did you mean `rules`?")]),
        ("profiles = ['strcit']", &[(1, 13, "unknown profile `strcit`; did you mean `strict`?")]),
        ("profiles = ['']", &[(1, 13, "unknown profile ``")]),
        ("profiles = 'strict'", &[(1, 12, "`profiles` must be an array of strings, not a string")]),
        (
            "profiles = [1.5]",
            &[(1, 13, "`profiles` must be an array of strings, but this element is a float")],
        ),
        ("[profiles]", &[(1, 1, "`profiles` must be an array of strings, not a table")]),
        ("reserved-characters = ['#']", &[(1, 23, "`reserved-characters` must be a string, not an array")]),
        (
            "reserved-characters = '/'",
            &[(1, 23, "`/` and U+0000 cannot occur in a name: remove them from `reserved-characters`")],
        ),
        (
            "reserved-names = ['a', 'b/c', \"\"]",
            &[
                (1, 24, "a reserved name must not be empty or contain `/` or U+0000"),
                (1, 31, "a reserved name must not be empty or contain `/` or U+0000"),
            ],
        ),
        ("rules = 1979-05-27", &[(1, 9, "`rules` must be a table: `[rules]`, not a date or time")]),
        (
            "[rules]\ntrailing-spaces = 'error'",
            &[(2, 1, "unknown rule `trailing-spaces`; did you mean `trailing-space`?")],
        ),
        (
            "[rules]\n  delete = 'eror'",
            &[(2, 12, &format!("unknown severity `eror`; did you mean `error`? {SEVERITIES}"))],
        ),
        (
            "[rules]\ndelete = true",
            &[(2, 10, r#"`delete` must be one of "error", "warn", "off", not a boolean"#)],
        ),
        (
            "rules.overlong = 'warn'",
            &[(1, 18, "rule `overlong` checks the encoding: it is always on and always an error")],
        ),
        (
            "[rules]\nempty-name = 'off'",
            &[(2, 14, "rule `empty-name` checks the encoding: it is always on and always an error")],
        ),
        (
            "[rules]\nreserved-names = []\n",
            &[(
                2,
                1,
                "unknown rule `reserved-names`: this key belongs at the top of the file, before the first table",
            )],
        ),
        ("name-bytes = 3", &[(1, 1, "unknown key `name-bytes`: this key belongs to the table `[limits]`")]),
        (
            "profiles = []\n[rules]\nreserved-name = 'warn'\ncollision-case = 'warn'\ndelete = 'warn'",
            &[
                (
                    3,
                    1,
                    "rule `reserved-name` is on but has no names: choose a profile that reserves some, or set `reserved-names`",
                ),
                (
                    4,
                    1,
                    "rule `collision-case` is on but has no equivalence: choose a profile whose target treats names as equal, or set one in `equal-names`",
                ),
            ],
        ),
        (
            "[normalization]\nform = 'NFC'",
            &[(2, 8, r#"unknown normalization form `NFC` (one of "nfc", "nfd", "nfkc", "nfkd")"#)],
        ),
        ("[normalization]\non-mismatch = 'match'", &[(2, 1, "`on-mismatch` needs `form` in the same table")]),
        (
            "[normalization]\nform = 'nfc'\non-mismatch = 'convrt'",
            &[(
                3,
                15,
                r#"unknown reaction `convrt`; did you mean `convert`? (one of "refuse", "convert", "match")"#,
            )],
        ),
        ("[limits]\nname-bytes = 0", &[(2, 14, "`name-bytes` must be from 1 to 9223372036854775807")]),
        ("[limits]\nname-bytes = -1", &[(2, 14, "`name-bytes` must be from 1 to 9223372036854775807")]),
        (
            "[limits]\npath-utf16 = 0x8000000000000000",
            &[(2, 14, "`path-utf16` must be from 1 to 9223372036854775807")],
        ),
        ("[limits]\nname-utf16 = '9'", &[(2, 14, "`name-utf16` must be a positive integer, not a string")]),
        ("[limits]\nname-utf16 = 9.0", &[(2, 14, "`name-utf16` must be a positive integer, not a float")]),
        ("[[limits]]", &[(1, 1, "`limits` must be a table: `[limits]`, not an array")]),
        // Columns count characters, and lines may end as on Windows.
        ("reserved-characters = '日本'\r\n'ü' = 1", &[(2, 1, "unknown key `ü`")]),
        (
            "profiles = ['日本', 'é', 1]",
            &[
                (1, 13, "unknown profile `日本`"),
                (1, 19, "unknown profile `é`"),
                (1, 24, "`profiles` must be an array of strings, but this element is an integer"),
            ],
        ),
        ("\u{feff}x = 1", &[(1, 1, "unknown key `x`")]),
        // Invalid TOML is reported first, and the rest of the file is still read.
        ("profiles = [", &[(1, 13, "unclosed array, expected `]`")]),
        ("= 3", &[(1, 1, "unquoted keys cannot be empty, expected letters, numbers, `-`, `_`")]),
        ("[rules]\n[rules]\n", &[(2, 2, "duplicate key")]),
        (
            "profiles = ['strcit']\nprofiles = []\n[limits]\nname-bytes = \n",
            &[
                (1, 13, "unknown profile `strcit`; did you mean `strict`?"),
                (2, 1, "duplicate key"),
                (4, 14, "string values must be quoted, expected literal string"),
            ],
        ),
    ];
    for (text, expected) in cases {
        let error = errors(text);
        let found: Vec<_> = error
            .errors()
            .iter()
            .map(|m| {
                let place = m.position.as_ref().unwrap_or_else(|| panic!("no place for {m:?} in {text:?}"));
                (place.line(), place.column(), m.message.as_str())
            })
            .collect();
        assert_eq!(found, *expected, "{text:?}");
    }
}

#[test]
fn an_error_is_marked_in_its_line() {
    let text = "profiles = []\n[rules]\n\ttrailing-dots = \"warn\"  # a \\ b\n";
    let shown = errors(text).in_file("a.toml").to_string();
    assert_eq!(
        shown,
        "a.toml:3:2: unknown rule `trailing-dots`; did you mean `trailing-dot`?\n\
         3 | trailing-dots = \"warn\"  # a \\ b\n  | ^^^^^^^^^^^^^"
    );
    let wide = errors("reserved-characters = [\"日本\"] # 日本").to_string();
    assert!(wide.ends_with("\n  |                       ^^^^^^^^"), "{wide}");
    let long = errors(&format!("profiles = [{}'x']", "'strict', ".repeat(100))).to_string();
    assert!(long.starts_with("1:1013: unknown profile `x`\n"), "{long}");
    assert!(long.lines().all(|line| line.len() < 80), "{long}");
}

#[test]
fn hidden_and_dangerous_characters_never_reach_the_terminal() {
    let text = "\"a\\u001b[31m\\u202e\" = 1 # \u{202e}gnp\u{301}\n[\"\\u0000\"]\n";
    let shown = errors(text).to_string();
    assert!(shown.contains(r"\u{202E}"), "{shown}");
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{shown:?}");
}

#[test]
fn the_number_of_errors_that_are_kept_is_limited() {
    let error = errors(&format!("profiles = [{}]", "'x',".repeat(10_000)));
    assert_eq!(error.errors().len(), ConfigErrors::MOST);
    assert!(error.to_string().ends_with("\nand 9950 more"), "{error}");
    let long = "k".repeat(100_000);
    let error = errors(&format!("{long} = 1\nprofiles = ['{long}']\n[rules]\ndelete = '{long}'"));
    assert_eq!(error.errors().len(), 3);
    assert!(error.to_string().len() < 2000, "{error}");
}

#[test]
fn hostile_files_of_a_mebibyte_are_answered() {
    let shapes = [
        "=\n",
        "[a]\n",
        "a=1\n",
        "a=[",
        "[[a]]\n",
        "\"",
        "'''",
        "a.",
        "{a={",
        "\r",
        "\u{0}",
        "[rules]\ndelete='x'\n",
        "x='\u{10ffff}'\n",
    ];
    for shape in shapes {
        let error = errors(&shape.repeat((1 << 20) / shape.len()));
        assert!(error.errors().len() <= ConfigErrors::MOST, "{shape:?}");
        assert!(error.to_string().len() < 100_000, "{shape:?}");
    }
}

#[test]
fn every_key_of_a_file_takes_effect() {
    let text = "profiles = ['utf8', 'strict', 'utf8']\nreserved-characters = '#'\nreserved-names = ['Thumbs.db']\n\
        [rules]\ndelete = 'warn'\nc0-control = 'off'\nleading-dash = 'error'\noverlong = 'error'\n\
        [normalization]\nform = 'nfd'\non-mismatch = 'convert'\n\
        [equal-names]\ncase = 'full'\nform = 'nfc'\n\
        [limits]\nname-bytes = 20\nname-utf16 = 10\npath-bytes = 100\npath-utf16 = 1_0\n";
    let policy = Config::parse(text).and_then(|c| c.policy()).unwrap();
    let violations = |name: &str| -> Vec<(&str, &str)> {
        policy
            .check(name.as_bytes())
            .violations
            .iter()
            .map(|v| (v.rule.name(), v.severity.as_str()))
            .collect()
    };
    assert_eq!(violations("good"), []);
    assert_eq!(violations("a#"), [("reserved-character", "error")]);
    assert_eq!(violations("THUMBS.DB"), [("reserved-name", "error")]);
    assert_eq!(violations("x\u{7f}y"), [("delete", "warn")]);
    assert_eq!(violations("x\ty"), []);
    assert_eq!(violations("-x"), [("leading-dash", "error")]);
    assert_eq!(violations("\u{e9}"), [("not-in-form", "warn")]);
    assert_eq!(violations("日本日本日本日"), [("name-too-long", "error")]);
    assert_eq!(violations("eleven byte"), [("name-too-long", "error")]);
    assert_eq!(policy.check_path(b"a/b/c/d/e/f", EntryKind::Unknown).len(), 1);
    assert_eq!(policy.check_path(b"a/b/c/d/e", EntryKind::Unknown).len(), 0);
    assert_eq!(
        policy.normalization(),
        Some(Normalization { form: Form::Nfd, on_mismatch: OnMismatch::Convert })
    );
    for equal in [["SS", "\u{df}"], ["\u{e9}", "e\u{301}"]] {
        assert_eq!(policy.collisions(&equal.map(str::as_bytes)).len(), 1, "{equal:?}");
    }
    let names: Vec<_> = policy.profiles().iter().map(|p| p.name).collect();
    assert_eq!(names, ["utf8", "strict"]);
}

#[test]
fn a_file_without_profiles_is_strict_and_one_with_none_is_utf8_alone() {
    let names = |text: &str| -> Vec<&str> {
        Config::parse(text).unwrap().policy().unwrap().profiles().iter().map(|p| p.name).collect()
    };
    assert_eq!(names(""), ["strict"]);
    assert_eq!(names("[limits]\nname-bytes = 9"), ["strict"]);
    assert_eq!(names("profiles = []"), [""; 0]);
    assert!(Config::parse("profiles = []").unwrap().policy().unwrap().is_encoding_only());
}

#[test]
fn the_documented_example_is_a_policy_and_names_every_key() {
    let document = include_str!("../docs/CONFIG.md");
    let example = document.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let config = Config::parse(example).unwrap_or_else(|error| panic!("{error}"));
    config.policy().unwrap_or_else(|error| panic!("{error}"));
    assert!(
        config.profiles.is_some()
            && !config.reserved_characters.is_empty()
            && !config.reserved_names.is_empty()
    );
    assert!(!config.severities.is_empty() && config.normalization.is_some());
    let LengthLimits { name_bytes, name_utf16, path_bytes, path_utf16, reserve } = config.limits;
    assert!([name_bytes, name_utf16, path_bytes, path_utf16, reserve].iter().all(Option::is_some));
    assert!(config.library_depth.is_some());
    // Everything that the writer can write.
    let keys = config.to_toml();
    for key in keys.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key) {
        let is_rule = key.parse::<RuleId>().is_ok();
        assert!(is_rule || document.contains(&format!("| `{key}` |")), "{key} is not documented");
    }
    let limit = format!("1 MiB ({} bytes)", "1 048 576");
    assert!(
        document.contains(&limit)
            && document.contains(&format!("At most {} errors are shown", ConfigErrors::MOST))
    );
}

#[test]
fn a_policy_that_no_file_can_ask_for_is_not_written() {
    let line = ProfileRule::error(Test::Reserved(Chars::AllBut("abc")), "a program");
    let policy = Policy::builder().rule(line).build().unwrap();
    assert!(Config::from_policy(&policy).is_err());
}

/// All observable properties of a policy.
type Seen = (Vec<&'static str>, Option<Normalization>, Vec<(Test, Severity, ProfileSet, &'static str, bool)>);

fn seen(policy: &Policy) -> Seen {
    let lines = policy.rules().iter().map(|l| (l.test.clone(), l.severity, l.profiles, l.source, l.verified));
    (policy.profiles().iter().map(|p| p.name).collect(), policy.normalization(), lines.collect())
}

fn profiles() -> impl Strategy<Value = Option<Vec<&'static Profile>>> {
    let some = proptest::sample::subsequence(profile::ALL.to_vec(), 0..=profile::ALL.len()).prop_shuffle();
    proptest::option::of(some)
}

fn severities() -> impl Strategy<Value = Vec<(RuleId, Option<Severity>)>> {
    let rules: Vec<RuleId> = RULES.iter().map(|rule| rule.id).filter(|rule| !rule.is_always_on()).collect();
    let severity = proptest::sample::select(vec![None, Some(Severity::Warn), Some(Severity::Error)]);
    proptest::collection::vec((proptest::sample::select(rules), severity), 0..8)
}

fn normalization() -> impl Strategy<Value = Option<Normalization>> {
    let parts = (proptest::sample::select(&Form::ALL[..]), proptest::sample::select(&OnMismatch::ALL[..]));
    proptest::option::of(parts.prop_map(|(form, on_mismatch)| Normalization { form, on_mismatch }))
}

fn equal_names() -> impl Strategy<Value = EqualNames> {
    let case = proptest::option::of(proptest::sample::select(&Fold::ALL[..]));
    let form = proptest::option::of(proptest::sample::select(&Form::ALL[..]));
    (case, form).prop_map(|(case, form)| EqualNames { case, form })
}

fn limits() -> impl Strategy<Value = LengthLimits> {
    let limit =
        || proptest::option::of(prop_oneof![1..300_usize, Just(255), Just(isize::MAX.unsigned_abs())]);
    let reserve = proptest::option::of(1..300_usize);
    (limit(), limit(), limit(), limit(), reserve).prop_map(
        |(name_bytes, name_utf16, path_bytes, path_utf16, reserve)| LengthLimits {
            name_bytes,
            name_utf16,
            path_bytes,
            path_utf16,
            reserve,
        },
    )
}

fn configs() -> impl Strategy<Value = Config> {
    let name = "[^/\\x00]{1,5}";
    (
        profiles(),
        "[^/\\x00]{0,6}",
        proptest::collection::vec(name, 0..4),
        severities(),
        normalization(),
        equal_names(),
        limits(),
    )
        .prop_map(
            |(
                profiles,
                reserved_characters,
                reserved_names,
                severities,
                normalization,
                equal_names,
                limits,
            )| {
                let mut config = Config::based_on(&[]);
                config.profiles = profiles;
                config.reserved_characters = reserved_characters;
                config.reserved_names = reserved_names;
                config.severities = severities.into_iter().collect();
                config.normalization = normalization;
                config.equal_names = equal_names;
                config.limits = limits;
                config
            },
        )
}

/// Pieces of files, so that random text gets beyond the parser.
fn soup() -> impl Strategy<Value = String> {
    const PIECES: &[&str] = &[
        "profiles",
        "rules",
        "limits",
        "normalization",
        "form",
        "on-mismatch",
        "name-bytes",
        "delete",
        "overlong",
        "x",
        " = ",
        "=",
        "[",
        "]",
        "[[",
        "]]",
        "{",
        "}",
        ",",
        ".",
        "\"",
        "'",
        "'''",
        "\"\"\"",
        "\n",
        "\r\n",
        "\r",
        "\t",
        " ",
        "#",
        "1",
        "-1",
        "0x",
        "1.5",
        "true",
        "nfc",
        "warn",
        "error",
        "strict",
        "1979-05-27",
        "\\u0000",
        "\\",
        "é",
        "日",
        "\u{feff}",
        "\u{202e}",
        "\u{0}",
        "\u{301}",
    ];
    let piece = prop_oneof![4 => proptest::sample::select(PIECES).prop_map(str::to_owned), 1 => ".{0,4}"];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn never_out_of_place(text: &str) {
    let Err(error) = Config::parse(text).and_then(|config| config.policy()) else { return };
    let lines: Vec<&str> = text.split('\n').collect();
    assert!(!error.errors().is_empty());
    for error in error.errors() {
        assert!(!error.message.contains('\n'), "{error:?}");
        let Some(place) = &error.position else { continue };
        assert!((1..=lines.len()).contains(&place.line()), "{error:?}");
        let columns = lines[place.line() - 1].chars().count() + 1;
        assert!((1..=columns).contains(&place.column()), "{error:?}");
    }
    let shown = error.in_file("f").to_string();
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_its_errors_lie_within_it(text in "(?s).{0,200}") {
        never_out_of_place(&text);
    }

    #[test]
    fn pieces_of_files_in_any_order_are_read_or_their_errors_lie_within_them(text in soup()) {
        never_out_of_place(&text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn a_configuration_that_is_written_and_read_is_the_same(config in configs()) {
        let text = config.to_toml();
        let read = Config::parse(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(read.to_toml(), text);
        match (config.policy(), read.policy()) {
            (Ok(written), Ok(read)) => prop_assert_eq!(seen(&read), seen(&written)),
            (Err(written), Err(read)) => {
                let messages = |error: &ConfigErrors| {
                    let mut messages: Vec<_> = error.errors().iter().map(|m| m.message.clone()).collect();
                    messages.sort();
                    messages
                };
                prop_assert_eq!(messages(&written), messages(&read));
                prop_assert!(read.errors().iter().all(|m| m.position.is_some()));
            }
            (written, read) => prop_assert!(false, "{:?} {:?}", written, read),
        }
    }

    #[test]
    fn a_policy_that_is_written_and_read_is_the_same(config in configs()) {
        let Ok(policy) = config.policy() else { return Ok(()) };
        let text = Config::from_policy(&policy).map_err(|error| TestCaseError::fail(error.to_string()))?.to_toml();
        let read = Config::parse(&text).and_then(|c| c.policy());
        let read = read.map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(seen(&read), seen(&policy), "{}", text);
    }
}
