//! Rust source as tokens, as far as the layer rules need them: it knows comments, literals and brackets, not the grammar.

/// One identifier, `::`, or any other single character, and the line it stands on.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

/// Cuts Rust source into tokens; comments, string and character literals, and lifetimes are left out.
pub fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let is_word = |c: char| c == '_' || c.is_alphanumeric();
    let (mut found, mut i, mut line) = (Vec::new(), 0, 1);
    while i < chars.len() {
        let start = i;
        match at(i) {
            '/' if at(i + 1) == '/' => {
                while i < chars.len() && at(i) != '\n' {
                    i += 1;
                }
            }
            '/' if at(i + 1) == '*' => {
                let mut depth = 0;
                loop {
                    if at(i) == '/' && at(i + 1) == '*' {
                        depth += 1;
                        i += 2;
                    } else if at(i) == '*' && at(i + 1) == '/' {
                        depth -= 1;
                        i += 2;
                    } else {
                        i += 1;
                    }
                    if depth == 0 || i >= chars.len() {
                        break;
                    }
                }
            }
            '"' => i = after_quoted(&chars, i, '"'),
            '\'' if at(i + 1) == '\\' || at(i + 2) == '\'' => i = after_quoted(&chars, i, '\''),
            '\'' => {
                i += 1;
                while is_word(at(i)) {
                    i += 1;
                }
            }
            c if is_word(c) => {
                while is_word(at(i)) {
                    i += 1;
                }
                let word: String = chars[start..i].iter().collect();
                let raw = matches!(word.as_str(), "r" | "br" | "cr");
                let hashes = chars[i..].iter().take_while(|&&c| c == '#').count();
                if raw && at(i + hashes) == '"' {
                    i = after_raw(&chars, i + hashes + 1, hashes);
                } else if word == "r" && hashes == 1 && is_word(at(i + 1)) {
                    i += 1;
                } else if !(matches!(word.as_str(), "b" | "c") && matches!(at(i), '"' | '\'')) {
                    found.push(Token { text: word, line });
                }
            }
            ':' if at(i + 1) == ':' => {
                i += 2;
                found.push(Token { text: "::".into(), line });
            }
            c => {
                i += 1;
                if !c.is_whitespace() {
                    found.push(Token { text: c.into(), line });
                }
            }
        }
        line += chars[start..i.min(chars.len())].iter().filter(|&&c| c == '\n').count();
    }
    found
}

/// The index behind the literal that opens at `start` with `quote`.
fn after_quoted(chars: &[char], start: usize, quote: char) -> usize {
    let mut i = start + 1;
    while i < chars.len() && chars[i] != quote {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// The index behind the raw string whose content begins at `start` and which ends with a quote and `hashes` hashes.
fn after_raw(chars: &[char], start: usize, hashes: usize) -> usize {
    let closes =
        |i: usize| chars[i] == '"' && chars[i + 1..].iter().take_while(|&&c| c == '#').count() >= hashes;
    (start..chars.len()).find(|&i| closes(i)).map_or(chars.len(), |i| i + 1 + hashes)
}

/// The tokens that remain when every item under `#[cfg(test)]` is taken out.
pub fn without_tests(all: &[Token]) -> Vec<Token> {
    let opens = |i: usize, texts: &[&str]| {
        all.len() >= i + texts.len() && texts.iter().zip(&all[i..]).all(|(text, token)| *text == token.text)
    };
    let (mut kept, mut i) = (Vec::new(), 0);
    while i < all.len() {
        if !opens(i, &["#", "[", "cfg", "(", "test", ")", "]"]) {
            kept.push(all[i].clone());
            i += 1;
            continue;
        }
        i += 7;
        let import = opens(i, &["use"]);
        let mut depth = 0usize;
        while i < all.len() {
            let text = all[i].text.as_str();
            match text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" if depth == 0 => break,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            i += 1;
            if depth == 0 && (text == ";" || text == "}" && !import) {
                break;
            }
        }
    }
    kept
}
