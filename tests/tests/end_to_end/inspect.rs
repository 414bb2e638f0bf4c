#[test]
#[ignore]
fn generate() {
    use crate::made::*;
    let dir = std::path::Path::new("/tmp/scratch-inspect");
    std::fs::create_dir_all(dir).unwrap();
    for (l, n) in [(100, 100), (300, 300), (1000, 300), (1000, 1000), (3000, 1000)] {
        std::fs::write(dir.join(format!("slow-{l}-{n}.wasm")), slow_to_compile(l, n)).unwrap();
    }
    std::fs::write(dir.join("imports.wasm"), importing((0..100_000).map(|i| format!("acme:many/i{i}")))).unwrap();
    std::fs::write(dir.join("nothings.wasm"), importing_nothing(100_000)).unwrap();
    std::fs::write(dir.join("exports.wasm"), exporting(100_000)).unwrap();
    std::fs::write(dir.join("nested50.wasm"), nested(50)).unwrap();
    std::fs::write(dir.join("nested500.wasm"), nested(500)).unwrap();
    std::fs::write(dir.join("nested100k.wasm"), nested(2_000)).unwrap();
    std::fs::write(dir.join("padded.wasm"), padded(200 << 20)).unwrap();
    std::fs::write(dir.join("ctl.wasm"), importing(["url=<a\u{1b}[2Jb\nc>", "a:b/c@1.0.0"])).unwrap();
}
