use super::skeleton;

#[test]
fn names_that_look_alike_share_a_skeleton() {
    for (one, other) in [
        ("scope", "ѕсоре"),           // all Cyrillic
        ("file1", "filel"),           // one, small L
        ("ＡＢＣ", "ABC"),            // full width
        ("ﬁle", "file"),              // ligature
        ("a\u{2215}b", "a\u{2044}b"), // two slashes
        ("rn", "m"),
        ("e\u{301}", "é"),
        ("x\u{FE0F}y\u{200D}", "xy"),
    ] {
        assert_eq!(skeleton(one), skeleton(other), "{one:?} and {other:?}");
    }
}

#[test]
fn names_that_look_different_do_not() {
    for (one, other) in
        [("", "a"), ("a", "b"), ("a", "A"), ("é", "e"), ("ab", "ba"), ("日", "本"), ("о", "ö")]
    {
        assert_ne!(skeleton(one), skeleton(other), "{one:?} and {other:?}");
    }
}

#[test]
fn a_skeleton_of_a_long_name_stays_in_proportion() {
    let name = "\u{FDFA}a\u{301}".repeat(10_000);
    assert!(skeleton(&name).len() <= 64 * name.len());
}
