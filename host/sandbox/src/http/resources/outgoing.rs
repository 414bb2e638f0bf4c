//! Requests, their bodies and the sending of requests; and responses, which a provider can build but not send.

use wasmtime::component::Resource;
use wasmtime_wasi::p2::DynOutputStream;
use wasmtime_wasi_http::FieldMap;
use wasmtime_wasi_http::p2::bindings::http::outgoing_handler;
use wasmtime_wasi_http::p2::bindings::http::types::{
    self, Duration, ErrorCode, Method, RequestOptions, Scheme, StatusCode,
};
use wasmtime_wasi_http::p2::body::HostOutgoingBody;
use wasmtime_wasi_http::p2::types::{
    HostFutureIncomingResponse, HostOutgoingRequest, HostOutgoingResponse, HostResponseOutparam,
};
use wasmtime_wasi_http::p2::{HttpError, HttpResult};

use super::{BODY_COST, HttpView, RESOURCE_COST, delegate, fields_cost};
use crate::memory::OutOfMemory;

/// The result of a function whose error has no reason.
type UnitErrorResult<T = ()> = wasmtime::Result<Result<T, ()>>;

impl HttpView<'_> {
    /// Replaces a text of a request, and adjusts its reservation. Fails if the text exceeds the size of any request
    /// that can be sent.
    fn set_text(
        &mut self,
        request: Resource<HostOutgoingRequest>,
        (before, after): (usize, usize),
        set: impl FnOnce(&mut Self, Resource<HostOutgoingRequest>) -> UnitErrorResult,
    ) -> UnitErrorResult {
        if after > self.reservations.max_text_size {
            return Ok(Err(()));
        }
        let charged = self.charged_bytes(&request);
        let size = charged.saturating_sub(before).saturating_add(after);
        self.charge(&request, size.max(charged))?;
        let same = Resource::new_borrow(request.rep());
        let accepted = set(self, same)?;
        self.charge(&request, if accepted.is_ok() { size } else { charged })?;
        Ok(accepted)
    }

    /// Moves fields, and their reservation, into a message.
    fn move_fields_into<T: 'static>(
        &mut self,
        fields: Resource<FieldMap>,
        embed: impl FnOnce(&mut Self, Resource<FieldMap>) -> wasmtime::Result<Resource<T>>,
    ) -> wasmtime::Result<Resource<T>> {
        self.charge(&fields, self.charged_bytes(&fields).saturating_add(RESOURCE_COST))?;
        let reservation = self.take_reservation(&fields);
        let message = embed(self, fields)?;
        if let Some(reservation) = reservation {
            self.attach_reservation(&message, reservation);
        }
        Ok(message)
    }

    /// Creates the body of a message, unless it already has one.
    fn add_body<T: 'static, B>(
        &mut self,
        message: &Resource<T>,
        body: impl FnOnce(&mut Self, Resource<T>) -> UnitErrorResult<B>,
    ) -> UnitErrorResult<B> {
        let charged = self.charged_bytes(message);
        self.charge(message, charged.saturating_add(BODY_COST))?;
        let body = body(self, Resource::new_borrow(message.rep()))?;
        if body.is_err() {
            self.charge(message, charged)?;
        }
        Ok(body)
    }

    /// Charges one more handle to the headers of a message.
    fn charge_header_handle(&mut self, headers: Resource<FieldMap>) -> wasmtime::Result<Resource<FieldMap>> {
        let size = fields_cost(self.wasi.table.get(&headers)?).saturating_add(RESOURCE_COST);
        self.charge(&headers, size)?;
        Ok(headers)
    }
}

fn method_len(method: &Method) -> usize {
    if let Method::Other(text) = method { text.len() } else { 0 }
}

fn scheme_len(scheme: Option<&Scheme>) -> usize {
    if let Some(Scheme::Other(text)) = scheme { text.len() } else { 0 }
}

fn text_len(text: Option<&String>) -> usize {
    text.map_or(0, String::len)
}

