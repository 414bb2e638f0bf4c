//! The results of queries: matrices, vectors, scalars.
//!
//! The bounds on series and points are enforced while a result arrives: the first excess series or point ends the
//! parser.

use super::{Labels, Refusal};
use crate::window::seconds_to_millis;
use mcp_provider::Failure;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::cell::Cell;
use std::fmt;

/// The maximum length of a value.
const MAX_VALUE: usize = 40;

/// A value at a time. The value is kept as the server writes it: a number, `NaN`, `+Inf` or `-Inf`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Milliseconds since 1970.
    pub(crate) time: i64,
    pub(crate) value: String,
}

impl<'de> Deserialize<'de> for Sample {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (seconds, value) = <(f64, String)>::deserialize(deserializer)?;
        let time = seconds_to_millis(seconds).ok_or_else(|| Error::custom(format_args!("{seconds} is no time")))?;
        if value.len() > MAX_VALUE || value.parse::<f64>().is_err() {
            let start: String = value.chars().take(MAX_VALUE).collect();
            return Err(Error::custom(format_args!("expected a number as the value of a sample, found {start:?}")));
        }
        Ok(Self { time, value })
    }
}

/// The API's form: `[1700000000.5,"1"]`.
impl Serialize for Sample {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let seconds = self.time.div_euclid(1000);
        match self.time.rem_euclid(1000) {
            0 => (seconds, &self.value).serialize(serializer),
            #[expect(clippy::cast_precision_loss, reason = "times until the year 9999 are exact to the millisecond")]
            _ => (self.time as f64 / 1000.0, &self.value).serialize(serializer),
        }
    }
}

/// A series with its samples. In a vector, it has one sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Series {
    pub(crate) metric: Labels,
    pub(crate) values: Vec<Sample>,
}

/// The result of a query.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum QueryResult {
    Matrix(Vec<Series>),
    Vector(Vec<Series>),
    Scalar(Sample),
    /// A text. No query uses it.
    Text,
}

/// The bounds of a result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds<'a> {
    pub(crate) max_series: usize,
    pub(crate) max_points: usize,
    pub(crate) refusal: &'a Refusal,
    /// The advice to the client for a result with too many points.
    pub(crate) advice: &'a str,
    /// The number of omitted native histograms.
    pub(crate) histograms: &'a Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for Bounds<'_> {
    type Value = QueryResult;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<QueryResult, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Bounds<'_> {
    type Value = QueryResult;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the result of a query")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<QueryResult, A::Error> {
        let (mut kind, mut elements) = (String::new(), None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "resultType" => kind = map.next_value()?,
                "result" => elements = Some(map.next_value_seed(ElementsSeed(self))?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let elements = elements.ok_or_else(|| Error::missing_field("result"))?;
        match (kind.as_str(), elements) {
            ("matrix", Elements::Series(series)) => Ok(QueryResult::Matrix(series)),
            ("vector", Elements::Series(series)) if series.iter().all(|series| series.values.len() <= 1) => {
                Ok(QueryResult::Vector(series))
            }
            ("scalar", Elements::Sample(sample)) => Ok(QueryResult::Scalar(sample)),
            ("string", _) => Ok(QueryResult::Text),
            _ => Err(Error::custom("expected a `result` of the type that `resultType` names")),
        }
    }
}

/// The elements of `result`. The type may come after them.
enum Elements {
    Series(Vec<Series>),
    Sample(Sample),
    Text,
}

/// Parses `result`: a list of series, or a sample.
struct ElementsSeed<'a>(Bounds<'a>);

impl<'de> DeserializeSeed<'de> for ElementsSeed<'_> {
    type Value = Elements;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Elements, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ElementsSeed<'_> {
    type Value = Elements;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of series, or a sample")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Elements, A::Error> {
        let Bounds { max_series, refusal, .. } = self.0;
        let points = Cell::new(0);
        let mut all = Vec::new();
        while let Some(element) = list.next_element_seed(ElementSeed { bounds: self.0, points: &points })? {
            match element {
                Element::Time(seconds) if all.is_empty() => {
                    let text: String = list.next_element()?.ok_or_else(|| Error::invalid_length(1, &self))?;
                    if list.next_element::<IgnoredAny>()?.is_some() {
                        return Err(Error::invalid_length(3, &self));
                    }
                    let time = seconds_to_millis(seconds).ok_or_else(|| Error::custom("expected a time"))?;
                    let is_number = text.len() <= MAX_VALUE && text.parse::<f64>().is_ok();
                    return Ok(if is_number { Elements::Sample(Sample { time, value: text }) } else { Elements::Text });
                }
                Element::Time(_) => return Err(Error::custom("expected a series, found a number")),
                Element::Series(series) => all.extend(series),
            }
            if all.len() > max_series {
                return Err(refusal.refuse(Failure::invalid(format!(
                    "the result has more than {max_series} series, the `max-series` of this plugin; more label matchers, \
                     or an aggregation such as `sum by (job) (…)` or `topk({max_series}, …)` would do"
                ))));
            }
        }
        Ok(Elements::Series(all))
    }
}

enum Element {
    /// A number: the first element of a sample.
    Time(f64),
    /// A series; `None` if it has only native histograms.
    Series(Option<Series>),
}

/// Parses an element of `result`.
struct ElementSeed<'a> {
    bounds: Bounds<'a>,
    /// The number of points of all series so far.
    points: &'a Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for ElementSeed<'_> {
    type Value = Element;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Element, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ElementSeed<'_> {
    type Value = Element;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a series or a time")
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<Element, E> {
        Ok(Element::Time(seconds))
    }

    fn visit_u64<E: Error>(self, seconds: u64) -> Result<Element, E> {
        #[expect(clippy::cast_precision_loss, reason = "times that are valid are exact")]
        Ok(Element::Time(seconds as f64))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Element, A::Error> {
        let (mut metric, mut values, mut has_histograms) = (Labels::default(), Vec::new(), false);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "metric" => metric = map.next_value()?,
                "value" => {
                    values = vec![map.next_value()?];
                    self.points.set(self.points.get().saturating_add(1));
                }
                "values" => values = map.next_value_seed(SamplesSeed { bounds: self.bounds, points: self.points })?,
                "histogram" | "histograms" => {
                    has_histograms = true;
                    map.next_value::<IgnoredAny>()?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if has_histograms {
            self.bounds.histograms.set(self.bounds.histograms.get().saturating_add(1));
        }
        let is_empty = values.is_empty() && has_histograms;
        Ok(Element::Series((!is_empty).then_some(Series { metric, values })))
    }
}

/// Parses the samples of a series.
struct SamplesSeed<'a> {
    bounds: Bounds<'a>,
    points: &'a Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for SamplesSeed<'_> {
    type Value = Vec<Sample>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Sample>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for SamplesSeed<'_> {
    type Value = Vec<Sample>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of samples")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Sample>, A::Error> {
        let mut samples = Vec::new();
        // One point beyond the bound suffices for the refusal.
        while self.points.get() <= self.bounds.max_points {
            let Some(sample) = list.next_element()? else { return Ok(samples) };
            samples.push(sample);
            self.points.set(self.points.get().saturating_add(1));
        }
        let (max, advice) = (self.bounds.max_points, self.bounds.advice);
        Err(self.bounds.refusal.refuse(Failure::invalid(format!(
            "the result has more than {max} points, the `max-points` of this plugin; {advice}"
        ))))
    }
}
