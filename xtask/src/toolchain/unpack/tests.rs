use super::*;

fn bookworm() -> Release {
    Release { version: Some(12), codename: "bookworm".to_owned() }
}

#[test]
fn the_stanza_of_the_release_is_rewritten_and_others_are_dropped() {
    let text = "\
Types: deb deb-src
# a snapshot, once
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBF
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
";
    let expected = "\
Types: deb
URIs: http://mirror.example/debian
Suites: trixie
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBF
 -----END PGP PUBLIC KEY BLOCK-----

";
    assert_eq!(deb822(text, "bookworm", "trixie"), expected);
}

#[test]
fn a_stanza_that_is_switched_off_or_somebody_elses_is_dropped() {
    let off = "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\nComponents: main\nEnabled: no\n";
    assert_eq!(deb822(off, "bookworm", "trixie"), "");
    let foreign = "Types: deb\nURIs: http://vendor.example/linux\nSuites: bookworm\nComponents: stable\n";
    assert_eq!(deb822(foreign, "bookworm", "trixie"), "");
    let sources_only = "Types: deb-src\nURIs: http://mirror.example/debian\nSuites: bookworm\nComponents: main\n";
    assert_eq!(deb822(sources_only, "bookworm", "trixie"), "");
}

#[test]
fn lines_of_the_release_are_rewritten_with_their_options() {
    let text = "\
# deb http://mirror.example/debian bookworm main
deb http://mirror.example/debian bookworm main contrib # the mirror
deb [ arch=amd64 signed-by=/usr/share/keyrings/debian.gpg ] http://other.example/debian bookworm main
deb http://mirror.example/debian bookworm-updates main
deb-src http://mirror.example/debian bookworm main
deb http://vendor.example/linux bookworm stable
";
    let expected = "\
deb http://mirror.example/debian trixie main
deb [ arch=amd64 signed-by=/usr/share/keyrings/debian.gpg ] http://other.example/debian trixie main
";
    assert_eq!(one_line(text, "bookworm", "trixie"), expected);
}

#[test]
fn all_that_apt_writes_is_below_the_folder() {
    let (etc, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(etc.path().join("sources.list"), "deb http://mirror.example/debian bookworm main\n").unwrap();
    prepare(etc.path(), &bookworm(), "trixie", folder.path()).unwrap();
    let sources = fs::read_to_string(folder.path().join("sources/sources.list")).unwrap();
    assert_eq!(sources, "deb http://mirror.example/debian trixie main\n");
    let configuration = fs::read_to_string(folder.path().join("apt.conf")).unwrap();
    for key in ["Dir::State::Lists", "Dir::Cache", "Dir::Etc::SourceParts"] {
        assert!(configuration.contains(&format!("{key} \"{}/", folder.path().display())), "{key}: {configuration}");
    }
}

#[test]
fn a_machine_without_sources_of_its_release_is_told_what_is_missing() {
    let (etc, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let error = prepare(etc.path(), &bookworm(), "trixie", folder.path()).unwrap_err().to_string();
    assert!(error.contains("names the suite bookworm with the component main"), "{error}");
}
