# Not run here: there is no brew. For Linux; brew install --build-from-source ./namegate.rb after a release.
class Namegate < Formula
  desc "Finds, fixes and prevents file names that other systems refuse"
  homepage "https://a-seed-809a195f.example/namegate"
  url "https://a-seed-809a195f.example/namegate/archive/refs/tags/v1.0.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build
  depends_on :linux

  def install
    system "cargo", "install", *std_cargo_args
    mkdir "pages"
    system bin/"namegate", "man", "pages"
    man1.install Dir["pages/*.1"]
    man5.install Dir["docs/man/*.5"]
    man8.install Dir["docs/man/*.8"]
    generate_completions_from_executable(bin/"namegate", "completions")
    (share/"doc/namegate/schema").install Dir["schema/*.json"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/namegate --version")
    (testpath/"a?b").write ""
    assert_match "reserved-character", shell_output("#{bin}/namegate scan #{testpath} --profile windows --json", 1)
  end
end
