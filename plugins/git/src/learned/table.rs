//! A table from ids to values, stored in a bucket.
//!
//! The entries are in segments. Each segment is one value of the bucket: a header with a checksum, the sorted ids, the
//! end offset of each value, and the values. Segments are read one after another until one contains the id: a walk
//! looks ids up in the order in which a former walk stored them. A damaged segment, or one written by another version,
//! counts as empty and is overwritten.
//!
//! Two concurrent calls may overwrite each other's last segment. Entries lost this way are computed again.

use gix_hash::{ObjectId, oid};
use mcp_provider::Result;
use mcp_provider::keyvalue::Store;
use siphasher::sip::SipHasher13;
use std::collections::HashMap;
use std::hash::Hasher;

/// The version of the format.
const VERSION: u8 = 1;

/// The size of the header, in bytes: version, length of an id, number of entries, checksum of the body.
const HEADER: usize = 1 + 1 + 4 + 8;

/// The size from which no entries are added to a segment, in bytes.
const FULL_SEGMENT: usize = 128 * 1024;

/// A table from ids to values.
pub(super) struct Table {
    /// The prefix of its segments' keys.
    name: &'static str,
    /// The length of an id, in bytes.
    id_len: usize,
    /// The maximum size of all segments, in bytes.
    max_size: usize,
    /// The segments that were read; `None` for a segment that counts as empty.
    segments: Vec<Option<Segment>>,
    /// Whether all segments were read.
    is_read: bool,
    /// The segment of the last entry that was found.
    last: usize,
    /// The new entries, in the order in which they were added.
    added: Vec<(ObjectId, Vec<u8>)>,
    positions: HashMap<ObjectId, usize>,
    /// The size of all entries, in bytes.
    size: usize,
}

impl Table {
    /// Creates a table. Nothing is read before the first lookup.
    pub(super) fn new(name: &'static str, hash: gix_hash::Kind, max_size: usize) -> Self {
        Self {
            name,
            id_len: hash.len_in_bytes(),
            max_size,
            segments: Vec::new(),
            is_read: false,
            last: 0,
            added: Vec::new(),
            positions: HashMap::new(),
            size: 0,
        }
    }

    /// Returns the value of an id.
    pub(super) fn get(&mut self, store: &dyn Store, id: &oid) -> Option<&[u8]> {
        if let Some(position) = self.positions.get(id) {
            return self.added.get(*position).map(|(_, value)| value.as_slice());
        }
        let holds = |segment: &Option<Segment>| segment.as_ref().is_some_and(|segment| segment.position(id).is_some());
        if !self.segments.get(self.last).is_some_and(holds) {
            let read = self.segments.iter().position(holds);
            self.last = match read {
                Some(found) => found,
                None => loop {
                    self.read_next(store)?;
                    if self.segments.last().is_some_and(holds) {
                        break self.segments.len().saturating_sub(1);
                    }
                },
            };
        }
        self.segments.get(self.last)?.as_ref()?.get(id)
    }

    /// Adds an entry, which [`save`](Self::save) stores. An entry for which the table has no space is ignored.
    pub(super) fn add(&mut self, id: ObjectId, value: Vec<u8>) {
        let size = self.size.saturating_add(entry_size(self.id_len, &value));
        if size <= self.max_size && !self.positions.contains_key(&id) {
            self.size = size;
            self.positions.insert(id, self.added.len());
            self.added.push((id, value));
        }
    }

    /// Returns whether there are new entries.
    pub(super) fn has_added(&self) -> bool {
        !self.added.is_empty()
    }

