//! Custom sections of a component file, and the nesting of its components, found without reading the file into memory.
//!
//! Sections are skipped by their sizes, so only headers and the contents of the requested section are read. The
//! search begins at the top level of the component, where tools append sections. It continues in the core modules,
//! including nested components', where toolchains put custom sections of the source.
//!
//! Bounded: [`MAX_SECTIONS`] sections, [`MAX_DEPTH`] levels of components, and the size that the caller accepts.

use std::io::{self, BufReader, ErrorKind, Read, Seek};

/// The maximum number of sections in a file. Large components have some thousands.
const MAX_SECTIONS: usize = 100_000;
/// The maximum nesting depth of components. Compilers need memory for the square of the depth: 845 MB for
/// 5,000 levels in 58 KB.
const MAX_DEPTH: usize = 64;
/// The length of a preamble in bytes: the magic number, the version and the layer.
const PREAMBLE_LEN: u64 = 8;

// The numbers of sections in the binary format.
const CUSTOM: u8 = 0;
const CORE_MODULE: u8 = 1;
const COMPONENT: u8 = 4;

/// Why a custom section cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CustomSectionError {
    /// The file cannot be read, or its sections are invalid.
    #[error("the sections of the component cannot be read: {0}")]
    Read(#[from] io::Error),
    /// There are several sections with this name.
    #[error("the component has {0} of them, and only one counts")]
    Several(usize),
    /// The section is too large.
    #[error("it has {size} bytes, more than {max}")]
    TooLarge {
        /// Its size in bytes.
        size: u64,
        /// The maximum.
        max: u64,
    },
}

/// Returns the contents of the custom section with this name, of at most `max` bytes; none if there is no such
/// section.
pub(super) fn find(component: impl Read + Seek, name: &str, max: u64) -> Result<Option<Vec<u8>>, CustomSectionError> {
    let mut walk = Walk::new(component, name, max);
    walk.file()?;
    let found = if walk.of_component.count > 0 { walk.of_component } else { walk.of_modules };
    match found {
        Found { count: 0, .. } => Ok(None),
        Found { count: 1, size, contents } => contents.map(Some).ok_or(CustomSectionError::TooLarge { size, max }),
        Found { count, .. } => Err(CustomSectionError::Several(count)),
    }
}

/// Returns which bound of the compiler a component exceeds; none if it exceeds none, or if its sections are invalid,
/// which the compiler reports.
pub(super) fn find_excess(component: impl Read + Seek) -> Option<String> {
    let mut walk = Walk::new(component, "", 0);
    let _ = walk.file();
    walk.excess
}

/// The sections with this name at one kind of place.
#[derive(Debug, Default)]
struct Found {
    count: usize,
    /// The size of the first section.
    size: u64,
    /// The contents of the first section, unless it is too large.
    contents: Option<Vec<u8>>,
}

/// One pass through a file.
struct Walk<'n, R> {
    reader: BufReader<R>,
    position: u64,
    sections: usize,
    name: &'n str,
    max: u64,
    of_component: Found,
    of_modules: Found,
    /// The bound that the file exceeds.
    excess: Option<String>,
}

impl<'n, R: Read + Seek> Walk<'n, R> {
    fn new(component: R, name: &'n str, max: u64) -> Self {
        let (of_component, of_modules) = (Found::default(), Found::default());
        let reader = BufReader::new(component);
        Self { reader, position: 0, sections: 0, name, max, of_component, of_modules, excess: None }
    }

    /// Walks through the whole file.
    fn file(&mut self) -> io::Result<()> {
        let end = self.reader.seek(io::SeekFrom::End(0))?;
        self.reader.rewind()?;
        self.component(end, 0)
    }

