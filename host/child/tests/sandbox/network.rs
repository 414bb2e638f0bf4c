//! The servers that a program can connect to.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::harness::{has_namespaces, marker, program, python, read, run};

/// Starts a server that answers each connection with its request, after a status line.
fn echo_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = vec![0; 4096];
            let count = stream.read(&mut request).unwrap_or(0);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {count}\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&request[..count]));
        }
    });
    port
}

#[tokio::test]
async fn a_program_reaches_neither_the_host_nor_its_network() {
    if !has_namespaces() {
        return;
    }
    let port = echo_server();
    let name = marker();
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let script = format!(
        r#"
import errno, os, socket
def connect(family, address):
    try:
        with socket.socket(family) as s:
            s.settimeout(5)
            s.connect(address)
            print("connected", address)
    except OSError as error:
        print(errno.errorcode.get(error.errno, error))
connect(socket.AF_INET, ("127.0.0.1", {port}))
connect(socket.AF_INET, ("192.0.2.1", 80))
connect(socket.AF_INET6, ("2001:db8::1", 80))
connect(socket.AF_UNIX, "\x00{name}")
connect(socket.AF_UNIX, "/run/dbus/system_bus_socket")
for family in (socket.AF_PACKET, 38, 40, 16):
    try:
        socket.socket(family, socket.SOCK_RAW, 15)
        print("made", family)
    except OSError as error:
        print(errno.errorcode.get(error.errno, error))
try:
    socket.getaddrinfo("docs.rs", 443)
    print("resolved")
except OSError:
    print("not resolved")
"#
    );
    let Some(spec) = python(&script) else { return };
    let said = run(spec).await.success();
    let expected = "ECONNREFUSED ENETUNREACH ENETUNREACH ECONNREFUSED ENOENT EPERM EPERM EPERM EPERM";
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.join(" "), format!("{expected} not resolved"));
}

#[tokio::test]
async fn a_program_reaches_granted_origins_through_the_proxy() {
    if !has_namespaces() {
        return;
    }
    let (granted, other) = (echo_server(), echo_server());
    let script = format!(
        r#"
import os, socket
proxy = os.environ["HTTPS_PROXY"].removeprefix("http://").split(":")
def ask(request, then=b""):
    with socket.create_connection((proxy[0], int(proxy[1]))) as s:
        s.settimeout(20)
        s.sendall(request)
        answer = s.recv(4096)
        status = answer.split(b"\r\n")[0].decode()
        if then and b" 200 " in answer:
            s.sendall(then)
            while chunk := s.recv(4096):
                status += " | " + chunk.decode().replace("\r\n", "/")
        elif b"\r\n\r\n" in answer:
            while chunk := s.recv(4096):
                answer += chunk
            status += " | " + answer.split(b"\r\n\r\n", 1)[1].decode().replace("\r\n", "/")
        print(status)
ask(b"CONNECT 127.0.0.1:{granted} HTTP/1.1\r\nHost: x\r\n\r\n", b"hello")
ask(b"GET http://127.0.0.1:{granted}/a?b HTTP/1.1\r\nHost: other\r\nX-A: 1\r\nProxy-Connection: close\r\nConnection: x-b\r\nX-B: 2\r\n\r\n")
ask(b"CONNECT 127.0.0.1:{other} HTTP/1.1\r\nHost: x\r\n\r\n")
ask(b"CONNECT localhost:{granted} HTTP/1.1\r\nHost: x\r\n\r\n")
ask(b"GET http://user@127.0.0.1:{granted}/ HTTP/1.1\r\nHost: x\r\n\r\n")
ask(b"GET https://127.0.0.1:{granted}/ HTTP/1.1\r\nHost: x\r\n\r\n")
ask(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:{granted}\r\n\r\n")
ask(b"CONNECT 127.0.0.1 HTTP/1.1\r\nHost: x\r\n\r\n")
"#
    );
    let Some(mut spec) = python(&script) else { return };
    spec.origins = vec![
        format!("http://127.0.0.1:{granted}").parse().unwrap(),
        format!("https://localhost:{granted}").parse().unwrap(),
    ];
    let mut child = program(spec).launch().await.unwrap();
    let outcome = child.wait().await;
    let refused = child.take_refused_connections();
    let said = read(child).await;
    let lines: Vec<_> = said.stdout.lines().collect();
    let [tunnel, forwarded, denied, private, user, https, origin_form, no_port] = lines[..] else {
        panic!("{outcome:?} {said:?}")
    };
    assert!(tunnel.starts_with("HTTP/1.1 200") && tunnel.contains("hello"), "{tunnel}");
    assert!(forwarded.contains("GET /a?b HTTP/1.1/"), "{forwarded}");
    let forwarded = forwarded.to_lowercase();
    assert!(forwarded.contains(&format!("host: 127.0.0.1:{granted}/")) && forwarded.contains("x-a: 1"), "{forwarded}");
    assert!(!forwarded.contains("x-b") && !forwarded.contains("proxy"), "{forwarded}");
    assert!(denied.starts_with("HTTP/1.1 403"), "{denied}");
    assert!(private.starts_with("HTTP/1.1 403") && private.contains("public internet"), "{private}");
    assert!(user.starts_with("HTTP/1.1 403"), "{user}");
    assert!(https.starts_with("HTTP/1.1 400"), "{https}");
    assert!(origin_form.starts_with("HTTP/1.1 400"), "{origin_form}");
    assert!(no_port.starts_with("HTTP/1.1 403") || no_port.starts_with("HTTP/1.1 400"), "{no_port}");
    assert!(refused.iter().any(|line| *line == format!("127.0.0.1:{other} is not granted")), "{refused:?}");
}

#[tokio::test]
async fn a_program_without_origins_has_no_proxy() {
    if !has_namespaces() {
        return;
    }
    let script = r#"
import os, socket
print([name for name in os.environ if "proxy" in name.lower()])
try:
    socket.create_connection(("127.0.0.1", 3128), 5)
    print("connected")
except ConnectionRefusedError:
    print("refused")
"#;
    let Some(spec) = python(script) else { return };
    assert_eq!(run(spec).await.success(), "[]\nrefused\n");
}
