//! `mcp-host dev --debug`, with a client of the GDB remote protocol.

use std::fs;
use std::time::Duration;

use mcp_host_tests::{DevProject, DevServer, TIMEOUT, fixture, host_command};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// The start of a stop reply for these signals.
const INTERRUPTED: &str = "T02";
const TRAPPED: &str = "T05";
const FAILED: &str = "T0b";

/// A debugger that is connected.
struct Debugger {
    connection: BufReader<TcpStream>,
}

impl Debugger {
    /// Connects to the address that `dev` prints.
    async fn connect(dev: &DevServer) -> Self {
        let line = dev.line("connect://").await;
        let (_, address) = line.split_once("connect://").unwrap();
        let connection = TcpStream::connect(address).await.unwrap();
        connection.set_nodelay(true).unwrap();
        Self { connection: BufReader::new(connection) }
    }

    /// Sends a packet that has a reply, and returns the reply.
    async fn ask(&mut self, packet: &str) -> String {
        self.send(packet).await;
        self.reply().await
    }

    async fn send(&mut self, packet: &str) {
        let sum = packet.bytes().fold(0u8, u8::wrapping_add);
        self.connection.write_all(format!("${packet}#{sum:02x}").as_bytes()).await.unwrap();
    }

    /// Waits for a reply, and acknowledges it. Acknowledgements of the server are skipped.
    async fn reply(&mut self) -> String {
        let packet = async {
            let (mut before, mut packet, mut sum) = (Vec::new(), Vec::new(), [0; 2]);
            self.connection.read_until(b'$', &mut before).await.unwrap();
            self.connection.read_until(b'#', &mut packet).await.unwrap();
            self.connection.read_exact(&mut sum).await.unwrap();
            assert_eq!(packet.pop(), Some(b'#'), "the connection has ended");
            packet
        };
        let packet = timeout(TIMEOUT, packet).await.expect("a reply in time");
        self.connection.write_all(b"+").await.unwrap();
        expand(&packet)
    }

    async fn interrupt(&mut self) {
        self.connection.write_all(&[3]).await.unwrap();
    }

