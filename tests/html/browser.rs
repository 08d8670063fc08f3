//! A headless browser, controlled over two pipes by the Chrome DevTools Protocol.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// Names of browsers, in order of preference; `NAMEGATE_CHROMIUM` names another.
const PROGRAMS: [&str; 4] = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/// One page of a browser.
pub struct Browser {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    last_id: u64,
    /// Events of the browser.
    pub events: Vec<Value>,
    _profile: tempfile::TempDir,
}

/// The browser's program, if there is one.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os("NAMEGATE_CHROMIUM").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = || {
        let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
        PROGRAMS
            .iter()
            .find_map(|program| dirs.iter().map(|dir| dir.join(program)).find(|file| file.is_file()))
    };
    named.or_else(found)
}

impl Browser {
    /// Starts a browser with an empty page of 1280 by 1000; `None` if none is installed.
    pub fn start() -> Option<Self> {
        let browser = program().map(|program| Self::start_program(&program));
        if browser.is_none() {
            println!(
                "SKIPPED: no browser is installed (Debian: chromium-headless-shell), so no page was opened"
            );
        }
        browser
    }

    fn start_program(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The protocol uses descriptors 3 and 4, which a shell can set up.
        let mut child = Command::new("sh")
            .args(["-c", r#"exec "$@" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null"#, "sh"])
            .arg(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--remote-debugging-pipe",
            ])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--window-size=1280,1000"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the browser starts");
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser =
            Self { child, to, from, session: None, last_id: 0, events: Vec::new(), _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the protocol and waits for its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let to = self.to.as_mut().expect("the pipe is open until the end");
        to.write_all(&[message.to_string().as_bytes(), b"\0"].concat()).unwrap();
        loop {
            let answer = self.read();
            if answer["id"] == self.last_id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    fn read(&mut self) -> Value {
        let mut message = Vec::new();
        self.from.read_until(0, &mut message).unwrap();
        assert!(!message.is_empty(), "the browser has gone");
        message.pop();
        serde_json::from_slice(&message).unwrap()
    }

    /// Opens a file and waits until its scripts have run.
    pub fn open(&mut self, file: &Path) {
        self.events.clear();
        self.call("Page.navigate", json!({ "url": format!("file://{}", file.display()) }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.read();
            self.events.push(event);
        }
    }

    /// Evaluates an expression in the page, and waits if it is a promise.
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Presses and releases a key.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "End" => 35,
            "ArrowDown" => 40,
            _ => key.as_bytes()[0],
        };
        let text = if key.len() == 1 { key } else { "" };
        let text = if key == "Enter" { "\r" } else { text };
        let event = |kind| json!({ "type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code });
        self.call("Input.dispatchKeyEvent", event("keyDown"));
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }));
    }

    /// Types text into the focused element.
    pub fn type_in(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// The console output of the page, including errors and refused actions.
    pub fn complaints(&self) -> Vec<&Value> {
        const SAID: [&str; 3] = ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"];
        self.events.iter().filter(|e| SAID.iter().any(|method| e["method"] == *method)).collect()
    }

    /// The requested addresses.
    pub fn requests(&self) -> Vec<&str> {
        let sent = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.filter_map(|event| event["params"]["request"]["url"].as_str()).collect()
    }
}

impl Browser {
    /// What axe-core, whose script the page has run, finds critical or serious.
    pub fn serious_violations(&mut self) -> Vec<String> {
        let run = "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations\
            .filter(({ impact }) => ['critical', 'serious'].includes(impact))\
            .map(({ id, impact, nodes }) => `${impact}: ${id}: ${nodes.slice(0, 3).map(node => node.html.slice(0, 120)).join(' ')}`))";
        strings(&self.value(run)).into_iter().map(str::to_owned).collect()
    }

    /// Makes the page as large as a screen of these pixels.
    pub fn resize(&mut self, width: u32, height: u32) {
        let screen =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", screen);
    }
}

/// axe-core, if scripts/test has installed it.
pub fn axe() -> Option<String> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("axe.min.js");
    let text = fs::read_to_string(&file).ok();
    if text.is_none() {
        println!(
            "SKIPPED: no axe-core (scripts/test gets it by npm): the page was not checked for accessibility"
        );
    }
    text
}

pub fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.to.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
