//! Names as in a large tree, generated from a seed: 70 % ASCII, 25 % Latin, CJK and emoji, 1 % with bad bytes, 0.5 % in
//! NFD; the rest is ASCII too.

/// The kinds of names, and their number among 1000.
const MIX: [(Kind, u32); 7] = [
    (Kind::Latin, 100),
    (Kind::Cyrillic, 50),
    (Kind::Cjk, 75),
    (Kind::Emoji, 25),
    (Kind::Bad, 10),
    (Kind::Decomposed, 5),
    (Kind::Ascii, 735),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ascii,
    Latin,
    Cyrillic,
    Cjk,
    Emoji,
    Bad,
    Decomposed,
}

const WORDS: &[(Kind, &[&str])] = &[
    (
        Kind::Ascii,
        &["report", "IMG_2041", "invoice-2024", "main", "notes", "lib", "test_data", "Makefile", "a"],
    ),
    (Kind::Latin, &["Übersicht", "café", "résumé", "Ångström", "señal", "naïve", "Größe"]),
    (Kind::Cyrillic, &["отчёт", "документы", "фото", "договор"]),
    (Kind::Cjk, &["報告書", "写真", "日本語のファイル", "資料", "会議録", "보고서"]),
    (Kind::Emoji, &["party 🎉", "🚀 launch", "👩‍👩‍👧 family", "❤️"]),
    (Kind::Decomposed, &["cafe\u{301}", "U\u{308}bersicht", "A\u{30A}ngstro\u{308}m"]),
];
const BAD: &[&[u8]] =
    &[b"caf\xE9", b"\xC0\xAF", b"\xED\xA0\x80", b"a\x80", b"\xFE", b"\x83\x65\x83\x58\x83\x67"];
const ENDS: &[&str] = &[".txt", ".jpg", ".rs", ".pdf", "-v2.docx", "", ".tar.gz"];

/// SplitMix64 by Steele, Lea, Flood. Written here, because the corpus must stay the same as long as numbers are compared.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    fn of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[(self.next() % choices.len() as u64) as usize]
    }
}

/// `count` names of the mix.
pub fn mix(count: usize) -> Vec<Vec<u8>> {
    let mut random = Random(1);
    (0..count)
        .map(|number| {
            let mut draw = (random.next() % 1000) as u32;
            let pick = |&&(_, share): &&(Kind, u32)| match draw.checked_sub(share) {
                Some(rest) => {
                    draw = rest;
                    false
                }
                None => true,
            };
            let kind = MIX.iter().find(pick).expect("the shares add up to 1000").0;
            name(&mut random, kind, number)
        })
        .collect()
}

/// `count` names of one kind.
pub fn only(kind: Kind, count: usize) -> Vec<Vec<u8>> {
    let mut random = Random(2);
    (0..count).map(|number| name(&mut random, kind, number)).collect()
}

/// `count` ASCII names of 20 bytes.
pub fn ascii_20(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| format!("measure-{number:08}.dat").into_bytes()).collect()
}

pub fn name(random: &mut Random, kind: Kind, number: usize) -> Vec<u8> {
    let stem = match WORDS.iter().find(|(of, _)| *of == kind) {
        Some((_, words)) => random.of(words).as_bytes(),
        None => random.of(BAD),
    };
    [stem, format!(" {number}").as_bytes(), random.of(ENDS).as_bytes()].concat()
}