    /// Stores the new entries.
    pub(super) fn save(&mut self, store: &dyn Store) -> Result<()> {
        while self.read_next(store).is_some() {}
        let mut added = std::mem::take(&mut self.added).into_iter().peekable();
        self.positions.clear();
        let mut slot = 0_usize;
        while added.peek().is_some() {
            let mut entries = match self.segments.get(slot) {
                Some(Some(segment)) if segment.data.len() >= FULL_SEGMENT => {
                    slot = slot.saturating_add(1);
                    continue;
                }
                Some(Some(segment)) => segment.entries(),
                Some(None) | None => Vec::new(),
            };
            let mut size =
                entries.iter().fold(HEADER, |sum, (_, value)| sum.saturating_add(entry_size(self.id_len, value)));
            while size < FULL_SEGMENT
                && let Some((id, value)) = added.next()
            {
                size = size.saturating_add(entry_size(self.id_len, &value));
                entries.push((id.as_slice().to_vec(), value));
            }
            let segment = Segment::new(self.id_len, entries);
            store.set(&self.key(slot), &segment.data)?;
            match self.segments.get_mut(slot) {
                Some(place) => *place = Some(segment),
                None => self.segments.push(Some(segment)),
            }
            slot = slot.saturating_add(1);
        }
        Ok(())
    }

    /// Reads the next segment; `None` if there are no more.
    fn read_next(&mut self, store: &dyn Store) -> Option<()> {
        if self.is_read || self.size > self.max_size {
            return None;
        }
        let key = self.key(self.segments.len());
        let value = store.get(&key).unwrap_or_else(|failure| {
            log::warn!("what was learned of histories cannot be read: {failure}");
            None
        });
        let Some(value) = value else {
            self.is_read = true;
            return None;
        };
        let segment = Segment::parse(self.id_len, value);
        if segment.is_none() {
            log::warn!("{key} in the bucket is damaged, or of another version, and is written again");
        }
        let size = segment.as_ref().map_or(0, |segment| segment.data.len());
        self.size = self.size.saturating_add(size);
        self.segments.push(segment);
        Some(())
    }

    fn key(&self, slot: usize) -> String {
        format!("{}/{slot}", self.name)
    }
}

/// Returns the size of an entry in a segment, in bytes.
fn entry_size(id_len: usize, value: &[u8]) -> usize {
    id_len.saturating_add(size_of::<u32>()).saturating_add(value.len())
}

/// A stored part of a table.
struct Segment {
    data: Vec<u8>,
    id_len: usize,
    count: usize,
}

impl Segment {
    /// Creates a segment of entries with different ids.
    fn new(id_len: usize, mut entries: Vec<(Vec<u8>, Vec<u8>)>) -> Self {
        entries.sort_unstable();
        let mut body = Vec::new();
        entries.iter().for_each(|(id, _)| body.extend_from_slice(id));
        let mut end = 0_u32;
        for (_, value) in &entries {
            end = end.saturating_add(u32::try_from(value.len()).unwrap_or(u32::MAX));
            body.extend_from_slice(&end.to_le_bytes());
        }
        entries.iter().for_each(|(_, value)| body.extend_from_slice(value));
        let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        let mut data = vec![VERSION, u8::try_from(id_len).unwrap_or_default()];
        data.extend_from_slice(&count.to_le_bytes());
        data.extend_from_slice(&checksum(&body).to_le_bytes());
        data.append(&mut body);
        Self { data, id_len, count: entries.len() }
    }

    /// Parses a segment; `None` if it is damaged or has another version.
    fn parse(id_len: usize, data: Vec<u8>) -> Option<Self> {
        let (header, body) = data.split_first_chunk::<HEADER>()?;
        let (head, checked) = header.split_last_chunk::<8>()?;
        let [version, found_len, count @ ..] = head else { return None };
        let count = usize::try_from(u32::from_le_bytes(count.try_into().ok()?)).ok()?;
        let is_valid = *version == VERSION
            && usize::from(*found_len) == id_len
            && u64::from_le_bytes(*checked) == checksum(body)
            && entry_size(id_len, &[]).checked_mul(count)? <= body.len();
        is_valid.then_some(())?;
        Some(Self { data, id_len, count })
    }

    fn id(&self, position: usize) -> Option<&[u8]> {
        let start = HEADER.checked_add(position.checked_mul(self.id_len)?)?;
        self.data.get(start..start.checked_add(self.id_len)?)
    }

    fn value(&self, position: usize) -> Option<&[u8]> {
        let ends = HEADER.checked_add(self.count.checked_mul(self.id_len)?)?;
        let values = ends.checked_add(self.count.checked_mul(size_of::<u32>())?)?;
        let end = |position: usize| {
            let at = ends.checked_add(position.checked_mul(size_of::<u32>())?)?;
            let end = u32::from_le_bytes(*self.data.get(at..)?.first_chunk()?);
            values.checked_add(usize::try_from(end).ok()?)
        };
        let start = position.checked_sub(1).map_or(Some(values), end)?;
        self.data.get(start..end(position)?)
    }

