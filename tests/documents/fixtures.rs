//! What the pages take for granted: trees, lists, archives, directories.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

/// The tree that most pages use.
pub const SHARE: &[&[u8]] = &[
    b"2019/caf\xE9.txt",
    b"2019/etc\xC0\xAFpasswd",
    "2019/invoice\u{202E}fdp.exe".as_bytes(),
    b"2019/minutes.txt ",
    b"CON.txt",
    b"README.md",
    b"Readme.md",
    b"report.pdf",
];

/// Pages that make their tree themselves, for readers.
pub const BY_THEMSELVES: &[&str] = &["README.md", "docs/MIGRATION.md"];

/// What pages use beside the tree, as a shell makes it in `/srv`.
const SCRIPTS: &[(&str, &str)] = &[
    (
        "docs/ARCHIVES.md",
        r#"
        # Three names in code page 866, unmarked: Python marks what is not ASCII, so the names come into the finished archive.
        python3 - <<'END'
import zipfile
with zipfile.ZipFile('old.zip', 'w') as archive:
    for name in ('AAAAAA.txt', 'BBBBBBBB.txt', 'CCCCCC.txt'):
        archive.writestr(name, 'contents')
data = open('old.zip', 'rb').read()
for placeholder, name in (('AAAAAA', 'Привет'), ('BBBBBBBB', 'Описание'), ('CCCCCC', 'Москва')):
    data = data.replace(placeholder.encode(), name.encode('cp866'))
open('old.zip', 'wb').write(data)
END
        touch share/aux && tar -cJf backup.tar.xz share"#,
    ),
    // The configuration is the one that the page shows.
    (
        "docs/CONFIG.md",
        "mkdir -p /etc/namegate /mnt/elsewhere /var/log/namegate /var/lib/prometheus/node-exporter
        sed -n '/^source = /,/^```/{/^```/!p}' \"$PAGE\" | tee /etc/namegate/share.toml >share.toml",
    ),
    (
        "docs/ENGINES.md",
        r#"
        mkdir -p inventory/2026-01-01T01-00Z inventory/data
        printf '"b","a/caf%%E9.txt"\n"b","a/aux.txt"\n' | gzip >inventory/data/1.csv.gz
        printf '{"sourceBucket":"b","version":"2016-11-30","fileFormat":"CSV","fileSchema":"Bucket, Key","files":[{"key":"x/inventory/data/1.csv.gz","size":%s,"MD5checksum":""}]}' \
            "$(stat -c %s inventory/data/1.csv.gz)" >inventory/2026-01-01T01-00Z/manifest.json
        printf 'a/aux\0b/c\0' >1.list; printf 'b/C\0' >2.list
        printf '%s\n' '101 1 0  -- /gpfs/fs1/caf%E9.txt' >/tmp/names.list.all"#,
    ),
    (
        "docs/EXAMPLES.md",
        "mkdir -p ~/.cargo/registry && git init -q repo && touch repo/aux && git -C repo add aux
        git -C repo -c user.name=a -c user.email=a@b commit -qm a
        printf 'usr/bin/a  x\\nusr/bin/b  y\\n' | gzip | tee Contents-amd64.gz >Contents-all.gz",
    ),
    ("docs/GUARD.md", GUARD),
    (
        "docs/JOURNAL.md",
        "namegate fix plan share --profile windows -o plan.jsonl
        mkdir other && touch other/aux && namegate fix plan other --profile windows -o other.jsonl
        namegate fix apply other.jsonl --yes --journal journal.jsonl",
    ),
    ("docs/JSON.md", "mkdir /data && touch /data/a"),
    ("docs/MIGRATION.md", "mkdir /mnt/new"),
    (
        "docs/MOUNT.md",
        "mkdir -p /etc/namegate && sed -n '/^source = /,/^```/{/^```/!p}' \"$PAGE\" >/etc/namegate/share.toml",
    ),
    (
        "docs/REPORTS.md",
        "mkdir -p build findings /mnt/usb
        namegate scan share --profile windows -q -o findings.parquet -o findings/1.jsonl || [ $? = 1 ]",
    ),
    ("docs/REQUESTS.md", "namegate mount share /mnt/share --daemon"),
    ("docs/WATCH.md", "ln -s /bin/true /usr/local/bin/mail-admin"),
    ("docs/tasks/KEYS.md", "printf 'a/aux\\0b/c\\0' >keys.list"),
    ("docs/tasks/MIGRATION.md", "mkdir /mnt/new"),
    ("docs/tasks/REPOSITORY.md", "git init -q && touch aux && git add share aux && git -c user.name=a -c user.email=a@b commit -qm a
        mkdir -p /usr/share/doc/namegate/examples && cp -r \"$ROOT/scripts/hooks\" /usr/share/doc/namegate/examples"),
    ("docs/tasks/SERVER.md", GUARD),
    ("docs/tasks/SHARE.md", "mkdir -p /etc/namegate /usr/share/doc/namegate
        cp -r \"$ROOT/docs/examples\" /usr/share/doc/namegate"),
    ("README.md", GUARD),
];

/// A guard needs file systems that a machine without systemd may not have mounted.
const GUARD: &str =
    "mountpoint -q /sys/kernel/security || mount -t securityfs securityfs /sys/kernel/security || :
    mountpoint -q /sys/fs/bpf || mount -t bpf -o mode=0700 bpf /sys/fs/bpf || :";

/// What a person does between two commands of a page: the beginning of the command before, and a script.
pub const BY_HAND: &[(&str, &str, &str)] = &[
    // The steps of the page begin with the tree as it was.
    ("docs/MIGRATION.md", "namegate verify", "namegate fix undo --last --yes"),
    (
        "docs/tasks/SHARE.md",
        "namegate doctor",
        "namegate mount --daemon --config share && ! touch share/aux.txt",
    ),
    // What the page means by: after you have edited it.
    (
        "docs/tasks/SHARE.md",
        "cp ",
        "sed -i 's/^profiles = .*/profiles = [\"windows\"]/' /etc/namegate/share.toml",
    ),
    ("docs/tasks/REPAIR.md", "namegate fix plan", DECISIONS),
    ("docs/REVIEW.md", "namegate fix plan", DECISIONS),
];

/// The file that the page to decide in saves, about the plan with the name that both pages use.
const DECISIONS: &str = r#"plan=$(ls plan.jsonl review.jsonl 2>/dev/null | head -n 1)
    printf '{"type":"decisions","version":1,"plan_sha256":"%s"}\n{"id":1,"decision":"accept"}\n' "$(sha256sum "$plan" | cut -c 1-64)" >decisions.jsonl"#;

/// Makes the files `names`, with their names as contents, below `dir`.
pub fn make_tree(dir: &Path, names: &[&[u8]]) {
    for name in names {
        let path = dir.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
}

/// The scripts that prepare `/srv` for a page.
pub fn scripts(page: &str) -> impl Iterator<Item = &'static str> {
    let of_page = SCRIPTS.iter().filter(move |(of, _)| *of == page).map(|(_, script)| *script);
    ["mkdir /mnt/share"].into_iter().chain(of_page)
}

/// Writes keys of objects as a Parquet file.
pub fn write_keys(file: &Path) {
    let schema = Arc::new(parse_message_type("message m { required binary key; }").unwrap());
    let mut writer = SerializedFileWriter::new(File::create(file).unwrap(), schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let keys = ["a/report.txt", "a/aux.txt", "b/what?"].map(ByteArray::from);
    column.typed::<ByteArrayType>().write_batch(&keys, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}
