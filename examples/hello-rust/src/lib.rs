//! A first provider: one greeting for each name in its config, such as `config = { names = "Ada, Grace" }`.

use mcp_provider::{Config, Contents, Entry, Failure, Info, Page, Provider, Result, export, needs, path};

needs! {
    "config": { "names": { "type": "string", "default": "world", "why": "who is greeted, separated by commas" } }
}

struct Hello(Vec<String>);

impl Provider for Hello {
    fn describe() -> Info {
        Info::new("hello", env!("CARGO_PKG_VERSION")).description("A greeting for each name.")
    }

    fn open(config: &Config) -> Result<Self> {
        let names = config.get("names").unwrap_or("world").split(", ");
        Ok(Self(names.map(str::to_owned).collect()))
    }

    fn list(&self, _parent: Option<&str>, _cursor: Option<&str>, _limit: usize) -> Result<Page> {
        Ok(Page::last(self.0.iter().map(|name| greeting(name))))
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let name = path::decode_segment(path)?;
        if !self.0.contains(&name) {
            return Err(Failure::NotFound);
        }
        let text = format!("Hello, {name}!");
        Ok(vec![Contents::text(greeting(&name), text)])
    }
}

fn greeting(name: &str) -> Entry {
    Entry::new(path::encode_segment(name), name).mime_type("text/plain")
}

export!(Hello);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_in_the_config_is_greeted_and_nobody_else() {
        let hello = Hello::open(&Config::from_pairs([("names", "Ada, 花子")])).unwrap();
        let entries = hello.list(None, None, 10).unwrap().entries;
        let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["Ada", "花子"]);

        let contents = hello.read(&entries[1].path).unwrap();
        assert_eq!(contents[0].as_text(), Some("Hello, 花子!"));
        assert_eq!(hello.read("Bob"), Err(Failure::NotFound));
    }
}
