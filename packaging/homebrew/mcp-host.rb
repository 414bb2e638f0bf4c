# Installs the program and the included providers, as a release has them compiled.
class McpHost < Formula
  desc "Serves MCP resources from sandboxed WebAssembly components"
  homepage "{HOMEPAGE}"
  url "{URL}"
  version "{VERSION}"
  sha256 "{SHA256}"
  license "{LICENSE}"

  depends_on arch: :{ARCH}
  depends_on :linux

  def install
    bin.install "bin/mcp-host"
    # Where the program looks for them: ../lib/mcp-host/plugins.
    (lib/"mcp-host").install "lib/mcp-host/plugins"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/mcp-host"
    fish_completion.install "share/fish/vendor_completions.d/mcp-host.fish"
    zsh_completion.install "share/zsh/site-functions/_mcp-host"
  end

  test do
    (testpath/"notes/hello.md").write "# Hello\n"
    system bin/"mcp-host", "init", "notes"
    assert_match "notes:///hello.md", shell_output("#{bin}/mcp-host list")
  end
end