    fn position(&self, id: &oid) -> Option<usize> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            match self.id(middle)?.cmp(id.as_bytes()) {
                std::cmp::Ordering::Less => low = middle.saturating_add(1),
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    fn get(&self, id: &oid) -> Option<&[u8]> {
        self.value(self.position(id)?)
    }

    fn entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let entry = |position| Some((self.id(position)?.to_vec(), self.value(position)?.to_vec()));
        (0..self.count).map_while(entry).collect()
    }
}

fn checksum(body: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(body);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gix_hash::Kind;
    use mcp_provider::keyvalue::MemoryStore;
    use proptest::prelude::*;

    fn id(number: u32) -> ObjectId {
        let mut hasher = gix_hash::hasher(Kind::Sha1);
        hasher.update(&number.to_le_bytes());
        hasher.try_finalize().unwrap()
    }

    fn table(max_size: usize) -> Table {
        Table::new("t", Kind::Sha1, max_size)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn what_several_calls_added_is_found_by_later_ones(
            calls in proptest::collection::vec((0..3000_u32, 0..200_usize), 1..5)
        ) {
            let store = MemoryStore::default();
            let mut next = 0;
            let mut expected = HashMap::new();
            for (count, len) in calls {
                let mut table = table(usize::MAX);
                for number in next..next + count {
                    let value = vec![number as u8; len];
                    prop_assert_eq!(table.get(&store, &id(number)), None);
                    table.add(id(number), value.clone());
                    expected.insert(number, value);
                }
                table.save(&store).unwrap();
                next += count;
            }
            let mut table = table(usize::MAX);
            for (number, value) in &expected {
                prop_assert_eq!(table.get(&store, &id(*number)), Some(value.as_slice()));
            }
            prop_assert_eq!(table.get(&store, &id(next)), None);
            for key in store.all_keys().unwrap() {
                prop_assert!(store.get(&key).unwrap().unwrap().len() < 2 * FULL_SEGMENT);
            }
        }
    }

    #[test]
    fn a_damaged_segment_counts_as_empty_and_is_written_again() {
        let store = MemoryStore::default();
        let mut first = table(usize::MAX);
        (0..9000).for_each(|number| first.add(id(number), vec![1; 20]));
        first.save(&store).unwrap();
        let keys = store.all_keys().unwrap();
        assert!(keys.len() >= 3, "{keys:?}");
        let whole = store.get(&keys[1]).unwrap().unwrap();
        let other_version = [&[VERSION + 1], &whole[1..]].concat();
        let flipped = [&whole[..whole.len() - 1], &[!whole[whole.len() - 1]]].concat();
        for damaged in [Vec::new(), whole[..5].to_vec(), whole[..HEADER].to_vec(), other_version, flipped] {
            store.set(&keys[1], &damaged).unwrap();
            let mut table = table(usize::MAX);
            let found: Vec<bool> = (0..9000).map(|number| table.get(&store, &id(number)).is_some()).collect();
            assert!(found[0] && !found[4500] && found[8999]);
            (0..9000).filter(|number| !found[*number as usize]).for_each(|number| table.add(id(number), vec![1; 20]));
            table.save(&store).unwrap();
            let mut again = self::table(usize::MAX);
            assert!((0..9000).all(|number| again.get(&store, &id(number)) == Some(&[1; 20])));
            assert_eq!(store.all_keys().unwrap(), keys);
        }
    }

    #[test]
    fn a_table_grows_up_to_its_size() {
        let store = MemoryStore::default();
        for _ in 0..3 {
            let mut table = table(300_000);
            for number in 0..20_000 {
                if table.get(&store, &id(number)).is_none() {
                    table.add(id(number), vec![0; 30]);
                }
            }
            table.save(&store).unwrap();
        }
        let size: usize = store.all_keys().unwrap().iter().map(|key| store.get(key).unwrap().unwrap().len()).sum();
        assert!((250_000..=310_000).contains(&size), "{size}");
    }
}
