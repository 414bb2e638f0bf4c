//! What the host keeps of HTTP for one instance: header fields, requests, responses, their bodies; each charged to the plugin's
//! memory.
//!
//! wasmtime-wasi-http does the work; this module stands in front of each of its functions that keeps something of what the
//! guest says, or of what a server answered. It needs no grant to build a request and never send it, so what is kept is
//! [reserved](crate::sandbox::memory::Reservation) before it is kept, and released when its resource is dropped, with the
//! instance at the latest. When `limits.memory` does not have it, the call ends.
//!
//! | kept | charged | released with |
//! |---|---|---|
//! | a field | its name and value, and [`FIELD_COST`] | its `fields`, or the request that they became a part of |
//! | method, scheme, authority and path of a request | their length, each at most `limits.http.headers` and 32 KiB, as fields are | the request |
//! | the body of a request | [`BODY_COST`], which bounds what may be written to it before it is sent | the request, or its answer |
//! | an exchange | [`ResourceReservations::exchange_cost`]: the buffers of its connection, and its answer's headers | the answer, and its body |
//! | trailers of an answer | as an exchange, until they are there | their future |
//! | trailers of a request | as fields | the instance |
//!
//! A handle itself counts with the table that it is in, whose memory is reserved whole (`limits.handles`).

mod fields;
mod incoming;
mod outgoing;

use std::collections::HashMap;

use hyper::HeaderMap;
use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi_http::WasiHttpCtxView;
use wasmtime_wasi_http::p2::bindings::LinkOptions;
use wasmtime_wasi_http::p2::bindings::http::types::{self, ErrorCode, IoError};
use wasmtime_wasi_http::p2::bindings::http::{outgoing_handler, types::HeaderError as HeaderErrorCode};
use wasmtime_wasi_http::p2::{HeaderError, HttpError};

use super::BODY_CHUNK_SIZE;
use crate::sandbox::memory::{MemoryMeter, OutOfMemory, Reservation};

/// What a resource costs beside what it holds.
const RESOURCE_COST: usize = 512;
/// What a field costs beside its name and value: its place in a hash map, which may be half empty.
const FIELD_COST: usize = 256;
/// What a body costs: its channels, and the two chunks that fit into them.
const BODY_COST: usize = (2 * BODY_CHUNK_SIZE).saturating_add(4 << 10);
/// The buffers of a connection, TLS included, beside that for headers.
const CONNECTION_COST: usize = 64 << 10;

/// What is kept for one instance, by the number of the resource in its table.
pub(super) struct ResourceReservations {
    by_resource: HashMap<u32, Reservation>,
    /// What is kept until the instance ends.
    permanent: Option<Reservation>,
    /// The longest text, and the largest fields: more than can be sent, so that sending says what is too large.
    max_text_size: usize,
}

impl ResourceReservations {
    /// Nothing yet, of an instance whose texts and fields have so many bytes at most.
    pub(super) fn new(max_text_size: usize) -> Self {
        Self { by_resource: HashMap::new(), permanent: None, max_text_size }
    }

    /// What an exchange costs.
    fn exchange_cost(&self) -> usize {
        self.max_text_size.saturating_add(CONNECTION_COST)
    }
}

/// HTTP of one instance during a call of the host.
pub(crate) struct HttpView<'a> {
    pub(super) wasi: WasiHttpCtxView<'a>,
    pub(super) reservations: &'a mut ResourceReservations,
    pub(super) memory: &'a mut MemoryMeter,
}

impl HttpView<'_> {
    /// What is charged for a resource.
    fn charged_bytes<T: 'static>(&self, resource: &Resource<T>) -> usize {
        self.reservations.by_resource.get(&resource.rep()).map_or(0, Reservation::bytes)
    }

    /// Charges a resource that much.
    fn charge<T: 'static>(&mut self, resource: &Resource<T>, bytes: usize) -> Result<(), OutOfMemory> {
        match self.reservations.by_resource.get_mut(&resource.rep()) {
            Some(reservation) => self.memory.resize(reservation, bytes),
            None => {
                let reservation = self.memory.reserve(bytes)?;
                self.attach_reservation(resource, reservation);
                Ok(())
            }
        }
    }

    /// Ties a reservation to a resource.
    fn attach_reservation<T: 'static>(&mut self, resource: &Resource<T>, reservation: Reservation) {
        self.reservations.by_resource.insert(resource.rep(), reservation);
    }

    /// What was reserved for a resource that is going away.
    fn take_reservation<T: 'static>(&mut self, resource: &Resource<T>) -> Option<Reservation> {
        self.reservations.by_resource.remove(&resource.rep())
    }
}

/// What fields cost, but for [`RESOURCE_COST`].
fn fields_cost(fields: &HeaderMap) -> usize {
    fields.iter().fold(0, |sum, (name, value)| sum.saturating_add(field_cost(name.as_str(), value.as_bytes())))
}

/// What a field costs.
fn field_cost(name: &str, value: &[u8]) -> usize {
    name.len().saturating_add(value.len()).saturating_add(FIELD_COST)
}

/// Functions that keep nothing are wasmtime-wasi-http's, called as they are.
macro_rules! delegate {
    ($interface:path: $(fn $name:ident($($argument:ident: $type:ty),*) -> $output:ty;)*) => {
        $(fn $name(&mut self, $($argument: $type),*) -> $output {
            <wasmtime_wasi_http::WasiHttpCtxView<'_> as $interface>::$name(&mut self.wasi, $($argument),*)
        })*
    };
}
use delegate;

impl types::Host for HttpView<'_> {
    delegate! { types::Host:
        fn convert_error_code(error: HttpError) -> wasmtime::Result<ErrorCode>;
        fn convert_header_error(error: HeaderError) -> wasmtime::Result<HeaderErrorCode>;
        fn http_error_code(error: Resource<IoError>) -> wasmtime::Result<Option<ErrorCode>>;
    }
}

/// Stands for [`HttpView`] where wasmtime wants a type without lifetimes.
struct HasHttp;

impl HasData for HasHttp {
    type Data<'a> = HttpView<'a>;
}

/// Lets components import `wasi:http`.
pub(crate) fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    http: fn(&mut T) -> HttpView<'_>,
) -> wasmtime::Result<()> {
    outgoing_handler::add_to_linker::<T, HasHttp>(linker, http)?;
    types::add_to_linker::<T, HasHttp>(linker, &(&LinkOptions::default()).into(), http)
}
