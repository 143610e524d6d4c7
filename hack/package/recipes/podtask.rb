# Homebrew on Linux. Podman comes from the distribution: rootless Podman needs its newuidmap and subordinate IDs.
class Podtask < Formula
  desc "Run ECS-style tasks on rootless Podman"
  homepage "https://github.com/podtask/podtask"
  version "{{.Version}}"
  license "Apache-2.0"

  depends_on :linux

  on_intel do
    url "https://github.com/podtask/podtask/releases/download/v{{.Version}}/podtask-{{.Version}}-linux-amd64.tar.gz"
    sha256 "{{index .Sums "amd64"}}"
  end

  on_arm do
    url "https://github.com/podtask/podtask/releases/download/v{{.Version}}/podtask-{{.Version}}-linux-arm64.tar.gz"
    sha256 "{{index .Sums "arm64"}}"
  end

  def install
    bin.install Dir["bin/*"]
    bash_completion.install "share/bash-completion/completions/podtask"
    zsh_completion.install "share/zsh/site-functions/_podtask"
    fish_completion.install "share/fish/vendor_completions.d/podtask.fish"
    man1.install Dir["share/man/man1/*"]
    man5.install Dir["share/man/man5/*"]
    doc.install Dir["share/doc/podtask/*"]
    units = Dir["lib/systemd/user/*"].reject { |unit| File.directory?(unit) }
    inreplace units, /^(Exec\w+=)podtask\b/, "\\1#{opt_bin}/podtask", audit_result: false
    (pkgshare/"systemd").install units
  end

  def caveats
    <<~EOS
      systemd does not read units of Homebrew. To run the agent:
        systemctl --user link #{opt_pkgshare}/systemd/podtask.socket #{opt_pkgshare}/systemd/podtask.service
        systemctl --user enable --now podtask.socket podtask.service
      After each change of a .task unit, run `podtask generate`.
      `podtask doctor` says what this host lacks.
    EOS
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/podtask version")
    (testpath/"task.json").write '{"family": "t", "containerDefinitions": [{"name": "a", "image": "busybox"}]}'
    system bin/"podtask", "validate", "task.json"
  end
end