impl types::HostOutgoingRequest for HttpView<'_> {
    fn new(&mut self, headers: Resource<FieldMap>) -> wasmtime::Result<Resource<HostOutgoingRequest>> {
        self.move_fields_into(headers, |view, headers| types::HostOutgoingRequest::new(&mut view.wasi, headers))
    }

    fn body(&mut self, request: Resource<HostOutgoingRequest>) -> UnitErrorResult<Resource<HostOutgoingBody>> {
        self.add_body(&request, |view, request| types::HostOutgoingRequest::body(&mut view.wasi, request))
    }

    fn set_method(&mut self, request: Resource<HostOutgoingRequest>, method: Method) -> UnitErrorResult {
        let lengths = (method_len(&self.wasi.table.get(&request)?.method), method_len(&method));
        self.set_text(request, lengths, |view, request| {
            types::HostOutgoingRequest::set_method(&mut view.wasi, request, method)
        })
    }

    fn set_path_with_query(&mut self, request: Resource<HostOutgoingRequest>, path: Option<String>) -> UnitErrorResult {
        let lengths = (text_len(self.wasi.table.get(&request)?.path_with_query.as_ref()), text_len(path.as_ref()));
        self.set_text(request, lengths, |view, request| {
            types::HostOutgoingRequest::set_path_with_query(&mut view.wasi, request, path)
        })
    }

    fn set_scheme(&mut self, request: Resource<HostOutgoingRequest>, scheme: Option<Scheme>) -> UnitErrorResult {
        let lengths = (scheme_len(self.wasi.table.get(&request)?.scheme.as_ref()), scheme_len(scheme.as_ref()));
        self.set_text(request, lengths, |view, request| {
            types::HostOutgoingRequest::set_scheme(&mut view.wasi, request, scheme)
        })
    }

    fn set_authority(&mut self, request: Resource<HostOutgoingRequest>, authority: Option<String>) -> UnitErrorResult {
        let lengths = (text_len(self.wasi.table.get(&request)?.authority.as_ref()), text_len(authority.as_ref()));
        self.set_text(request, lengths, |view, request| {
            types::HostOutgoingRequest::set_authority(&mut view.wasi, request, authority)
        })
    }

    fn headers(&mut self, request: Resource<HostOutgoingRequest>) -> wasmtime::Result<Resource<FieldMap>> {
        let headers = types::HostOutgoingRequest::headers(&mut self.wasi, request)?;
        self.charge_header_handle(headers)
    }

    fn drop(&mut self, request: Resource<HostOutgoingRequest>) -> wasmtime::Result<()> {
        self.take_reservation(&request);
        types::HostOutgoingRequest::drop(&mut self.wasi, request)
    }

    delegate! { types::HostOutgoingRequest:
        fn method(request: Resource<HostOutgoingRequest>) -> wasmtime::Result<Method>;
        fn path_with_query(request: Resource<HostOutgoingRequest>) -> wasmtime::Result<Option<String>>;
        fn scheme(request: Resource<HostOutgoingRequest>) -> wasmtime::Result<Option<Scheme>>;
        fn authority(request: Resource<HostOutgoingRequest>) -> wasmtime::Result<Option<String>>;
    }
}

impl outgoing_handler::Host for HttpView<'_> {
    fn handle(
        &mut self,
        request: Resource<HostOutgoingRequest>,
        options: Option<Resource<RequestOptions>>,
    ) -> HttpResult<Resource<HostFutureIncomingResponse>> {
        // The exchange takes over the request.
        let size = self.charged_bytes(&request).saturating_add(self.reservations.exchange_cost());
        self.charge(&request, size).map_err(HttpError::trap)?;
        let reservation = self.take_reservation(&request);
        let answer = outgoing_handler::Host::handle(&mut self.wasi, request, options)?;
        if let Some(reservation) = reservation {
            self.attach_reservation(&answer, reservation);
        }
        Ok(answer)
    }
}