    /// Walks through a component that ends at `end`. `depth` is the number of enclosing components.
    fn component(&mut self, end: u64, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(self.exceeds(format!("components that are nested more than {MAX_DEPTH} levels deep")));
        }
        self.skip_to(self.position.saturating_add(PREAMBLE_LEN), end)?;
        while self.position < end {
            let (kind, section_end) = self.section(end)?;
            match kind {
                CUSTOM if depth == 0 => {
                    if let Some(found) = self.custom_section(section_end)? {
                        self.of_component.add(found);
                    }
                }
                CORE_MODULE => self.module(section_end)?,
                COMPONENT => self.component(section_end, depth.saturating_add(1))?,
                _ => {}
            }
            self.skip_to(section_end, end)?;
        }
        Ok(())
    }

    /// Walks through a core module that ends at `end`.
    fn module(&mut self, end: u64) -> io::Result<()> {
        self.skip_to(self.position.saturating_add(PREAMBLE_LEN), end)?;
        while self.position < end {
            let (kind, section_end) = self.section(end)?;
            if kind == CUSTOM
                && let Some(found) = self.custom_section(section_end)?
            {
                self.of_modules.add(found);
            }
            self.skip_to(section_end, end)?;
        }
        Ok(())
    }

    /// Reads the header of a section. Returns its kind, and the position of its end.
    fn section(&mut self, end: u64) -> io::Result<(u8, u64)> {
        self.sections = self.sections.saturating_add(1);
        if self.sections > MAX_SECTIONS {
            return Err(self.exceeds(format!("more than {MAX_SECTIONS} sections")));
        }
        let kind = self.byte()?;
        let size = self.number()?;
        let section_end = self.position.saturating_add(size);
        if section_end > end { Err(invalid("a section ends behind its component")) } else { Ok((kind, section_end)) }
    }

    fn exceeds(&mut self, bound: String) -> io::Error {
        let error = invalid(&bound);
        self.excess = Some(bound);
        error
    }

    /// Reads the section if it has the requested name. Returns its size, and its contents unless they are too large.
    fn custom_section(&mut self, end: u64) -> io::Result<Option<(u64, Option<Vec<u8>>)>> {
        let len = self.number()?;
        if len != self.name.len() as u64 || self.position.saturating_add(len) > end {
            return Ok(None);
        }
        if self.bytes(len)? != self.name.as_bytes() {
            return Ok(None);
        }
        let size = end.saturating_sub(self.position);
        let contents = if size > self.max { None } else { Some(self.bytes(size)?) };
        Ok(Some((size, contents)))
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.reader.read_exact(&mut byte)?;
        self.position = self.position.saturating_add(1);
        let [byte] = byte;
        Ok(byte)
    }

    /// Reads an unsigned 32-bit number in LEB128.
    fn number(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(invalid("a number is too long"))
    }

    /// Reads `len` bytes. The caller has bounded `len`.
    fn bytes(&mut self, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.reader.by_ref().take(len).read_to_end(&mut bytes)?;
        self.position = self.position.saturating_add(bytes.len() as u64);
        if bytes.len() as u64 == len { Ok(bytes) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    /// Skips to this position, which must not be after `end`.
    fn skip_to(&mut self, position: u64, end: u64) -> io::Result<()> {
        let distance = position.checked_sub(self.position).filter(|_| position <= end);
        let distance = distance.ok_or_else(|| invalid("a section is shorter than its content"))?;
        self.reader.seek_relative(i64::try_from(distance).unwrap_or(i64::MAX))?;
        self.position = position;
        Ok(())
    }
}

impl Found {
    fn add(&mut self, (size, contents): (u64, Option<Vec<u8>>)) {
        self.count = self.count.saturating_add(1);
        if self.count == 1 {
            (self.size, self.contents) = (size, contents);
        }
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    const NAME: &str = "needs";

    fn number(mut value: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let byte = (value & 0x7f) as u8;
            value >>= 7;
            bytes.push(if value == 0 { byte } else { byte | 0x80 });
            if value == 0 {
                return bytes;
            }
        }
    }

    fn section(kind: u8, contents: &[u8]) -> Vec<u8> {
        [&[kind], &*number(contents.len()), contents].concat()
    }

    fn custom(name: &str, contents: &[u8]) -> Vec<u8> {
        section(CUSTOM, &[&*number(name.len()), name.as_bytes(), contents].concat())
    }

    fn component(sections: &[Vec<u8>]) -> Vec<u8> {
        [b"\0asm\x0d\0\x01\0".to_vec(), sections.concat()].concat()
    }

    fn module(sections: &[Vec<u8>]) -> Vec<u8> {
        section(CORE_MODULE, &[b"\0asm\x01\0\0\0".to_vec(), sections.concat()].concat())
    }

    fn found(sections: &[Vec<u8>]) -> Result<Option<Vec<u8>>, String> {
        find(Cursor::new(component(sections)), NAME, 10).map_err(|error| error.to_string())
    }

    #[test]
    fn a_section_is_found_at_the_top_level_else_in_core_modules() {
        let other = [custom("name", b"x"), section(7, b"types"), custom("need", b""), custom("needsx", b"")];
        assert_eq!(found(&other), Ok(None));
        assert_eq!(found(&[other.concat(), custom(NAME, b"top")]), Ok(Some(b"top".to_vec())));
        let inner = module(&[section(1, b"types"), custom(NAME, b"inner")]);
        assert_eq!(found(std::slice::from_ref(&inner)), Ok(Some(b"inner".to_vec())));
        assert_eq!(found(&[inner.clone(), custom(NAME, b"top"), inner.clone()]), Ok(Some(b"top".to_vec())));
        let nested = section(COMPONENT, &component(&[inner, custom(NAME, b"ignored")]));
        assert_eq!(found(&[nested]), Ok(Some(b"inner".to_vec())));
    }

    #[test]
    fn several_or_too_large_ones_are_errors() {
        let one = custom(NAME, b"1");
        assert_eq!(
            found(&[one.clone(), one.clone()]),
            Err("the component has 2 of them, and only one counts".to_owned())
        );
        let modules = [module(std::slice::from_ref(&one)), module(std::slice::from_ref(&one))];
        assert!(found(&modules).is_err());
        assert_eq!(found(&[custom(NAME, &[b'x'; 10])]), Ok(Some(vec![b'x'; 10])));
        assert_eq!(found(&[custom(NAME, &[b'x'; 11])]), Err("it has 11 bytes, more than 10".to_owned()));
    }

    #[test]
    fn malformed_files_are_errors() {
        for sections in [
            vec![vec![CUSTOM, 5, 1]],
            vec![vec![CUSTOM, 0xff, 0xff, 0xff, 0xff, 0xff]],
            vec![vec![CUSTOM, 1, 0x80]],
            vec![section(CORE_MODULE, b"\0asm")],
            vec![section(CUSTOM, b""); 200_000],
        ] {
            assert!(found(&sections).is_err());
        }
        let deep = (0..70).fold(Vec::new(), |inner, _| section(COMPONENT, &component(&[inner])));
        assert!(found(&[deep]).is_err());
    }

    #[test]
    fn deeply_nested_components_and_endless_sections_exceed_the_bounds_of_the_compiler() {
        let nested = |levels| (0..levels).fold(Vec::new(), |inner, _| section(COMPONENT, &component(&[inner])));
        let excess = |sections: &[Vec<u8>]| find_excess(Cursor::new(component(sections)));
        assert_eq!(excess(&[nested(MAX_DEPTH)]), None);
        let deep = excess(&[nested(2), nested(MAX_DEPTH + 1)]);
        assert_eq!(deep.as_deref(), Some("components that are nested more than 64 levels deep"));
        let endless = excess(&vec![section(CUSTOM, b"\0"); MAX_SECTIONS + 1]);
        assert_eq!(endless.as_deref(), Some("more than 100000 sections"));
        assert_eq!(excess(&[vec![COMPONENT, 5, 1]]), None, "the compiler reports what is malformed");
    }

    #[test]
    fn the_sections_of_a_real_component_are_read() {
        let text = "(component (core module (@custom \"needs\" \"abc\") (func)) (component (core module (func))))";
        let bytes = wat::parse_str(text).unwrap();
        assert_eq!(find(Cursor::new(bytes), NAME, 10).unwrap(), Some(b"abc".to_vec()));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = find(Cursor::new(component(&[bytes])), NAME, 10);
        }
    }
}