    /// The addresses of the frames, from the innermost one.
    async fn call_stack(&mut self) -> Vec<u64> {
        let digits = self.ask("qWasmCallStack:1").await;
        let bytes: Vec<u8> =
            (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect();
        bytes.chunks(8).map(|address| u64::from_le_bytes(address.try_into().unwrap())).collect()
    }

    /// Steps until the innermost frame pushes a second value on its operand stack. Debug information counts from the
    /// bottom, so index 0 still is the first value.
    async fn push_value(&mut self) {
        loop {
            let frames = self.call_stack().await.len();
            let first = self.ask("qWasmStackValue:0;0").await;
            let is_alone = !first.is_empty() && self.ask("qWasmStackValue:0;1").await.is_empty();
            assert!(self.ask("vCont;s:1").await.starts_with(TRAPPED));
            let is_pushed = is_alone && !self.ask("qWasmStackValue:0;1").await.is_empty();
            if is_pushed && self.call_stack().await.len() == frames {
                assert_eq!(self.ask("qWasmStackValue:0;0").await, first);
                return;
            }
        }
    }
}

/// Expands run-length encoding: after a character, `*` and a character whose code is the number of repetitions plus 29.
fn expand(packet: &[u8]) -> String {
    let mut expanded = String::new();
    let mut rest = packet.iter();
    while let Some(byte) = rest.next() {
        if *byte == b'*' {
            let repeated = expanded.pop().unwrap();
            expanded.extend(std::iter::repeat_n(repeated, usize::from(rest.next().unwrap() - 28)));
        } else {
            expanded.push(char::from(*byte));
        }
    }
    expanded
}

/// A project whose provider fails as the config says.
fn misbehaving(config: &str) -> DevProject {
    let project = DevProject::new();
    project.folder().write(".components/bad.wasm", fs::read(fixture("misbehaving")).unwrap());
    project.folder().write("choice", "bad");
    let file = project.folder().path().join("mcp-host.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("[dev]", &format!("{config}\n\n[dev]"))).unwrap();
    project
}

#[tokio::test]
async fn a_debugger_stops_a_guest_reads_its_state_and_stops_later_instances_at_its_breakpoints() {
    // A stopped guest has no deadline, and compiled code of the usual kind is not used.
    let project = DevProject::new();
    let file = project.folder().path().join("mcp-host.toml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, config.replace("[dev]", "limits = { deadline = '10ms' }\n\n[dev]")).unwrap();
    let dev = DevServer::start_with(&project, &["--debug", "0"]).await;
    dev.line("  + x:///world").await;
    let client = dev.client().await;
    let mut debugger = Debugger::connect(&dev).await;
    assert!(debugger.ask("qSupported:swbreak+").await.contains("qXfer:libraries:read+"));
    assert!(debugger.ask("?").await.starts_with('T'));
    assert!(debugger.call_stack().await.is_empty(), "the call has not begun");

    // The modules are in the memory of the process, as LLDB reads them.
    let libraries = debugger.ask("qXfer:libraries:read::0,fff").await;
    let (_, module) = libraries.split_once("address=\"0x").unwrap();
    let (module, _) = module.split_once('"').unwrap();
    assert_eq!(debugger.ask(&format!("m{module},4")).await, "0061736d");

    assert!(debugger.ask("vCont;s:1").await.starts_with(TRAPPED));
    let [first] = debugger.call_stack().await[..] else { panic!("one frame at the first instruction") };
    assert!(debugger.ask("vCont;s:1").await.starts_with(TRAPPED));
    assert_ne!(debugger.call_stack().await, [first]);
    for _ in 0..2 {
        assert_eq!(debugger.ask(&format!("Z0,{first:x},1")).await, "OK");
    }
    debugger.send("vCont;c").await;

    // The call that had stopped first was one of the listing, too.
    let stopping = async {
        assert!(debugger.reply().await.starts_with(TRAPPED));
        assert_eq!(debugger.call_stack().await, [first], "a new instance has the breakpoint");
        let memory = debugger.ask("m10,4").await;
        assert_eq!(memory.len(), 8, "{memory}");
        assert_eq!(debugger.ask(&format!("M10,4:{memory}")).await, "OK");
        let map = debugger.ask("qXfer:memory-map:read::0,fff").await;
        let (_, end) = map.split_once("start=\"0x0\" length=\"0x").unwrap();
        let (end, _) = end.split_once('"').unwrap();
        assert!(debugger.ask(&format!("m{end},4")).await.starts_with('E'), "nothing is behind the memory");
        let mut local = String::new();
        while local.is_empty() {
            assert!(debugger.ask("vCont;s:1").await.starts_with(TRAPPED));
            local = debugger.ask("qWasmLocal:0;0").await;
            local.retain(|digit| digit.is_ascii_hexdigit());
        }
        assert!(matches!(local.len(), 8 | 16), "{local}");
        debugger.push_value().await;
        assert_eq!(debugger.ask(&format!("z0,{first:x},1")).await, "OK");
        debugger.send("vCont;c").await;
    };
    let (uris, ()) = tokio::join!(client.uris(), stopping);
    assert_eq!(uris, ["x:///world"]);

    // Without the breakpoint nothing stops; without the debugger, what has stopped continues.
    assert_eq!(client.uris().await, ["x:///world"]);
    debugger.interrupt().await;
    assert!(debugger.reply().await.starts_with(INTERRUPTED));
    let leaving = async {
        // Longer than a call waits without a debugger.
        sleep(Duration::from_millis(1500)).await;
        drop(debugger);
    };
    let (text, ()) = tokio::join!(client.text("x:///world"), leaving);
    assert_eq!(text, "Hello, world!");
    let mut again = Debugger::connect(&dev).await;
    assert!(again.ask("?").await.starts_with('T'));
    drop((again, client));
    dev.end().await;
}

#[tokio::test]
async fn a_debugger_is_shown_where_a_guest_traps() {
    let project = misbehaving("config = { list = 'panic' }");
    let dev = DevServer::start_with(&project, &["--debug", "0"]).await;
    dev.line("listing: it failed").await;
    let mut debugger = Debugger::connect(&dev).await;
    assert!(debugger.ask("?").await.starts_with('T'));
    assert!(debugger.ask("vCont;c").await.starts_with(FAILED));
    assert!(debugger.call_stack().await.len() > 2);
    debugger.send("vCont;c").await;

    // The frame of the function that does not fit on the stack is not shown.
    let client = dev.client().await;
    let stopping = async {
        assert!(debugger.reply().await.starts_with(FAILED));
        assert!(debugger.call_stack().await.len() > 100);
        debugger.ask("qWasmLocal:0;0").await;
        debugger.send("vCont;c").await;
    };
    tokio::join!(client.read_error("x:///recurse"), stopping);
    drop(client);
    // It ends although the debugger is connected.
    dev.end().await;
}

#[tokio::test]
async fn a_call_that_has_failed_often_can_still_be_debugged() {
    let project = misbehaving("");
    let dev = DevServer::start_with(&project, &["--debug", "0"]).await;
    dev.line("reload: ").await;
    let client = dev.client().await;
    // Without a debugger the next one would be refused, because the provider answers other calls.
    for _ in 0..6 {
        client.read_error("x:///trap").await;
        assert_eq!(client.text("x:///good").await, "good");
    }
    let mut debugger = Debugger::connect(&dev).await;
    assert!(debugger.ask("?").await.starts_with('T'));
    debugger.send("vCont;c").await;
    let stopping = async {
        assert!(debugger.reply().await.starts_with(FAILED));
        debugger.send("vCont;c").await;
    };
    tokio::join!(client.read_error("x:///trap"), stopping);
    drop((debugger, client));
    dev.end().await;
}

#[tokio::test]
async fn a_guest_that_loops_is_interrupted_where_it_is() {
    let project = misbehaving("");
    let dev = DevServer::start_with(&project, &["--debug", "0"]).await;
    dev.line("reload: ").await;
    let client = dev.client().await;
    let mut debugger = Debugger::connect(&dev).await;
    assert!(debugger.ask("?").await.starts_with('T'));
    let interrupting = async {
        // The interrupt may stop another call, before its first instruction.
        while debugger.call_stack().await.is_empty() {
            debugger.send("vCont;c").await;
            debugger.interrupt().await;
            let stop = debugger.reply().await;
            assert!(stop.starts_with(INTERRUPTED), "{stop}");
        }
    };
    tokio::select! {
        text = client.text("x:///loop") => panic!("{text}"),
        () = interrupting => {}
    }
    drop((debugger, client));
    dev.end().await;
}

#[tokio::test]
async fn the_port_of_the_debugger_is_named_if_another_program_has_it() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let project = DevProject::new();
    let mut command = host_command();
    command.arg("dev").arg(project.folder().path()).args(["--debug", &address.port().to_string()]);
    let output = command.output().await.unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && message.contains(&address.to_string()) && message.contains("--debug"),
        "{message}"
    );
}