impl types::HostOutgoingBody for HttpView<'_> {
    fn finish(&mut self, body: Resource<HostOutgoingBody>, trailers: Option<Resource<FieldMap>>) -> HttpResult<()> {
        if let Some(trailers) = &trailers {
            self.charge_until_instance_ends(trailers).map_err(HttpError::trap)?;
        }
        types::HostOutgoingBody::finish(&mut self.wasi, body, trailers)
    }

    delegate! { types::HostOutgoingBody:
        fn write(body: Resource<HostOutgoingBody>) -> UnitErrorResult<Resource<DynOutputStream>>;
        fn drop(body: Resource<HostOutgoingBody>) -> wasmtime::Result<()>;
    }
}

impl HttpView<'_> {
    /// Charges trailers until the instance ends, because the request that they become part of is not known.
    fn charge_until_instance_ends(&mut self, trailers: &Resource<FieldMap>) -> Result<(), OutOfMemory> {
        let Some(reservation) = self.take_reservation(trailers) else { return Ok(()) };
        match &mut self.reservations.permanent {
            Some(lasting) => {
                let size = lasting.bytes().saturating_add(reservation.bytes());
                drop(reservation);
                self.memory.resize(lasting, size)
            }
            none => {
                *none = Some(reservation);
                Ok(())
            }
        }
    }
}

impl types::HostOutgoingResponse for HttpView<'_> {
    fn new(&mut self, headers: Resource<FieldMap>) -> wasmtime::Result<Resource<HostOutgoingResponse>> {
        self.move_fields_into(headers, |view, headers| types::HostOutgoingResponse::new(&mut view.wasi, headers))
    }

    fn body(&mut self, response: Resource<HostOutgoingResponse>) -> UnitErrorResult<Resource<HostOutgoingBody>> {
        self.add_body(&response, |view, response| types::HostOutgoingResponse::body(&mut view.wasi, response))
    }

    fn headers(&mut self, response: Resource<HostOutgoingResponse>) -> wasmtime::Result<Resource<FieldMap>> {
        let headers = types::HostOutgoingResponse::headers(&mut self.wasi, response)?;
        self.charge_header_handle(headers)
    }

    fn drop(&mut self, response: Resource<HostOutgoingResponse>) -> wasmtime::Result<()> {
        self.take_reservation(&response);
        types::HostOutgoingResponse::drop(&mut self.wasi, response)
    }

    delegate! { types::HostOutgoingResponse:
        fn status_code(response: Resource<HostOutgoingResponse>) -> wasmtime::Result<StatusCode>;
        fn set_status_code(response: Resource<HostOutgoingResponse>, status: StatusCode) -> UnitErrorResult;
    }
}

impl types::HostResponseOutparam for HttpView<'_> {
    delegate! { types::HostResponseOutparam:
        fn set(outparam: Resource<HostResponseOutparam>, response: Result<Resource<HostOutgoingResponse>, ErrorCode>) -> wasmtime::Result<()>;
        fn send_informational(outparam: Resource<HostResponseOutparam>, status: u16, headers: Resource<FieldMap>) -> HttpResult<()>;
        fn drop(outparam: Resource<HostResponseOutparam>) -> wasmtime::Result<()>;
    }
}

impl types::HostRequestOptions for HttpView<'_> {
    delegate! { types::HostRequestOptions:
        fn new() -> wasmtime::Result<Resource<RequestOptions>>;
        fn connect_timeout(options: Resource<RequestOptions>) -> wasmtime::Result<Option<Duration>>;
        fn set_connect_timeout(options: Resource<RequestOptions>, time: Option<Duration>) -> UnitErrorResult;
        fn first_byte_timeout(options: Resource<RequestOptions>) -> wasmtime::Result<Option<Duration>>;
        fn set_first_byte_timeout(options: Resource<RequestOptions>, time: Option<Duration>) -> UnitErrorResult;
        fn between_bytes_timeout(options: Resource<RequestOptions>) -> wasmtime::Result<Option<Duration>>;
        fn set_between_bytes_timeout(options: Resource<RequestOptions>, time: Option<Duration>) -> UnitErrorResult;
        fn drop(options: Resource<RequestOptions>) -> wasmtime::Result<()>;
    }
}
