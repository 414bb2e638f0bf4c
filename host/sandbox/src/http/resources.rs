//! Memory accounting of one instance's HTTP resources: header fields, requests, responses and their bodies, each
//! charged to the plugin's memory.
//!
//! wasmtime-wasi-http does the work; this module wraps each of its functions that stores data of the guest or of a
//! server's response. A guest can build a request without a grant and without ever sending it, so memory is
//! [reserved](crate::memory::Reservation) before it is used, and released when its resource is dropped, at the latest
//! with the instance. When `limits.memory` is exhausted, the call ends.
//!
//! | stored | charged | released with |
//! |---|---|---|
//! | a field | its name and value, and [`FIELD_COST`] | its `fields`, or the request that takes them over |
//! | method, scheme, authority and path of a request | their length, each at most `limits.http.headers` and 32 KiB, like fields | the request |
//! | the body of a request | [`BODY_COST`], which bounds the bytes that can be written to it before it is sent | the request, or its response |
//! | an exchange | [`ResourceReservations::exchange_cost`]: the buffers of its connection, and its response's headers | the response, and its body |
//! | trailers of a response | like an exchange, until they have arrived | their future |
//! | trailers of a request | like fields | the instance |
//!
//! The handle itself is part of the resource table, whose memory is reserved in advance (`limits.handles`).

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
use crate::memory::{MemoryMeter, OutOfMemory, Reservation};

/// The memory that a resource takes in addition to its content.
const RESOURCE_COST: usize = 512;
/// The memory that a field takes in addition to its name and value: its slot in a hash map that may be half empty.
const FIELD_COST: usize = 256;
/// The memory that a body takes: its channels, and the two chunks that they can hold.
const BODY_COST: usize = (2 * BODY_CHUNK_SIZE).saturating_add(4 << 10);
/// The buffers of a connection, TLS included, in addition to the one for headers.
const CONNECTION_COST: usize = 64 << 10;

/// The reservations of one instance, by the resource's index in its table.
pub(super) struct ResourceReservations {
    by_resource: HashMap<u32, Reservation>,
    /// Memory that is reserved until the end of the instance.
    permanent: Option<Reservation>,
    /// The maximum length of a text, and size of fields. It exceeds the size that can be sent, so that sending returns
    /// the error that names the limit.
    max_text_size: usize,
}

impl ResourceReservations {
    /// Creates an empty set of reservations, with the given maximum length of texts and size of fields.
    pub(super) fn new(max_text_size: usize) -> Self {
        Self { by_resource: HashMap::new(), permanent: None, max_text_size }
    }

    /// Returns the memory that an exchange takes.
    fn exchange_cost(&self) -> usize {
        self.max_text_size.saturating_add(CONNECTION_COST)
    }
}

/// HTTP of one instance during a host call.
pub(crate) struct HttpView<'a> {
    pub(super) wasi: WasiHttpCtxView<'a>,
    pub(super) reservations: &'a mut ResourceReservations,
    pub(super) memory: &'a mut MemoryMeter,
}

impl HttpView<'_> {
    /// Returns the number of bytes that are reserved for a resource.
    fn charged_bytes<T: 'static>(&self, resource: &Resource<T>) -> usize {
        self.reservations.by_resource.get(&resource.rep()).map_or(0, Reservation::bytes)
    }

    /// Sets the reservation of a resource to `bytes`.
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

    /// Removes and returns the reservation of a resource.
    fn take_reservation<T: 'static>(&mut self, resource: &Resource<T>) -> Option<Reservation> {
        self.reservations.by_resource.remove(&resource.rep())
    }
}

/// Returns the memory that fields take, without [`RESOURCE_COST`].
fn fields_cost(fields: &HeaderMap) -> usize {
    fields.iter().fold(0, |sum, (name, value)| sum.saturating_add(field_cost(name.as_str(), value.as_bytes())))
}

/// Returns the memory that one field takes.
fn field_cost(name: &str, value: &[u8]) -> usize {
    name.len().saturating_add(value.len()).saturating_add(FIELD_COST)
}

/// Delegates functions that store nothing to wasmtime-wasi-http unchanged.
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

/// Names [`HttpView`] where wasmtime requires a type without lifetimes.
struct HasHttp;

impl HasData for HasHttp {
    type Data<'a> = HttpView<'a>;
}

/// Links `wasi:http`.
pub(crate) fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    http: fn(&mut T) -> HttpView<'_>,
) -> wasmtime::Result<()> {
    outgoing_handler::add_to_linker::<T, HasHttp>(linker, http)?;
    types::add_to_linker::<T, HasHttp>(linker, &(&LinkOptions::default()).into(), http)
}
